"""A corpus of archives made to escape, collide, lie or explode: name → what makes it."""

import gzip
import io
import tarfile
from collections.abc import Callable, Iterator
from functools import partial

BODY = b"weights"
Row = tuple[str, Callable[[], bytes]]


def tar(*members: tarfile.TarInfo, data: bytes = BODY, form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return out.getvalue()


def file(name: str, size: int = len(BODY)) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    return info


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


ESCAPES = [
    "/etc/passwd", "//etc/passwd", "../evil", "a/../../evil", "a/../../../evil", "..", "../",
    "a/..", "./../evil", "a\\..\\..\\evil", "C:\\evil", "C:evil", "c:/evil", "file:///evil",
    "a/b/../../../evil", "....//evil/..", "evil\n", "evil\x01name", "evil\x7f/../..", "trailing.",
    "trailing ", "a /b", "a./b", "NUL:", "x" * 256, "a/" * 20 + "deep",
]  # fmt: skip

COLLISIONS = [
    ("same", "same"), ("Same", "same"), ("caf\u00e9", "cafe\u0301"), ("a", "a/b"), ("a/b", "a"),
    ("dir/file", "DIR/file"), ("\ufb01le", "file"), ("a", "./a"), ("a//b", "a/b"), ("\u212a", "k"),
]  # fmt: skip

LINKS = [
    ("absolute symlink", tarfile.SYMTYPE, "/etc/passwd"),
    ("relative symlink", tarfile.SYMTYPE, "../../etc/passwd"),
    ("symlink inside", tarfile.SYMTYPE, "file"),
    ("symlink to itself", tarfile.SYMTYPE, "link"),
    ("absolute hardlink", tarfile.LNKTYPE, "/etc/passwd"),
    ("relative hardlink", tarfile.LNKTYPE, "../../etc/passwd"),
    ("hardlink inside", tarfile.LNKTYPE, "file"),
    ("character device", tarfile.CHRTYPE, ""),
    ("block device", tarfile.BLKTYPE, ""),
    ("fifo", tarfile.FIFOTYPE, ""),
    ("unknown type", b"9", ""),
    ("multi volume", b"M", ""),
]


def symlink_chains() -> Iterator[Row]:
    to_etc = special("dir", tarfile.SYMTYPE, "/tmp")
    yield "write through a symlink", lambda: tar(to_etc, file("dir/evil"))
    hop = [special(f"l{i}", tarfile.SYMTYPE, f"l{i + 1}") for i in range(20)]
    last = special("l20", tarfile.SYMTYPE, "..")
    yield "symlink chain", lambda: tar(*hop, last, file("l0/evil"))
    yield "hardlink to symlink", lambda: tar(to_etc, special("hard", tarfile.LNKTYPE, "dir"))
    out = special("x", tarfile.SYMTYPE, "/tmp/evil")
    yield "symlink replaced by file", lambda: tar(out, file("x"))


def bombs() -> Iterator[Row]:
    size = 64 << 20
    yield "gzip of zeros", lambda: gzip.compress(tar(file("zeros", size), data=bytes(size)), 9)
    yield "gzip of gzip members", lambda: gzip.compress(bytes(8 << 20), 9) * 12
    many = [file(f"f{i}", 0) for i in range(300)]
    yield "many entries", lambda: gzip.compress(tar(*many, data=b""), 1)
    big = tarfile.TarInfo("pax")
    big.pax_headers = {"comment": "x" * (6 << 20)}
    yield "huge pax header", lambda: gzip.compress(tar(big), 9)
    long_name = file("n" * (6 << 20))
    yield (
        "huge GNU long name",
        lambda: gzip.compress(tar(long_name, form=tarfile.GNU_FORMAT), 9),
    )


def damaged() -> Iterator[tuple[str, bytes]]:
    good = tar(file("a"), file("b"))
    yield "empty file", b""
    yield "not an archive", b"<html>503</html>" * 100
    yield "zeros only", bytes(10240)
    yield "tar cut in a header", good[:700]
    yield "tar cut in data", good[:516]
    yield "tar without closing blocks", good[:2048]
    yield "gzip cut short", gzip.compress(good)[:-20]
    yield "gzip with a wrong checksum", gzip.compress(good)[:-8] + b"\x00" * 8
    yield "gzip header only", b"\x1f\x8b\x08\x00" + bytes(6)
    yield "a zip file", b"PK\x03\x04" + bytes(600)
    header = bytearray(good)
    header[124:136] = b"-0000000001\x00"
    yield "tar with a negative size", bytes(header)
    header[124:136] = b"\x80" + b"\xff" * 11
    yield "tar with a huge size", bytes(header)


def corpus() -> dict[str, Callable[[], bytes]]:
    rows: dict[str, Callable[[], bytes]] = {}
    for name in ESCAPES:
        rows[f"tar name {name[:20]!r}"] = partial(tar, file(name))
    for a, b in COLLISIONS:
        rows[f"tar collision {a} {b}"] = partial(tar, file(a), file(b))
    for name, kind, link in LINKS:
        rows[name] = partial(tar, file("file"), special("link", kind, link), file("after"))
    rows.update(symlink_chains())
    rows.update(bombs())
    rows.update((name, partial(bytes, data)) for name, data in damaged())
    return rows
