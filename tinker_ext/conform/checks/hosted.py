"""Checks of the rules of the hosted service: where a server is laxer, programs break on moving.

A laxer server is not wrong, so these are never failed: what is not refused is absent. The rules and
where each is known from are in :mod:`tinker_ext.mock.hosted`.
"""

from __future__ import annotations

import time

from tinker_ext.conform.raw_model import Answer, RawModel
from tinker_ext.conform.registry import absent, check, expect
from tinker_ext.conform.subject import SEED, Subject

HUGE_RANK = 100_000
MANY = 60
"""Models that are made in search of a cap; the known one is about 50."""
HOUR = 3600
YEAR = 365 * 24 * HOUR
SECONDS = 20.0
"""Time to make models in; on a slow server the search ends before the cap."""


def _load(subject: Subject, model: RawModel, path: str) -> Answer:
    body: dict[str, object] = {
        "model_id": model.model_id,
        "path": path,
        "seq_id": model.next_seq(),
    }
    if subject.dialect.era != "0.4.1":
        body["optimizer"] = True
    return subject.call("POST", "load_weights", body)


def _save(subject: Subject, model: RawModel, name: str, **more: object) -> Answer:
    body = {"model_id": model.model_id, "path": name, "seq_id": model.next_seq(), **more}
    return subject.call("POST", "save_weights", body)


@check("hosted.load_first", "takes load_weights as a model's first request only")
def load_first(subject: Subject) -> str:
    """SkyRL pull request 2071 tried it on production."""
    with subject.raw_model() as model:
        path = subject.result(_save(subject, model, "conform-load-first")).get("path")
        answer = _load(subject, model, str(path))
        if answer.ok:
            subject.poll(answer.request_id())
            absent("load_weights in mid-run is accepted; the hosted service answers 400")
    expect(400 <= answer.status < 500, f"load_weights in mid-run: {answer}")
    return f"refused with {answer.status}"


@check("hosted.rank_cap", "refuses a LoRA rank above the model's at the call")
def rank_cap(subject: Subject) -> str:
    """The words are those of tinker-cookbook issue 9."""
    body = {
        "session_id": subject.session_id(),
        "model_seq_id": subject.workspace.session.next_model_seq_id(),
        "base_model": subject.base_model,
        "lora_config": {"rank": HUGE_RANK, "seed": SEED},
    }
    answer = subject.call("POST", "create_model", body)
    if not answer.ok:
        expect(400 <= answer.status < 500, f"a LoRA rank of {HUGE_RANK}: {answer}")
        return f"refused with {answer.status}"
    final = subject.poll(answer.request_id())
    value = final.json()
    made = value.get("model_id") if isinstance(value, dict) and final.ok else None
    if made:
        subject.call("POST", "unload_model", {"model_id": made})
        absent(f"a LoRA rank of {HUGE_RANK} was accepted; the hosted service answers 400")
    return "refused as a failed request"


@check("hosted.taken_name", "refuses a taken checkpoint name with 409 at the call")
def taken_name(subject: Subject) -> str:
    """The traceback is in tinker-cookbook pull request 59."""
    with subject.raw_model() as model:
        subject.result(_save(subject, model, "conform-taken"))
        answer = _save(subject, model, "conform-taken")
        if answer.ok:
            final = subject.poll(answer.request_id())
            value = final.json()
            failed = not final.ok or (isinstance(value, dict) and "error" in value)
            how = "fails late" if failed else "overwrites the checkpoint"
            absent(f"saving under a taken name {how}; the hosted service answers 409 at once")
    expect(answer.status == 409, f"saving under a taken name: {answer}")
    return "refused with 409"


@check("hosted.ttl_range", "refuses checkpoint lifetimes below one hour and above ten years")
def ttl_range(subject: Subject) -> str:
    """Tinker-cookbook pull request 603 had to raise 300 seconds; the official SDK has both ends."""
    with subject.raw_model() as model:
        allowed = _save(subject, model, "conform-ttl-hour", ttl_seconds=HOUR)
        if not allowed.ok:
            absent(f"no lifetimes of checkpoints: {allowed}")
        subject.poll(allowed.request_id())
        for told, seconds in (("5 minutes", HOUR // 12), ("11 years", 11 * YEAR)):
            answer = _save(subject, model, f"conform-ttl-{seconds}", ttl_seconds=seconds)
            if answer.ok:
                subject.poll(answer.request_id())
                absent(f"a lifetime of {told} is accepted; the hosted service answers 400")
            expect(400 <= answer.status < 500, f"a lifetime of {told}: {answer}")
    return f"refused with {answer.status}"


@check("hosted.strict_fields", "refuses unknown fields with 422")
def strict_fields(subject: Subject) -> str:
    """Request models of the official SDKs forbid extra fields."""
    body = {"session_id": subject.session_id(), "no_such_field": 1}
    answer = subject.call("POST", "session_heartbeat", body)
    if answer.ok:
        absent("an unknown field is ignored; the hosted service answers 422")
    expect(answer.status in (400, 422), f"an unknown field: {answer}")
    return f"refused with {answer.status}"


@check("hosted.accepted", "answers a promise with 202")
def accepted(subject: Subject) -> str:
    """A client must take any 2xx."""
    with subject.raw_model() as model:
        answer = model.forward(1, model.next_seq())
        expect(answer.ok, f"forward: {answer}")
        subject.poll(answer.request_id())
    if answer.status != 202:
        absent(f"a promise is answered with {answer.status}")
    return "202"


@check("hosted.undeclared", "leaves what a repeated seq_id means out of client/config")
def undeclared(subject: Subject) -> str:
    """The official reply has no such field; clients find it out."""
    answer = subject.call("POST", "client/config", {"sdk_version": "0.36.0"})
    flags = answer.json()
    if answer.ok and isinstance(flags, dict) and "seq_ids" in flags:
        absent("client/config says it, as the embedded server does by default")
    return "left out"


def _open_session(subject: Subject) -> Answer:
    body = {"tags": [], "user_metadata": {}, "sdk_version": "0.36.0"}
    return subject.call("POST", "create_session", body)


def _end_session(subject: Subject, opened: Answer) -> Answer:
    """End a session, and with it the models in it."""
    place = f"sessions/{opened.object()['session_id']}/finish"
    return subject.call("POST", place, {"reason": {"type": "success"}, "detail": None})


def _need_ends(subject: Subject) -> None:
    """Look for a cap only where what was made can be ended again."""
    opened = _open_session(subject)
    expect(opened.ok, f"create_session: {opened}")
    if not _end_session(subject, opened).ok:
        absent("sessions cannot be ended here, so many are not opened to find a cap")


@check("hosted.session_cap", "lets jobs beyond those of an account's cap wait, and says why")
def session_cap(subject: Subject) -> str:
    """The number is that of tinker-cookbook issue 730, the reason that of issue 55."""
    _need_ends(subject)
    opened = _open_session(subject)
    body = {"session_id": opened.object()["session_id"], "base_model": subject.base_model}
    end = time.monotonic() + SECONDS
    made = 0
    try:
        while made < MANY and time.monotonic() < end:
            new = {**body, "model_seq_id": made, "lora_config": {"rank": 1, "seed": SEED}}
            answer = subject.call("POST", "create_model", new)
            if not answer.ok:
                absent(f"model {made + 1} is refused ({answer}); the hosted service lets it wait")
            poll = subject.call("POST", "retrieve_future", {"request_id": answer.request_id()})
            if poll.pending:
                said = poll.json()
                state = said.get("queue_state") if isinstance(said, dict) else None
                expect(
                    state in ("paused_rate_limit", "paused_capacity"),
                    f"model {made + 1} waits, and the poll does not say why: {poll}",
                )
                return f"model {made + 1} waits: {state}, {said.get('queue_state_reason')}"
            made += 1
        absent(f"{made} models at once did not have to wait; the hosted service has a cap")
    finally:
        _end_session(subject, opened)
