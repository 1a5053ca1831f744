"""Replies whose framing is wrong, over a real socket: lengths, chunks, trailers, heads, cuts."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Iterator

import orjson

MODELS = ["tinker-ext/a", "tinker-ext/b"]
BODY = orjson.dumps({"supported_models": [{"model_name": name} for name in MODELS]})
ODD_LINES = (
    b"Retry-After: 9" + b"9" * 300,
    b"Date: Mon, 01 Jan 0001 00:00:00 +2359",
    b"Content-Length: -1",
    b"Content-Length: 1e3",
    b"Content-Length: +5",
    b"Content-Length: 99999999999999999999999",
    b"Content-Length: 3\r\nContent-Length: 4",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: nonsense",
    b"Trailer: Content-Length",
    b"no colon here",
    b": no name",
    b"X-Nul: a\x00b",
    b"X-Latin: \xe9\xff",
    b" folded: line",
    b"X-Long: " + b"x" * 70_000,
    b"\r\n".join(b"X-Many-%d: y" % i for i in range(3000)),
    b"Connection: close, keep-alive",
    b"Upgrade: websocket",
    b"Content-Encoding: zstd",
)


def reply(rng: random.Random) -> bytes:
    """The bytes of one reply: right, odd or wrong, by a seed's generator."""
    status = rng.choice((b"200 OK",) * 8 + (b"200", b"200 " + b"x" * 9000, b"2x0 OK", b"099 x"))
    lines = [rng.choice((b"HTTP/1.1 ",) * 9 + (b"HTTP/1.0 ", b"HTTP/9.9 ", b"ICY ")) + status]
    lines.append(b"Content-Type: application/json")
    chunked = rng.random() < 0.5
    body = _chunked(rng) if chunked else BODY
    if chunked:
        lines.append(b"Transfer-Encoding: chunked")
        if rng.random() < 0.1:
            lines.append(b"Content-Length: %d" % len(BODY))
    else:
        length = len(BODY) + rng.choice((0, 0, 0, 0, -1, 1, -len(BODY), 10**6, 10**15))
        lines.append(b"Content-Length: %d" % length)
    for _ in range(rng.choice((0, 0, 1, 2))):
        lines.insert(rng.randrange(1, len(lines) + 1), rng.choice(ODD_LINES))
    early = b"HTTP/1.1 100 Continue\r\n\r\n" * rng.choice((0,) * 9 + (1, 3, 5000))
    whole = early + b"\r\n".join(lines) + b"\r\n\r\n" + body
    if rng.random() < 0.15:
        whole = whole[: rng.randrange(len(whole))]
    if rng.random() < 0.1:
        whole += rng.randbytes(rng.choice((1, 10, 5000)))
    return whole


def _chunked(rng: random.Random) -> bytes:
    cuts = sorted(rng.sample(range(1, len(BODY)), rng.randrange(4)))
    pieces = [BODY[a:b] for a, b in zip([0, *cuts], [*cuts, len(BODY)], strict=True)]
    parts = []
    for piece in pieces:
        size = b"%x" % len(piece)
        if rng.random() < 0.08:
            odd = (b"-1", b"zz", b"f" * 40, b"0x5", b"", b" 5", size + b";ext=" + b"x" * 5000)
            size = rng.choice(odd)
        parts.append(size + b"\r\n" + piece + rng.choice((b"\r\n",) * 20 + (b"", b"\n", b"xx")))
    trailers = rng.choice(
        (
            b"",
            b"",
            b"",
            b"X-Sum: 1\r\n",
            b"Content-Length: 5\r\n",
            b"Retry-After: 5\r\n" * 3,
            b"no colon\r\n",
            b"X: " + b"y" * 200_000 + b"\r\n",
            b"".join(b"X-%d: y\r\n" % i for i in range(20_000)),
        )
    )
    return b"".join(parts) + b"0\r\n" + trailers + b"\r\n"


class RawServer:
    """Answers every request on 127.0.0.1 with the bytes it is told, then closes.

    Example:
        with RawServer() as server:
            server.answer = b"HTTP/1.1 204 No Content\\r\\n\\r\\n"
    """

    def __init__(self) -> None:
        self.answer = b""
        self.requests = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> RawServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(300)

    def _serve(self) -> None:
        for connection in self._connections():
            with connection, contextlib.suppress(OSError):
                connection.settimeout(5)
                self._take(connection)
                self.requests += 1
                connection.sendall(self.answer)

    def _connections(self) -> Iterator[socket.socket]:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            yield connection

    def _take(self, connection: socket.socket) -> None:
        """Read one request with its body."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        wanted = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                wanted = int(line.partition(b":")[2])
        while len(body) < wanted:
            piece = connection.recv(65536)
            if not piece:
                return
            body += piece
