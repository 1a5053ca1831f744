"""How fast the embedded server is: start, trivial calls, a training step, the check of a big body.

Run `python tests/bench/bench_server.py`; it prints one line per figure and its target.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time

SERVER = "from tinker_ext.mock import serve; serve(on_ready=lambda url: print(url, flush=True))"


class Line:
    """One keep-alive connection without a client library, which would be the slower side."""

    async def open(self, url):
        host, port = url.removeprefix("http://").split(":")
        self.reader, self.writer = await asyncio.open_connection(host, int(port))
        return self

    async def call(self, method, path, body=None):
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{method} /api/v1/{path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(text)}\r\n\r\n"
        self.writer.write(head.encode() + text)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        size = next(int(x.split(":")[1]) for x in lines if x.startswith("content-length"))
        return json.loads(await self.reader.readexactly(size))

    async def result(self, ticket):
        return await self.call("POST", "retrieve_future", {"request_id": ticket["request_id"]})


async def trivial(url, lines=16, calls=250):
    """Requests a second of /healthz over several connections."""

    async def burst():
        line = await Line().open(url)
        for _ in range(calls):
            await line.call("GET", "healthz")

    started = time.perf_counter()
    await asyncio.gather(*(burst() for _ in range(lines)))
    return lines * calls / (time.perf_counter() - started)


def datum(length, shift=0):
    tokens = [(shift + i) % 256 for i in range(length + 1)]
    return {
        "model_input": {"chunks": [{"tokens": tokens[:-1]}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": tokens[1:], "dtype": "int64"},
            "weights": {"data": [1.0] * length, "dtype": "float32"},
        },
    }


async def steps(url, count=40):
    """Milliseconds of forward_backward + optim_step of 8 × 128 tokens, HTTP included."""
    line = await Line().open(url)
    body = {"tags": [], "user_metadata": {}, "sdk_version": "bench"}
    session = (await line.call("POST", "create_session", body))["session_id"]
    body = {"session_id": session, "model_seq_id": 0, "base_model": "tinker-ext/tiny"}
    model = (await line.result(await line.call("POST", "create_model", body)))["model_id"]
    batch = {"data": [datum(128, i) for i in range(8)], "loss_fn": "cross_entropy"}
    taken = []
    for number in range(count):
        started = time.perf_counter()
        body = {"model_id": model, "seq_id": 2 * number + 1, "forward_backward_input": batch}
        first = await line.call("POST", "forward_backward", body)
        body = {"model_id": model, "seq_id": 2 * number + 2, "adam_params": {}}
        second = await line.call("POST", "optim_step", body)
        await line.result(first)
        await line.result(second)
        taken.append(1e3 * (time.perf_counter() - started))
    return statistics.median(taken)


def check():
    """Milliseconds to check a body of 128 × 4096 tokens against the document."""
    from tinker_ext.mock import contract

    operation = contract.load().operations["POST", "/api/v1/forward_backward"]
    batch = {"data": [datum(4096) for _ in range(128)], "loss_fn": "cross_entropy"}
    body = {"model_id": "m", "forward_backward_input": batch}
    contract.load().check_body(operation, body)
    started = time.perf_counter()
    contract.load().check_body(operation, body)
    return 1e3 * (time.perf_counter() - started)


def main():
    started = time.perf_counter()
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().strip()
    ready = time.perf_counter() - started
    try:
        figures = [
            ("process start to first answer", ready, "s", "< 1"),
            ("trivial calls", asyncio.run(trivial(url)), "/s", "> 1000"),
            ("step of 8 × 128 tokens", asyncio.run(steps(url)), "ms", "< 30"),
            ("check of 128 × 4096 tokens", check(), "ms", "< 100"),
        ]
    finally:
        server.kill()
        server.wait()
    for name, value, unit, target in figures:
        print(f"{name:32} {value:10.2f} {unit:3} (target {target})")


if __name__ == "__main__":
    main()
