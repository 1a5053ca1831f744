"""Checks of seq ids: repeats, conflicts, early and missing numbers."""

from __future__ import annotations

import asyncio

from tinker_ext.conform.checks.gradients import METER
from tinker_ext.conform.data import datum
from tinker_ext.conform.raw_model import Answer
from tinker_ext.conform.reference import adam_factor, same_step
from tinker_ext.conform.registry import absent, check, expect, fail
from tinker_ext.conform.subject import Subject
from tinker_ext.conform.trial import RATE

HELD_SECONDS = 0.4
_IGNORED = "seq_id is ignored here: a repeat gets a request of its own and runs again"


@check("seq.repeat", "recognises a repeated seq_id and trains once")
def repeat(subject: Subject) -> str:
    """A client that lost an answer may then send the request again."""
    rule = subject.seq_rule()
    if rule == "ignore":
        absent(_IGNORED)
    with subject.trial() as trial:
        start = trial.logprobs()
        trial.backward(datum(1))
        trial.step()
        wanted = trial.logprobs()
    with subject.raw_model() as model:
        subject.result(model.backward(1, model.next_seq()))
        subject.result(model.step(model.next_seq(), 0.0, **METER))
        seq = model.next_seq()
        answers = [model.backward(1, seq), model.backward(1, seq)]
        subject.result(answers[0])
        if rule == "late":
            subject.poll(answers[1].request_id())
        rate = RATE / adam_factor([1.0, 1.0], **METER)
        subject.result(model.step(model.next_seq(), rate, **METER))
        got = model.logprobs()
    same_step("a forward_backward sent twice under one seq_id", start, got, wanted)
    return {
        "strict": "a repeat is answered with 409",
        "late": "a repeat is accepted, and its poll answered with 409",
    }.get(rule, "a repeat is answered with the first request")


@check("seq.conflict", "refuses another body under a used seq_id with 409")
def conflict(subject: Subject) -> None:
    """Else one of two requests is lost without a word."""
    if subject.seq_rule() == "ignore":
        absent(_IGNORED)
    with subject.raw_model() as model:
        seq = model.next_seq()
        first, other = model.forward(1, seq), model.forward(2, seq)
        subject.poll(first.request_id())
        if other.ok and subject.seq_rule() == "late":
            other = subject.poll(other.request_id())
    expect(other.status == 409, f"another body under seq_id {seq} got {other} instead of 409")


@check("seq.reorder", "works in the order of seq ids, not of arrival")
def reorder(subject: Subject) -> None:
    """Clients post the chunks of a batch in parallel."""
    with subject.trial() as trial:
        start = trial.logprobs()
        trial.backward(datum(1))
        trial.step()
        wanted = trial.logprobs()
    with subject.raw_model() as model:
        seq = model.next_seq()
        model.skip_to(seq + 1)
        early = model.step(seq + 1)
        late = model.backward(1, seq)
        if not early.ok or not late.ok:
            fail(f"seq_id {seq + 1} before {seq}: {early}, then {late}")
        subject.poll(late.request_id())
        refused = subject.poll(early.request_id())
        if refused.status == 409:
            absent(f"a number that comes early is refused at its poll: {refused}")
        got = model.logprobs()
    if abs(got - start).max() < 0.1 * abs(wanted - start).max():
        absent("an optim_step sent before its forward_backward ran first, as it arrived")
    same_step("optim_step sent before its forward_backward", start, got, wanted)


@check("seq.gap", "holds an operation back until the missing number comes")
def gap(subject: Subject) -> str:
    """The poll is held meanwhile and answers when the gap is closed."""
    with subject.raw_model() as model:
        seq = model.next_seq()
        model.skip_to(seq + 1)
        early = model.forward(1, seq + 1)
        if not early.ok:
            fail(f"seq_id {seq + 1} while {seq} is missing: {early}")
        # Whatever does not wait for the gap is done by the time a later request is.
        with subject.raw_model() as other:
            subject.result(other.forward(1, other.next_seq()))
        first, seconds = subject.workspace.submit(
            _poll_while_missing(subject, early.request_id())
        ).result()
        missing = model.forward(2, seq)
        expect(missing.ok, f"the missing seq_id {seq}: {missing}")
        subject.poll(missing.request_id())
        final = subject.poll(early.request_id())
        if final.status == 409:
            absent(f"a number that comes early is refused at its poll: {final}")
        model.read("forward", final)
    if first is not None and not first.pending:
        absent(f"an operation ran while an earlier seq_id was missing: HTTP {first.status}")
    held = "held" if first is None else "answered with 'not yet'"
    return f"the poll of the early operation was {held} for {seconds:.1f} s"


async def _poll_while_missing(subject: Subject, request_id: str) -> tuple[Answer | None, float]:
    """Poll for a moment; None when the server is still holding the poll then."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    poll = subject.send("POST", "retrieve_future", {"request_id": request_id})
    try:
        answer = await asyncio.wait_for(poll, HELD_SECONDS)
    except TimeoutError:
        return None, loop.time() - started
    return answer, loop.time() - started
