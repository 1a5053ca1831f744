"""An archive to a directory: plain files and folders only, inside bounds, all or nothing.

A checkpoint archive comes from a server that may be broken or hostile. So nothing but regular files
and directories is accepted, every name is checked before a byte is written, sizes are counted as
they are produced and not as they are announced, and the result is built in a temporary directory
that takes the target's name only when everything went well.
"""

from __future__ import annotations

import os
import shutil
import stat
import struct
import tarfile
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

import attrs

from tinker_ext.errors import DownloadError

BLOCK_BYTES = 1 << 16
# One read inside an archive's own structures; larger ones only serve to fill memory.
READ_BYTES = 4 << 20
GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK"
GZIP_WINDOW = 31


@attrs.frozen
class UnpackLimits:
    """How much an archive may become.

    Attributes:
        max_files: entries, directories included.
        max_bytes: bytes of all files together.
        max_ratio: bytes produced per byte of archive; weights hardly compress, bombs do.
        max_depth: directories below one another.
    """

    max_files: int = 10_000
    max_bytes: int = 1 << 38
    max_ratio: float = 200.0
    max_depth: int = 16


@attrs.frozen
class _Entry:
    """One thing in an archive that may be written."""

    name: PurePosixPath
    is_dir: bool
    size: int
    open: Callable[[], IO[bytes]]


def unpack(
    archive: Path,
    target: Path,
    *,
    limits: UnpackLimits | None = None,
    progress: Callable[[int], None] | None = None,
) -> Path:
    """Unpack a tar, tar.gz or zip archive into a new directory.

    Args:
        archive: the file to read.
        target: the directory to make; it must not exist yet.
        limits: bounds of number, size and depth.
        progress: called with the bytes written so far.

    Returns:
        The target.

    Raises:
        DownloadError: the archive is damaged, too large, or holds anything but plain files and
            directories below the target. Nothing is left behind.
    """
    bounds = limits or UnpackLimits()
    if target.exists():
        raise DownloadError(f"{target} is already there; choose another place or remove it first")
    target.parent.mkdir(parents=True, exist_ok=True)
    workplace = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        inside = workplace / "tree"
        inside.mkdir()
        _write_all(archive, inside, workplace, bounds, progress or (lambda done: None))
        os.replace(inside, target)
    except DownloadError:
        raise
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        OSError,
        ValueError,
        KeyError,
        OverflowError,
        RecursionError,
        RuntimeError,
    ) as error:
        # The standard library meets damage with all of these.
        reason = str(error).splitlines()[0][:200] if str(error) else ""
        raise DownloadError(
            f"{archive.name} cannot be unpacked ({type(error).__name__}: {reason}); fetch it again"
        ) from None
    finally:
        shutil.rmtree(workplace, ignore_errors=True)
    return target


def _write_all(
    archive: Path,
    inside: Path,
    workplace: Path,
    bounds: UnpackLimits,
    progress: Callable[[int], None],
) -> None:
    packed = archive.stat().st_size
    allowed = min(bounds.max_bytes, int(max(packed, 1) * bounds.max_ratio) + (1 << 20))
    written = 0
    names = _Names(bounds)
    with _plain(archive, workplace, allowed) as file:
        for entry in _entries(file):
            place = inside / names.accept(entry)
            if entry.is_dir:
                place.mkdir(parents=True, exist_ok=True)
                continue
            if entry.size > allowed - written:
                raise _too_large(archive, allowed)
            place.parent.mkdir(parents=True, exist_ok=True)
            count = 0
            with entry.open() as source, place.open("xb") as sink:
                while block := source.read(BLOCK_BYTES):
                    count += len(block)
                    if count > entry.size or written + count > allowed:
                        raise _too_large(archive, allowed)
                    sink.write(block)
                    progress(written + count)
            if count != entry.size:
                raise DownloadError(
                    f"{archive.name} is cut short: {entry.name} has {count} of {entry.size} bytes"
                )
            written += count


def _too_large(archive: Path, allowed: int) -> DownloadError:
    return DownloadError(
        f"{archive.name} unpacks to more than the {allowed} bytes allowed for its size; if you "
        "trust it, raise UnpackLimits.max_bytes and max_ratio"
    )


class _Names:
    """The names of one archive so far; it refuses what could land elsewhere or on each other."""

    def __init__(self, bounds: UnpackLimits) -> None:
        self._bounds = bounds
        self._count = 0
        self._is_dir: dict[str, bool] = {}

    def accept(self, entry: _Entry) -> PurePosixPath:
        self._count += 1
        if self._count > self._bounds.max_files:
            raise DownloadError(f"the archive has more than {self._bounds.max_files} entries")
        name = entry.name
        parts = name.parts
        if len(parts) > self._bounds.max_depth:
            raise DownloadError(f"{_shown(name)} lies deeper than {self._bounds.max_depth} folders")
        # File systems differ in case and in the form of accents: names that differ in nothing else
        # would overwrite one another on some of them.
        for depth in range(1, len(parts) + 1):
            key = unicodedata.normalize("NFKC", "/".join(parts[:depth])).casefold()
            is_dir = depth < len(parts) or entry.is_dir
            known = self._is_dir.get(key)
            if known is not None and not (known and is_dir):
                why = "is both a file and a directory" if is_dir else "appears twice in the archive"
                if depth < len(parts):
                    why = "lies below a file of the same archive"
                raise DownloadError(f"{_shown(name)} {why}")
            self._is_dir[key] = is_dir
        return name


def _shown(name: object) -> str:
    return ascii(str(name)[:80])


def _safe_name(raw: str) -> PurePosixPath:
    """Return a name that can only lie below the target, or raise."""
    name = PurePosixPath(raw)
    if name.is_absolute() or ".." in name.parts or ":" in raw:
        raise DownloadError(f"the archive has an entry that would land elsewhere: {_shown(raw)}")
    odd = not raw or "\\" in raw or any(ord(char) < 32 for char in raw)
    if odd or any(part != part.rstrip(". ") for part in name.parts):
        raise DownloadError(f"the archive has an entry with a name that is refused: {_shown(raw)}")
    if any(len(os.fsencode(part)) > 255 for part in name.parts):
        raise DownloadError(f"the archive has an entry with a name too long: {_shown(raw)}")
    return name


class _Guarded:
    """A file that refuses reads large enough to fill memory, whatever a header claims."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seekable = file.seekable
        self.seek = file.seek
        self.tell = file.tell
        self.close = file.close
        self.mode = "rb"

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > READ_BYTES:
            left = os.fstat(self._file.fileno()).st_size - self._file.tell()
            if (left if size < 0 else size) > READ_BYTES:
                raise DownloadError("the archive's own tables are too large; it is refused")
        return self._file.read(size)

    def __enter__(self) -> _Guarded:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _plain(archive: Path, workplace: Path, allowed: int) -> _Guarded:
    """Open an archive, with its gzip layer taken off into a bounded temporary file."""
    with archive.open("rb") as file:
        magic = file.read(2)
    if magic != GZIP_MAGIC:
        return _Guarded(archive.open("rb"))
    plain = workplace / "plain"
    with archive.open("rb") as source, plain.open("xb") as sink:
        _gunzip(archive, source, sink, allowed)
    return _Guarded(plain.open("rb"))


def _gunzip(archive: Path, source: IO[bytes], sink: IO[bytes], allowed: int) -> None:
    # Tar adds a 512-byte header and padding per entry, on top of the files themselves.
    room = allowed + (allowed >> 2) + (1 << 20)
    written = 0
    stream = zlib.decompressobj(GZIP_WINDOW)
    pending = source.read(BLOCK_BYTES)
    while pending:
        block = stream.decompress(pending, BLOCK_BYTES)
        written += len(block)
        if written > room:
            raise _too_large(archive, allowed)
        sink.write(block)
        if stream.eof:
            pending = stream.unused_data or source.read(BLOCK_BYTES)
            if pending.strip(b"\x00"):
                stream = zlib.decompressobj(GZIP_WINDOW)
            else:
                return
        else:
            pending = stream.unconsumed_tail or source.read(BLOCK_BYTES)
    if not stream.eof:
        raise DownloadError(f"{archive.name} is cut short; fetch it again")


def _entries(file: _Guarded) -> Iterator[_Entry]:
    magic = file.read(2)
    file.seek(0)
    return _zip_entries(file) if magic == ZIP_MAGIC else _tar_entries(file)


def _tar_entries(file: Any) -> Iterator[_Entry]:
    with tarfile.open(fileobj=file, mode="r:", errorlevel=2) as opened:
        tar: Any = opened
        seen = False
        while (member := tar.next()) is not None:
            seen = True
            # The list of members is only kept for random access, which is not used here.
            tar.members = []
            if member.issparse() or not (member.isreg() or member.isdir()):
                raise DownloadError(
                    f"the archive has an entry that is neither a file nor a directory: "
                    f"{_shown(member.name)}"
                )
            if member.size < 0:
                raise DownloadError(f"the archive has an entry of negative size: {member.size}")
            reader = partial(tar.extractfile, member)
            yield _Entry(_safe_name(member.name), member.isdir(), member.size, reader)
        if not seen:
            raise DownloadError("the archive is empty")
        file.seek(tar.offset)
        # Without its closing blocks something after it may be missing.
        if file.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
            raise DownloadError("the archive is cut short; fetch it again")


def _zip_entries(file: Any) -> Iterator[_Entry]:
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        if not infos:
            raise DownloadError("the archive is empty")
        for info in infos:
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in {0, stat.S_IFREG, stat.S_IFDIR} or info.flag_bits & 0x1:
                raise DownloadError(
                    f"the archive has an entry that is neither a file nor a directory, or is "
                    f"encrypted: {_shown(info.filename)}"
                )
            if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise DownloadError(f"unknown compression in {_shown(info.filename)}")
            # orig_filename is the name before zipfile cuts it at a NUL or turns separators round.
            yield _Entry(
                _safe_name(info.orig_filename),
                info.is_dir(),
                info.file_size,
                partial(archive.open, info),
            )
