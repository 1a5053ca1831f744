"""Checks of refusals: wrong requests get a 4xx with a reason, never a 5xx, never silence."""

from __future__ import annotations

from typing import Any

from tinker_ext.conform.data import datum_json
from tinker_ext.conform.raw_model import Answer
from tinker_ext.conform.registry import absent, check, expect
from tinker_ext.conform.subject import RANK, Subject


def _refused(subject: Subject, what: str, answer: Answer, *statuses: int) -> str:
    """Expect a refusal with a reason, at the call or, where work is queued unseen, at its poll."""
    if answer.ok:
        final = subject.poll(answer.request_id())
        value = final.json()
        reason = value.get("detail") or value.get("error") if isinstance(value, dict) else None
        failed = not final.ok or (isinstance(value, dict) and "error" in value)
        expect(failed and bool(reason), f"{what} was accepted: {final}")
        return f"at the poll, with {final.status}"
    expect(
        answer.status in statuses, f"{what}: {answer}; expected {' or '.join(map(str, statuses))}"
    )
    body = answer.json()
    expect(
        isinstance(body, dict) and bool(body.get("detail")),
        f"{what}: the refusal gives no reason under `detail`: {answer}",
    )
    return f"with {answer.status}"


@check("error.unknown_model", "answers 404 with a reason for an unknown model")
def unknown_model(subject: Subject) -> str:
    """A typo must not train anything."""
    subject.session_id()
    adam = {"learning_rate": 1e-4, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12}
    body = {"model_id": "no-such-model", "adam_params": adam, "seq_id": 1}
    answer = subject.call("POST", "optim_step", body)
    return _refused(subject, "optim_step of an unknown model", answer, 404, 400)


@check("error.unknown_sampler", "answers 404 with a reason for an unknown sampler")
def unknown_sampler(subject: Subject) -> str:
    """The same for sampling."""
    body = {
        "sampling_session_id": "no-such-sampler",
        "seq_id": 0,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [33, 34]}]},
        "sampling_params": {"max_tokens": 1},
        "num_samples": 1,
    }
    answer = subject.call("POST", "asample", body)
    return _refused(subject, "asample of an unknown sampler", answer, 404, 400)


@check("error.base_model", "refuses to train a base model it does not have")
def base_model(subject: Subject) -> None:
    """Else a typo trains some other model."""
    body = {
        "session_id": subject.session_id(),
        "model_seq_id": subject.workspace.session.next_model_seq_id(),
        "base_model": "no-such-org/no-such-model",
        "lora_config": {"rank": RANK},
    }
    answer = subject.call("POST", "create_model", body)
    if answer.ok:
        final = subject.poll(answer.request_id())
        made = final.object().get("model_id") if final.ok else None
        if made:
            subject.call("POST", "unload_model", {"model_id": made})
        expect(
            final.status >= 400 or "error" in final.object(),
            f"base model no-such-org/no-such-model was accepted: {final}",
        )
    else:
        expect(400 <= answer.status < 500, f"an unknown base model: {answer}")


@check("error.validation", "answers 422 (or 400) with a reason when a field is missing")
def validation(subject: Subject) -> None:
    """The reason says which."""
    with subject.raw_model() as model:
        answer = subject.call("POST", "save_weights_for_sampler", {"seq_id": model.next_seq()})
        _refused(subject, "save_weights_for_sampler without model_id", answer, 400, 422)


@check("error.malformed", "answers malformed JSON with 4xx")
def malformed(subject: Subject) -> None:
    """Bad bytes are the sender's fault."""
    headers = {"Content-Type": "application/json"}
    answer = subject.call("POST", "create_session", content=b'{"tags": [', headers=headers)
    expect(400 <= answer.status < 500, f"malformed JSON: {answer}")


@check("error.loss_fn", "refuses an unknown loss function")
def loss_fn(subject: Subject) -> str:
    """At once with 4xx, or as a failed request."""
    with subject.raw_model() as model:
        answer = _forward(subject, model.model_id, model.next_seq(), "no_such_loss")
        if answer.ok:
            final = subject.poll(answer.request_id())
            body: Any = final.json()
            expect(
                final.status >= 400 or (isinstance(body, dict) and "error" in body),
                f"loss function no_such_loss was computed: {final}",
            )
            return "as a failed request"
    expect(400 <= answer.status < 500, f"an unknown loss function: {answer}")
    return f"with {answer.status}"


@check("error.unknown_path", "answers 404 for an endpoint that does not exist")
def unknown_path(subject: Subject) -> None:
    """Clients tell missing features by it."""
    answer = subject.call("GET", "no/such/endpoint")
    expect(answer.status == 404, f"GET no/such/endpoint: {answer}")


def _forward(subject: Subject, model_id: str, seq: int, loss: str) -> Answer:
    inputs = {"data": [datum_json(1, tagged=True)], "loss_fn": loss}
    body = {"model_id": model_id, "seq_id": seq, "forward_input": inputs}
    answer = subject.call("POST", "forward", body)
    if answer.status in (404, 405, 415):
        absent(f"the server takes no JSON training bodies: {answer}")
    return answer
