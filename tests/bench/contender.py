"""One SDK at work: reads a line with a task, does it, writes a line with what it took.

Runs in the environment of each SDK and uses only what all of them have, so that every one is
measured by the same code. Start: `python contender.py tinker_ext` (or `tinker`).
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import resource
import sys
import time
from typing import Any

import numpy as np

os.environ.update(TINKER_API_KEY="tml-bench-0123456789", TINKER_TELEMETRY="0")
PACKAGE = sys.argv[1]
MODEL = "bench/tiny"


@functools.cache
def sdk() -> Any:
    """The package under test."""
    return importlib.import_module(PACKAGE)


@functools.cache
def service(url: str) -> Any:
    """A client of the fake server."""
    return sdk().ServiceClient(base_url=url)


@functools.cache
def training(url: str) -> Any:
    """A training client."""
    return service(url).create_lora_training_client(base_model=MODEL)


@functools.cache
def sampling(url: str) -> Any:
    """A sampling client."""
    return service(url).create_sampling_client(base_model=MODEL)


@functools.cache
def rows(datums: int, length: int) -> list[tuple[Any, Any, Any]]:
    """Tokens, targets and weights as arrays."""
    rng = np.random.default_rng(0)
    return [
        (
            rng.integers(0, 150_000, length),
            rng.integers(0, 150_000, length),
            rng.random(length, dtype=np.float32),
        )
        for _ in range(datums)
    ]


@functools.cache
def token_lists(datums: int, length: int) -> list[list[int]]:
    """The same tokens as a tokenizer gives them."""
    return [tokens.tolist() for tokens, _, _ in rows(datums, length)]


def batch(datums: int, length: int, tokens: str = "numpy") -> list[Any]:
    """Datums of the SDK; official ones refuse arrays of tokens, so there a list is made."""
    types = sdk().types
    out = []
    for index, (numbers, targets, weights) in enumerate(rows(datums, length)):
        if tokens == "lists":
            numbers = token_lists(datums, length)[index]
        elif PACKAGE == "tinker":
            numbers = numbers.tolist()
        chunk = types.EncodedTextChunk(tokens=numbers)
        inputs = {
            "target_tokens": types.TensorData.from_numpy(targets),
            "weights": types.TensorData.from_numpy(weights),
        }
        out.append(types.Datum(model_input=types.ModelInput(chunks=[chunk]), loss_fn_inputs=inputs))
    return out


def body(data: list[Any]) -> bytes:
    """The request body of one forward_backward, as the SDK would send it."""
    if PACKAGE == "tinker_ext":
        from tinker_ext._wire.proto_codec import encode_forward

        made = encode_forward("m", data, "cross_entropy", None, forward_only=False)
        return made.render(1)
    from tinker.types import ForwardBackwardInput, ForwardBackwardRequest

    inner = ForwardBackwardInput(data=data, loss_fn="cross_entropy")
    request = ForwardBackwardRequest(forward_backward_input=inner, model_id="m", seq_id=1)
    try:
        from tinker.proto.request_conv import forward_backward_request_to_proto
    except ImportError:
        written = request.model_dump(exclude_unset=True, mode="json")
        return json.dumps(written, separators=(",", ":")).encode()
    return bytes(forward_backward_request_to_proto(request).SerializeToString())


# -- tasks -----------------------------------------------------------------------------------


def build(datums: int, length: int, tokens: str) -> dict[str, float]:
    """Build and serialise a batch."""
    rows(datums, length)
    token_lists(datums, length)
    began = time.perf_counter()
    body(batch(datums, length, tokens))
    return {"ms": (time.perf_counter() - began) * 1e3}


def round_trip(url: str, datums: int, length: int, calls: int) -> dict[str, float]:
    """Best time of forward_backward from arrays to result, one at a time."""
    client = training(url)
    best = float("inf")
    for _ in range(calls):
        began = time.perf_counter()
        output = client.forward_backward(batch(datums, length), "cross_entropy").result()
        best = min(best, time.perf_counter() - began)
        assert len(output.loss_fn_outputs) == datums
    return {"ms": best * 1e3}


def samples(url: str, count: int) -> dict[str, float]:
    """Concurrent samples of 256 tokens in, 128 out with logprobs."""
    types = sdk().types
    client = sampling(url)
    prompt = types.ModelInput.from_ints(list(range(1000, 1256)))
    params = types.SamplingParams(max_tokens=128)
    cpu = time.process_time()
    began = time.perf_counter()
    futures = [client.sample(prompt, 1, params) for _ in range(count)]
    for future in futures:
        future.result()
    took = time.perf_counter() - began
    cpu = time.process_time() - cpu
    return {"per_s": count / took, "us": took / count * 1e6, "cpu_us": cpu / count * 1e6}


def memory(url: str, free: str, count: int) -> dict[str, float]:
    """Resident memory of each sample that a server holds back; ends this process's usefulness."""
    types = sdk().types
    samples(free, 50)
    client = sampling(url)
    prompt = types.ModelInput.from_ints(list(range(1000, 1256)))
    params = types.SamplingParams(max_tokens=128)
    gc.collect()
    before = resident()
    futures = [client.sample(prompt, 1, params) for _ in range(count)]
    last, calm = 0, 0
    while calm < 4:
        time.sleep(0.5)
        now = resident()
        calm = calm + 1 if abs(now - last) < 200_000 else 0
        last = now
    assert not any(future.done() for future in futures)
    return {"kb": (last - before) / count / 1024}


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def ahead(url: str, steps: int) -> dict[str, float]:
    """Milliseconds of a training step when all are submitted before the first result."""
    types = sdk().types
    client = training(url)
    data = batch(8, 128)
    began = time.perf_counter()
    futures = []
    for _ in range(steps):
        futures.append(client.forward_backward(data, "cross_entropy"))
        futures.append(client.optim_step(types.AdamParams(learning_rate=1e-4)))
    for future in futures:
        future.result()
    return {"ms": (time.perf_counter() - began) / steps * 1e3}


TASKS = {
    "build": build,
    "round_trip": round_trip,
    "samples": samples,
    "memory": memory,
    "ahead": ahead,
}


def main() -> None:
    """Work through the lines of standard input."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    sys.stdout = sys.stderr  # the figures have standard output for themselves
    for line in sys.stdin:
        task = json.loads(line)
        figures = TASKS[task.pop("task")](**task)
        os.write(1, json.dumps(figures).encode() + b"\n")
    os._exit(0)


if __name__ == "__main__":
    main()
