"""A server on a port: uvicorn in a thread, ready when the constructor's `start` returns."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tinker_ext.mock.app import App, create_app
from tinker_ext.mock.connection import TRANSPORT
from tinker_ext.mock.faults import FaultPlan
from tinker_ext.mock.log import RequestLog
from tinker_ext.mock.settings import Settings
from tinker_ext.mock.state.world import World


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol that shows the app its socket, so that faults can cut it."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope: dict[str, Any] = cast("dict[str, Any]", self.scope)
        scope["extensions"] = {TRANSPORT: self.transport}


class _Uvicorn(uvicorn.Server):
    """uvicorn that says when it answers and lets waiting polls go before it stops."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)


class Server:
    """The embedded server on a port of this machine.

    Args:
        settings: How it behaves; None is the default server.
        app: An application to serve instead of a new one.

    Example:
        >>> with Server() as server:
        ...     server.url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(self, settings: Settings | None = None, *, app: App | None = None) -> None:
        self.app = app or create_app(settings)
        self.settings = self.app.settings
        self._socket: socket.socket | None = None
        self._uvicorn: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.url = ""

    @property
    def log(self) -> RequestLog:
        """Return what the server saw and did."""
        return self.app.log

    @property
    def faults(self) -> FaultPlan:
        """Return the misbehaviour in force."""
        return self.app.faults

    @property
    def state(self) -> World:
        """Return everything the server remembers."""
        return self.app.world

    def start(self) -> Self:
        """Bind the port and serve from a thread."""
        ready = threading.Event()
        self._bind()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="tinker-ext-server", daemon=True
        )
        self._thread.start()
        ready.wait(30)
        return self

    def stop(self) -> None:
        """End all connections and give the port back."""
        if self._uvicorn is not None:
            self._uvicorn.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=10)
        self.app.close()
        if self._socket is not None:
            self._socket.close()

    def serve_forever(self, on_ready: Callable[[str], object] | None = None) -> None:
        """Serve from this thread until interrupted.

        Args:
            on_ready: Called with the URL once requests are answered.
        """
        self._bind()

        def ready() -> None:
            if on_ready is not None:
                on_ready(self.url)

        try:
            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(self._serve(ready))
        finally:
            self.app.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _bind(self) -> None:
        family = socket.AF_INET6 if ":" in self.settings.host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        # asyncio turns Nagle off only for sockets that name the protocol.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((self.settings.host, self.settings.port))
        self._socket.listen(2048)
        host, port = self._socket.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def _run(self, ready: threading.Event) -> None:
        asyncio.run(self._serve(ready.set))

    async def _serve(self, on_ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            self.app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            loop="asyncio",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=2,
            server_header=False,
            date_header=False,
        )
        self._uvicorn = _Uvicorn(config, on_ready, self.app.world.promises.close)
        await self._uvicorn.serve(sockets=[self._socket] if self._socket else None)


def serve(
    settings: Settings | None = None, on_ready: Callable[[str], object] | None = None
) -> None:
    """Serve on a port until interrupted; `tinker-ext serve` is this function.

    Args:
        settings: How the server behaves.
        on_ready: Called with the URL once requests are answered.
    """
    Server(settings).serve_forever(on_ready)
