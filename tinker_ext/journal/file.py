"""The journal file: checksummed lines, appended and synced, owned by one process at a time."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import stat
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tinker_ext import forks
from tinker_ext._version import __version__
from tinker_ext.errors import TinkerError

FORMAT: Final = "tinker-ext run journal"
VERSION: Final = 1

_OPENINGS: Final = 10
"""How often a file that is replaced or deleted while it is opened is opened again."""
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
            beside it, with ``.torn`` (``.torn-2``, …) at the end of its name.
        take_in: Called with each record; what it raises refuses the file.

    Raises:
        JournalError: The file cannot be opened or made, is not a journal, is damaged, comes from a
            newer version, or another process is using it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        repair: bool = False,
        take_in: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise JournalError(f"A journal needs the path of its file, not {path!r}.")
        self.path = Path(path)
        self.repaired = False
        """Whether a torn line was cut off now or by an earlier process."""
        self.listener: Callable[[str], object] | None = None
        """Told "before", "within" and "after" writes, for tests that end the process there."""
        self._lock = forks.lock()
        self._fd: int | None = None
        forks.register(self)
        try:
            # A link stays one, and a change of the working folder changes nothing, also when the
            # file is replaced later.
            self._real = Path(os.path.realpath(self.path))
            self._fd = self._open()
            self.records = self._read(repair, take_in)
        except (OSError, ValueError) as error:
            self.close()
            raise self._unusable("opened", error) from error
        except BaseException:
            self.close()
            raise

    def append(self, record: dict[str, Any]) -> None:
        """Write a record; it is on disk when this returns."""
        line = _line(record)
        with self._writing() as fd:
            size = os.fstat(fd).st_size
            try:
                _write(fd, line)
            except OSError:
                # Half a line must not stay before the next one.
                os.ftruncate(fd, size)
                raise

    @contextlib.contextmanager
    def _writing(self) -> Iterator[int]:
        """Give the open file to one writer at a time, and tell what goes wrong there."""
        with self._lock:
            if self._fd is None:
                raise JournalError(f"The journal {self.path} is closed.")
            self._tell("before")
            try:
                yield self._fd
            except OSError as error:
                raise self._unusable("written", error) from error
            self._tell("after")

    def after_fork(self) -> None:
        """Let go of the file in a forked child: it would keep the parent's lock alive."""
        self.close()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        with self._lock:
            return 0 if self._fd is None else os.fstat(self._fd).st_size

    def rewrite(self, record: dict[str, Any]) -> None:
        """Replace everything by one record; a crash leaves either the old file or the new one.

        Raises:
            JournalError: The new file could not be written; the old one is as it was.
        """
        lines = [_line(_HEAD)]
        if self.repaired:
            lines.append(_line({"t": "repaired"}))
        lines.append(_line(record))
        with self._writing() as fd:
            self._fd = self._replace(fd, b"".join(lines))
            _sync_folder(self._real.parent)

    def _replace(self, old: int, content: bytes) -> int:
        # Nobody else writes this one: it belongs to whoever owns the journal.
        draft = self._real.with_name(f"{self._real.name}.new")
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fresh = os.open(draft, flags, stat.S_IMODE(os.fstat(old).st_mode) & 0o600)
        try:
            _write(fresh, content)
            if not forks.own(fresh):
                raise _in_use(self.path)
            self._tell("within")
            os.replace(draft, self._real)
        except BaseException:
            os.close(fresh)
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        os.close(old)
        return fresh

    def _tell(self, moment: str) -> None:
        if self.listener is not None:
            self.listener(moment)

    def close(self) -> None:
        """Give the file back; closing twice is fine."""
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def _unusable(self, what: str, error: OSError | ValueError) -> JournalError:
        reason = error.strerror if isinstance(error, OSError) else None
        return JournalError(f"The journal {self.path} cannot be {what}: {reason or error}.")

    def _open(self) -> int:
        """Open the file that has the name, make it if needed, and take it."""
        for _ in range(_OPENINGS):
            try:
                fd = os.open(self._real, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            except FileNotFoundError:
                self._create()
                continue
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise JournalError(f"{self.path} is not a file, so it cannot be a journal.")
                if not forks.own(fd):
                    raise _in_use(self.path)
                # Its owner may have replaced it meanwhile: then this lock guards a file without
                # a name, and what would be written there is lost.
                if forks.has_name(fd, self._real):
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
        raise _in_use(self.path)

    def _create(self) -> None:
        if self.path.is_symlink():
            raise JournalError(
                f"The journal {self.path} is a link to {self._real}, which does not exist. "
                "Nothing was changed. Name a file, or put the journal back where the link leads."
            )
        self._real.parent.mkdir(parents=True, exist_ok=True)
        # Process ids repeat, in containers above all, and a killed process leaves its draft.
        draft = self._real.with_name(f"{self._real.name}.{uuid.uuid4().hex}.new")
        with contextlib.ExitStack() as stack:
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            stack.callback(draft.unlink)
            stack.callback(os.close, fd)
            _write(fd, _line(_HEAD))
            # Unlike a rename, this never replaces a journal that somebody made meanwhile.
            with contextlib.suppress(FileExistsError):
                os.link(draft, self._real)
        _sync_folder(self._real.parent)

    def _read(
        self, repair: bool, take_in: Callable[[Mapping[str, Any]], None]
    ) -> list[dict[str, Any]]:
        assert self._fd is not None
        with open(self._fd, "rb", closefd=False) as file:
            content = file.read()
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
            try:
                take_in(record)
            except (TypeError, ValueError, AttributeError) as error:
                raise JournalError(
                    f"Line {number} of the journal {self.path} was not written by tinker-ext "
                    f"({error.args[0]}). Nothing was changed. Restore the file from a copy, or "
                    "start a new journal and load the last checkpoint."
                ) from None
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
                f"{self.path} is not a journal of tinker-ext. Nothing was changed. Choose another "
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
                f"The journal {self.path} is truncated: its last {extra} bytes are not a whole "
                f"record, after {len(records) - 1} good ones. Nothing was changed. Open it with "
                "repair=True to cut that rest off (the uncut file is kept) and go on from the "
                "last good record."
            )
        assert self._fd is not None
        self._keep_copy(content)
        os.ftruncate(self._fd, len(content) - extra)
        mark = {"t": "repaired"}
        self.append(mark)
        records.append(mark)

    def _keep_copy(self, content: bytes) -> None:
        for number in itertools.count(1):
            ending = ".torn" if number == 1 else f".torn-{number}"
            with contextlib.suppress(FileExistsError):
                with self._real.with_name(self._real.name + ending).open("xb") as file:
                    _write(file.fileno(), content)
                return


def _write(fd: int, content: bytes) -> None:
    """Write everything and wait for the disk; one call may write a part only."""
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.fsync(fd)


def _line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _parse(line: bytes) -> dict[str, Any] | None:
    """The record of a line, None when the line is damaged."""
    try:
        if line[8:9] != b" " or int(line[:8], 16) != zlib.crc32(line[9:]):
            return None
        record = json.loads(line[9:])
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _is_prefix_of_head(content: bytes) -> bool:
    start = b'{"t":"head","format":"' + FORMAT.encode()
    body = content[9:]
    return b"\n" not in content and (body.startswith(start) or start.startswith(body))


def _in_use(path: Path) -> JournalError:
    return JournalError(
        f"The journal {path} is in use by another process or client. Nothing was changed."
    )


def _sync_folder(folder: Path) -> None:
    try:
        fd = os.open(folder, os.O_RDONLY)
    except OSError:  # a system without file descriptors of folders
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
