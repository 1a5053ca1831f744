"""The headers of a request: common ones, a call's own, the idempotency key and the credential."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tinker_ext._transport.channel import RawReply
from tinker_ext._transport.inflate import ACCEPT_ENCODING
from tinker_ext._transport.messages import Call
from tinker_ext._transport.origin import encode_header
from tinker_ext._version import __version__
from tinker_ext.config import Concealed

_KEY = "X-API-Key: "
# Shorter ones are stand-ins such as "dummy", and might be words of an ordinary reply.
_SHORTEST_SECRET = 16
_SEARCHED_BYTES = 65_536


class Credentials(Protocol):
    """Gives the value of X-API-Key; see `tinker_ext.auth`."""

    @property
    def fingerprint(self) -> str:
        """A digest that tells credentials apart without showing them."""
        ...

    async def header(self) -> str | None:
        """Return the value, or None to send no key."""
        ...


class HeaderBlock:
    """Builds the header lines of each attempt; the parts that never change are encoded once.

    Args:
        credentials: Asked for each attempt, since a token may have been renewed meanwhile.
        extra: Headers of every call; they replace ours of the same name.

    Raises:
        ConfigurationError: A name or value that would break out of its line.
    """

    def __init__(
        self, credentials: Credentials | None, extra: Iterable[tuple[str, str]] = ()
    ) -> None:
        self._credentials = credentials
        self._common = {
            "accept": ("Accept", "application/json"),
            "content-type": ("Content-Type", "application/json"),
            "user-agent": ("User-Agent", f"tinker-ext/{__version__}"),
            "accept-encoding": ("Accept-Encoding", ACCEPT_ENCODING),
        }
        self._common.update((name.lower(), (name, value)) for name, value in extra)
        self._for_body = _lines(self._common.values())
        self._for_get = _lines(
            pair for name, pair in self._common.items() if name != "content-type"
        )
        self._key_line: tuple[str | None, str] = (None, "")
        # Common lines that are left when a call brings others; few different sets of names occur.
        self._remaining: dict[tuple[str, ...], tuple[str, bool]] = {}

    def _without(self, names: tuple[str, ...]) -> tuple[str, bool]:
        method, *own = names
        replaced = {name.lower() for name in own}
        if method == "GET":
            replaced.add("content-type")
        kept = (pair for name, pair in self._common.items() if name not in replaced)
        return _lines(kept), "x-api-key" in replaced

    async def build(self, call: Call, earlier: int, idempotency_key: str | None) -> Concealed:
        """Return all lines but Host and Content-Length, each ending in CRLF."""
        own_key = False
        if call.headers:
            names = (call.method, *[name for name, _ in call.headers])
            known = self._remaining.get(names)
            if known is None:
                known = self._remaining[names] = self._without(names)
            block, own_key = known
            for name, value in call.headers:
                block += encode_header(name, value)
        else:
            block = self._for_get if call.method == "GET" else self._for_body
        if idempotency_key is not None:
            block += encode_header("X-Idempotency-Key", idempotency_key)
        if earlier:
            block += f"X-Stainless-Retry-Count: {earlier}\r\n"
        # A call with a key of its own is the one that exchanges it: asking here would wait for it.
        if self._credentials is not None and not own_key:
            given = await self._credentials.header()
            secret = None if given is None else Concealed(given)
            if secret != self._key_line[0]:
                self._key_line = (secret, encode_header("X-API-Key", secret) if secret else "")
            block += self._key_line[1]
        return Concealed(block)


def _lines(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(encode_header(name, value) for name, value in pairs)


def conceal(headers: str, raw: RawReply) -> RawReply:
    """Blank the key of a request wherever its reply repeats it.

    Some servers and proxies quote the key in an error, and errors are logged and pickled.

    Args:
        headers: The lines that were sent.
        raw: Status, headers and body of the reply.
    """
    start = headers.find(_KEY)
    if start < 0:
        return raw
    key = headers[start + len(_KEY) : headers.find("\r\n", start)]
    if len(key) < _SHORTEST_SECRET:
        return raw
    status, fields, content = raw
    # A result of many megabytes is not an echo of its request.
    place = content if status >= 400 else content[:_SEARCHED_BYTES]
    secret = key.encode("latin-1")
    if secret in place:
        content = content.replace(secret, b"***")
    elif status < 400 or not any(key in value for value in fields.values()):
        return raw
    return status, {name: value.replace(key, "***") for name, value in fields.items()}, content


def forget_frames(error: BaseException) -> None:
    """Cut the frames below the caller from an error and its causes.

    They hold the bytes that were sent, and with them the key, for tools that print local variables.
    """
    each: BaseException | None = error
    while each is not None and each.__traceback__ is not None:
        each.__traceback__ = None
        each = each.__cause__ or each.__context__
