"""What a program was told is there outlasts a machine that stops: it is on the disk by then."""

from __future__ import annotations

import os

import pytest

from tinker_ext import auth
from tinker_ext.downloads.fetch import Part
from tinker_ext.journal import JournalFile


class Disk:
    """What a machine that stops now would find: how much of each file, and which names."""

    def __init__(self, monkeypatch):
        self.sizes: dict[int, int] = {}
        self.named: list[str] = []
        for name in ("replace", "link"):
            monkeypatch.setattr(os, name, self._naming(getattr(os, name)))
        real = os.fsync
        monkeypatch.setattr(os, "fsync", lambda fd: (real(fd), self._synced(os.fstat(fd))))

    def _synced(self, found):
        self.sizes[found.st_ino] = found.st_size

    def _naming(self, real):
        def name(source, target):
            self.named.append(os.fspath(target))
            assert self.has(source), f"{target} is named before it is there"
            self.sizes.pop(os.stat(os.path.dirname(target)).st_ino, None)
            real(source, target)

        return name

    def has(self, path):
        found = os.stat(path)
        return self.sizes.get(found.st_ino) == found.st_size


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def test_a_record_of_a_journal_is_on_the_disk_before_anything_is_sent(tmp_path, disk):
    """M20: so is its name, also when the file is made and when it is replaced."""
    path = tmp_path / "run.journal"
    file = JournalFile(path)
    assert disk.has(path)
    assert tmp_path.stat().st_ino in disk.sizes
    for number in range(2):
        file.append({"t": "note", "n": number})
        assert disk.has(path)
    file.rewrite({"t": "note", "n": 9})
    assert disk.has(path)
    assert tmp_path.stat().st_ino in disk.sizes
    file.close()
    path.write_bytes(path.read_bytes() + b"torn")
    JournalFile(path, repair=True).close()
    assert disk.has(path)
    assert disk.has(tmp_path / "run.journal.torn")
    assert disk.named == [str(path)] * 2


def test_a_download_has_its_name_when_all_of_it_is_on_the_disk(tmp_path, disk):
    """M37: whoever finds the name finds the whole file."""
    target = tmp_path / "weights"
    part = Part.of(target)
    part.path.write_bytes(b"x" * 1000)
    part.finish(target)
    assert disk.named == [str(target)]
    assert disk.has(target)


def test_a_stored_key_is_on_the_disk_before_it_replaces_the_others(tmp_path, disk):
    """M33: a machine that stops leaves the old keys or the new ones."""
    store = auth.CredentialStore(tmp_path / "credentials.json")
    store.add("tml-first", key_id="1", name="laptop")
    assert disk.named == [str(store.path)]
    assert disk.has(store.path)
