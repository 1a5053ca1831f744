"""Why an archive is refused, in words, and how much one may hold: the last that fits, one more."""

from __future__ import annotations

import gzip
import tarfile

import pytest
from unit.downloads.archives import BODY, file, special, tar

from tinker_ext.downloads import UnpackLimits, unpack
from tinker_ext.errors import DownloadError


def folder(name: str) -> tarfile.TarInfo:
    return special(name, tarfile.DIRTYPE)


WHOLE = tar(file("a/b"), folder("a/c"), file("d"))
PACKED = gzip.compress(WHOLE)

REASONS = {
    "cut in its last checksum": (PACKED[:-1], "archive is cut short; fetch it again"),
    "cut before its checksum": (PACKED[:-8], "archive is cut short; fetch it again"),
    "second part cut": (PACKED + gzip.compress(b"more")[:-4], "cut short; fetch it again"),
    "no closing blocks": (tar(file("a"))[:1024], "the archive is cut short; fetch it again"),
    "empty tar": (tar(), "empty|cannot be unpacked"),
    "link": (tar(special("l", tarfile.SYMTYPE, "/etc")), "neither a file nor a directory: 'l'"),
    "device": (tar(special("l", tarfile.CHRTYPE)), "neither a file nor a directory: 'l'"),
    "elsewhere": (tar(file("../x")), r"would land elsewhere: '\.\./x'"),
    "absolute": (tar(file("/x")), "would land elsewhere: '/x'"),
    "drive": (tar(file("c:x")), "would land elsewhere: 'c:x'"),
    "control": (tar(file("a\x1fb")), "with a name that is refused: "),
    "dot at the end": (tar(file("a./b")), r"a name that is refused: 'a\./b'"),
    "blank at the end": (tar(file("a /b")), "a name that is refused: 'a /b'"),
    "twice": (tar(file("x"), file("X")), "'X' appears twice in the archive"),
    "file then folder": (tar(file("x"), folder("x")), "'x' is both a file and a directory"),
    "folder then file": (tar(folder("x"), file("x")), "'x' appears twice in the archive"),
    "below a file": (tar(file("x"), file("x/y")), "'x/y' lies below a file of the same archive"),
    "parent then file": (tar(file("x/y"), file("x")), "'x' appears twice in the archive"),
    "too long": (tar(file("x" * 256)), "with a name too long: "),
    "no archive": (b"PK" + b"x" * 600, r"cannot be unpacked \(ReadError: .*\); fetch it again"),
}


@pytest.mark.parametrize("case", REASONS)
def test_a_refusal_says_why(tmp_path, case):
    """M37: whoever fetches a checkpoint learns what is wrong with it."""
    data, words = REASONS[case]
    (tmp_path / "archive").write_bytes(data)
    with pytest.raises(DownloadError, match=words):
        unpack(tmp_path / "archive", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]


@pytest.mark.parametrize(
    "data",
    [
        WHOLE,
        PACKED,
        PACKED + bytes(700),  # padding of a tape
        gzip.compress(WHOLE[:700]) + gzip.compress(WHOLE[700:]),  # written in two parts
        tar(file("a/b"), folder("a/c/"), file("./d")),
        tar(folder("./"), file("a/b"), folder("a/c/"), file("d")),
        tar(folder("a/c"), file("a/b"), file("d")),  # a folder before the one it is in
        tar(file("a/b"), folder("a"), folder("a/c"), folder("a/c"), file("d")),
    ],
)
def test_other_ways_to_write_the_same_archive(tmp_path, data):
    """M37: each of them is what some program writes."""
    (tmp_path / "archive").write_bytes(data)
    out = unpack(tmp_path / "archive", tmp_path / "new" / "out")
    assert out == tmp_path / "new" / "out"
    found = sorted(path.relative_to(out).as_posix() for path in out.rglob("*"))
    assert found == ["a", "a/b", "a/c", "d"]
    assert (out / "a/b").read_bytes() == (out / "d").read_bytes() == BODY
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_files": 3}, None),
        ({"max_files": 2}, "more than 2 entries"),
        ({"max_depth": 2}, None),
        ({"max_depth": 1}, "'a/b' lies deeper than 1 folders"),
        ({"max_bytes": 2 * len(BODY)}, None),
        ({"max_bytes": 2 * len(BODY) - 1}, "unpacks to more than the 13 bytes allowed"),
    ],
)
@pytest.mark.parametrize("data", [WHOLE, PACKED], ids=["tar", "tar.gz"])
def test_what_just_fits_is_unpacked(tmp_path, data, limits, words):
    """M37: a bound is the largest number that is allowed."""
    (tmp_path / "archive").write_bytes(data)
    if words is None:
        unpack(tmp_path / "archive", tmp_path / "out", limits=UnpackLimits(**limits))
        return
    with pytest.raises(DownloadError, match=words):
        unpack(tmp_path / "archive", tmp_path / "out", limits=UnpackLimits(**limits))


@pytest.mark.parametrize(("size", "fits"), [(1 << 20, True), ((1 << 20) + 90_000, False)])
def test_a_small_archive_may_become_a_megabyte(tmp_path, size, fits):
    """M37: and a ratio more than that for each of its bytes; 200 where nobody says otherwise."""
    data = gzip.compress(tar(file("zeros", size), data=bytes(size)))
    (tmp_path / "archive").write_bytes(data)
    room = (1 << 20) + int(len(data) * 10.0)
    assert (size <= room) is fits
    if fits:
        unpack(tmp_path / "archive", tmp_path / "out", limits=UnpackLimits(max_ratio=10.0))
        return
    with pytest.raises(DownloadError, match=f"more than the {room} bytes"):
        unpack(tmp_path / "archive", tmp_path / "out", limits=UnpackLimits(max_ratio=10.0))
    unpack(tmp_path / "archive", tmp_path / "out")


@pytest.mark.parametrize(("table", "fits"), [(1_700_000, True), (2_200_000, False)])
def test_tables_may_take_a_quarter_and_a_megabyte_more(tmp_path, table, fits):
    """M37: names and notes of an archive are read into memory, so they are bounded too."""
    noted = file("weights", 4 << 20)
    noted.pax_headers = {"comment": "x" * table}
    (tmp_path / "archive").write_bytes(tar(noted, data=bytes(4 << 20)))
    limits = UnpackLimits(max_bytes=4 << 20)
    if fits:
        unpack(tmp_path / "archive", tmp_path / "out", limits=limits)
        return
    with pytest.raises(DownloadError, match=r"archive unpacks to more than the 4194304 bytes"):
        unpack(tmp_path / "archive", tmp_path / "out", limits=limits)


def test_a_path_that_is_too_long_is_not_told_in_full(tmp_path):
    """M37: each folder has a name that is allowed, and no file system takes all of them."""
    (tmp_path / "archive").write_bytes(tar(file("/".join(["x" * 255] * 16))))
    with pytest.raises(DownloadError, match=r"cannot be unpacked \(OSError: .*fetch it") as caught:
        unpack(tmp_path / "archive", tmp_path / "out")
    assert len(str(caught.value)) < 300


def test_progress_counts_over_all_files(tmp_path):
    """M37: bytes written so far, in blocks of 64 KB."""
    sizes, seen = (150_000, 10, 70_000), []
    members = [file(f"f{n}", size) for n, size in enumerate(sizes)]
    (tmp_path / "archive").write_bytes(gzip.compress(tar(*members, data=bytes(max(sizes)))))
    out = unpack(tmp_path / "archive", tmp_path / "out", progress=seen.append)
    written = [path.stat().st_size for path in sorted(out.iterdir())]
    assert seen == sorted(seen)
    assert seen[0] == 65_536
    assert seen[-1] == sum(written)
    assert {written[0], sum(written[:2])} <= set(seen)
