"""Requests per second of our transport and of stock httpx, interleaved, against one cheap server.

Run it from the root of the repository:

    PYTHONPATH=.:generated python tests/bench/bench_transport.py

The server runs in a process of its own. Each call is what a sample costs: a POST of a prompt and a
long-poll POST that returns 128 tokens with logprobs. Trust the ratios, not the absolute figures.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable, Coroutine
from typing import Any

import httpx

from tinker_ext._transport.connection import Connection
from tinker_ext._transport.messages import Call, Lane, RetryRule

PROMPT = b'{"prompt":{"chunks":[{"tokens":[%s],"type":"encoded_text"}]}}' % b",".join(
    b"%d" % n for n in range(1000, 1256)
)
RESULT = b'{"type":"sample","sequences":[{"tokens":[%s],"logprobs":[%s]}]}' % (
    b",".join(b"%d" % n for n in range(2000, 2128)),
    b",".join(b"-0.%06d" % (n * 4057 % 10**6) for n in range(128)),
)
ACCEPTED = b'{"request_id":"0123456789abcdef"}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
REPLIES = {b"a": HEAD % len(ACCEPTED) + ACCEPTED, b"r": HEAD % len(RESULT) + RESULT}


class Server(asyncio.Protocol):
    """Finds where a request ends and answers by the first letter of its path."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        buffer = self.buffer + data if self.buffer else data
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            lower = buffer[:end].lower()
            at = lower.find(b"content-length:")
            size = int(lower[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(buffer) < end + 4 + size:
                break
            self.transport.write(REPLIES[buffer[6:7]])
            buffer = buffer[end + 4 + size :]
        self.buffer = buffer


def serve(ready: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Server, "127.0.0.1", 0, backlog=1000)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def ours(url: str, count: int) -> None:
    connection = Connection(url, None)
    send = Call("asample", "POST", "/asample", PROMPT, lane=Lane.SAMPLE, retry=RetryRule.DEDUPE)
    poll = Call("retrieve", "POST", "/retrieve", ACCEPTED, lane=Lane.POLL, retry=RetryRule.POLL)

    async def sample() -> None:
        await connection.exchange(send)
        await connection.exchange(poll)

    await asyncio.gather(*(sample() for _ in range(count)))
    await connection.aclose()


async def stock_httpx(url: str, count: int) -> None:
    limits = httpx.Limits(max_connections=100, max_keepalive_connections=100)
    async with httpx.AsyncClient(limits=limits, timeout=120) as client:
        await through(client, url, count)


async def through(client: httpx.AsyncClient, url: str, count: int) -> None:
    headers = {"content-type": "application/json"}

    async def sample() -> None:
        await client.post(f"{url}/asample", content=PROMPT, headers=headers)
        await client.post(f"{url}/retrieve", content=ACCEPTED, headers=headers)

    await asyncio.gather(*(sample() for _ in range(count)))


def measure(
    work: Callable[[str, int], Coroutine[Any, Any, None]], url: str, count: int
) -> tuple[float, float]:
    """Return samples per second and CPU milliseconds per sample."""
    cpu = time.process_time()
    began = time.perf_counter()
    asyncio.run(work(url, count))
    took = time.perf_counter() - began
    return count / took, (time.process_time() - cpu) / count * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, nargs="+", default=[200, 2000, 10_000])
    parser.add_argument(
        "--stock-samples",
        type=int,
        default=200,
        help="most samples for stock httpx, whose cost per request grows with the queue",
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(send,), daemon=True)
    process.start()
    url = f"http://127.0.0.1:{receive.recv()}"
    ways = {"ours": ours, "stock httpx": stock_httpx}
    sniffio = importlib.util.find_spec("sniffio") is not None
    print(f"{os.cpu_count()} cores; httpx runs {'with' if sniffio else 'without'} sniffio")
    for count in options.samples:
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, work in ways.items():
                few = min(count, options.stock_samples) if work is stock_httpx else count
                figures[name].append(measure(work, url, few))
        base = statistics.median(rate for rate, _ in figures["stock httpx"])
        for name, rows in figures.items():
            rate = statistics.median(r for r, _ in rows)
            cpu = statistics.median(c for _, c in rows)
            print(
                f"{count:7d} samples  {name:14s} {rate:8.0f}/s  {2 * rate:8.0f} req/s  "
                f"{cpu:6.3f} ms CPU/sample  {rate / base:5.1f}x"
            )
    process.terminate()


if __name__ == "__main__":
    main()
