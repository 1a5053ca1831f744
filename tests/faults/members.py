"""Every result a future can yield, as a server sends it, and bodies that are no result at all."""

from __future__ import annotations

from typing import Any

from stub_server import RESULTS

# Every member of the document's union that is a result, as a server sends it.
MEMBERS: dict[str, Any] = {
    "create_model": {"model_id": "M", "type": "create_model"},
    "unload_model": {"model_id": "M", "type": "unload_model"},
    "sample": {**RESULTS["asample"], "type": "sample"},
    "save_weights": {"path": "tinker://M/weights/a", "type": "save_weights"},
    "load_weights": {"path": "tinker://M/weights/a", "type": "load_weights"},
    "save_weights_for_sampler": {
        "path": "tinker://M/sampler_weights/a",
        "type": "save_weights_for_sampler",
    },
    "save_weights_external": {
        "path": "tinker://M/external_weights/a",
        "size_bytes": 5,
        "type": "save_weights_external",
    },
    "create_custom_loss": {"loss_id": "loss-1", "type": "create_custom_loss"},
    "forward": RESULTS["forward"],
    "optim_step": {"metrics": {"grad_norm:mean": 1.0}},
}
CUSTOM_LOSS: dict[str, Any] = {
    "name": "mine",
    "inputs": [{"name": "logprobs", "rank": 1}],
    "graph": {
        "format": 1,
        "nodes": [
            {
                "op": "placeholder",
                "name": "logprobs",
                "target": "logprobs",
                "args": [],
                "kwargs": {},
            }
        ],
    },
}
"""What create_custom_loss takes, beside session and number."""

# Bodies that are no member at all.
STRANGERS: dict[str, Any] = {
    "pending": {"status": "pending"},
    "processing": {"status": "processing", "request_id": "r1"},
    "brand_new": {"type": "brand_new"},
    "brand_new_with_path": {"type": "brand_new", "path": "tinker://M/weights/a", "model_id": "M"},
    "promise": {"request_id": "r1"},
    "detail": {"detail": "still working"},
    "unknown_null": {"metrics_": None},
    "list": [],
    "text": "done",
    "null": None,
    "number": 1,
}

# Member → keys of which it has at least one, unless it is empty and may be.
KEYS: dict[str, frozenset[str]] = {
    "create_model": frozenset({"model_id"}),
    "save_weights": frozenset({"path"}),
    "load_weights": frozenset({"path", "model_id", "type"}),
    "save_weights_for_sampler": frozenset({"path"}),
    "save_weights_external": frozenset({"path"}),
    "create_custom_loss": frozenset({"loss_id"}),
    "unload_model": frozenset({"model_id"}),
    "optim_step": frozenset({"metrics"}),
    "sample": frozenset({"sequences"}),
    "forward": frozenset({"loss_fn_outputs"}),
}
