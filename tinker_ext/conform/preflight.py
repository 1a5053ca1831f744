"""Whether there is a Tinker server to judge at all: one clear sentence within ten seconds.

The transport and its retries stay out of this: a first look must not wait for a server to come
back, nor ask again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import attrs
import httpx

from tinker_ext import _statuses as statuses
from tinker_ext._transport.retry import DEFAULT_TIMING
from tinker_ext.core.server import foreign
from tinker_ext.errors import GATE_HINT, is_page

SECONDS = DEFAULT_TIMING.first_window
"""Time for both requests, so that the verdict is there within ten seconds, the start included."""


class CannotJudge(Exception):
    """There is no server whose behaviour could be judged; the text says in a sentence why."""


@attrs.frozen
class Look:
    """What a first look found.

    Attributes:
        health: Status of healthz.
        models: Names of the served models.
        date: The server's Date header.
    """

    health: int
    models: tuple[str, ...]
    date: str | None = None


def look(
    url: str,
    headers: Mapping[str, str] | None = None,
    seconds: float | None = None,
    *,
    needs_access: bool = True,
) -> Look:
    """Ask for health and models, once each.

    Args:
        url: Base URL of the server.
        headers: Credentials and the like.
        seconds: Time for both requests, from name to last byte; 6 by default.
        needs_access: Whether a refused key is a reason to stop; else the models stay unknown.

    Raises:
        CannotJudge: The server is down, too slow, or is not a Tinker server.
    """
    # A thread of its own, since the caller may be inside an event loop.
    limit = SECONDS if seconds is None else seconds
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        work = pool.submit(
            lambda: asyncio.run(_look(url.rstrip("/"), headers, limit, needs_access))
        )
        return work.result()


async def _look(
    url: str, headers: Mapping[str, str] | None, seconds: float, needs_access: bool
) -> Look:
    async with httpx.AsyncClient(headers=dict(headers or {}), timeout=seconds) as http:
        end = asyncio.get_running_loop().time() + seconds
        health = await _get(http, url, "healthz", seconds, end)
        listed = await _get(http, url, "get_server_capabilities", seconds, end)
    if listed.status_code in statuses.CREDENTIAL_REFUSED:
        if not needs_access:
            return Look(health.status_code, (), health.headers.get("date"))
        if is_page(listed.content):
            said = foreign(url, listed.status_code, listed.headers, listed.content)
            raise CannotJudge(f"{said} {GATE_HINT}")
        raise CannotJudge(
            f"{url} refuses the API key (HTTP {listed.status_code}); set TINKER_API_KEY."
        )
    if listed.has_redirect_location:
        onward = urlsplit(listed.headers["location"])
        place = f"{onward.scheme}://{onward.netloc}" if onward.netloc else "another path"
        raise CannotJudge(f"{url} redirects to {place!r}; give the final address as base URL.")
    models = _models(listed)
    if models is None:
        said = foreign(url, listed.status_code, listed.headers, listed.content)
        where = "" if listed.status_code >= 500 else " The base URL ends before /api/v1."
        raise CannotJudge(said + where)
    return Look(health.status_code, models, health.headers.get("date"))


async def _get(
    http: httpx.AsyncClient, url: str, path: str, seconds: float, end: float
) -> httpx.Response:
    try:
        async with asyncio.timeout_at(end):
            return await http.get(f"{url}/api/v1/{path}")
    except (TimeoutError, httpx.TimeoutException):
        raise CannotJudge(f"{url} did not answer GET api/v1/{path} within {seconds:g} s.") from None
    except httpx.ConnectError as error:
        raise CannotJudge(f"{url} cannot be reached: {_reason(error)}.") from None
    except (httpx.RemoteProtocolError, httpx.DecodingError) as error:
        scheme = urlsplit(url).scheme
        raise CannotJudge(f"{url} does not speak {scheme.upper()}: {_reason(error)}.") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
        raise CannotJudge(f"{url} cannot be asked: {_reason(error)}.") from None


def _models(reply: httpx.Response) -> tuple[str, ...] | None:
    try:
        value: Any = reply.json()
    except (ValueError, RecursionError):
        return None
    if not reply.is_success or not isinstance(value, dict) or "supported_models" not in value:
        return None
    listed = value["supported_models"] or []
    return tuple(str(m.get("model_name")) for m in listed if isinstance(m, dict))


def _reason(error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed ({cause.reason or cause})"
        cause = cause.__cause__ or cause.__context__
    return str(error).rstrip(".") or type(error).__name__
