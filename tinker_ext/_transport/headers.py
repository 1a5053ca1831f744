"""The headers of a request: common ones, a call's own, the idempotency key and the credential."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from tinker_ext._transport.channel import RawReply
from tinker_ext._transport.inflate import ACCEPT_ENCODING
from tinker_ext._transport.messages import Call
from tinker_ext._transport.origin import encode_header
from tinker_ext._version import __version__
from tinker_ext.config import Concealed

# Shorter ones are stand-ins such as "dummy", and might be words of an ordinary reply.
_SHORTEST_SECRET = 8
_SEARCHED_BYTES = 65_536
_RECENT_SECRETS = 16
_SECRET_NAMES = frozenset({"x-api-key", "authorization", "x-tinker-weights-access-token"})
_TOKEN = re.compile(rb'"weights_access_token"\s*:\s*"([^"\\]+)"')


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
        extra = tuple(extra)
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
        # What was sent and must not be shown: what the user gave for every request, which may be a
        # gateway's credential, and the last keys and tokens.
        self._given = tuple(secret for _, value in extra for secret in _secrets(value))
        self._recent: dict[str, None] = {}
        # Common lines that are left when a call brings others; few different sets of names occur.
        self._remaining: dict[tuple[str, ...], tuple[str, bool, bool]] = {}

    def _without(self, names: tuple[str, ...]) -> tuple[str, bool, bool]:
        method, *own = names
        replaced = {name.lower() for name in own}
        if method == "GET":
            replaced.add("content-type")
        kept = (pair for name, pair in self._common.items() if name not in replaced)
        return _lines(kept), "x-api-key" in replaced, not replaced.isdisjoint(_SECRET_NAMES)

    async def build(self, call: Call, earlier: int) -> Concealed:
        """Return all lines but Host and Content-Length, each ending in CRLF."""
        own_key = False
        if call.headers:
            names = (call.method, *[name for name, _ in call.headers])
            known = self._remaining.get(names)
            if known is None:
                known = self._remaining[names] = self._without(names)
            block, own_key, secret_names = known
            for name, value in call.headers:
                block += encode_header(name, value)
                if secret_names and name.lower() in _SECRET_NAMES:
                    self._remember(value)
        else:
            block = self._for_get if call.method == "GET" else self._for_body
        if call.idempotency_key is not None:
            block += encode_header("X-Idempotency-Key", call.idempotency_key)
        if earlier:
            block += f"X-Stainless-Retry-Count: {earlier}\r\n"
        # A call with a key of its own is the one that exchanges it: asking here would wait for it.
        if self._credentials is not None and not own_key:
            given = await self._credentials.header()
            if given != self._key_line[0]:
                secret = None if given is None else Concealed(given)
                self._key_line = (secret, encode_header("X-API-Key", secret) if secret else "")
                self._remember(secret or "")
            block += self._key_line[1]
        content = call.content
        # A large body is a batch of training data, and to search is faster than to match.
        if isinstance(content, bytes) and b"weights_access_token" in content[:_SEARCHED_BYTES]:
            for token in _TOKEN.findall(content):
                self._remember(token.decode("latin-1"))
        return Concealed(block)

    def _remember(self, value: str) -> None:
        for secret in _secrets(value):
            self._recent.pop(secret, None)
            self._recent[secret] = None
            if len(self._recent) > _RECENT_SECRETS:
                del self._recent[next(iter(self._recent))]

    def receive(self, raw: RawReply) -> RawReply:
        """Take a reply in: secrets of ours that it repeats are blanked, a 401 renews the key."""
        if raw[0] == 401 and self._key_line[0] is not None:
            refused = getattr(self._credentials, "refused", None)
            if refused is not None:
                refused(self._key_line[0])
        return blank((*self._given, *self._recent), raw)


def _secrets(value: str) -> Iterable[str]:
    """A value and, of `Bearer …`, the token alone; without those too short to be secret."""
    each = {value, value.rpartition(" ")[2]}
    return [Concealed(text) for text in each if len(text) >= _SHORTEST_SECRET]


def _lines(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(encode_header(name, value) for name, value in pairs)


def blank(secrets: Iterable[str], raw: RawReply) -> RawReply:
    """Blank secrets wherever a reply repeats them.

    Some servers and proxies quote what they were sent in an error, and errors are logged and
    pickled.

    Args:
        secrets: What must not be shown.
        raw: Status, headers and body of the reply.
    """
    status, fields, content = raw
    # A result of many megabytes is not an echo of its request.
    place = content if status >= 400 else content[:_SEARCHED_BYTES]
    for secret in secrets:
        coded = secret.encode("latin-1")
        quoted = status >= 400 and any(secret in value for value in fields.values())
        if quoted or coded in place:
            content = content.replace(coded, b"***")
            fields = {name: value.replace(secret, "***") for name, value in fields.items()}
    return status, fields, content


def forget_frames(error: BaseException) -> None:
    """Cut the frames below the caller from an error and its causes.

    They hold the bytes that were sent, and with them the key, for tools that print local variables.
    """
    each: BaseException | None = error
    while each is not None and each.__traceback__ is not None:
        each.__traceback__ = None
        each = each.__cause__ or each.__context__


_MOST_TEXTS = 100
_LONGEST_TEXT = 500


class DeprecationNotes:
    """Remembers which notes were logged already.

    Args:
        log: Where to write.
    """

    def __init__(self, log: logging.Logger | None = None) -> None:
        self._log = log or logging.getLogger("tinker_ext")
        self._seen: set[str] = set()

    def read(self, headers: Mapping[str, str]) -> None:
        """Log the note of a reply at the level it asks for."""
        note = headers.get("x-deprecation-note")
        if not note or note in self._seen or len(self._seen) >= _MOST_TEXTS:
            return
        self._seen.add(note)
        severe = headers.get("x-deprecation-level", "").lower() == "error"
        level = logging.ERROR if severe else logging.WARNING
        self._log.log(level, "the server says: %s", note[:_LONGEST_TEXT])
