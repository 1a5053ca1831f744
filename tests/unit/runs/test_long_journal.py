"""A journal that has grown long: replaced by its sum at the end of a step, and only then."""

from __future__ import annotations

import itertools

from tinker_ext.journal import Journal


def steps(journal, count, size):
    """Complete steps with notes of so many bytes; the size of the file after each."""
    sizes = []
    for step in range(count):
        journal.step_done(step, step + 1, {"text": "x" * size})
        sizes.append(journal.file.path.stat().st_size)
    return sizes


def test_a_file_of_more_than_a_megabyte_is_replaced(tmp_path):
    """M20: a run of a million steps does not fill a disk, and nothing of its state is lost."""
    journal = Journal(tmp_path / "journal")
    try:
        sizes = steps(journal, 30, 100_000)
        state = journal.state.to_record()
    finally:
        journal.close()
    assert 900_000 < max(sizes) <= 1_200_000  # a megabyte, and the step that was one too many
    assert sum(later < earlier for earlier, later in itertools.pairwise(sizes)) >= 2
    again = Journal(tmp_path / "journal")
    try:
        assert again.state.to_record() == state
    finally:
        again.close()


def test_a_short_file_is_only_added_to(tmp_path):
    """M20: what was written stays written."""
    journal = Journal(tmp_path / "journal")
    try:
        sizes = steps(journal, 20, 100)
    finally:
        journal.close()
    assert sizes == sorted(sizes)
