"""What an error remembers of an HTTP reply: plain parts that hold no credential.

A pickled `httpx.Request` would carry the API key in its headers, so errors keep the method and
URL of a request, and status, headers and body of a reply, and rebuild httpx objects on demand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import httpx

# The body is stored decoded, so headers about its coding would be wrong; cookies are secrets.
_DROPPED_HEADERS = frozenset(
    {"content-encoding", "content-length", "transfer-encoding", "set-cookie"}
)
_LONGEST_BODY_SHOWN = 2000
_USER_IN_URL = re.compile(r"(?<=://)[^/@]*@")


class RequestParts(NamedTuple):
    """Method and URL of a request, without user and password."""

    method: str
    url: str

    @classmethod
    def of(cls, method: str, url: str) -> RequestParts:
        """Parts with any user and password cut from the URL."""
        return cls(method, _USER_IN_URL.sub("", url))


class ReplyParts(NamedTuple):
    """Status, headers, decoded body and request of a reply."""

    status: int
    headers: dict[str, str]
    content: bytes
    request: RequestParts | None

    @classmethod
    def of(
        cls, status: int, headers: Mapping[str, str], content: bytes, request: RequestParts | None
    ) -> ReplyParts:
        """Parts with lower-case header names and without headers that must not be kept."""
        lower = {name.lower(): value for name, value in headers.items()}
        kept = {name: value for name, value in lower.items() if name not in _DROPPED_HEADERS}
        return cls(status, kept, content, request)


def request_parts(request: httpx.Request | RequestParts | None) -> RequestParts | None:
    """The parts of a request."""
    if request is None or isinstance(request, RequestParts):
        return request
    return RequestParts.of(request.method, str(request.url))


def reply_parts(response: httpx.Response | ReplyParts) -> ReplyParts:
    """The parts of a reply."""
    if isinstance(response, ReplyParts):
        return response
    content = response.content if response.is_closed else b""
    request = request_parts(request_of(response))
    return ReplyParts.of(response.status_code, response.headers, content, request)


def request_of(response: httpx.Response | ReplyParts) -> httpx.Request | RequestParts | None:
    """The request a reply belongs to, when it knows it."""
    if isinstance(response, ReplyParts):
        return response.request
    try:
        return response.request
    except RuntimeError:  # httpx raises it for a response built by hand
        return None


def decode_body(body: object) -> tuple[bytes, object]:
    """Raw and decoded form of an error body; JSON when it is, else text, else None."""
    if body is None:
        return b"", None
    if isinstance(body, str):
        body = body.encode()
    if isinstance(body, (bytes, bytearray, memoryview)):
        content = bytes(body)
        try:
            return content, json.loads(content)
        except (ValueError, RecursionError):
            return content, content.decode("utf-8", "replace") or None
    return json.dumps(body, default=str).encode(), body


def describe_body(decoded: object) -> str:
    """The words of the server in an error body, cut to a readable length."""
    if decoded is None:
        return "the server gave no reason"
    if isinstance(decoded, dict) and len(decoded) == 1:
        (only,) = decoded.values()
        decoded = only if isinstance(only, str) else decoded
    text = decoded if isinstance(decoded, str) else str(decoded)
    if len(text) <= _LONGEST_BODY_SHOWN:
        return text
    return f"{text[:_LONGEST_BODY_SHOWN]}… ({len(text)} characters)"
