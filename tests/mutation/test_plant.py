"""The bugs that `nox -s mutation` plants: of every kind, valid Python, and each a real change."""

from __future__ import annotations

import ast

import pytest
from mutation.plant import ROOT, bugs_of, core_files, drawn

SOURCE = '''
import asyncio
async def f(a, b, lane):
    """Doc."""
    if a < b and not lane:
        raise ValueError(1)
    try:
        await asyncio.shield(g(a, b))
    except (KeyError, OSError):
        lane.count += 1
    finally:
        lane.release(2.5)
    lane.between(lane, lane, a[3], b[3])
    return True
'''


@pytest.fixture
def bugs(tmp_path, monkeypatch):
    monkeypatch.setattr("mutation.plant.ROOT", tmp_path)
    path = tmp_path / "f.py"
    path.write_text(SOURCE)
    return bugs_of(path)


def test_every_kind_is_planted(bugs):
    """Comparison, boolean, constant, removed statement, release and shield, swap, wider except."""
    changes = {(bug.kind, " ".join(bug.text.split())) for bug in bugs}
    assert {
        ("comparison", "(a <= b)"),
        ("boolean", "((a < b) or (not lane))"),
        ("boolean", "bool(lane)"),
        ("boolean", "False"),
        ("constant", "2"),
        ("constant", "5.0"),
        ("removed statement", "pass"),
        ("removed release or shield", "pass"),
        ("removed release or shield", "g(a, b)"),
        ("swapped arguments", "g(b, a)"),
        ("wider except", "Exception"),
    } <= changes


def test_bugs_that_look_alike_are_told_apart(bugs):
    """By what is around them, so that one can be listed without the other."""
    alike = [bug.around for bug in bugs if bug.was == "3"]
    call = "lane.between(lane, lane, a[3], b[3])"
    assert alike == [("a[3]", call, call), ("b[3]", call, call)]
    assert not any(bug.was == call for bug in bugs if bug.kind == "swapped arguments")


def test_each_is_a_change_that_still_parses(bugs):
    """A bug is told by tests, not by the compiler."""
    for bug in bugs:
        planted = bug.planted(SOURCE.encode())
        assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(SOURCE)), bug.name
        assert SOURCE.splitlines()[bug.line - 1].strip()


def test_the_core_has_thousands():
    """Every file of the core can be read, and one seed draws one set, all kinds in it."""
    every = [bug for path in core_files() for bug in bugs_of(path)]
    assert len(every) > 3000
    chosen = drawn(every, 70, 3)
    assert chosen == drawn(every, 70, 3) != drawn(every, 70, 4)
    assert len({bug.kind for bug in chosen}) == 7
    for bug in chosen:
        ast.parse(bug.planted((ROOT / bug.path).read_bytes()))
    for bug in every:
        if bug.kind == "boolean":
            ast.parse(f"({bug.text}\n)")
    assert not any("/mock/" in bug.path or "/cli/" in bug.path for bug in every)
