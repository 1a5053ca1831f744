"""One file from a signed URL to a path: streamed, resumed, bounded, verified, renamed when whole.

A download in progress lives in ``NAME.part`` beside the target, with the server's validator in
``NAME.part.json``; a later call continues it only where the server still has the same file. No
credential is ever sent: these URLs are signed and often belong to another origin.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import httpx

from tinker_ext.errors import DownloadError

Progress = Callable[[int, int | None], None]

BLOCK_BYTES = 1 << 18
REDIRECTS = 5
CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)$")
TEMPORARY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


@attrs.frozen
class FetchLimits:
    """How much and how long a download may take.

    Attributes:
        max_bytes: largest file accepted.
        total_seconds: time for the whole file, retries included.
        stall_seconds: time without a byte before the connection counts as dead.
        attempts: connections tried in a row without any new byte.
    """

    max_bytes: int = 1 << 38
    total_seconds: float = 6 * 3600.0
    stall_seconds: float = 60.0
    attempts: int = 6


class _Interrupted(Exception):
    """The stream ended early; what arrived is kept."""


@attrs.define
class _Part:
    """The unfinished file and what is known about the whole."""

    path: Path
    etag: str | None = None
    total: int | None = None

    @property
    def notes(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def load(self) -> None:
        try:
            notes = json.loads(self.notes.read_text(encoding="utf-8"))
            self.etag, self.total = notes.get("etag"), notes.get("total")
        except (OSError, ValueError, AttributeError):
            self.discard()
        if not self.etag:
            # Without a validator two halves of different files could be glued together.
            self.discard()

    def save(self) -> None:
        text = json.dumps({"etag": self.etag, "total": self.total})
        self.notes.write_text(text, encoding="utf-8")

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)
        self.etag = self.total = None


def fetch(
    url: str,
    target: Path,
    *,
    size: int | None = None,
    sha256: str | None = None,
    limits: FetchLimits | None = None,
    progress: Progress | None = None,
    client: httpx.Client | None = None,
) -> Path:
    """Download `url` to `target`; the target appears only when it is whole and verified.

    Args:
        url: where the file is; http or https.
        target: path of the finished file; an existing one is replaced.
        size: expected number of bytes, if known.
        sha256: expected digest in hex, if known.
        limits: bounds of size and time.
        progress: called with bytes so far and bytes in all (None while unknown).
        client: an httpx client to use instead of a fresh one.

    Returns:
        The target.

    Raises:
        DownloadError: the server refused, the file is too large or not the expected one, or the
            time ran out. What was fetched stays in ``NAME.part`` unless it is known to be wrong.
    """
    bounds = limits or FetchLimits()
    part = _Part(target.with_name(target.name + ".part"))
    target.parent.mkdir(parents=True, exist_ok=True)
    part.load()
    deadline = time.monotonic() + bounds.total_seconds
    own = client is None
    http = client or httpx.Client(timeout=bounds.stall_seconds, follow_redirects=False)
    try:
        _complete(http, url, part, size, bounds, deadline, progress or (lambda done, total: None))
    finally:
        if own:
            http.close()
    _verify(part, size, sha256)
    with part.path.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(part.path, target)
    part.discard()
    return target


def _complete(
    http: httpx.Client,
    url: str,
    part: _Part,
    size: int | None,
    bounds: FetchLimits,
    deadline: float,
    progress: Progress,
) -> None:
    """Connect until the file is whole; give up after several attempts without a new byte."""
    fruitless = 0
    while True:
        before = part.size
        try:
            _stream(http, url, part, size, bounds, deadline, progress)
            return
        except (httpx.TransportError, _Interrupted) as error:
            fruitless = fruitless + 1 if part.size <= before else 1
            reason = str(error) or type(error).__name__
        if fruitless >= bounds.attempts:
            raise DownloadError(
                f"the download of {_place(url)} stopped at {part.size} bytes ({reason}) and got no "
                f"further in {fruitless} attempts; run it again to continue from there"
            )
        if time.monotonic() > deadline:
            raise _out_of_time(url, part, bounds)
        time.sleep(min(0.1 * 2 ** (fruitless - 1), 5.0))


def _stream(
    http: httpx.Client,
    url: str,
    part: _Part,
    size: int | None,
    bounds: FetchLimits,
    deadline: float,
    progress: Progress,
) -> None:
    headers = {"Accept-Encoding": "identity"}
    have = part.size
    if have and part.etag:
        headers |= {"Range": f"bytes={have}-", "If-Range": part.etag}
    with _open(http, url, headers) as response:
        if response.status_code in TEMPORARY_STATUSES:
            raise _Interrupted(f"HTTP {response.status_code}")
        if response.status_code == 416 and part.total == have:
            return
        start = _start(url, response, have)
        if start == 0:
            part.discard()
            have = 0
        part.etag = _validator(response) or part.etag
        part.total = _total(response, start)
        whole = part.total if part.total is not None else size
        if whole is not None and whole > bounds.max_bytes:
            raise DownloadError(
                f"{_place(url)} has {whole} bytes, more than the {bounds.max_bytes} allowed"
            )
        part.save()
        with part.path.open("ab") as file:
            for block in response.iter_raw(BLOCK_BYTES):
                have += len(block)
                if have > (bounds.max_bytes if whole is None else whole):
                    part.discard()
                    raise DownloadError(f"{_place(url)} sent more bytes than it announced")
                file.write(block)
                progress(have, whole)
                if time.monotonic() > deadline:
                    raise _out_of_time(url, part, bounds)
        if whole is not None and have < whole:
            raise _Interrupted(f"the stream ended after {have} of {whole} bytes")


def _open(http: httpx.Client, url: str, headers: dict[str, str]) -> Any:
    """Open a stream, following a few redirects that stay on http(s) and never leave TLS."""
    current = httpx.URL(url)
    for _ in range(REDIRECTS + 1):
        if current.scheme not in {"http", "https"}:
            raise DownloadError(f"only http and https URLs are fetched, not {current.scheme!r}")
        if current.userinfo:
            raise DownloadError("a download URL with a user name or password in it is refused")
        request = http.build_request("GET", current, headers=headers)
        response = http.send(request, stream=True, follow_redirects=False)
        if not response.has_redirect_location:
            return _Closing(response)
        response.close()
        onward = current.join(response.headers["location"])
        if current.scheme == "https" and onward.scheme != "https":
            raise DownloadError(f"{_place(url)} redirects from https to {onward.scheme}; refused")
        current = onward
    raise DownloadError(f"{_place(url)} redirects more than {REDIRECTS} times")


@attrs.frozen
class _Closing:
    """A streamed response that closes with its block."""

    response: httpx.Response

    def __enter__(self) -> httpx.Response:
        return self.response

    def __exit__(self, *_: object) -> None:
        self.response.close()


def _start(url: str, response: httpx.Response, have: int) -> int:
    """Return at which byte the body starts, or raise for a refusal."""
    if response.status_code == 206:
        match = CONTENT_RANGE.match(response.headers.get("content-range", ""))
        if match and int(match[1]) == have:
            return have
        raise DownloadError(
            f"{_place(url)} answered byte {have} with another range; "
            "delete the .part file to restart"
        )
    if response.status_code == 200:
        return 0
    hint = {403: "the link may have expired; ask for a new one", 404: "the file is gone"}
    raise DownloadError(
        f"{_place(url)} answered HTTP {response.status_code}"
        + (f"; {hint[response.status_code]}" if response.status_code in hint else "")
    )


def _validator(response: httpx.Response) -> str | None:
    etag = response.headers.get("etag")
    # RFC 9110 §13.1.5: a weak validator must not be used with If-Range.
    if etag and not etag.startswith("W/"):
        return str(etag)
    modified = response.headers.get("last-modified")
    return str(modified) if modified else None


def _total(response: httpx.Response, start: int) -> int | None:
    match = CONTENT_RANGE.match(response.headers.get("content-range", ""))
    if match and match[3] != "*":
        return int(match[3])
    length = response.headers.get("content-length", "")
    return start + int(length) if length.isascii() and length.isdigit() else None


def _verify(part: _Part, size: int | None, sha256: str | None) -> None:
    have = part.size
    if size is not None and have != size:
        part.discard()
        raise DownloadError(f"the file has {have} bytes where {size} were expected; discarded")
    if sha256 is None:
        return
    digest = hashlib.sha256()
    with part.path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    if digest.hexdigest() != sha256.lower():
        part.discard()
        raise DownloadError("the file does not have the expected SHA-256 digest; discarded")


def _out_of_time(url: str, part: _Part, bounds: FetchLimits) -> DownloadError:
    return DownloadError(
        f"the download of {_place(url)} took more than {bounds.total_seconds:.0f} s; "
        f"{part.size} bytes are kept, run it again to continue"
    )


def _place(url: str) -> str:
    """Return a URL without its query, which often carries a signature."""
    return str(httpx.URL(url).copy_with(query=None, fragment=None, userinfo=b""))
