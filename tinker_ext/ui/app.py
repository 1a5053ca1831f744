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
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from tinker_ext.observe.index import readable
from tinker_ext.ui.folder import Folder
from tinker_ext.ui.shown import Shown

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

Question = Callable[[QueryParams], dict[str, Any]]
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
            logs = self.folder.logs.values()
            behind = changed and any(each.size > each.offset + 4096 for each in logs)
            await asyncio.sleep(0 if behind else pause)

    def events(self) -> Response:
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

    async def answer(self, request: Request, question: Question) -> Response:
        """What a question is answered with, as JSON."""
        async with self._lock:
            body = await asyncio.to_thread(lambda: orjson.dumps(question(request.query_params)))
        return Response(body, media_type="application/json")

    def runs(self, _: QueryParams) -> dict[str, Any]:
        """All runs."""
        now = time.time()
        rows = [_row(name, shown, now) for name, shown in self.folder.logs.items()]
        return {"folder": readable(self.folder.place), "now": now, "runs": rows}

    def run(self, asked: QueryParams) -> dict[str, Any]:
        """One run, but for its curves."""
        name, now = self._name(asked), time.time()
        samples = len(self.folder.samples[name].rows)
        return self.folder.logs[name].details(now) | {"id": name, "now": now, "samples": samples}

    def curves(self, asked: QueryParams) -> dict[str, Any]:
        """Curves of some metrics, for some runs, thinned out."""
        try:
            low, high = float(asked.get("low", "-inf")), float(asked.get("high", "inf"))
            points = max(2, min(int(asked.get("points", 600)), 4000))
        except ValueError:
            raise _refusal(400, "low, high and points must be numbers.") from None
        lines = [
            {"id": name, "metric": metric, "target": target,
             "rows": steps.curve(metric, asked.get("x", "step"), low, high, points)}
            for name in asked.getlist("id")[:12]
            if name in self.folder.logs
            for shown in [self.folder.logs[name].tail or self.folder.logs[name]]
            for target, steps in list(shown.steps.items())[-MOST_MODELS:]
            for metric in asked.getlist("metric")[:12]
        ]  # fmt: skip
        return {"lines": lines}

    def samples(self, asked: QueryParams) -> dict[str, Any]:
        """The prompts that a run has recorded samples of, and what was sampled for one."""
        samples = self.folder.samples[self._name(asked)]
        prompts = samples.prompts(asked.get("text", ""))
        chosen = asked.get("prompt") or (prompts[0]["prompt_id"] if prompts else "")
        return {"prompts": prompts, "prompt": chosen, "records": samples.records(chosen)}

    def _name(self, asked: QueryParams) -> str:
        name = asked.get("id", "")
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
    questions: tuple[Question, ...] = (page.runs, page.run, page.curves, page.samples)
    asked = {f"/api/{question.__name__}": question for question in questions}

    def is_right(given: str | None) -> bool:
        return hmac.compare_digest((given or "").encode(), token.encode())

    async def answer(request: Request) -> Response:
        path, is_ours = request.scope["path"], False
        with suppress(ValueError):  # of a name, which is not an address
            host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
            is_ours = host in hosts or ("*" in hosts and bool(ipaddress.ip_address(host)))
        if not is_ours:
            raise _refusal(421, "This page answers to its own address only; use the one printed.")
        if is_right(request.query_params.get("token")):
            response: Response = RedirectResponse(path if path in asked else "/", 303)
            response.set_cookie(cookie, token, httponly=True, samesite="strict", max_age=2592000)
        elif not is_right(request.cookies.get(cookie)):
            raise _refusal(403, "Open the whole address that was printed: it has a token.")
        elif path == "/api/events":
            response = page.events()
        elif path in asked:
            response = await page.answer(request, asked[path])
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


def _row(name: str, shown: Shown, now: float) -> orjson.Fragment:
    try:
        return orjson.Fragment(orjson.dumps(shown.summary(now) | {"id": name}))
    except Exception as error:  # one odd log must not take the others away
        log.debug("The log of %s cannot be shown.", name, exc_info=True)
        reason = f"its log cannot be shown ({type(error).__name__})"
        row = {"id": name, "state": "unreadable", "reason": reason, "spark": [], "notes": []}
        return orjson.Fragment(orjson.dumps(row))
