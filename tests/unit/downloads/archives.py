"""A corpus of archives made to escape, collide, lie or explode; each row is (name, bytes)."""

import gzip
import io
import stat
import struct
import tarfile
import zipfile
from collections.abc import Iterator

BODY = b"weights"


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


def zipped(*entries: tuple[str, bytes], mode: int = 0, **info: object) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            entry = zipfile.ZipInfo("placeholder")
            entry.filename = name
            entry.external_attr = mode << 16
            for key, value in info.items():
                setattr(entry, key, value)
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


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


def symlink_chains() -> Iterator[tuple[str, bytes]]:
    to_etc = special("dir", tarfile.SYMTYPE, "/tmp")
    yield "write through a symlink", tar(to_etc, file("dir/evil"))
    hop = [special(f"l{i}", tarfile.SYMTYPE, f"l{i + 1}") for i in range(20)]
    yield "symlink chain", tar(*hop, special("l20", tarfile.SYMTYPE, ".."), file("l0/evil"))
    yield "hardlink to symlink", tar(to_etc, special("hard", tarfile.LNKTYPE, "dir"))
    yield "symlink replaced by file", tar(special("x", tarfile.SYMTYPE, "/tmp/evil"), file("x"))


def bombs() -> Iterator[tuple[str, bytes]]:
    zeros = bytes(64 << 20)
    yield "gzip of zeros", gzip.compress(tar(file("zeros", len(zeros)), data=zeros), 9)
    yield "gzip of gzip members", gzip.compress(bytes(8 << 20), 9) * 12
    yield "zip of zeros", zipped(("zeros", zeros))
    yield (
        "many entries",
        gzip.compress(tar(*(file(f"f{i}", 0) for i in range(1_500)), data=b""), 1),
    )
    big = tarfile.TarInfo("pax")
    big.pax_headers = {"comment": "x" * (6 << 20)}
    yield "huge pax header", gzip.compress(tar(big), 9)
    long_name = file("n" * (6 << 20))
    yield "huge GNU long name", gzip.compress(tar(long_name, form=tarfile.GNU_FORMAT), 9)
    yield "many small files in a zip", zipped(*((f"f{i}", b"") for i in range(1_500)))


def damage() -> Iterator[tuple[str, bytes]]:
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
    packed = zipped(("a", BODY))
    yield "zip cut short", packed[:-10]
    yield "zip with damaged data", packed.replace(packed[41:45], b"\xff\xff\xff\xff", 1)
    yield (
        "encrypted zip",
        packed.replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"),
    )
    header = bytearray(good)
    header[124:136] = b"-0000000001\x00"
    yield "tar with a negative size", bytes(header)
    header[124:136] = b"\x80" + b"\xff" * 11
    yield "tar with a huge size", bytes(header)
    end = packed.rfind(b"PK\x05\x06")
    lie = packed[:end] + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65535, 65535, 2**32 - 1, 0, 0)
    yield "zip with a lying directory", lie


def corpus() -> list[tuple[str, bytes]]:
    rows = [(f"tar name {name[:20]!r}", tar(file(name))) for name in ESCAPES]
    rows += [(f"zip name {name[:20]!r}", zipped((name, BODY))) for name in ESCAPES]
    rows += [(f"tar collision {a} {b}", tar(file(a), file(b))) for a, b in COLLISIONS]
    rows += [(f"zip collision {a} {b}", zipped((a, BODY), (b, BODY))) for a, b in COLLISIONS]
    rows += [
        (name, tar(file("file"), special("link", kind, link), file("after")))
        for name, kind, link in LINKS
    ]
    rows.append(("zip symlink", zipped(("link", b"/etc/passwd"), mode=stat.S_IFLNK | 0o777)))
    rows.append(("zip device", zipped(("dev", b""), mode=stat.S_IFCHR | 0o666)))
    return [*rows, *symlink_chains(), *bombs(), *damage()]
