"""One file from a signed URL to a path: streamed, resumed, bounded, verified, renamed when whole.

No credential is ever sent: these URLs are signed and often belong to another origin.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import attrs
import httpx

import tinker_ext._statuses as statuses
from tinker_ext import forks
from tinker_ext._transport.bridge import client_context
from tinker_ext._transport.retry import ACCEPT, Retry, Verdict, run_blocking, server_delay
from tinker_ext.errors import DownloadError

STRONG_SECONDS = 60
"""A Last-Modified this much older than its reply names one version (RFC 9110 §8.8.2.2)."""
_OPENINGS = 10


@attrs.frozen
class Version:
    """Which file of the server bytes are of.

    Attributes:
        validator: What the server compares: a strong ETag or a Last-Modified that is as good.
        total: Bytes of the whole file.
        sha256: Its digest in hex, where the server tells it.
    """

    validator: str
    total: int | None = None
    sha256: str | None = None

    @classmethod
    def read(cls, notes: Path) -> Version | None:
        """What was noted, or None when that is not there or damaged."""
        try:
            fields: Any = json.loads(notes.read_text(encoding="utf-8"))
            version = cls(fields["validator"], fields["total"], fields["sha256"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return version if version._is_sound() else None

    def write(self, notes: Path) -> None:
        """Note it, all or nothing."""
        draft = notes.with_name(notes.name + ".new")
        draft.write_text(json.dumps(attrs.asdict(self)), encoding="utf-8")
        os.replace(draft, notes)

    @property
    def is_etag(self) -> bool:
        """Whether the validator is an ETag, and not a date."""
        return self.validator.startswith('"')

    def _is_sound(self) -> bool:
        return (
            isinstance(self.validator, str)
            and _is_strong(self.validator)
            and (self.total is None or (type(self.total) is int and self.total >= 0))
            and (self.sha256 is None or isinstance(self.sha256, str))
        )


def _is_strong(text: str) -> bool:
    """Whether a validator can be sent back in a header, and names one version."""
    return text.isascii() and text.isprintable() and bool(text) and not text.startswith("W/")


def validator_of(headers: httpx.Headers) -> str | None:
    """What tells this version of a file from every other; None when nothing does.

    RFC 9110 §13.1.5: neither a weak ETag nor a date that is too new may join two halves.
    """
    etag = headers.get("etag")
    if etag is not None:
        return str(etag) if _is_strong(etag) else None
    modified = headers.get("last-modified")
    try:
        age = parsedate_to_datetime(headers["date"]) - parsedate_to_datetime(modified or "")
        return modified if age.total_seconds() >= STRONG_SECONDS else None
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


@attrs.define
class Part:
    """The unfinished file of one target.

    Attributes:
        path: Its bytes.
        version: Which file they are of; None when that cannot be proved later.
    """

    path: Path
    version: Version | None = None

    @classmethod
    def of(cls, target: Path) -> Part:
        """The one beside a target, continued where it can be."""
        part = cls(target.with_name(target.name + ".part"))
        part.version = Version.read(part._notes)
        version, size = part.version, part.size
        if version is None or (version.total is not None and size > version.total):
            part.discard()
        return part

    @property
    def _notes(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    @property
    def size(self) -> int:
        """Bytes that are there."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def begin(self, version: Version | None) -> None:
        """Start over, with the bytes of a version that follow."""
        self.discard()
        self.version = version
        if version is not None:
            version.write(self._notes)

    def discard(self) -> None:
        """Forget the bytes, and what they are of."""
        self.path.unlink(missing_ok=True)
        self._notes.unlink(missing_ok=True)
        self.version = None

    def finish(self, target: Path) -> None:
        """Give the bytes the target's name, when they are on the disk."""
        with self.path.open("ab") as file:
            os.fsync(file.fileno())
        os.replace(self.path, target)
        self.discard()


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Hold off everybody else who would work on a target.

    Raises:
        DownloadError: Somebody does already.
    """
    path = target.with_name(target.name + ".part.lock")
    for _ in range(_OPENINGS):
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not forks.own(held):
                break
            # Whoever had it before takes its name away when done.
            if forks.has_name(held, path):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return
        finally:
            os.close(held)
    raise DownloadError(
        f"{target} is being downloaded by somebody else; wait for that, or choose another place"
    )


Progress = Callable[[int, int | None], None]

BLOCK_BYTES = 1 << 18
REDIRECTS = 5
FIRST_DELAY, LONGEST_DELAY, LONGEST_NAMED_DELAY = 0.1, 5.0, 60.0
# Larger numbers than 64 bits hold are not sizes of files.
CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18}|\*)$")
_DIGEST = re.compile(r"sha-256=:?([A-Za-z0-9+/]+=*):?", re.IGNORECASE)


@attrs.frozen
class FetchLimits:
    """How much and how long a download may take.

    Attributes:
        max_bytes: largest file accepted.
        total_seconds: time for the whole file, retries included.
        stall_seconds: time without a byte before the connection counts as dead.
        attempts: connections tried in a row without any new byte; also how often it may start over.
    """

    max_bytes: int = 1 << 38
    total_seconds: float = 6 * 3600.0
    stall_seconds: float = 60.0
    attempts: int = 6


class _Interrupted(Exception):
    """The stream ended early or never came; what arrived is kept."""

    def __init__(self, reason: str, named: float | None = None) -> None:
        super().__init__(reason)
        self.named = named  # seconds the server asked for


@attrs.define
class _Download:
    """One download under way."""

    http: httpx.Client
    url: str
    part: Part
    size: int | None
    sha256: str | None
    limits: FetchLimits
    progress: Progress
    deadline: float
    kept: Version | None = None
    """Which file the target of an earlier call is; it stays when the server still has that one."""

    # What the last attempt came to.
    verdict: Verdict = ACCEPT
    unchanged: bool = False
    fruitless: int = 0
    """Attempts in a row without a new byte; a line that is cut again and again still ends."""
    restarts: int = 0
    """How often bytes were thrown away; a server that makes us do so in turn would never end."""
    reason: str = ""

    def run(self) -> None:
        """Connect until the file is whole."""
        run_blocking(self, self._try)
        if isinstance(self.verdict, Retry):
            if self._left() <= 0:
                raise self._out_of_time()
            raise DownloadError(
                f"the download of {_place(self.url)} stopped at {self.part.size} bytes "
                f"({self.reason}) and got no further in {self._in_vain} attempts; run it again "
                "to continue from there"
            )

    def _try(self) -> None:
        before = self.part.size
        try:
            self._attempt()
            self.verdict = ACCEPT
        except (httpx.TransportError, _Interrupted) as error:
            self.reason = str(error) or type(error).__name__
            self.fruitless = 1 if self.part.size > before else self.fruitless + 1
            delay = min(FIRST_DELAY * 2.0 ** (self._in_vain - 1), LONGEST_DELAY)
            named = min(getattr(error, "named", None) or 0.0, LONGEST_NAMED_DELAY)
            self.verdict = Retry(max(delay, named), "connection")

    def delay(self) -> float | None:
        """Seconds to wait before the next attempt; None when the time is over."""
        left = self._left()
        if not isinstance(self.verdict, Retry) or left <= 0:
            return None
        return min(self.verdict.delay, left)

    def exhausted(self) -> bool:
        """Whether as many attempts as allowed brought nothing new, or nothing that could stay."""
        return self._in_vain >= self.limits.attempts

    @property
    def _in_vain(self) -> int:
        return max(self.fruitless, self.restarts)

    def _attempt(self) -> None:
        headers = {"Accept-Encoding": "identity"}
        have, version = self.part.size, self.part.version
        kept = None if have else self.kept
        if have and version is not None:
            headers |= {"Range": f"bytes={have}-", "If-Range": version.validator}
        elif kept is not None:
            headers["If-None-Match" if kept.is_etag else "If-Modified-Since"] = kept.validator
        with _open(self.http, self.url, headers, self._timeout()) as response:
            status = response.status_code
            if kept is not None:
                told = validator_of(response.headers) if status == 200 else None
                self.unchanged = status == 304 or told == kept.validator
                if self.unchanged:
                    return
            if status in statuses.FILE_PASSING:
                named = server_delay(response.headers)
                raise _Interrupted(f"HTTP {status}", named[0] if named else None)
            if status == 416 and "Range" in headers:
                if _total(response, have) == have and self._is_same(response):
                    return
                self._start_over("the file has shrunk")
            if status == 206:
                self._check_range(response, have)
            elif status == 200:
                self.restarts += have > 0
                have = 0
                validator = validator_of(response.headers)
                told = _told_digest(response.headers)
                self.part.begin(
                    Version(validator, _total(response, 0), told) if validator else None
                )
                self.sha256 = self.sha256 or told
            else:
                raise _refused(self.url, status)
            self._receive(response, have)

    def _check_range(self, response: httpx.Response, have: int) -> None:
        """Refuse to join what the server does not show to be of the same file."""
        match = CONTENT_RANGE.match(response.headers.get("content-range", ""))
        if not have or match is None or match[1] is None or int(match[1]) != have:
            self._start_over("the server sent another range than it was asked for")
        if not self._is_same(response):
            self._start_over("the file has changed")

    def _is_same(self, response: httpx.Response) -> bool:
        version = self.part.version
        if version is None:
            return False
        now = response.headers.get("etag")
        if version.is_etag and now is not None and now != version.validator:
            return False
        total = _total(response, self.part.size)
        return version.total is None or total is None or total == version.total

    def _start_over(self, why: str) -> None:
        self.part.discard()
        self.restarts += 1
        raise _Interrupted(f"{why}, so it is fetched from its start")

    def _receive(self, response: httpx.Response, have: int) -> None:
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("", "identity"):
            raise DownloadError(f"{_place(self.url)} comes packed as {coding[:20]!r}, unasked")
        whole = _total(response, have)
        if whole is None:
            whole = self.size
        elif self.size is not None and whole != self.size:
            why = f"{_place(self.url)} has {whole} bytes where {self.size} were expected"
            raise self._discarded(why)
        most = self.limits.max_bytes
        if whole is not None and whole > most:
            raise DownloadError(
                f"{_place(self.url)} has {whole} bytes, more than the {most} allowed"
            )
        with self.part.path.open("ab") as file:
            # As they come: a block that is not full would be lost with its connection.
            for block in response.iter_raw():
                have += len(block)
                if have > (most if whole is None else whole):
                    file.close()
                    raise self._discarded(f"{_place(self.url)} sent more bytes than it announced")
                file.write(block)
                self.progress(have, whole)
                if self._left() <= 0:
                    file.flush()
                    raise self._out_of_time()
        if whole is not None and have < whole:
            raise _Interrupted(f"the stream ended after {have} of {whole} bytes")

    def verify(self) -> None:
        """Discard what arrived, with an error, unless it is what was expected."""
        have, version = self.part.size, self.part.version
        if self.size is not None and have != self.size:
            why = f"the file has {have} bytes where {self.size} were expected; discarded"
            raise self._discarded(why)
        wanted = self.sha256 or (version.sha256 if version is not None else None)
        if wanted is not None and _digest(self.part.path) != wanted.lower():
            why = "the file does not have the expected SHA-256 digest; discarded"
            raise self._discarded(why)

    def _discarded(self, why: str) -> DownloadError:
        self.part.discard()
        return DownloadError(why)

    def _left(self) -> float:
        return self.deadline - time.monotonic()

    def _timeout(self) -> httpx.Timeout:
        return httpx.Timeout(max(0.001, min(self.limits.stall_seconds, self._left())))

    def _out_of_time(self) -> DownloadError:
        return DownloadError(
            f"the download of {_place(self.url)} took more than {self.limits.total_seconds:g} s; "
            f"{self.part.size} bytes are kept, run it again to continue"
        )


def fetch(
    url: str,
    target: Path,
    *,
    size: int | None = None,
    sha256: str | None = None,
    limits: FetchLimits | None = None,
    progress: Progress | None = None,
    client: httpx.Client | None = None,
    keep: bool = False,
) -> Path:
    """Download `url` to `target`; the target appears only when it is whole and verified.

    Args:
        url: where the file is; http or https.
        target: path of the finished file; an existing one is replaced.
        size: expected number of bytes, if known.
        sha256: expected digest in hex, if known; by default the one that the server tells.
        limits: bounds of size and time.
        progress: called with bytes so far and bytes in all (None while unknown).
        client: an httpx client to use instead of a fresh one.
        keep: note beside the target (``NAME.version.json``) which file it is, and keep a target
            that an earlier call noted when the server says that its file is still the same.

    Returns:
        The target.

    Raises:
        DownloadError: the server refused, the file is too large or not the expected one, the time
            ran out, it cannot be written, or somebody else is downloading to the same target. What
            was fetched stays in ``NAME.part`` unless it is known to be wrong.
    """
    bounds = limits or FetchLimits()
    notes = target.with_name(target.name + ".version.json")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _client() if client is None else nullcontext(client) as http, alone(target):
            download = _Download(
                http,
                url,
                Part.of(target),
                size,
                sha256,
                bounds,
                progress or (lambda done, total: None),
                time.monotonic() + bounds.total_seconds,
                _noted(target, notes, size, sha256) if keep else None,
            )
            download.run()
            if download.unchanged:
                return target
            download.verify()
            version = download.part.version
            notes.unlink(missing_ok=True)
            download.part.finish(target)
            if keep and version is not None:
                attrs.evolve(version, total=target.stat().st_size).write(notes)
    except OSError as error:
        raise DownloadError(
            f"{target} cannot be written: {error.strerror or error}; what was fetched is kept"
        ) from error
    except httpx.InvalidURL as error:
        raise DownloadError(f"the address of the download is not a URL: {error}") from None
    return target


def _client() -> httpx.Client:
    try:
        return httpx.Client(verify=client_context(), follow_redirects=False)
    except (ImportError, ValueError) as error:  # a proxy that httpx cannot use
        raise DownloadError(f"HTTP_PROXY, HTTPS_PROXY or ALL_PROXY: {error}") from None


def _noted(target: Path, notes: Path, size: int | None, sha256: str | None) -> Version | None:
    """Which file a target of an earlier call is; None unless it is whole and as expected now."""
    version = Version.read(notes)
    if version is None or not target.is_file() or target.stat().st_size != version.total:
        return None
    if size is not None and size != version.total:
        return None
    wanted = sha256 or version.sha256
    return version if wanted is None or _digest(target) == wanted.lower() else None


@contextmanager
def _open(
    http: httpx.Client, url: str, headers: dict[str, str], timeout: httpx.Timeout
) -> Iterator[httpx.Response]:
    """Open a stream, following a few redirects that stay on http(s) and never leave TLS."""
    current = httpx.URL(url)
    for _ in range(REDIRECTS + 1):
        if current.scheme not in {"http", "https"}:
            raise DownloadError(f"only http and https URLs are fetched, not {current.scheme!r}")
        if current.userinfo:
            raise DownloadError("a download URL with a user name or password in it is refused")
        request = http.build_request("GET", current, headers=headers, timeout=timeout)
        response = http.send(request, stream=True, follow_redirects=False)
        try:
            if not response.has_redirect_location:
                yield response
                return
        finally:
            response.close()
        onward = current.join(response.headers["location"])
        if current.scheme == "https" and onward.scheme != "https":
            raise DownloadError(f"{_place(url)} redirects from https to {onward.scheme}; refused")
        current = onward
    raise DownloadError(f"{_place(url)} redirects more than {REDIRECTS} times")


def _refused(url: str, status: int) -> DownloadError:
    hint = {403: "the link may have expired; ask for a new one", 404: "the file is gone"}
    return DownloadError(
        f"{_place(url)} answered HTTP {status}" + (f"; {hint[status]}" if status in hint else "")
    )


def _total(response: httpx.Response, start: int) -> int | None:
    """Bytes of the whole file, where the reply tells."""
    match = CONTENT_RANGE.match(response.headers.get("content-range", ""))
    if match is not None and match[3] != "*":
        return int(match[3])
    length = response.headers.get("content-length", "")
    known = response.status_code in (200, 206) and length.isascii() and length.isdigit()
    return start + int(length) if known else None


def _told_digest(headers: httpx.Headers) -> str | None:
    """SHA-256 of the whole file in hex, where its server tells: RFC 9530, its forerunner, S3."""
    for name in ("repr-digest", "digest"):
        match = _DIGEST.search(headers.get(name, ""))
        if match:
            return _hex(match[1])
    # A digest of digests, for a file that was put there in pieces, ends in their number.
    return _hex(headers.get("x-amz-checksum-sha256", ""))


def _hex(text: str) -> str | None:
    try:
        digest = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return digest.hex() if len(digest) == hashlib.sha256().digest_size else None


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _place(url: str) -> str:
    """Return a URL without its query, which often carries a signature."""
    return str(httpx.URL(url).copy_with(query=None, fragment=None, userinfo=b""))
