"""Checks of the rules of the hosted service: where a server is laxer, programs break on moving.

A laxer server is not wrong, so these are never failed: what is not refused is absent. The rules and
where each is known from are in :mod:`tinker_ext.mock.hosted`.
"""

from __future__ import annotations

from tinker_ext.conform.raw_model import Answer, RawModel
from tinker_ext.conform.registry import absent, check, expect
from tinker_ext.conform.subject import SEED, Subject

HUGE_RANK = 100_000


def _load(subject: Subject, model: RawModel, path: str) -> Answer:
    body: dict[str, object] = {
        "model_id": model.model_id,
        "path": path,
        "seq_id": model.next_seq(),
    }
    if subject.dialect.era != "0.4.1":
        body["optimizer"] = True
    return subject.call("POST", "load_weights", body)


def _save(subject: Subject, model: RawModel, name: str) -> Answer:
    body = {"model_id": model.model_id, "path": name, "seq_id": model.next_seq()}
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
