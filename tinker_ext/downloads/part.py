"""The unfinished file beside a target: its bytes, which file of the server they are of, its owner.

The bytes are in ``NAME.part``, what is known about the whole in ``NAME.part.json``. They are used
again only where the server proves that it still has the same file. ``NAME.part.lock`` is there
while somebody works on it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import attrs
import httpx

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

    def _is_sound(self) -> bool:
        text = self.validator
        return (
            isinstance(text, str)
            and bool(text)
            and text.isascii()
            and text.isprintable()
            and not text.startswith("W/")
            and (self.total is None or (type(self.total) is int and self.total >= 0))
            and (self.sha256 is None or isinstance(self.sha256, str))
        )


def validator_of(headers: httpx.Headers) -> str | None:
    """What tells this version of a file from every other; None when nothing does.

    RFC 9110 §13.1.5: neither a weak ETag nor a date that is too new may join two halves.
    """
    etag = headers.get("etag")
    if etag is not None:
        return None if etag.startswith("W/") else str(etag)
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


@contextlib.contextmanager
def alone(target: Path) -> Iterator[None]:
    """Hold off everybody else who would work on a target.

    Raises:
        DownloadError: Somebody does already.
    """
    try:
        import fcntl
    except ImportError:  # not on this system: two programs must then not share a target
        yield
        return
    path = target.with_name(target.name + ".part.lock")
    for _ in range(_OPENINGS):
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                break
            # Whoever had it before takes its name away when done.
            if _has_name(held, path):
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


def _has_name(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False
