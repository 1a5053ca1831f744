"""A network and a server that fail by one seed: lost, repeated, late, refused, restarted."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import attrs
import httpx

from tinker_ext.mock import App, Settings, create_app

# Kind of fault → what it does to one request.
KINDS = {
    "refuse": "no connection: nothing was sent",
    "drop_request": "the connection ends before the server sees the request",
    "drop_response": "the request takes effect, then the connection ends",
    "truncate": "the request takes effect, then the reply is cut",
    "duplicate": "the request arrives twice; the first answer comes back",
    "duplicate_second": "the request arrives twice; the second answer comes back",
    "echo": "the request arrives again later, when nobody waits for it",
    "delay": "the request arrives late",
    "slow": "the answer comes late",
    "hang": "the request arrives after the client has given up",
    "status": "a proxy refuses the request with a status",
    "status_after": "the request takes effect, then a proxy answers with a status",
    "restart_before": "the server is killed before it sees the request, and comes back",
    "restart_after": "the server is killed after the effect, and comes back",
    "outage": "the server is out of reach for a while, for everybody",
}
REPEATING = frozenset({"duplicate", "duplicate_second", "echo"})
BEFORE = (408, 409, 429, 500, 502, 503, 504)
AFTER = (408, 500, 502, 503, 504)
TRAINING = frozenset(
    {
        "forward",
        "forward_backward",
        "optim_step",
        "save_weights",
        "load_weights",
        "save_weights_for_sampler",
    }
)
PATIENCE = 6
"""The same request is struck at most this often in a row, so that every retry ends."""


@attrs.frozen
class Weather:
    """How bad the network is in one execution.

    Attributes:
        rate: Part of the requests that is struck.
        kinds: Faults that occur; a few per execution find more than all at once.
        longest: Longest outage or downtime of the server in seconds.
    """

    rate: float
    kinds: tuple[str, ...]
    longest: float = 60.0

    @classmethod
    def drawn(cls, rng: random.Random) -> Weather:
        """Draw from a seed's generator."""
        count = rng.randint(1, len(KINDS))
        rate = rng.choice((0.05, 0.15, 0.3, 0.5))
        return cls(rate, tuple(rng.sample(sorted(KINDS), count)), rng.choice((2.0, 20.0, 90.0)))


class Network(httpx.AsyncBaseTransport):
    """Carries requests to one server, badly; the server's state survives its restarts.

    Args:
        settings: The server; its state directory is made here when restarts may happen.
        weather: What goes wrong; None is a perfect network.
        rng: Draws everything that is random.
    """

    def __init__(self, settings: Settings, weather: Weather | None, rng: random.Random) -> None:
        self._weather = weather
        self._rng = rng
        self._folder: Path | None = None
        restarts = weather is not None and any(k.startswith("restart") for k in weather.kinds)
        if restarts:
            shm = Path("/dev/shm")
            self._folder = Path(tempfile.mkdtemp(dir=shm if shm.is_dir() else None))
            settings = attrs.evolve(settings, state=self._folder)
        self._settings = settings
        self.app: App = create_app(settings)
        self._down_until = 0.0
        self._struck: dict[bytes, int] = {}
        self._conflicts: dict[bytes, int] = {}
        self._deliveries: set[asyncio.Task[httpx.Response]] = set()
        self._strays: set[asyncio.Task[Any]] = set()
        self.restarts = 0
        self.requests = 0
        self.faults: list[tuple[float, str, str]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Deliver one request, or do to it what the seed says."""
        self.requests += 1
        loop = asyncio.get_running_loop()
        if loop.time() < self._down_until:
            raise httpx.ConnectError("connection refused")
        kind = self._draw(request)
        if kind is None:
            return await self._deliver(request)
        self.faults.append((loop.time(), kind, request.url.path.rpartition("/")[2]))
        return await self._strike(kind, request)

    async def settle(self) -> None:
        """Wait for late deliveries, then take the network away."""
        while self._strays:
            await asyncio.wait(self._strays)

    def close(self) -> None:
        """Remove the server and what it kept."""
        self.app.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- what goes wrong -----------------------------------------------------------------------

    def _draw(self, request: httpx.Request) -> str | None:
        weather, rng = self._weather, self._rng
        if weather is None or rng.random() >= weather.rate:
            return None
        name = request.url.path.rpartition("/")[2]
        kind = rng.choice(weather.kinds)
        if kind in REPEATING and self._settings.seq == "ignore" and name in TRAINING:
            return None  # the network itself would train twice; no client can prevent that
        key = name.encode() + request.content
        if self._struck.get(key, 0) >= PATIENCE:
            self._struck[key] = 0
            return None
        self._struck[key] = self._struck.get(key, 0) + 1
        return kind

    def _status(self, request: httpx.Request) -> int:
        """Draw a refusal; a proxy says 409 to the same request only twice."""
        status = self._rng.choice(BEFORE)
        if status == 409:
            key = request.url.path.encode() + request.content
            self._conflicts[key] = self._conflicts.get(key, 0) + 1
            if self._conflicts[key] > 2:
                return 503
        return status

    async def _strike(self, kind: str, request: httpx.Request) -> httpx.Response:
        rng = self._rng
        if kind == "refuse":
            raise httpx.ConnectError("connection refused")
        if kind == "drop_request":
            raise _gone(rng)
        if kind in ("drop_response", "truncate"):
            await self._deliver(request)
            raise _gone(rng) if kind == "drop_response" else _cut()
        if kind in ("duplicate", "duplicate_second"):
            first = await self._deliver(request)
            second = await self._deliver(request)
            return second if kind == "duplicate_second" else first
        if kind == "echo":
            self._stray(self._later(request, rng.uniform(0.0, 400.0)))
            return await self._deliver(request)
        if kind == "delay":
            await asyncio.sleep(rng.expovariate(0.2))
            return await self._deliver(request)
        if kind == "slow":
            response = await self._deliver(request)
            await asyncio.sleep(rng.expovariate(0.2))
            return response
        if kind == "hang":
            await self._stray(self._later(request, rng.uniform(0.0, 130.0)))
            raise _gone(rng)
        if kind == "status":
            return self._answer(request, self._status(request))
        if kind == "status_after":
            await self._deliver(request)
            return self._answer(request, rng.choice(AFTER))
        if kind == "restart_before":
            self._restart()
            raise _gone(rng)
        if kind == "restart_after":
            await self._deliver(request)
            self._restart()
            raise _gone(rng)
        assert kind == "outage"
        self._go_down()
        raise _gone(rng)

    def _answer(self, request: httpx.Request, status: int) -> httpx.Response:
        rng = self._rng
        headers: dict[str, str] = {}
        if rng.random() < 0.4:
            name, factor = rng.choice((("retry-after", 1), ("retry-after-ms", 1000)))
            headers[name] = f"{rng.uniform(0.1, 5.0) * factor:.3f}"
        if rng.random() < 0.5:
            headers["content-type"] = "text/html"
            return httpx.Response(status, headers=headers, text=f"<html>{status}</html>")
        return httpx.Response(status, headers=headers, json={"detail": f"proxy says {status}"})

    async def _deliver(self, request: httpx.Request) -> httpx.Response:
        """Hand a request to the server; a restart meanwhile cuts the connection."""
        if asyncio.get_running_loop().time() < self._down_until:
            raise httpx.ConnectError("connection refused")
        task = asyncio.ensure_future(answered(self.app, request))
        self._deliveries.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            sender = asyncio.current_task()
            assert sender is not None
            if sender.cancelling():
                raise
            raise httpx.ReadError("the server went away") from None
        finally:
            self._deliveries.discard(task)

    async def _later(self, request: httpx.Request, seconds: float) -> None:
        await asyncio.sleep(seconds)
        try:
            await self._deliver(request)
        except httpx.TransportError:
            return

    def _stray(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Start a delivery that goes on although its sender has left."""
        task = asyncio.ensure_future(work)
        self._strays.add(task)
        task.add_done_callback(self._strays.discard)
        return asyncio.shield(task)

    def _go_down(self) -> None:
        assert self._weather is not None
        now = asyncio.get_running_loop().time()
        self._down_until = now + self._rng.uniform(0.0, self._weather.longest)

    def _restart(self) -> None:
        """Kill the server: open connections end, memory is lost, the disk stays."""
        self.restarts += 1
        for delivery in list(self._deliveries):
            delivery.cancel()
        self.app.close()
        self.app = create_app(self._settings)
        self._go_down()


def _gone(rng: random.Random) -> httpx.TransportError:
    if rng.random() < 0.5:
        return httpx.ReadError("connection reset by peer")
    return httpx.RemoteProtocolError("server disconnected without sending a response")


def _cut() -> httpx.TransportError:
    return httpx.RemoteProtocolError("peer closed connection without sending complete body")


async def answered(app: App, request: httpx.Request) -> httpx.Response:
    """The reply of an ASGI application; httpx's own transport looks for trio on every request."""
    scope = {
        "type": "http",
        "method": request.method,
        "path": request.url.path,
        "query_string": request.url.query,
        "headers": request.headers.raw,
        "scheme": "http",
    }
    status, headers, parts = 500, [], []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": request.content, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], message["headers"]
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return httpx.Response(status, headers=headers, content=b"".join(parts))
