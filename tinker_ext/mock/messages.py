"""Requests and replies as plain records, between raw ASGI messages and the handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import attrs
import orjson

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON = "application/json"
PROTOBUF = "application/x-protobuf"


class HttpError(Exception):
    """An answer other than success, raised anywhere below the app.

    Args:
        status: HTTP status code.
        detail: Text, or FastAPI's list of faults for 422.
        headers: Extra headers, such as `retry-after`.
    """

    def __init__(self, status: int, detail: Any, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


class Disconnected(Exception):
    """The caller went away before its request was complete."""


@attrs.define
class Request:
    """One HTTP request, body read, path matched.

    Attributes:
        body: Bytes after content decoding.
        json: Decoded JSON body, when there is one.
        params: Path parameters.
        query: Query parameters, converted to the types of the document.
        wire_size: Bytes of the body as it came, before decompression; 0 until it is read.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    query_string: str = ""
    template: str = ""
    json: Any = None
    params: dict[str, str] = attrs.field(factory=dict)
    query: dict[str, Any] = attrs.field(factory=dict)
    origin: str = ""
    replayed: bool = False
    wire_size: int = 0

    @property
    def content_type(self) -> str:
        """Return the media type without parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def accepts(self, media: str) -> bool:
        """Tell whether the Accept header names `media`."""
        return media in self.headers.get("accept", "")


@attrs.define
class Response:
    """One HTTP reply.

    Attributes:
        schema: Name of a closer schema than the document's, for checking the reply.
    """

    status: int = 200
    body: bytes = b""
    content_type: str | None = JSON
    headers: dict[str, str] = attrs.field(factory=dict)
    schema: str | None = None

    @classmethod
    def of(
        cls, value: Any, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Wrap a JSON value."""
        body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
        return cls(status, body, JSON, dict(headers or {}))

    @classmethod
    def empty(cls, status: int = 204) -> Response:
        """Return a reply without a body."""
        return cls(status, b"", None)

    @classmethod
    def error(cls, error: HttpError) -> Response:
        """Wrap an error as FastAPI does: `{"detail": …}`."""
        return cls.of({"detail": error.detail}, error.status, error.headers)

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """Return ASGI headers; Content-Length is always there (clients read a 400 by it)."""
        pairs = [
            (k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in self.headers.items()
        ]
        if self.content_type is not None:
            pairs.append((b"content-type", self.content_type.encode("latin-1")))
        if self.status != 204 and not any(name == b"content-length" for name, _ in pairs):
            pairs.append((b"content-length", str(len(self.body)).encode()))
        return pairs


async def read_body(receive: Receive, limit: int) -> bytes:
    """Collect the whole request body.

    Raises:
        Disconnected: The caller left before the body was complete.
        HttpError: 413 as soon as there is more than `limit` bytes; the rest is not read.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        part = bytes(message.get("body", b""))
        size += len(part)
        if size > limit:
            raise HttpError(413, f"the body has more than {limit} bytes", {"connection": "close"})
        if not parts and not message.get("more_body"):
            return part
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


async def send_response(send: Send, response: Response) -> None:
    """Send a reply in two ASGI messages."""
    await send(
        {
            "type": "http.response.start",
            "status": response.status,
            "headers": response.raw_headers(),
        }
    )
    await send({"type": "http.response.body", "body": response.body})
