"""The headers of a request: common ones, a call's own, the idempotency key and the credential."""

from __future__ import annotations

import html
import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import AnyStr
from urllib.parse import quote

import attrs

from tinker_ext._transport.channel import RawReply
from tinker_ext._transport.inflate import ACCEPT_ENCODING
from tinker_ext._transport.messages import Call
from tinker_ext._transport.origin import encode_header
from tinker_ext._version import __version__
from tinker_ext.auth import Credentials
from tinker_ext.config import Concealed

# Shorter ones are stand-ins such as "dummy", and might be words of an ordinary reply.
_SHORTEST_SECRET = 8
_SEARCHED_BYTES = 65_536
_SMALL_BYTES = 4096
_MOST_ECHOES = 1000
_LONGEST_ECHO = 1 << 24
_RECENT_SECRETS = 16
_MOST_BLOCKS = 64
_SECRET_NAMES = frozenset({"x-api-key", "authorization", "x-tinker-weights-access-token"})
# What URLs leave as it is: most languages, Python, JavaScript, a segment of a path, a whole path.
_UNQUOTED = ("", "/", "!'()*", "!$&'()*+,;=:@", "!$&'()*+,;=:@/")
_TOKEN_NAME = b"weights_access_token"
_TOKEN = re.compile(rb'"weights_access_token"\s*:\s*"([^"\\]+)"')


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
        self._common = {
            "accept": ("Accept", "application/json"),
            "content-type": ("Content-Type", "application/json"),
            "user-agent": ("User-Agent", f"tinker-ext/{__version__}"),
            "accept-encoding": ("Accept-Encoding", ACCEPT_ENCODING),
        }
        # What the user gave for every request may be a gateway's credential, but not one of these.
        hidden = [value for name, value in extra if name.lower() not in self._common]
        self._common.update((name.lower(), (name, value)) for name, value in extra)
        self._key_line: tuple[str | None, str] = (None, "")
        self.use(credentials)
        # What was sent and must not be shown: that, and the last keys and tokens.
        self._given = tuple(secret for value in hidden for secret in _secrets(value))
        self._recent: dict[str, None] = {}
        self._hidden = written_forms(self._given)
        # The lines of calls by method and own headers, with the key; few different sets occur.
        self._blocks: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        _lines(self._common.values())  # for its checks

    def _block(self, method: str, headers: tuple[tuple[str, str], ...]) -> str:
        """The common lines, those of one call, and the key if it does not bring its own."""
        own = {name.lower() for name, _ in headers}
        replaced = own | {"content-type"} if method == "GET" else own
        kept = (pair for name, pair in self._common.items() if name not in replaced)
        key = "" if "x-api-key" in own else self._key_line[1]
        block = Concealed(_lines((*kept, *headers)) + key)
        secrets = [value for name, value in headers if name.lower() in _SECRET_NAMES]
        for value in secrets:
            self._remember(value)
        if not secrets and len(self._blocks) < _MOST_BLOCKS:
            self._blocks[method, headers] = block
        return block

    def use(self, credentials: Credentials | None) -> None:
        """Send the key of these credentials from now on."""
        self._credentials = credentials
        self.has_key = credentials is None
        """Whether the credential is known and stays as it is; `renew` asks for it."""

    async def renew(self, call: Call) -> None:
        """Ask for the credential that a call is to carry."""
        # One with a key of its own is the one that exchanges it: asking here would wait for it.
        if any(name.lower() == "x-api-key" for name, _ in call.headers):
            return
        assert self._credentials is not None
        given = await self._credentials.header()
        if given != self._key_line[0]:
            secret = None if given is None else Concealed(given)
            self._key_line = (secret, encode_header("X-API-Key", secret) if secret else "")
            self._blocks.clear()
            self._remember(secret or "")
        self.has_key = given is not None and getattr(self._credentials, "constant", False)

    def build(self, call: Call, earlier: int) -> Concealed:
        """Return all lines but Host and Content-Length, each ending in CRLF."""
        method, headers = call.method, call.headers
        lines = (self._blocks.get((method, headers)) or self._block(method, headers)) + call.numbers
        if call.idempotency_key is not None:
            lines += f"X-Idempotency-Key: {call.idempotency_key}\r\n"
        if earlier:
            lines += f"X-Stainless-Retry-Count: {earlier}\r\n"
        content = call.content
        # A large body is a batch of training data. To search is faster than to match, and CPython
        # searches from the end in half the time.
        if isinstance(content, bytes) and content.rfind(_TOKEN_NAME, 0, _SEARCHED_BYTES) >= 0:
            for token in _TOKEN.findall(content):
                self._remember(token.decode("latin-1"))
        return Concealed(lines)

    def _remember(self, value: str) -> None:
        for secret in _secrets(value):
            self._recent.pop(secret, None)
            self._recent[secret] = None
            if len(self._recent) > _RECENT_SECRETS:
                del self._recent[next(iter(self._recent))]
        self._hidden = written_forms((*self._given, *self._recent))

    def receive(self, raw: RawReply) -> RawReply:
        """Take a reply in: secrets of ours that it repeats are blanked, a 401 renews the key."""
        if raw[0] == 401 and self._key_line[0] is not None:
            refused = getattr(self._credentials, "refused", None)
            if refused is not None:
                refused(self._key_line[0])
        return blank(self._hidden, raw)


def _secrets(value: str) -> Iterable[str]:
    """A value and, of `Bearer …`, the token alone; without those too short to be secret."""
    each = {value, value.rpartition(" ")[2]}
    return [Concealed(text) for text in each if len(text) >= _SHORTEST_SECRET]


def _lines(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(encode_header(name, value) for name, value in pairs)


@attrs.frozen
class WrittenForms:
    """How a reply may write secrets, as text and as bytes.

    Attributes:
        every: All forms, in small letters: a digit of an escape may be a capital, and the next not.
        plain: Those without an escape, as they are.
        marks: How an escape in one of the others begins: with none of these, none of those.
    """

    every: tuple[tuple[str, bytes], ...] = attrs.field(repr=False)
    plain: tuple[tuple[str, bytes], ...] = attrs.field(repr=False)
    marks: tuple[tuple[str, bytes], ...] = attrs.field(repr=False)


def written_forms(secrets: Iterable[str]) -> WrittenForms:
    """How a reply may write secrets, as text and as bytes: JSON, URLs and HTML escape.

    JSON may escape what it need not: PHP does that to a slash, Go to what a page would read as a
    tag, .NET to some more, and a server that means harm to every character.
    """
    forms: set[str] = set()
    # Of other letters, a body may have the UTF-8 where a header has Latin-1.
    both = {text for secret in secrets for text in (secret, secret.encode().decode("latin-1"))}
    for secret in both:
        plain = json.dumps(secret)[1:-1]
        page = html.escape(secret)
        for form in (
            *(secret, plain, plain.replace("/", "\\/")),
            *(_escaped(secret, which) for which in (".", r"[\W_]")),
            *(_escaped(plain, which) for which in ("[&<>]", r"\\?\"|[&'+<>`]")),
            *(quote(secret, safe=safe, encoding="latin-1") for safe in _UNQUOTED),
            *(page, html.escape(secret, quote=False)),
            page.replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
        ):
            forms.add(Concealed(form))
    marks = {form[at : at + 2] for form in forms if (at := form.find("\\")) >= 0}
    marks |= {"%" for form in forms if "%" in form}
    # A gateway may quote a reply in its own.
    forms |= {Concealed(json.dumps(form)[1:-1]) for form in forms}
    # One secret may be a part of another, of which nothing is to be left.
    ordered = sorted(forms, key=len, reverse=True)
    unescaped = [form for form in ordered if "\\" not in form and "%" not in form]
    # In small letters each for itself: of text, these are also other letters than those of ASCII.
    every = {Concealed(form.lower()): form.encode("latin-1").lower() for form in ordered}
    return WrittenForms(tuple(every.items()), _coded(unescaped), _coded(marks))


def _escaped(text: str, which: str) -> str:
    return re.sub(which, lambda match: f"\\u{ord(match[0][-1]):04x}", text)


def _coded(forms: Iterable[str]) -> tuple[tuple[str, bytes], ...]:
    return tuple((form, form.encode("latin-1")) for form in forms)


def blank(forms: WrittenForms, raw: RawReply) -> RawReply:
    """Blank secrets wherever a reply repeats them.

    Some servers and proxies quote what they were sent in an error or a header, and errors are
    logged and pickled.
    """
    status, fields, content = raw
    # A result of many megabytes is not an echo of its request.
    place = content if status >= 400 else content[:_SEARCHED_BYTES]
    values = "\n".join(fields.values())
    # Most replies escape nothing. By `rfind`, as above: to `in`, bytes first try whether they are a
    # number, which takes longer than to look.
    wanted = forms.plain
    for mark, coded in forms.marks:
        if place.rfind(coded) >= 0 or mark in values:
            wanted, place, values = forms.every, place.lower(), values.lower()
            break
    # From the end, CPython may compare all of a form at every byte: a server that gives a long
    # token and much that looks like it would hold up the loop for minutes.
    find = place.rfind if len(place) <= _SMALL_BYTES else place.find
    for form, coded in wanted:
        if find(coded) >= 0 or form in values:
            content = _cut(content, coded, b"***")
            fields = {name: _cut(value, form, "***") for name, value in fields.items()}
    return status, fields, content


def _cut(text: AnyStr, form: AnyStr, stars: AnyStr) -> AnyStr:
    """Put stars in place of a form, in capitals or not."""
    # What is that long, or echoes that often, is no message; a letter that grows moves the others.
    if len(text) > _LONGEST_ECHO:
        return stars
    small = text.lower()
    parts = small.split(form.lower(), _MOST_ECHOES)
    if len(parts) > _MOST_ECHOES or len(small) != len(text):
        return stars
    kept, at = [], 0
    for part in parts:
        kept.append(text[at : at + len(part)])
        at += len(part) + len(form)
    return stars.join(kept)


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
    """Remembers which notes were logged already."""

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
