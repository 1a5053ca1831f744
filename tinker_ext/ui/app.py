"""The server of the page: a folder's runs as JSON, changes as server-sent events, and who may look.

Whoever opens the printed address once gets a cookie; nothing is answered without it, nor to a name
that is not this server's own, so neither another user of the machine nor a web page can look in.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tinker_ext.ui.folder import Folder
from tinker_ext.ui.index import names_of, thinned

log = logging.getLogger("tinker_ext")

STATIC = Path(__file__).parent / "static"
FILES = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/chart.js": ("chart.js", "text/javascript"),
    "/style.css": ("style.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

REFRESH_SECONDS = 0.5
POINTS = 600
MOST_MODELS = 8
"""Models of one log whose curves are drawn; the newest."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Guard:
    """Lets nobody in who does not know the token, and answers to this server's names only.

    Args:
        app: What is guarded.
        token: In the printed address.
        hosts: Names that a request may be for; every IP address when it has `*`, since only a
            name can be made to point elsewhere.
        cookie: Name of the cookie.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: tuple[str, ...], cookie: str) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        response = self._check(request)
        if response is not None:
            response.headers.update(HEADERS)
            await response(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                known = {name for name, _ in message["headers"]}
                message["headers"] += [
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in known
                ]
            await send(message)

        await self._app(scope, receive, with_headers)

    def _check(self, request: Request) -> Response | None:
        name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        if not (name in self._hosts or ("*" in self._hosts and _is_address(name))):
            return _text(421, "This page answers to its own address only; use the one printed.")
        if request.method not in ("GET", "HEAD"):
            return _text(405, "This page only shows; there is nothing to send to it.")
        given = request.query_params.get("token")
        if given is not None and self._is_right(given):
            response = RedirectResponse(request.url.path, 303)
            response.set_cookie(
                self._cookie, self._token, httponly=True, samesite="strict", max_age=30 * 86400
            )
            return response
        if not self._is_right(request.cookies.get(self._cookie, "")):
            return _text(
                403, "Open the whole address that `tinker-ext ui` printed, with its token."
            )
        return None

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


class Page:
    """What the routes answer, from one folder that a background task keeps up to date."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._listeners: dict[asyncio.Event, dict[str, int]] = {}
        self._lock = asyncio.Lock()

    async def follow(self) -> None:
        """Read the logs on, for ever."""
        while True:
            try:
                async with self._lock:
                    changed = await asyncio.to_thread(self.folder.refresh)
            except Exception:  # one odd file must not stop the others
                log.exception("The logs could not be read on; trying again.")
                changed = {}
            for woken, news in self._listeners.items():
                news |= changed
                if news:
                    woken.set()
            busy = any(each.size > each.offset + 4096 for each in self.folder.logs.values())
            await asyncio.sleep(0.01 if busy else REFRESH_SECONDS)

    async def events(self, request: Request) -> Response:
        """Tell which runs have changed, as it happens."""
        woken = asyncio.Event()
        news = self._listeners[woken] = {}

        async def stream() -> AsyncIterator[bytes]:
            try:
                yield b"retry: 1000\nevent: hello\ndata: {}\n\n"
                while True:
                    try:
                        await asyncio.wait_for(woken.wait(), 15)
                    except TimeoutError:
                        yield b": still here\n\n"
                        continue
                    data = orjson.dumps(news)
                    news.clear()
                    woken.clear()
                    yield b"data: " + data + b"\n\n"
            finally:
                self._listeners.pop(woken, None)

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def runs(self, _: Request) -> Response:
        """All runs."""
        async with self._lock:
            names = list(self.folder.logs)
            rows = await asyncio.to_thread(lambda: [self.folder.summary(name) for name in names])
        rows.sort(key=lambda row: -(row["updated"] or 0))
        return _json({"folder": str(self.folder.place), "now": time.time(), "runs": rows})

    async def run(self, request: Request) -> Response:
        """One run, but for its curves."""
        name = request.query_params.get("id", "")
        async with self._lock:
            found = self.folder.logs.get(name)
            if found is None:
                return _json({"error": "There is no such run in this folder."}, 404)
            body = self.folder.summary(name) | {
                "now": time.time(),
                "session": found.session,
                "client": found.client,
                "lines": found.lines,
                "targets": list(found.steps),
                "metrics": names_of([found]),
                "calls": found.calls(),
                "minutes": thinned(found.minutes),
                "retries": list(found.retries)[::-1],
                "outcomes": list(found.outcomes)[::-1],
                "reasons": found.reasons.most_common(20),
                "effects": found.effects,
                "totals": found.totals,
                "budget": found.budget,
            }
            return _json(body)

    async def curves(self, request: Request) -> Response:
        """Curves of one metric, for several runs, thinned out."""
        asked = request.query_params
        names = asked.getlist("id")[:12]
        metric, x = asked.get("metric", "loss/token"), asked.get("x", "step")
        try:
            low, high = float(asked.get("low", "-inf")), float(asked.get("high", "inf"))
            points = max(2, min(int(asked.get("points", POINTS)), 4000))
        except ValueError:
            return _json({"error": "low, high and points must be numbers."}, 400)
        async with self._lock:
            lines = [
                {"id": name, "target": target, "rows": steps.curve(metric, x, low, high, points)}
                for name in names
                if name in self.folder.logs
                for target, steps in list(self.folder.logs[name].steps.items())[-MOST_MODELS:]
            ]
        return _json({"metric": metric, "lines": lines})

    async def prompts(self, request: Request) -> Response:
        """The prompts that a run has recorded samples of."""
        samples = self.folder.samples.get(request.query_params.get("id", ""))
        if samples is None:
            return _json({"error": "There is no such run in this folder."}, 404)
        async with self._lock:
            return _json({"prompts": samples.prompts(request.query_params.get("text", ""))})

    async def samples(self, request: Request) -> Response:
        """What was sampled for one prompt."""
        samples = self.folder.samples.get(request.query_params.get("id", ""))
        if samples is None:
            return _json({"error": "There is no such run in this folder."}, 404)
        async with self._lock:
            return _json({"records": samples.records(request.query_params.get("prompt", ""))})


def make(folder: Path, token: str, hosts: tuple[str, ...] = LOOPBACK, name: str = "") -> ASGIApp:
    """Make the application.

    Args:
        folder: Whose runs are shown.
        token: Who knows it may look.
        hosts: Names under which it is reached.
        name: Tells the cookies of several pages on one machine apart.
    """
    page = Page(Folder(folder))

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(page.follow())
        yield
        task.cancel()

    answers: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "/api/events": page.events,
        "/api/runs": page.runs,
        "/api/run": page.run,
        "/api/curves": page.curves,
        "/api/prompts": page.prompts,
        "/api/samples": page.samples,
    }
    routes = [Route(path, answer, methods=["GET"]) for path, answer in answers.items()]
    routes += [Route(path, _file(*where), methods=["GET"]) for path, where in FILES.items()]
    app = Starlette(routes=routes, lifespan=life)
    return Guard(app, token, hosts, f"tinker_ext_ui_{name}")


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = (STATIC / name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


def _json(body: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status, media_type="application/json")


def _text(status: int, text: str) -> Response:
    return Response(f"{text}\n", status, media_type="text/plain")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
