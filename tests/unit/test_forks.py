"""Files of one process: whose they are, and which name they have."""

from __future__ import annotations

import sys

from tinker_ext import forks


def test_a_file_has_its_name_until_another_takes_it(tmp_path):
    """F22: a file that was replaced or deleted is not written to any more."""
    path = tmp_path / "a"
    with path.open("w") as file:
        assert forks.has_name(file.fileno(), path)
        path.rename(tmp_path / "b")
        assert not forks.has_name(file.fileno(), path)
        path.write_text("another")
        assert not forks.has_name(file.fileno(), path)


def test_a_file_belongs_to_whoever_took_it_first(tmp_path, monkeypatch):
    """F22: until it is closed; where the system cannot tell, everybody has it."""
    path = tmp_path / "a"
    with path.open("w") as first, path.open("w") as second:
        assert forks.own(first.fileno())
        assert not forks.own(second.fileno())
        monkeypatch.setitem(sys.modules, "fcntl", None)
        assert forks.own(second.fileno())
    monkeypatch.undo()
    with path.open("w") as third:
        assert forks.own(third.fileno())
