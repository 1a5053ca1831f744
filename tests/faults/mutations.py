"""Ways a server's reply can be wrong: values, types, shapes, encodings, framing, by one seed."""

from __future__ import annotations

import copy
import gzip
import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import orjson

Place = tuple[Any, Any]

# What may stand where something else was expected.
STRANGE: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**64 - 1,
    10**25,
    -(10**25),
    0.5,
    -0.0,
    1e308,
    -1e308,
    1e-320,
    "",
    "0",
    "1.5",
    "NaN",
    "inf",
    "é" * 3,
    "\x00",
    "../../etc/passwd",
    [],
    [[]],
    [None],
    ["a"],
    [0.5, True],
    [1, True],
    [1, "2"],
    [1, 2.5],
    {},
    {"type": "try_again"},
    {"error": 1},
    {"a": {"b": []}},
)
DEPTH = 100_000
BIG = 1 << 18


@attrs.frozen
class Reply:
    """One reply as it goes out."""

    status: int
    headers: dict[str, str]
    content: bytes
    how: str


def mutate(rng: random.Random, status: int, body: Any) -> Reply:
    """Make one wrong (or merely odd) reply from a right one.

    Args:
        rng: Decides how.
        status: Status of the right reply.
        body: Its body: JSON, or bytes for a binary one.
    """
    choice = rng.random()
    binary = isinstance(body, bytes)
    kind = "application/x-protobuf" if binary else "application/json"
    headers = {"content-type": kind}
    if choice < 0.72:
        if binary:
            return Reply(status, headers, _bend_bytes(rng, body), "bytes")
        changed, how = _bend(rng, copy.deepcopy(body))
        return Reply(status, headers, orjson.dumps(changed), how)
    content = body if binary else orjson.dumps(body)
    name, make = rng.choice(_WHOLE)
    status, headers, content = make(rng, status, headers, content)
    return Reply(status, headers, content, name)


# -- inside a JSON body -----------------------------------------------------------------------


def _places(value: Any) -> Iterator[Place]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, child in items:
        yield value, key
        yield from _places(child)


def _bend(rng: random.Random, body: Any) -> tuple[Any, str]:
    """Change one to three places of a JSON value."""
    names = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(body))
        if not places:
            return copy.deepcopy(rng.choice(STRANGE_JSON)), "replaced"
        holder, key = rng.choice(places)
        name, change = rng.choice(_CHANGES)
        change(rng, holder, key)
        names.append(f"{name} {key!r}")
    return body, ", ".join(names)


def _drop(rng: random.Random, holder: Any, key: Any) -> None:
    del holder[key]


def _swap(rng: random.Random, holder: Any, key: Any) -> None:
    holder[key] = copy.deepcopy(rng.choice(STRANGE_JSON))


def _rename(rng: random.Random, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[f"{key}_"] = holder.pop(key)
    else:
        holder.append(holder[key])


def _wrap(rng: random.Random, holder: Any, key: Any) -> None:
    holder[key] = [holder[key]] if rng.random() < 0.5 else {"value": holder[key]}


def _repeat(rng: random.Random, holder: Any, key: Any) -> None:
    if isinstance(holder[key], list):
        holder[key] = holder[key] * rng.choice((2, 3))
    elif isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[key] = [holder[key], holder[key]]


def _cut(rng: random.Random, holder: Any, key: Any) -> None:
    if isinstance(holder[key], (list, str)):
        holder[key] = holder[key][: len(holder[key]) // 2]
    else:
        holder[key] = None


def _text(rng: random.Random, holder: Any, key: Any) -> None:
    holder[key] = str(holder[key])


_CHANGES: tuple[tuple[str, Callable[[random.Random, Any, Any], None]], ...] = (
    ("drop", _drop),
    ("swap", _swap),
    ("swap", _swap),
    ("rename", _rename),
    ("wrap", _wrap),
    ("repeat", _repeat),
    ("cut", _cut),
    ("text", _text),
)

# orjson writes 64-bit integers; larger ones are put in as text of the whole body below.
STRANGE_JSON = tuple(v for v in STRANGE if not (isinstance(v, int) and abs(v) >= 2**64))


# -- the whole reply --------------------------------------------------------------------------

Made = tuple[int, dict[str, str], bytes]


def _bend_bytes(rng: random.Random, body: bytes) -> bytes:
    data = bytearray(body)
    for _ in range(rng.choice((1, 1, 2, 5))):
        if not data:
            break
        at = rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at : at + rng.randint(1, 8)]
        elif kind == 3:
            data[at:at] = rng.randbytes(rng.randint(1, 8))
        else:
            data[at] = rng.choice((0x00, 0x7F, 0x80, 0xFF))
    return bytes(data)


def _garbage(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    return status, headers, rng.randbytes(rng.randint(0, 64))


def _bent(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    return status, headers, _bend_bytes(rng, content)


def _html(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    return status, {"content-type": "text/html"}, b"<html><body>Please log in</body></html>"


def _other_type(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    kinds = ("application/x-protobuf", "application/json", "text/plain", "image/png", "")
    return status, {"content-type": rng.choice(kinds)}, content


def _literal(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    words = (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1" * 400, b"01", b"1.", b"'a'", b"\xff")
    text = content
    digits = [i for i, c in enumerate(text) if 48 <= c <= 57]
    if not digits:
        return status, headers, rng.choice(words)
    at = rng.choice(digits)
    return status, headers, text[:at] + rng.choice(words) + text[at + 1 :]


def _deep(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    if rng.random() < 0.5:
        return status, headers, b"[" * DEPTH + b"]" * DEPTH
    return status, headers, b'{"sequences":' * DEPTH + b"1" + b"}" * DEPTH


def _double_keys(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    return status, headers, content[:-1] + b"," + content[1:] if content[:1] == b"{" else content


def _coded(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    coding = rng.choice(("gzip", "deflate", "zstd", "br", "gzip, gzip", "nonsense"))
    packed = rng.choice((content, gzip.compress(content, mtime=0), zlib.compress(content)))
    if rng.random() < 0.3:
        packed = packed[:-3]
    return status, {**headers, "content-encoding": coding}, packed


def _bomb(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    return status, {**headers, "content-encoding": "gzip"}, bomb()


def _length(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    wrong = rng.choice((0, 1, len(content) - 1, len(content) + 1, 2**40, -1))
    return status, {**headers, "content-length": str(wrong)}, content


def _status(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    statuses = (100, 201, 204, 206, 299, 304, 400, 401, 403, 404, 405, 408, 409, 410, 418, 422)
    return rng.choice(statuses), headers, content


# Headers a client reads, or might: delays, dates, lengths, framing, hints of every kind.
ODD_HEADERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "retry-after",
        (
            "0",
            "-1",
            "0.0000001",
            "1e400",
            "nan",
            "inf",
            "9" * 400,
            "",
            "soon",
            "1, 2",
            "Fri, 31 Dec 9999 23:59:59 -2359",
            "Mon, 01 Jan 0001 00:00:00 +2359",
            "Mon, 01 Jan 2024 00:00:00 +" + "9" * 30,
            "Thu, 32 Foo 20 99:99",
        ),
    ),
    ("retry-after-ms", ("0", "-5", "1e308", "nan", "x", "", "9" * 400, "0.001")),
    ("date", ("", "x" * 300, "Mon, 01 Jan 0001 00:00:00 +2359", "9" * 40)),
    ("content-length", ("-1", "x", "1e3", "9" * 30, "", "5, 5")),
    ("transfer-encoding", ("chunked", "gzip, chunked", "nonsense")),
    ("trailer", ("Content-Length", "X" * 300)),
    ("content-range", ("bytes 0-1/9", "bytes */*", "x")),
    ("x-should-retry", ("true", "false", "maybe")),
    ("x-deprecation-note", ("x" * 5000, "\u00e9")),
    ("location", ("http://elsewhere.test/", "//", "x" * 3000)),
    ("x-request-id", ("x" * 5000, "")),
    ("content-type", ("", "application/json; charset=utf-16", "APPLICATION/JSON", ";;;")),
    ("set-cookie", ("a=b; Domain=.test",)),
)


def _headers(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    """Odd headers on a refusal, where delays count, or on a right reply."""
    names = rng.sample(ODD_HEADERS, rng.choice((1, 1, 2, 3)))
    odd = {name: rng.choice(values) for name, values in names}
    if rng.random() < 0.6:
        status = rng.choice((402, 408, 409, 425, 429, 429, 500, 502, 503, 504))
        content = rng.choice((b"", b'{"detail":"later"}', b"<html>", content))
    return status, {**headers, **odd}, content


def _long(rng: random.Random, status: int, headers: dict[str, str], content: bytes) -> Made:
    return status, headers, b'{"a":"' + b"x" * BIG + b'",' + content[1:]


_WHOLE: tuple[tuple[str, Callable[..., Made]], ...] = (
    ("garbage", _garbage),
    ("bent", _bent),
    ("bent", _bent),
    ("html", _html),
    ("content type", _other_type),
    ("literal", _literal),
    ("literal", _literal),
    ("double keys", _double_keys),
    ("coding", _coded),
    ("length", _length),
    ("status", _status),
    ("headers", _headers),
    ("headers", _headers),
    ("headers", _headers),
    ("headers", _headers),
    ("long", _long),
)
RARE: tuple[tuple[str, Callable[..., Made]], ...] = (("deep", _deep), ("bomb", _bomb))
"""Costly ones; `fuzz.py` strews them in."""

_bomb_bytes: bytes | None = None


def bomb(size: int = 512 << 20) -> bytes:
    """About half a megabyte of gzip that unpacks to 512 MB."""
    global _bomb_bytes
    if _bomb_bytes is None:
        # gzip allows many members one after the other; a megabyte of zeros packs to a kilobyte.
        _bomb_bytes = gzip.compress(bytes(1 << 20), mtime=0) * (size >> 20)
    return _bomb_bytes
