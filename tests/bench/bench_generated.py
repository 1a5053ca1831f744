"""Speed of the generated layer against its limit: raw orjson on the same dict, same numbers.

Both sides of a ratio run in turns within one process, and the best round of each counts, so that
a busy machine slows both. Run: `python tests/bench/bench_generated.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
from tinker_api.models import (
    Datum,
    EncodedTextChunk,
    ForwardBackwardInput,
    ForwardBackwardOutput,
    ForwardBackwardRequest,
    ModelInput,
    TensorData,
)
from tinker_api.types import dumps, loads

DATUMS = 128
LENGTH = 4096
LIMIT = 1.3


def request_arrays() -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return tokens, targets and weights of each datum."""
    rng = np.random.default_rng(0)
    return [
        (
            rng.integers(0, 150_000, LENGTH),
            rng.integers(0, 150_000, LENGTH),
            rng.random(LENGTH, dtype=np.float32),
        )
        for _ in range(DATUMS)
    ]


def raw_request(rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> bytes:
    """Build the plain dict and serialise it: the limit."""
    data = [
        {
            "model_input": {"chunks": [{"type": "encoded_text", "tokens": tokens}]},
            "loss_fn_inputs": {
                "target_tokens": {"data": targets, "dtype": "int64", "shape": [LENGTH]},
                "weights": {"data": weights, "dtype": "float32", "shape": [LENGTH]},
            },
        }
        for tokens, targets, weights in rows
    ]
    body = {
        "model_id": "m",
        "seq_id": 1,
        "forward_backward_input": {"data": data, "loss_fn": "cross_entropy"},
    }
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def generated_request(rows: list[tuple[Any, Any, Any]]) -> bytes:
    """Build the generated models and serialise them."""
    data = [
        Datum(
            model_input=ModelInput(chunks=[EncodedTextChunk(tokens=tokens)]),
            loss_fn_inputs={
                "target_tokens": TensorData(data=targets, dtype="int64", shape=[LENGTH]),
                "weights": TensorData(data=weights, dtype="float32", shape=[LENGTH]),
            },
        )
        for tokens, targets, weights in rows
    ]
    body = ForwardBackwardRequest(
        model_id="m",
        seq_id=1,
        forward_backward_input=ForwardBackwardInput(data=data, loss_fn="cross_entropy"),
    )
    return dumps(body.to_dict())


def response_body() -> bytes:
    """Return a JSON result with one list of logprobs for each datum."""
    rng = np.random.default_rng(1)
    outputs = [
        {"logprobs": {"data": -rng.random(LENGTH, dtype=np.float32), "dtype": "float32"}}
        for _ in range(DATUMS)
    ]
    body = {
        "loss_fn_output_type": "TensorData",
        "loss_fn_outputs": outputs,
        "metrics": {"a:sum": 1.0},
    }
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def raw_response(content: bytes) -> list[np.ndarray]:
    """Read the body and make arrays: the limit."""
    raw = orjson.loads(content)
    return [
        np.array(output["logprobs"]["data"], dtype=np.float32) for output in raw["loss_fn_outputs"]
    ]


def generated_response(content: bytes) -> list[np.ndarray]:
    """Read the body with the generated models and make arrays."""
    parsed = ForwardBackwardOutput.from_dict(loads(content))
    return [
        np.array(output["logprobs"].data, dtype=np.float32) for output in parsed.loss_fn_outputs
    ]


def ratio(ours: Callable[[], object], limit: Callable[[], object], rounds: int) -> float:
    """Return best time of ours over best time of the limit, measured in turns."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for index, function in enumerate((ours, limit)):
            start = time.perf_counter()
            function()
            best[index] = min(best[index], time.perf_counter() - start)
    return best[0] / best[1]


def measure(rounds: int = 15) -> dict[str, float]:
    """Return the ratios by name; below `LIMIT` is good."""
    rows = request_arrays()
    content = response_body()
    return {
        f"request build + serialise, {DATUMS} x {LENGTH} numpy": ratio(
            lambda: generated_request(rows), lambda: raw_request(rows), rounds
        ),
        f"response parse -> numpy, {DATUMS} x {LENGTH}": ratio(
            lambda: generated_response(content), lambda: raw_response(content), rounds
        ),
    }


def main() -> int:
    """Print the ratios; exit code 1 when one is above the limit."""
    slow = 0
    for name, value in measure().items():
        slow += value > LIMIT
        print(f"{name}: {value:.2f}x of raw orjson (limit {LIMIT}x)")
    return int(slow > 0)


if __name__ == "__main__":
    raise SystemExit(main())
