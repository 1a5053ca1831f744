"""A journal that cannot be opened, replaced or kept leaves no descriptor behind, nor its lock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tinker_ext import forks
from tinker_ext.journal import file as files
from tinker_ext.journal.file import JournalError, JournalFile

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts by /proc")


def opened() -> set[str]:
    """What this process has open, by name; descriptors of the loop and of pytest have none."""
    found = set()
    for each in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{each}"))
        except OSError:
            continue
    return found


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "journal"
    made = JournalFile(place)
    made.append({"t": "x"})
    made.close()
    yield place
    assert not [name for name in opened() if name.startswith(str(tmp_path))]
    place.unlink(missing_ok=True)


def fails(error):
    def call(*_, **__):
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(5, "Input/output error"), JournalError),
        (ValueError("embedded null byte"), JournalError),
        (JournalError("damaged"), JournalError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_journal_that_cannot_be_read_is_let_go(path, monkeypatch, error, raised):
    """M22: whatever the reason; the next one who opens it finds it free."""
    with monkeypatch.context() as patched:
        patched.setattr(JournalFile, "_read", fails(error))
        with pytest.raises(raised):
            JournalFile(path)
    assert not [name for name in opened() if name.startswith(str(path))]
    again = JournalFile(path)
    assert again.records[-1] == {"t": "x"}
    again.close()


def test_a_journal_that_is_in_use_is_let_go(path):
    """M22: by who was refused; its owner keeps it."""
    owner = JournalFile(path)
    with pytest.raises(JournalError, match=r"us(e|ing)"):
        JournalFile(path)
    mine = [each for each in os.listdir("/proc/self/fd") if _leads(each, path)]
    assert len(mine) == 1
    owner.append({"t": "y"})
    owner.close()


def _leads(descriptor: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}") == str(path)
    except OSError:
        return False


def test_a_pipe_is_no_journal_and_is_let_go(tmp_path):
    """M22: what is no file cannot be one."""
    place = tmp_path / "pipe"
    os.mkfifo(place)
    with pytest.raises(JournalError, match="is not a file"):
        JournalFile(place)
    assert not [name for name in opened() if name.startswith(str(tmp_path))]


def test_a_file_that_was_replaced_meanwhile_is_let_go(path, monkeypatch):
    """M22: and the one that has the name now is taken."""
    answers = [False, False]
    real = forks.has_name
    monkeypatch.setattr(forks, "has_name", lambda *a: answers.pop() if answers else real(*a))
    journal = JournalFile(path)
    assert len([each for each in os.listdir("/proc/self/fd") if _leads(each, path)]) == 1
    journal.close()


def test_a_file_that_is_always_replaced_is_in_use(path, monkeypatch):
    """M22: after ten tries; none of them stays open."""
    asked = []
    monkeypatch.setattr(forks, "has_name", lambda *_: asked.append(1))
    with pytest.raises(JournalError, match=r"us(e|ing)"):
        JournalFile(path)
    assert len(asked) == 10


@pytest.mark.parametrize("works", [True, False])
def test_a_replaced_journal_has_one_descriptor(path, monkeypatch, works):
    """M22: the old one, the draft and the folder are closed, whether it worked or not."""
    journal = JournalFile(path)
    if works:
        journal.rewrite({"t": "z"})
    else:
        with monkeypatch.context() as patched:
            patched.setattr(files.os, "replace", fails(OSError(28, "No space left on device")))
            with pytest.raises(JournalError):
                journal.rewrite({"t": "z"})
    names = [name for name in opened() if name.startswith(str(path.parent))]
    assert names == [str(path)]
    assert [each.name for each in path.parent.iterdir()] == ["journal"]
    journal.append({"t": "last"})
    journal.close()
    again = JournalFile(path)
    assert [record["t"] for record in again.records][-2:] == ["z" if works else "x", "last"]
    again.close()


def test_a_forked_child_lets_go_of_the_file(path):
    """F19: or the lock of the parent would outlive it."""
    journal = JournalFile(path)
    journal.after_fork()
    assert not [name for name in opened() if name.startswith(str(path))]
    with pytest.raises(JournalError, match="closed"):
        journal.append({"t": "y"})
