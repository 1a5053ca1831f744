"""Checkpoint files: safetensors bytes and adapter_config.json.

The safetensors format is an 8-byte little-endian header length, a JSON header and the raw arrays
(github.com/huggingface/safetensors, "Format"); equal arrays give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tinker_ext.mock.engine.lora import ALPHA, LoraSpec, target_modules
from tinker_ext.mock.engine.tiles import Array

DTYPES: Mapping[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
}
"""Array types a checkpoint may hold."""


def to_safetensors(
    tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Arrays as the bytes of a safetensors file, names sorted.

    Raises:
        ValueError: an array of a type that checkpoints do not hold.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata or {"format": "np"})}
    parts: list[bytes] = []
    offset = 0
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        codes = [code for code, dtype in DTYPES.items() if dtype == array.dtype]
        if not codes:
            raise ValueError(f"cannot save {name}: dtype {array.dtype} is not one of {[*DTYPES]}")
        parts.append(array.tobytes())
        end = offset + len(parts[-1])
        header[name] = {
            "dtype": codes[0],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def from_safetensors(content: bytes) -> dict[str, Array]:
    """The arrays of a safetensors file.

    Raises:
        ValueError: the bytes are cut short or are no such file.
    """
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 + length:
        raise ValueError("not a safetensors file: the header is cut short")
    try:
        header = json.loads(content[8 : 8 + length])
        body = memoryview(content)[8 + length :]
        tensors = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            start, end = entry["data_offsets"]
            flat = np.frombuffer(body[start:end], dtype=DTYPES[entry["dtype"]])
            tensors[name] = flat.reshape(entry["shape"]).copy()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"not a safetensors file of ours: {error!r}") from error
    return tensors


def adapter_config(base_model: str, spec: LoraSpec, layers: list[str]) -> dict[str, Any]:
    """Content of adapter_config.json as PEFT reads it."""
    return {
        "base_model_name_or_path": base_model,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "lora_alpha": ALPHA,
        "lora_dropout": 0.0,
        "peft_type": "LORA",
        "r": spec.rank,
        "target_modules": target_modules(layers),
        "task_type": "CAUSAL_LM",
    }
