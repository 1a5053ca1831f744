"""One HTTP/1.1 connection: writes a request, reads one reply with llhttp, and can be used again.

Everything a server can send is bounded here: header bytes, body bytes, unpacked bytes. A reply that
is not exactly one well-formed message poisons the connection, which is then closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast
from weakref import WeakKeyDictionary

import httptools

import tinker_ext._statuses as statuses
from tinker_ext._transport.inflate import CorruptError, Inflater, TooLargeError, inflater_for
from tinker_ext._transport.messages import (
    ConnectionLostError,
    ExchangeTimeoutError,
    MalformedReplyError,
    ReplyTooLargeError,
    UnreadableReplyError,
)
from tinker_ext._wire.payload import Body

MAX_HEADER_BYTES = 64 * 1024
# Up to this size head and body leave in one write; above it, joining would copy too much.
_JOIN_BYTES = 64 * 1024

# The line before a chunk; longer ones carry extensions, which nobody uses.
_CHUNK_LINE_BYTES = 32

_READ_BYTES = 256 * 1024
# What arrives is parsed before anything else is read, so that one buffer serves all connections of
# a loop. With one made for every read, most of the time of a read went into making it.
_buffers: WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview] = WeakKeyDictionary()

RawReply = tuple[int, dict[str, str], bytes]

# Heads that the parser has read, each with what it found: status, headers and length of the body.
# A server says the same before most of its replies, and to parse that costs as much as all else
# that is done with the bytes of a small one.
_heads: dict[bytes, tuple[int, dict[str, str], int]] = {}
_MOST_HEADS = 128
_LONGEST_HEAD = 2048
_SMALL_BYTES = 16 * 1024


class Channel(asyncio.BufferedProtocol):
    """An open connection and the one exchange it carries at a time."""

    # Thousands of them are open while thousands of samples wait.
    __slots__ = (
        "_body",
        "_body_bytes",
        "_buffer",
        "_chunks",
        "_closed",
        "_done",
        "_error",
        "_head_only",
        "_headers",
        "_inflater",
        "_keep",
        "_limit",
        "_loop",
        "_parser",
        "_paused",
        "_received",
        "_status",
        "_transport",
        "_until_eof",
        "_unwritten",
        "_waiter",
        "alive",
        "idle_since",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        buffer = _buffers.get(loop)
        if buffer is None:
            buffer = _buffers[loop] = memoryview(bytearray(_READ_BYTES))
        self._buffer = buffer
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[RawReply] | None = None
        self._closed = loop.create_future()
        self._unwritten: Iterator[bytes | memoryview] | None = None
        self._paused = False
        self.alive = False
        self.idle_since = 0.0
        self._limit = self._received = self._status = self._body_bytes = self._chunks = 0
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._head_only = self._until_eof = self._done = self._keep = False
        self._inflater: Inflater | None = None
        self._error: Exception | None = None

    # --- used by the pool -------------------------------------------------------------------

    def start(
        self, head: bytes, body: bytes | Body | None, limit: int, *, head_only: bool = False
    ) -> asyncio.Future[RawReply]:
        """Write a request and return the future of its reply; at most `limit` bytes of body."""
        assert self._transport is not None
        assert self._waiter is None
        # All else is as it was made: what changes it also ends the connection, or clears it.
        self._limit = limit
        self._received = 0
        if head_only:
            self._head_only = True
        waiter: asyncio.Future[RawReply] = asyncio.Future(loop=self._loop)
        self._waiter = waiter
        if type(body) is bytes and len(body) <= _JOIN_BYTES:
            self._transport.write(head + body)
        elif body is None:
            self._transport.write(head)
        elif isinstance(body, Body):
            self._transport.write(head)
            self._unwritten = iter(body)
            self._write_on()
        else:
            self._transport.write(head)
            self._transport.write(memoryview(body))  # what does not fit is copied once, not twice
        return waiter

    def _write_on(self) -> None:
        """Write blocks until the socket takes no more; `resume_writing` goes on."""
        while self._unwritten is not None and not self._paused and self._transport is not None:
            block = next(self._unwritten, None)
            if block is None:
                self._unwritten = None
            else:
                self._transport.write(block)

    def expire(self, timeout: float) -> None:
        """End the exchange under way with a timeout."""
        message = f"no complete reply within {timeout:.3g} s"
        self._fail(ExchangeTimeoutError(message, sent=True if self._received else None))

    def abort(self) -> None:
        """Close at once, without waiting for anything."""
        self.alive = False
        self._unwritten = None
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Return when the socket is gone."""
        await asyncio.shield(self._closed)

    # --- called by the event loop -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the open connection."""
        self._transport = cast("asyncio.Transport", transport)  # other loops have their own class
        self.alive = True

    def pause_writing(self) -> None:
        """Stop: the socket is behind."""
        self._paused = True

    def resume_writing(self) -> None:
        """Go on with the body."""
        self._paused = False
        self._write_on()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Read bytes of the reply."""
        parser = self._parser
        if self._waiter is None or parser is None:
            self.abort()  # nobody asked: what follows could answer the next request
            return
        data: bytes | memoryview = self._buffer[:nbytes]
        if nbytes <= _SMALL_BYTES and not self._received:
            data = bytes(data)
            head = data[: data.find(b"\r\n\r\n") + 4]
            found = _heads.get(head)
            if (
                found is not None
                and len(head) + found[2] == nbytes
                and found[2] <= self._limit
                and not self._head_only
            ):
                self._deliver(found[0], found[1], data[len(head) :])
                return
        if not self._received:
            self._status = self._body_bytes = self._chunks = 0
            self._headers = {}
            self._done = self._keep = False
        self._received = received = self._received + nbytes
        if received > MAX_HEADER_BYTES + nbytes and self._status < 200:
            self._fail(ReplyTooLargeError(f"the reply's headers exceed {MAX_HEADER_BYTES} bytes"))
            return
        try:
            parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            self._fail(self._error or MalformedReplyError("the reply could not be read"))
            return
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            what = "more bytes than its length says" if self._done else str(error)
            self._fail(MalformedReplyError(f"the reply is not well-formed HTTP: {what}"))
            return
        # What is neither head nor body: the sizes of chunks, their extensions, and trailers.
        beside = received - self._body_bytes
        if beside > 2 * MAX_HEADER_BYTES + nbytes + self._chunks * _CHUNK_LINE_BYTES:
            self._fail(ReplyTooLargeError(f"the reply's trailers exceed {MAX_HEADER_BYTES} bytes"))
        elif self._done:
            if type(data) is bytes and self._keep:
                self._remember(data)
            self._deliver_parsed()

    def _remember(self, data: bytes) -> None:
        """Keep the head of a reply that came whole, if only its length says where it ends."""
        headers, length = self._headers, self._body_bytes
        head = data[: len(data) - length]
        if (
            headers.get("content-length") == str(length)
            and "content-encoding" not in headers
            and len(head) <= _LONGEST_HEAD
        ):
            if len(_heads) >= _MOST_HEADS:
                _heads.clear()
            _heads[head] = self._status, headers, length

    def connection_lost(self, exc: Exception | None) -> None:
        """Settle an exchange that the end of the connection interrupts or completes."""
        self.alive = False
        self._transport = None
        self._unwritten = None
        if self._waiter is not None:
            if self._until_eof and exc is None:
                self._finish_body()
                if self._error is None:
                    self._deliver_parsed()
                else:
                    self._fail(self._error)
            elif self._received:
                self._fail(MalformedReplyError("the connection ended in the middle of the reply"))
            else:
                reason = f": {exc}" if exc is not None and str(exc) else ""
                self._fail(
                    ConnectionLostError(f"the server closed the connection unanswered{reason}")
                )
        self._parser = None  # it holds bound methods of ours: break the cycle
        if not self._closed.done():
            self._closed.set_result(None)

    # --- called by the parser ---------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Refuse a second reply to one request."""
        if self._done:
            self._stop(MalformedReplyError("the reply has more bytes than its length says"))

    def on_chunk_header(self) -> None:
        """Count the chunks of a body."""
        self._chunks += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one header; trailers after the body mean nothing here (RFC 9110 §6.5.1)."""
        if self._status >= 200:
            return
        key, text, headers = name.decode("latin-1").lower(), value.decode("latin-1"), self._headers
        headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        """Decide how the body will be read."""
        self._status = status = self._parser.get_status_code()
        if status < 200:
            return
        headers = self._headers
        length = headers.get("content-length")
        if length is None:
            coding = headers.get("transfer-encoding", "")
            self._until_eof = "chunked" not in coding.lower() and status not in (204, 304)
        elif length.isdigit() and int(length) > self._limit and not self._head_only:
            self._stop(self._too_large(f"{length} bytes are announced"))
        if self._head_only:
            self._done = True
            self._until_eof = False
            return
        coding = headers.get("content-encoding", "")
        if coding:
            try:
                self._inflater = inflater_for(coding, self._limit)
            except CorruptError as error:
                self._stop(UnreadableReplyError(f"the reply cannot be unpacked: {error}"))

    def on_body(self, data: bytes) -> None:
        """Keep one piece of the body, unpacked."""
        self._body_bytes += len(data)
        if self._body_bytes > self._limit:
            self._stop(self._too_large("the body goes on"))
        if self._inflater is None:
            self._body.append(data)
        else:
            try:
                self._body.extend(self._inflater.feed(data))
            except TooLargeError:
                self._stop(self._too_large(f"{self._body_bytes} packed bytes unpack to more"))
            except CorruptError as error:
                self._stop(UnreadableReplyError(f"the reply cannot be unpacked: {error}"))

    def on_message_complete(self) -> None:
        """Close the message; an interim reply (1xx) only clears the way for the real one."""
        if self._status < 200:
            self._headers = {}
            return
        if self._inflater is not None:
            self._finish_body()
            self._inflater = None
            if self._error is not None:
                raise self._error
        # Servers often close a connection right after a 500, unannounced (uvicorn does); whatever
        # is sent next would be lost. And behind a balancer that keeps a connection at a server
        # which is down, another connection may reach one that is well.
        ends = self._head_only or self._status in statuses.FAILED
        self._keep = not ends and self._parser.should_keep_alive()
        self._done = True

    # --- ends of an exchange ----------------------------------------------------------------

    def _finish_body(self) -> None:
        if self._inflater is not None and self._body_bytes:
            try:
                self._inflater.finish()
            except CorruptError as error:
                self._error = UnreadableReplyError(f"the reply cannot be unpacked: {error}")

    def _too_large(self, why: str) -> ReplyTooLargeError:
        return ReplyTooLargeError(
            f"the reply is larger than the {self._limit} bytes allowed, or packed beyond reason: "
            f"{why}",
            self._status,
        )

    def _stop(self, error: Exception) -> None:
        self._error = error
        raise error

    def _deliver_parsed(self) -> None:
        body, self._body = self._body, []
        if not self._keep:
            self.alive = False
            if self._transport is not None:
                self._transport.close()
        content = body[0] if len(body) == 1 else b"".join(body)
        self._deliver(self._status, self._headers, content)

    def _deliver(self, status: int, headers: dict[str, str], content: bytes) -> None:
        waiter, self._waiter = self._waiter, None
        if self._unwritten is not None:  # answered before all of it was read
            self.abort()
        if waiter is not None and not waiter.done():
            waiter.set_result((status, headers, content))

    def _fail(self, error: Exception) -> None:
        waiter, self._waiter = self._waiter, None
        self._body = []
        self._error = None
        self.abort()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
