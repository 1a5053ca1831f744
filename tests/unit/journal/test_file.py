"""The journal file: whole lines or a refusal, and never a lost byte."""

from __future__ import annotations

import errno
import json
import os
import zlib

import pytest

from tinker_ext.journal import Journal, JournalError, JournalFile


@pytest.fixture
def path(tmp_path):
    """A journal with three records."""
    path = tmp_path / "run.journal"
    file = JournalFile(path)
    for number in range(3):
        file.append({"t": "note", "n": number})
    file.close()
    return path


def refused(path, *words, **options):
    before = path.read_bytes()
    with pytest.raises(JournalError) as caught:
        JournalFile(path, **options)
    assert path.read_bytes() == before
    for word in (str(path), *words):
        assert word in str(caught.value)


def test_records_come_back(path):
    """M20: what was appended is read again, in order."""
    file = JournalFile(path)
    assert [record["n"] for record in file.records] == [0, 1, 2]
    file.append({"t": "note", "n": 3})
    file.close()
    again = JournalFile(path)
    assert [record["n"] for record in again.records] == [0, 1, 2, 3]
    again.close()


def test_every_cut_is_refused_or_whole(path):
    """M20: a journal cut at any byte is refused with a reason, unless the cut lost no half line."""
    content = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == 10]
    for size in range(len(content)):
        path.write_bytes(content[:size])
        if size in ends:
            file = JournalFile(path)
            assert len(file.records) == ends.index(size)
            file.close()
        elif size < ends[0]:
            refused(path, "cut off in its first line", "Delete it")
        else:
            refused(path, "truncated", "repair=True", "Nothing was changed")


def test_repair_cuts_the_rest_off_and_keeps_it(path):
    """M20: repair drops the torn line only, remembers that it did, and keeps the uncut file."""
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    file = JournalFile(path, repair=True)
    assert [record.get("n") for record in file.records] == [0, 1, None]
    assert file.repaired
    file.append({"t": "note", "n": 9})
    file.close()
    assert path.with_name("run.journal.torn").read_bytes() == content[:-5]
    again = JournalFile(path)
    assert again.repaired
    assert again.records[-1]["n"] == 9
    again.close()


def test_damage_in_the_middle_is_refused_even_with_repair(path):
    """M20: a line that others follow was not torn by a crash."""
    content = bytearray(path.read_bytes())
    content[content.index(b'"n":1') + 4] ^= 1
    path.write_bytes(content)
    refused(path, "Line 3", "damaged", repair=True)


@pytest.mark.parametrize("content", [b"step,loss\n1,2\n", b'{"type":"step"}\n', b"\x00" * 50])
def test_a_foreign_file_is_refused(tmp_path, content):
    """M20: a file of somebody else is neither read nor touched."""
    path = tmp_path / "mine.txt"
    path.write_bytes(content)
    refused(path, "is no journal of tinker-ext")
    refused(path, "is no journal of tinker-ext", repair=True)


def test_a_newer_version_is_refused(path):
    """M20: a journal of a later tinker-ext is left to it."""
    head = {"t": "head", "format": "tinker-ext run journal", "version": 2, "by": "9.9"}
    text = json.dumps(head).encode()
    rest = path.read_bytes().split(b"\n", 1)[1]
    path.write_bytes(b"%08x %b\n" % (zlib.crc32(text), text) + rest)
    refused(path, "version 2", "9.9", "newer")


def test_an_empty_file_is_refused(tmp_path):
    """M20: a journal cut to nothing must not start the run again from the beginning."""
    path = tmp_path / "empty"
    path.touch()
    refused(path, "cut off")


def test_one_owner_at_a_time(path):
    """M20: two processes cannot resume the same run."""
    first = JournalFile(path)
    refused(path, "in use")
    first.close()
    JournalFile(path).close()


def test_a_full_disk_leaves_no_half_line(path, monkeypatch):
    """M20: a write that fails is taken back, so that the next one starts on a line of its own."""
    file = JournalFile(path)
    before = path.read_bytes()
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data[:7])) and _full())
    with pytest.raises(JournalError, match="cannot be written"):
        file.append({"t": "note"})
    monkeypatch.undo()
    assert path.read_bytes() == before
    file.append({"t": "note", "n": 4})
    file.close()
    assert JournalFile(path).records[-1]["n"] == 4


def _full():
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_rewritten_journal_has_one_owner_too(path):
    """M20: the new file is taken before it has the name of the old one."""
    file = JournalFile(path)
    file.rewrite({"t": "state", "n": 7})
    refused(path, "in use")
    file.append({"t": "note", "n": 8})
    file.close()
    again = JournalFile(path)
    assert [record["n"] for record in again.records] == [7, 8]
    again.close()
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_closed_journal_says_so(path):
    """M20: writing after close is a clear error."""
    journal = Journal(path)
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.attached()
