"""A tar archive to a directory: plain files and folders only, inside bounds, all or nothing.

A checkpoint archive comes from a server that may be broken or hostile. So nothing but regular files
and directories is accepted, every name is checked before a byte is written, sizes are counted as
they are produced and not as they are announced, and the result is built in a temporary directory
that takes the target's name only when everything went well.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import tarfile
import tempfile
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

import attrs

from tinker_ext.errors import DownloadError

BLOCK_BYTES = 1 << 16
# One read inside an archive's own structures; larger ones only serve to fill memory.
READ_BYTES = 4 << 20
GZIP_MAGIC = b"\x1f\x8b"


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


def unpack(
    archive: Path,
    target: Path,
    *,
    limits: UnpackLimits | None = None,
    progress: Callable[[int], None] | None = None,
) -> Path:
    """Unpack a tar or tar.gz archive into a new directory.

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
        _write_all(archive, inside, bounds, progress or (lambda done: None))
        os.replace(inside, target)
    except EOFError:
        raise DownloadError(f"{archive.name} is cut short; fetch it again") from None
    except (
        tarfile.TarError,
        zlib.error,
        OSError,
        ValueError,
        KeyError,
        OverflowError,
        RecursionError,
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
    archive: Path, inside: Path, bounds: UnpackLimits, progress: Callable[[int], None]
) -> None:
    packed = archive.stat().st_size
    allowed = min(bounds.max_bytes, int(max(packed, 1) * bounds.max_ratio) + (1 << 20))
    written = 0
    names = _Names(bounds)
    with contextlib.closing(_Guarded(archive, allowed)) as file:
        for member, source in _members(file):
            place = inside / names.accept(member)
            if member.isdir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            if member.size > allowed - written:
                raise _too_large(archive, allowed)
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as sink:
                while block := source.read(BLOCK_BYTES):
                    written += len(block)
                    sink.write(block)
                    progress(written)
            if place.stat().st_size != member.size:
                raise EOFError


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

    def accept(self, member: tarfile.TarInfo) -> PurePosixPath:
        self._count += 1
        if self._count > self._bounds.max_files:
            raise DownloadError(f"the archive has more than {self._bounds.max_files} entries")
        name = _safe_name(member.name)
        parts = name.parts
        if len(parts) > self._bounds.max_depth:
            raise DownloadError(f"{_shown(name)} lies deeper than {self._bounds.max_depth} folders")
        # File systems differ in case and in the form of accents: names that differ in nothing else
        # would overwrite one another on some of them.
        for depth in range(1, len(parts) + 1):
            key = unicodedata.normalize("NFKC", "/".join(parts[:depth])).casefold()
            is_dir = depth < len(parts) or member.isdir()
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
    """An archive without its gzip layer, which refuses reads that only serve to fill memory."""

    def __init__(self, archive: Path, allowed: int) -> None:
        with archive.open("rb") as start:
            opener: Any = gzip.open if start.read(2) == GZIP_MAGIC else open
        self._file = file = opener(archive, "rb")
        self.last = b""
        """What was read last."""
        self.seek, self.tell, self.close = file.seek, file.tell, file.close
        self._archive, self._allowed = archive, allowed
        # Tar adds a 512-byte header and padding per entry, on top of the files themselves.
        self._room = allowed + (allowed >> 2) + (1 << 20)

    def read(self, size: int) -> bytes:
        if size > READ_BYTES:
            raise DownloadError("the archive's own tables are too large; it is refused")
        self.last = self._file.read(size)
        self._room -= len(self.last)
        if self._room < 0:
            raise _too_large(self._archive, self._allowed)
        return self.last


def _members(file: Any) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
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
            yield member, tar.extractfile(member)
        if not seen:
            raise DownloadError("the archive is empty")
        # Without its closing blocks something after it may be missing.
        if file.last != tarfile.NUL * tarfile.BLOCKSIZE:
            raise DownloadError("the archive is cut short; fetch it again")
        while file.read(BLOCK_BYTES):
            pass  # to the end, where gzip keeps the checksum
