"""The fields each server generation knows: a strict server refuses those of the other one.

Both official generations forbid unknown fields (their request models are strict), so a client that
sends a key of the other era gets a 422, inside chunks and tensors too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Keys a server of the first era has never heard of, by operation (a dot leads into an object).
NEW_KEYS = {
    "create_session": ("project_id", "display_name"),
    "create_model": ("optimizer_config",),
    "optim_step": ("optimizer_params", "adam_params.weight_decay", "adam_params.grad_clip_norm"),
    "save_weights": ("ttl_seconds", "overwrite", "user_metadata"),
    "save_weights_for_sampler": ("ttl_seconds", "user_metadata"),
    "load_weights": (
        "session_id",
        "model_seq_id",
        "base_model",
        "user_metadata",
        "optimizer",
        "optimizer_config",
        "weights_access_token",
    ),
    "sample": (
        "topk_sample_logprobs",
        "target_prompt_logprobs",
        "prompt_alt_tokens_k",
        "prompt_logprobs_last_n",
        "record_stability_info",
    ),
    "retrieve_future": ("allow_metadata_only",),
    "send_telemetry": ("process_uuid",),
}
NEW_DATUM_KEYS = ("model_input_spans", "loss_fn_input_spans")
NEW_TENSOR_KEYS = ("sparse_crow_indices", "sparse_col_indices")
OLD_IMAGE_KEYS = ("height", "tokens", "width")
NEW_IMAGE_KEYS = ("expected_tokens",)

Fault = dict[str, Any]
Place = tuple[str | int, ...]


def faults(era: str, operation_id: str, body: Any) -> list[Fault]:
    """List the fields of a JSON body that a server of one era does not take, as FastAPI does.

    Args:
        era: `0.4.1` or `0.36.0`; any other takes the fields of both.
        operation_id: The operation of the document.
        body: The decoded body, already checked against the document.

    Example:
        >>> faults("0.4.1", "save_weights", {"model_id": "m", "ttl_seconds": 9})[0]["loc"]
        ['body', 'ttl_seconds']
    """
    found: list[Fault] = []
    if era == "0.4.1":
        for key in NEW_KEYS.get(operation_id, ()):
            *steps, last = key.split(".")
            value = body
            for step in steps:
                value = value.get(step) or {}
            if last in value:
                found.append(_extra(*steps, last))
    if era in ("0.4.1", "0.36.0"):
        for place, datum in _data(body):
            found += _datum_faults(era, place, datum)
        for place, chunks in _chunk_lists(body):
            for index, chunk in enumerate(chunks):
                found += _chunk_faults(era, (*place, index), chunk)
    return found[:10]


def _data(body: Any) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    for name in ("forward_input", "forward_backward_input"):
        for index, datum in enumerate((body.get(name) or {}).get("data", ())):
            yield (name, "data", index), datum


def _chunk_lists(body: Any) -> Iterator[tuple[Place, Any]]:
    for place, datum in _data(body):
        yield (*place, "model_input", "chunks"), datum["model_input"]["chunks"]
    prompt = body.get("prompt")
    if isinstance(prompt, Mapping):
        yield ("prompt", "chunks"), prompt["chunks"]


def _datum_faults(era: str, place: Place, datum: Mapping[str, Any]) -> list[Fault]:
    if era != "0.4.1":
        return []
    found = [_extra(*place, key) for key in NEW_DATUM_KEYS if key in datum]
    for name, tensor in (datum.get("loss_fn_inputs") or {}).items():
        found += [
            _extra(*place, "loss_fn_inputs", name, key) for key in NEW_TENSOR_KEYS if key in tensor
        ]
    return found


def _chunk_faults(era: str, place: Place, chunk: Mapping[str, Any]) -> list[Fault]:
    if "dmel" in chunk:
        return [_extra(*place, "dmel")] if era == "0.4.1" else []
    if "data" not in chunk and "location" not in chunk:
        return []
    mine: tuple[str, ...] = OLD_IMAGE_KEYS if era == "0.4.1" else ()
    theirs: tuple[str, ...] = NEW_IMAGE_KEYS if era == "0.4.1" else OLD_IMAGE_KEYS
    missing = [
        {"loc": ["body", *place, key], "msg": "Field required", "type": "missing"}
        for key in mine
        if key not in chunk
    ]
    return missing + [_extra(*place, key) for key in theirs if key in chunk]


def _extra(*place: str | int) -> Fault:
    text = "Extra inputs are not permitted"
    return {"loc": ["body", *place], "msg": text, "type": "extra_forbidden"}
