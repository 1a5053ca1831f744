"""Checks of tolerance: bodies as clients of either era write them mean the same."""

from __future__ import annotations

from typing import Any

from tinker_ext.conform.data import PROMPT, datum, datum_json
from tinker_ext.conform.raw_model import Answer, RawModel
from tinker_ext.conform.reference import Floats, flat, same, show
from tinker_ext.conform.registry import absent, check, expect, fail
from tinker_ext.conform.subject import RANK, SEED, Subject

_ADAM = {"learning_rate": 5e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12}


@check("body.first_era", "takes bodies without tags and with explicit nulls, as SDK 0.4.1 writes")
def first_era(subject: Subject) -> None:
    """What is null was not given."""
    lora = {"rank": RANK, "seed": SEED, "train_unembed": True, "train_mlp": True}
    create = {"lora_config": {**lora, "train_attn": True}, "user_metadata": None}
    loss: dict[str, Any] = {"loss_fn": "cross_entropy", "loss_fn_config": None}
    got = _run(subject, create, loss, {}, tagged=False)
    same("one training step in first-era bodies", got, _plain(subject))


@check("body.second_era", "takes bodies with every tag and default, as SDK 0.36.0 writes")
def second_era(subject: Subject) -> None:
    """What is a default changes nothing."""
    if subject.dialect.era == "0.4.1" and subject.dialect.lacks:
        absent("a server of the first era need not know the keys of the second")
    lora = {"rank": RANK, "seed": SEED, "train_unembed": True, "train_mlp": True}
    create = {"lora_config": {**lora, "train_attn": True}, "type": "create_model"}
    adam = {"weight_decay": 0.0, "grad_clip_norm": 0.0}
    got = _run(subject, create, {"loss_fn": "cross_entropy"}, adam, tagged=True)
    same("one training step in second-era bodies", got, _plain(subject))


@check("body.minimal_sample", "samples with nothing but prompt, max_tokens and an address")
def minimal_sample(subject: Subject) -> str:
    """Everything else has a default."""
    body = {
        "base_model": subject.base_model,
        "prompt": {"chunks": [{"tokens": PROMPT}]},
        "sampling_params": {"max_tokens": 8},
    }
    sequences = subject.result(subject.call("POST", "asample", body)).get("sequences")
    if not isinstance(sequences, list) or len(sequences) != 1:
        fail(f"sequences is {sequences!r} where one was expected")
    return f"tokens {show(sequences[0]['tokens'])}"


@check("body.nulls_in_sample", "takes nulls for sampling options that are not set")
def nulls_in_sample(subject: Subject) -> None:
    """SDK 0.4.1 writes them."""
    params = {"max_tokens": 8, "seed": 5, "stop": None, "temperature": 1.0, "top_p": 1.0}
    body: dict[str, Any] = {
        "base_model": subject.base_model,
        "prompt": {"chunks": [{"tokens": PROMPT}]},
        "sampling_params": {**params, "top_k": -1},
        "num_samples": 1,
        "prompt_logprobs": None,
        "model_path": None,
        "sampling_session_id": None,
        "seq_id": None,
    }
    answer = subject.call("POST", "asample", body)
    expect(answer.ok, f"asample with nulls: {answer}")
    result = subject.result(answer)
    expect(bool(result.get("sequences")), f"asample with nulls gave {result}")


@check("body.extra_keys", "ignores or refuses unknown keys, and never fails on them")
def extra_keys(subject: Subject) -> str:
    """A newer client may know more than the server."""
    body = {"session_id": subject.session_id(), "key_of_a_later_era": {"x": 1}}
    answer = subject.call("POST", "session_heartbeat", body)
    expect(answer.status < 500, f"an unknown key: {answer}")
    return "ignored" if answer.ok else f"refused with {answer.status}"


def _run(
    subject: Subject,
    create: dict[str, Any],
    loss: dict[str, Any],
    adam: dict[str, Any],
    *,
    tagged: bool,
) -> Floats:
    """Create, train one step and score, all in one style of JSON."""
    number = subject.workspace.session.next_model_seq_id()
    address = {"session_id": subject.session_id(), "model_seq_id": number}
    body = {**address, "base_model": subject.base_model, **create}
    model_id = subject.result(subject.call("POST", "create_model", body)).get("model_id")
    model = RawModel(subject, str(model_id))
    try:
        data = {"data": [datum_json(1, tagged=tagged)], **loss}
        backward = {"forward_backward_input": data, **_address(model)}
        subject.result(_json_only(subject.call("POST", "forward_backward", backward)))
        step = {"adam_params": {**_ADAM, **adam}, **_address(model)}
        if tagged:
            step["type"] = "optim_step"
        subject.result(subject.call("POST", "optim_step", step))
        forward = {"forward_input": data, **_address(model)}
        output = subject.result(subject.call("POST", "forward", forward))
        return flat(output["loss_fn_outputs"][0]["logprobs"]["data"])
    finally:
        subject.call("POST", "optim_step", model.step_body(0.0))
        subject.call("POST", "unload_model", {"model_id": model_id})


def _address(model: RawModel) -> dict[str, Any]:
    return {"model_id": model.model_id, "seq_id": model.next_seq()}


def _json_only(answer: Answer) -> Answer:
    if (answer.status == 422 and "does not take" in answer.text) or answer.status == 415:
        absent(f"the server takes no JSON training bodies: {answer}")
    return answer


def _plain(subject: Subject) -> Floats:
    """The same step by our own client."""
    with subject.trial() as trial:
        trial.backward(datum(1))
        trial.step()
        return trial.logprobs([datum(1)])
