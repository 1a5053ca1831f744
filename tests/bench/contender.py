"""One SDK at work: reads a line with a task, does it, writes a line with what it took.

Runs in the environment of each SDK and uses only what all of them have, so that every one is
measured by the same code. Start: `python contender.py tinker_ext` (or `tinker`).
"""

from __future__ import annotations

import ctypes
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
def arrays(datums: int, length: int) -> list[tuple[Any, Any, Any]]:
    """Tokens, targets and weights as numpy arrays."""
    rng = np.random.default_rng(0)
    return [
        (
            rng.integers(0, 150_000, length),
            rng.integers(0, 150_000, length),
            rng.random(length, dtype=np.float32),
        )
        for _ in range(datums)
    ]


@functools.lru_cache(maxsize=4)
def given(datums: int, length: int, form: str) -> list[tuple[Any, Any, Any]]:
    """What a user's code has in hand: token ids as a list, and the rest in one of the forms.

    Args:
        datums: How many examples.
        length: Tokens of each.
        form: `lists`, `numpy` or `torch` for targets and weights; `arrays` has tokens as an array
            too, which the official SDKs do not take.
    """
    rows = arrays(datums, length)
    if form == "arrays":
        return rows
    if form == "lists":
        return [(a.tolist(), b.tolist(), c.tolist()) for a, b, c in rows]
    if form == "torch":
        import torch

        return [(a.tolist(), torch.from_numpy(b), torch.from_numpy(c)) for a, b, c in rows]
    return [(a.tolist(), b, c) for a, b, c in rows]


def construct(rows: list[tuple[Any, Any, Any]]) -> list[Any]:
    """Datums of the SDK; official ones refuse arrays of tokens, so there a list is made."""
    types = sdk().types
    lists = PACKAGE == "tinker"
    return [
        types.Datum(
            model_input=types.ModelInput.from_ints(
                tokens.tolist() if lists and type(tokens) is not list else tokens
            ),
            loss_fn_inputs={"target_tokens": targets, "weights": weights},
        )
        for tokens, targets, weights in rows
    ]


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


@functools.cache
def trained(url: str, datums: int, length: int) -> None:
    """Train on a batch once: in a loop, memory of the last batch is used again for the next."""
    step(training(url), given(datums, length, "numpy"))


def constructing(url: str, datums: int, length: int, form: str) -> dict[str, float]:
    """Time of making the datums alone; without a url, of the first that a process makes."""
    if url:
        trained(url, datums, length)
    else:
        construct(given(1, 1, form))
    rows = given(datums, length, form)
    gc.collect()
    cpu, began = time.process_time(), time.perf_counter()
    made = construct(rows)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert len(made) == datums
    return {"ms": took * 1e3, "cpu_ms": cpu * 1e3}


def build(datums: int, length: int, form: str) -> dict[str, float]:
    """Build and serialise a batch."""
    rows = given(datums, length, form)
    began = time.perf_counter()
    body(construct(rows))
    return {"ms": (time.perf_counter() - began) * 1e3}


def step(client: Any, rows: list[tuple[Any, Any, Any]]) -> float:
    """Make the datums, send them, and read the logprobs as arrays."""
    output = client.forward_backward(construct(rows), "cross_entropy").result()
    read = [each["logprobs"].to_numpy() for each in output.loss_fn_outputs]
    assert len(read) == len(rows)
    return float(read[-1][-1])


def round_trip(url: str, datums: int, length: int, calls: int, form: str) -> dict[str, float]:
    """Best times of forward_backward from the user's data to logprobs read, one at a time."""
    client, rows = training(url), given(datums, length, form)
    best, least = float("inf"), float("inf")
    for _ in range(calls):
        cpu, began = time.process_time(), time.perf_counter()
        step(client, rows)
        best = min(best, time.perf_counter() - began)
        least = min(least, time.process_time() - cpu)
    tokens = datums * length
    return {"ms": best * 1e3, "cpu_ms": least * 1e3, "cpu_ns": least / tokens * 1e9}


def peak(url: str, datums: int, length: int, form: str) -> dict[str, float]:
    """How far the process grows during one such call."""
    client = training(url)
    step(client, given(8, length, form))
    rows = given(datums, length, form)
    arrays.cache_clear()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the high-water mark begins anew
    step(client, rows)
    return {"mb": (high_water() - before) / 2**20}


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
    return {"kb": (last - before) / count / 1024, "mb": (high_water() - before) / 2**20}


def high_water() -> int:
    """The most bytes this process had in memory."""
    with open("/proc/self/status") as file:
        found = next(line for line in file if line.startswith("VmHWM"))
    return int(found.split()[1]) * 1024


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def ahead(url: str, steps: int) -> dict[str, float]:
    """Milliseconds of a training step when all are submitted before the first result."""
    types = sdk().types
    client = training(url)
    data = construct(given(8, 128, "numpy"))
    began = time.perf_counter()
    futures = []
    for _ in range(steps):
        futures.append(client.forward_backward(data, "cross_entropy"))
        futures.append(client.optim_step(types.AdamParams(learning_rate=1e-4)))
    for future in futures:
        future.result()
    return {"ms": (time.perf_counter() - began) / steps * 1e3}


TASKS = {
    "construct": constructing,
    "build": build,
    "peak": peak,
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
