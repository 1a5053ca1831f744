"""Checks of promised results: unknown ids, repeated reads, held polls, failures."""

from __future__ import annotations

from tinker_ext.conform.registry import absent, check, expect, fail
from tinker_ext.conform.subject import Subject

_CATEGORIES = ("unknown", "server", "user")


@check("future.unknown", "answers an unknown request id with 404 or 410")
def unknown(subject: Subject) -> None:
    """A client must not poll for ever for something that does not exist."""
    # Made of digits, since some servers number their requests.
    answer = subject.call("POST", "retrieve_future", {"request_id": "987654321"})
    expect(answer.status in (404, 410), f"an unknown request id got {answer}")


@check("future.twice", "gives a result again when it is asked again")
def twice(subject: Subject) -> None:
    """The first answer may be lost on its way."""
    with subject.raw_model() as model:
        accepted = model.forward(1, model.next_seq())
        first = subject.poll(accepted.request_id())
        second = subject.poll(accepted.request_id())
    expect(first.ok, f"the first read of a result: {first}")
    expect(second.ok, f"the second read of a result: {second}")
    expect(first.content == second.content, f"first {first.text}, then {second.text}")


@check("future.promise", "accepts work with a request id and delivers it by a held poll")
def promise(subject: Subject) -> str:
    """Polls are held until there is something to say, so nobody polls in a tight loop."""
    with subject.raw_model() as model:
        accepted = model.backward(1, model.next_seq())
        expect(accepted.ok, f"forward_backward: {accepted}")
        request_id = accepted.request_id()
        clock = subject.workspace.runtime.time
        started, polls = clock(), 0
        while True:
            answer = subject.call("POST", "retrieve_future", {"request_id": request_id})
            polls += 1
            if not answer.pending:
                break
            _check_pending(answer.object())
            if clock() - started > subject.patience:
                fail(f"no result after {polls} polls in {subject.patience:g} s")
        took = clock() - started
        subject.result(model.step(model.next_seq(), 0.0))
    expect(answer.ok, f"the result of forward_backward: {answer}")
    expect(polls <= 5 + 10 * took, f"{polls} polls in {took:.1f} s: polls are not held")
    return f"{polls} polls in {took:.2f} s"


def _check_pending(body: dict[str, object]) -> None:
    if "type" in body and body["type"] != "try_again":
        fail(f"a pending poll says {body} instead of type try_again")


@check("future.failure", "reports a failed request as {error, category}")
def failure(subject: Subject) -> str:
    """Loading a checkpoint that does not exist must fail, and say whose fault it is."""
    with subject.raw_model() as model:
        body: dict[str, object] = {
            "model_id": model.model_id,
            "path": f"tinker://{model.model_id}/weights/never-saved",
            "seq_id": model.next_seq(),
        }
        if subject.dialect.era != "0.4.1":
            body["optimizer"] = True
        accepted = subject.call("POST", "load_weights", body)
        if not accepted.ok:
            expect(400 <= accepted.status < 500, f"load of a missing checkpoint: {accepted}")
            absent(f"the request is refused before there is a promise: {accepted}")
        answer = subject.poll(accepted.request_id())
    if not answer.ok:
        fail(f"the failure came as {answer}; HTTP 200 with {{error, category}} is the contract")
    failed = answer.object()
    expect(isinstance(failed.get("error"), str), f"a failed request has no error text: {answer}")
    category = failed.get("category")
    expect(category in _CATEGORIES, f"category {category!r} is not one of {_CATEGORIES}: {answer}")
    return f"category {category}"
