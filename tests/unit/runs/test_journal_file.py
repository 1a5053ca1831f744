"""The journal file: whole lines or a refusal, and never a lost byte."""

from __future__ import annotations

import errno
import json
import os
import resource
import zlib

import pytest

from tinker_ext import forks
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


def test_a_journal_that_was_repaired_says_so_after_it_was_summed_up(path):
    """M20: what was cut off is not there, however short the file has become."""
    path.write_bytes(path.read_bytes()[:-5])
    file = JournalFile(path, repair=True)
    file.rewrite({"t": "note", "n": 3})
    file.close()
    with pytest.raises(JournalError, match="is closed"):
        file.rewrite({"t": "note", "n": 4})
    again = JournalFile(path)
    assert again.repaired
    assert again.records[-1]["n"] == 3
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
    refused(path, "is not a journal of tinker-ext")
    refused(path, "is not a journal of tinker-ext", repair=True)


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
        journal.note("attach")


# -- files that cannot be written --------------------------------------------------------------


def files(path):
    """Descriptors of this process in the folder of a test; those of others come and go."""
    folder = next(place for place in (path, *path.parents) if place.name.startswith("test_"))
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    found = [os.readlink(link) for link in links if os.path.exists(link)]
    return [name for name in found if name.startswith(str(folder))]


def test_a_short_write_does_not_replace_the_journal(path):
    """M20: a disk that fills up while the journal is replaced costs nothing but its length."""
    file = JournalFile(path)
    before, soft = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, soft[1]))
    try:
        with pytest.raises(JournalError, match="cannot be written: File too large"):
            file.rewrite({"t": "state", "notes": {"x": "y" * 2000}})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, soft)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    file.append({"t": "note", "n": 3})
    file.close()
    again = JournalFile(path)
    assert [record["n"] for record in again.records] == [0, 1, 2, 3]
    again.close()


def test_a_draft_that_cannot_be_taken_leaves_the_journal(path, monkeypatch):
    """M20: nothing is left open or behind when the new file is not ours."""
    file = JournalFile(path)
    before, held = path.read_bytes(), len(files(path))
    monkeypatch.setattr(forks, "own", lambda fd: False)
    with pytest.raises(JournalError, match="in use"):
        file.rewrite({"t": "state"})
    assert (path.read_bytes(), len(files(path))) == (before, held)
    assert os.listdir(path.parent) == [path.name]
    file.close()


def test_drafts_of_killed_processes_are_in_nobodys_way(tmp_path):
    """M20: process ids repeat in containers, names of drafts do not."""
    path = tmp_path / "run.journal"
    (tmp_path / f"run.journal.{os.getpid()}.new").write_bytes(b"half")
    (tmp_path / "run.journal.new").write_bytes(b"half")
    file = JournalFile(path)
    file.rewrite({"t": "state"})
    file.close()
    JournalFile(path).close()


def test_a_linked_journal_stays_linked(path, tmp_path):
    """M20: replacing a journal replaces the file itself, so both names are one run."""
    link = tmp_path / "link"
    link.symlink_to(path)
    file = JournalFile(link)
    file.rewrite({"t": "state"})
    refused(path, "in use")
    file.close()
    assert link.is_symlink()


# -- paths that cannot be used -----------------------------------------------------------------


def unusable(path, *words):
    held = len(files(path))
    with pytest.raises(JournalError) as caught:
        Journal(path)
    assert len(files(path)) == held
    for word in words:
        assert word in str(caught.value)


def test_paths_that_cannot_be_used_say_why(tmp_path):
    """M20: one kind of error for whatever stands in the way, and nothing is made."""
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    unusable(tmp_path, "Is a directory")
    unusable(tmp_path / "file" / "run", "Not a directory")
    unusable(tmp_path / "nowhere", "is a link to", "does not exist")
    unusable(tmp_path / "round", "symbolic link")
    unusable(tmp_path / "a\0b", "embedded null")  # "byte" or "character", by version
    unusable(tmp_path / "pipe", "is not a file")
    unusable(tmp_path / ("x" * 300), "too long")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_folder_that_takes_no_file_says_so(tmp_path, monkeypatch):
    """M20: neither a folder that cannot be made nor one that cannot be written to is a riddle."""

    def deny(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "mkdir", deny)
    unusable(tmp_path / "new" / "run", "Permission denied")
    monkeypatch.setattr(os, "link", deny)
    unusable(tmp_path / "run", "Permission denied")
    assert os.listdir(tmp_path) == []


def test_missing_folders_are_made(tmp_path):
    """M20: a run may be started in a folder that does not exist yet."""
    JournalFile(tmp_path / "a" / "b" / "run").close()
    assert os.listdir(tmp_path / "a" / "b") == ["run"]


HEAD = {"t": "head", "format": "tinker-ext run journal", "version": 1, "by": "0.1.0"}


def line(text):
    return b"%08x %b\n" % (zlib.crc32(text), text)


@pytest.mark.parametrize(
    "text",
    [
        '{"t":"plan"}',
        '{"t":"plan","plan":5}',
        '{"t":"plan","plan":{}}',
        '{"t":"plan","plan":{"base_model":"m","rank":"4"}}',
        '{"t":"plan","plan":{"state":5,"base_model":"m","rank":4}}',
        '{"t":"plan","plan":{"state":"s","with_optimizer":"no","base_model":"m","rank":4}}',
        '{"t":"model"}',
        '{"t":"model","session":"s","model":"m","number":0,"seq":"1","step":0}',
        '{"t":"leave","seq":1}',
        '{"t":"leave","seq":"1","op":"optim_step","digest":"d"}',
        '{"t":"take","seq":[]}',
        '{"t":"done"}',
        '{"t":"end"}',
        '{"t":"saved"}',
        '{"t":"step","step":"x","seq":1}',
        '{"t":"state","life":{"a":1}}',
        '{"t":"state","checkpoints":[7]}',
        '{"t":"state","next_step":null}',
        "[" * 200_000,
        '{"a":' * 200_000,
    ],
    ids=lambda text: text[:40],
)
@pytest.mark.parametrize("last", [True, False])
def test_records_that_make_no_sense_are_refused(tmp_path, text, last):
    """M20: a good checksum does not make a good record; the file stays and is given back."""
    path = tmp_path / "run.journal"
    after = b"" if last else line(b'{"t":"attach"}')
    path.write_bytes(line(json.dumps(HEAD).encode()) + line(text.encode()) + after)
    before = path.read_bytes()
    for _ in range(2):
        unusable(path, str(path), "Nothing was changed")
    if not last:
        with pytest.raises(JournalError, match="Line 2"):
            Journal(path, repair=True)
    assert path.read_bytes() == before


def test_fields_of_a_later_writer_are_passed_over(tmp_path):
    """M20: what is not known of a known kind is of no consequence either."""
    path = tmp_path / "run.journal"
    state = b'{"t":"state","next_step":3,"apply":1,"in_doubt":2,"kept":7,"mood":"good"}'
    path.write_bytes(line(json.dumps(HEAD).encode()) + line(state) + line(b'{"t":["x"]}'))
    journal = Journal(path)
    assert (journal.state.next_step, journal.state.requests) == (3, {})
    journal.close()


# -- two at once -------------------------------------------------------------------------------


def test_a_lock_on_a_replaced_file_is_noticed(path, monkeypatch):
    """M20: a process that opened the old file while it was replaced does not get the run too."""
    owner = JournalFile(path)
    real, late = os.open, []

    def open_then_replace(name, flags, *rest):
        fd = real(name, flags, *rest)
        if not late and str(name) == str(path):
            late.append(fd)
            owner.rewrite({"t": "state", "next_step": 1})
        return fd

    monkeypatch.setattr(os, "open", open_then_replace)
    unusable(path, "in use")
    monkeypatch.undo()
    assert late
    owner.append({"t": "note", "n": 1})
    owner.close()
    again = JournalFile(path)
    assert again.records[-1] == {"t": "note", "n": 1}
    again.close()


def test_a_second_repair_keeps_the_first_copy(path):
    """M20: every uncut file stays, however often one is repaired."""
    torn = []
    for _ in range(3):
        torn.append(path.read_bytes()[:-5])
        path.write_bytes(torn[-1])
        JournalFile(path, repair=True).close()
    names = ["run.journal.torn", "run.journal.torn-2", "run.journal.torn-3"]
    assert [path.with_name(name).read_bytes() for name in names] == torn
