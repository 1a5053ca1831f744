"""The journal file: checksummed lines, appended and synced, owned by one process at a time."""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tinker_ext._version import __version__
from tinker_ext.errors import TinkerError

FORMAT: Final = "tinker-ext run journal"
VERSION: Final = 1

_HEAD: Final = {"t": "head", "format": FORMAT, "version": VERSION, "by": __version__}


class JournalError(TinkerError):
    """A journal cannot be used; the file is left as it is."""


class JournalFile:
    """One open journal.

    A line is ``<crc32 in hex> <JSON object>``; the first one names the format and its version.
    A new file appears under its name only when its first line is on disk.

    Args:
        path: The file; it is made when it does not exist.
        repair: Cut off a last line that was not written to its end. The uncut file is kept
            beside it, with ``.torn`` at the end of its name.

    Raises:
        JournalError: The file is no journal, is damaged, comes from a newer version, or another
            process is using it.
    """

    def __init__(self, path: str | os.PathLike[str], *, repair: bool = False) -> None:
        self.path = Path(path)
        self.repaired = False
        """Whether a torn line was cut off now or in an earlier life."""
        self.listener: Callable[[str], object] | None = None
        """Told "before", "within" and "after" writes, for tests that end the process there."""
        self._lock = threading.Lock()
        new = not self.path.exists()
        if new:
            self._create()
        self._fd: int | None = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            _own(self._fd, self.path)
            self.records = self._read(repair)
        except BaseException:
            os.close(self._fd)
            self._fd = None
            raise

    def append(self, record: dict[str, Any]) -> None:
        """Write a record; it is on disk when this returns."""
        line = _line(record)
        with self._lock:
            if self._fd is None:
                raise JournalError(f"The journal {self.path} is closed.")
            self._tell("before")
            size = os.fstat(self._fd).st_size
            try:
                view = memoryview(line)
                while view:
                    view = view[os.write(self._fd, view) :]
                os.fsync(self._fd)
            except OSError as error:
                # Half a line must not stay before the next one.
                os.ftruncate(self._fd, size)
                raise JournalError(
                    f"The journal {self.path} cannot be written: {error.strerror}."
                ) from error
            self._tell("after")

    @property
    def size(self) -> int:
        """Bytes of the file."""
        with self._lock:
            return 0 if self._fd is None else os.fstat(self._fd).st_size

    def rewrite(self, record: dict[str, Any]) -> None:
        """Replace everything by one record; a crash leaves either the old file or the new one."""
        lines = [_line(_HEAD)]
        if self.repaired:
            lines.append(_line({"t": "repaired"}))
        lines.append(_line(record))
        draft = self.path.with_name(f"{self.path.name}.new")
        with self._lock:
            if self._fd is None:
                raise JournalError(f"The journal {self.path} is closed.")
            self._tell("before")
            fresh = os.open(draft, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
            try:
                os.write(fresh, b"".join(lines))
                os.fsync(fresh)
                _own(fresh, draft)
                self._tell("within")
                os.replace(draft, self.path)
            except OSError as error:
                os.close(fresh)
                raise JournalError(
                    f"The journal {self.path} cannot be written: {error.strerror}."
                ) from error
            _sync_folder(self.path.parent)
            os.close(self._fd)
            self._fd = fresh
            self._tell("after")

    def _tell(self, moment: str) -> None:
        if self.listener is not None:
            self.listener(moment)

    def close(self) -> None:
        """Give the file back; closing twice is fine."""
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def _create(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        with draft.open("xb") as file:
            file.write(_line(_HEAD))
            file.flush()
            os.fsync(file.fileno())
        try:
            # Unlike a rename, this never replaces a journal that somebody made meanwhile.
            os.link(draft, self.path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        _sync_folder(self.path.parent)

    def _read(self, repair: bool) -> list[dict[str, Any]]:
        content = self.path.read_bytes()
        lines = content.split(b"\n")
        tail = lines.pop()
        if tail == b"" and lines and _parse(lines[-1]) is None:
            tail = lines.pop()
        self._check_head(lines[0] if lines else None, content)
        records = []
        for number, line in enumerate(lines, 1):
            record = _parse(line)
            if record is None:
                raise JournalError(
                    f"Line {number} of the journal {self.path} is damaged, and others follow it. "
                    "Nothing was changed. Restore the file from a copy, or start a new journal "
                    "and load the last checkpoint."
                )
            records.append(record)
        if tail:
            self._cut(len(content) - len(b"\n".join(lines)) - 1, content, repair, records)
        self.repaired = any(record.get("t") == "repaired" for record in records)
        return records[1:]

    def _check_head(self, line: bytes | None, content: bytes) -> None:
        head = None if line is None else _parse(line)
        if head is None or head.get("format") != FORMAT:
            if not content or _is_prefix_of_head(content):
                raise JournalError(
                    f"The journal {self.path} is cut off in its first line, so it says nothing "
                    "about any run. Nothing was changed. Delete it to start a new run."
                )
            raise JournalError(
                f"{self.path} is no journal of tinker-ext. Nothing was changed. Choose another "
                "name for the journal."
            )
        version = head.get("version")
        if not isinstance(version, int) or version > VERSION:
            raise JournalError(
                f"The journal {self.path} has version {version} (written by tinker-ext "
                f"{head.get('by')}), and this tinker-ext reads up to {VERSION}. Nothing was "
                "changed. Use the newer tinker-ext."
            )

    def _cut(self, extra: int, content: bytes, repair: bool, records: list[dict[str, Any]]) -> None:
        if not repair:
            raise JournalError(
                f"The journal {self.path} is truncated: its last {extra} bytes are no whole "
                f"record, after {len(records) - 1} good ones. Nothing was changed. Open it with "
                "repair=True to cut that rest off (the uncut file is kept) and go on from the "
                "last good record."
            )
        assert self._fd is not None
        kept = self.path.with_name(self.path.name + ".torn")
        with kept.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.ftruncate(self._fd, len(content) - extra)
        mark = {"t": "repaired"}
        self.append(mark)
        records.append(mark)


def _line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _parse(line: bytes) -> dict[str, Any] | None:
    """The record of a line, None when the line is damaged."""
    try:
        if line[8:9] != b" " or int(line[:8], 16) != zlib.crc32(line[9:]):
            return None
        record = json.loads(line[9:])
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _is_prefix_of_head(content: bytes) -> bool:
    start = b'{"t":"head","format":"' + FORMAT.encode()
    body = content[9:]
    return b"\n" not in content and (body.startswith(start) or start.startswith(body))


def _own(fd: int, path: Path) -> None:
    """Take the file for this process; the system gives it back when the process dies."""
    try:
        import fcntl
    except ImportError:  # not on this system: two processes must then not share a journal
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise JournalError(
            f"The journal {path} is in use by another process or client. Nothing was changed."
        ) from None


def _sync_folder(folder: Path) -> None:
    try:
        fd = os.open(folder, os.O_RDONLY)
    except OSError:  # a system without file descriptors of folders
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
