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
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from tinker_ext.ui.folder import Folder
from tinker_ext.ui.index import LogIndex, readable

log = logging.getLogger("tinker_ext")

STATIC = Path(__file__).parent / "static"
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
REFRESH_SECONDS = 0.2
MOST_MODELS = 8
"""Models of one log whose curves are drawn; the newest."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _refusal(status: int, text: str) -> HTTPException:
    return HTTPException(status, f"{text}\n", HEADERS)


class Page:
    """What the routes answer, from one folder that a background task keeps up to date."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._listeners: dict[asyncio.Event, set[str]] = {}
        self._lock = asyncio.Lock()

    async def follow(self) -> None:
        """Read the logs on, for ever."""
        while True:
            began, changed = time.monotonic(), []
            try:
                async with self._lock:
                    changed = await asyncio.to_thread(self.folder.refresh)
            except Exception:  # one odd file must not stop the others
                log.exception("The logs could not be read on; trying again.")
            for woken, news in self._listeners.items():
                news.update(changed)
                if news:
                    woken.set()
            # Looking at very many logs takes a fifth of the time, not more.
            pause = max(REFRESH_SECONDS, 4 * (time.monotonic() - began))
            behind = any(each.size > each.offset + 4096 for each in self.folder.logs.values())
            await asyncio.sleep(0.01 if behind else pause)

    async def events(self, _: Request) -> Response:
        """Tell which runs have changed, as it happens."""
        woken, news = asyncio.Event(), set[str]()
        self._listeners[woken] = news

        async def stream() -> AsyncIterator[bytes]:
            try:
                yield b"retry: 1000\nevent: hello\ndata: {}\n\n"
                while True:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(woken.wait(), 15)
                    data = orjson.dumps(sorted(news))
                    news.clear()
                    woken.clear()
                    yield b"data: " + data + b"\n\n"
            finally:
                self._listeners.pop(woken, None)

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def runs(self, _: Request) -> Response:
        """All runs."""
        now, logs = time.time(), self.folder.logs
        async with self._lock:
            rows = await asyncio.to_thread(lambda: [_row(name, logs[name], now) for name in logs])
        return _json({"folder": readable(self.folder.place), "now": now, "runs": rows})

    async def run(self, request: Request) -> Response:
        """One run, but for its curves."""
        name, now = self._name(request), time.time()
        async with self._lock:
            details = self.folder.logs[name].details(now)
            samples = len(self.folder.samples[name].rows)
        return _json(details | {"id": name, "now": now, "samples": samples})

    async def curves(self, request: Request) -> Response:
        """Curves of some metrics, for some runs, thinned out."""
        asked, x = request.query_params, request.query_params.get("x", "step")
        try:
            low, high = float(asked.get("low", "-inf")), float(asked.get("high", "inf"))
            points = max(2, min(int(asked.get("points", 600)), 4000))
        except ValueError:
            raise _refusal(400, "low, high and points must be numbers.") from None
        async with self._lock:
            lines = [
                {"id": name, "metric": metric, "target": target,
                 "rows": steps.curve(metric, x, low, high, points)}
                for name in asked.getlist("id")[:12]
                if name in self.folder.logs
                for shown in [self.folder.logs[name].tail or self.folder.logs[name]]
                for target, steps in list(shown.steps.items())[-MOST_MODELS:]
                for metric in asked.getlist("metric")[:12]
            ]  # fmt: skip
        return _json({"lines": lines})

    async def samples(self, request: Request) -> Response:
        """The prompts that a run has recorded samples of, and what was sampled for one."""
        samples, asked = self.folder.samples[self._name(request)], request.query_params
        async with self._lock:
            prompts = samples.prompts(asked.get("text", ""))
            chosen = asked.get("prompt") or (prompts[0]["prompt_id"] if prompts else "")
            records = samples.records(chosen)
        return _json({"prompts": prompts, "prompt": chosen, "records": records})

    def _name(self, request: Request) -> str:
        name = request.query_params.get("id", "")
        if name not in self.folder.logs:
            raise _refusal(404, "There is no such run in this folder.")
        return name


def make(folder: Path, token: str, hosts: tuple[str, ...] = LOOPBACK, name: str = "") -> Starlette:
    """Make the application.

    Args:
        folder: Whose runs are shown.
        token: Who knows it may look.
        hosts: Names under which it is reached; every IP address too when it has `*`, since only a
            name can be made to point elsewhere.
        name: Tells the cookies of several pages on one machine apart.
    """
    page, cookie = Page(Folder(folder)), f"tinker_ext_ui_{name}"
    files = {f"/{file.name}": file for file in STATIC.iterdir()} | {"/": STATIC / "index.html"}
    answers = (page.events, page.runs, page.run, page.curves, page.samples)
    routes = {f"/api/{answer.__name__}": answer for answer in answers}

    def is_right(given: str | None) -> bool:
        return hmac.compare_digest((given or "").encode(), token.encode())

    async def answer(request: Request) -> Response:
        path, host = request.scope["path"], None
        with suppress(ValueError):
            host = urlsplit(f"//{request.headers.get('host', '')}").hostname
        if not (host in hosts or ("*" in hosts and _is_address(host))):
            raise _refusal(421, "This page answers to its own address only; use the one printed.")
        if is_right(request.query_params.get("token")):
            response: Response = RedirectResponse(path if path in routes else "/", 303)
            response.set_cookie(cookie, token, httponly=True, samesite="strict", max_age=2592000)
        elif not is_right(request.cookies.get(cookie)):
            raise _refusal(403, "Open the whole address that was printed: it has a token.")
        elif path in routes:
            response = await routes[path](request)
        elif path in files:
            response = FileResponse(files[path])
        else:
            raise _refusal(404, "There is nothing here.")
        response.headers.update(HEADERS)
        return response

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(page.follow())
        yield
        task.cancel()

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET"])], lifespan=lifespan)


def _row(name: str, shown: LogIndex, now: float) -> orjson.Fragment:
    try:
        return orjson.Fragment(orjson.dumps(shown.summary(now) | {"id": name}))
    except Exception as error:  # one odd log must not take the others away
        log.debug("The log of %s cannot be shown.", name, exc_info=True)
        reason = f"its log cannot be shown ({type(error).__name__})"
        row = {"id": name, "state": "unreadable", "reason": reason, "spark": [], "notes": []}
        return orjson.Fragment(orjson.dumps(row))


def _json(body: Any) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")


def _is_address(name: str | None) -> bool:
    try:
        return bool(ipaddress.ip_address(name or ""))
    except ValueError:
        return False
