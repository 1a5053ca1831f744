"""Small values that only the official SDK's callers name: option types, sentinels, defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

import httpx

DEFAULT_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
DEFAULT_MAX_RETRIES = 10
DEFAULT_CONNECTION_LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=20)
INITIAL_RETRY_DELAY = 0.5
MAX_RETRY_DELAY = 10.0
ProxiesTypes: TypeAlias = (
    str | httpx.Proxy | dict[str | httpx.URL, str | httpx.URL | httpx.Proxy | None]
)


class NotGiven:
    """Type of `NOT_GIVEN`: an argument that was left out, as opposed to None."""

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN = NotGiven()


class Omit:
    """Stands for a default header that shall not be sent."""

    def __bool__(self) -> Literal[False]:
        return False


class RequestOptions(TypedDict, total=False):
    """Options of one low-level request."""

    headers: Mapping[str, str]
    max_retries: int
    timeout: float | httpx.Timeout | None
    params: Mapping[str, object]
    extra_json: Mapping[str, Any]
    idempotency_key: str
    follow_redirects: bool


def file_from_path(path: str) -> tuple[str, bytes]:
    """Read a file into the (name, content) pair that file uploads take."""
    file = Path(path)
    return file.name, file.read_bytes()
