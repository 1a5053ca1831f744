"""How much an index keeps, shows and reads at a time, at its margins, in numbers (F29 M50)."""

import json
from types import SimpleNamespace

import pytest

from tinker_ext.observe.index import LogIndex
from tinker_ext.observe.run_log import RunLogObserver
from tinker_ext.runlog import Ledger, RunLog
from tinker_ext.telemetry import OperationFinished, OperationStarted


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def read(path, *lines):
    path.write_bytes(b"".join(lines))
    log = LogIndex(path)
    log.advance()
    return log


def line(kind, **fields):
    whole = {"type": kind, "time": 1000.0, "session": "s", **fields}
    return json.dumps(whole, separators=(",", ":")).encode() + b"\n"


def test_the_last_hundred_retries_and_failures_are_kept(path):
    """F29: all of them count."""
    retries = [line("retry", number=n, operation="a", reason="503", delay=1.0) for n in range(150)]
    failures = [line("operation", number=n, operation="a", error="E") for n in range(150)]
    log = read(path, *retries, *failures)
    assert [each["number"] for each in log.retries] == list(range(50, 150))
    assert [each["number"] for each in log.outcomes] == list(range(50, 150))
    assert (log.reasons, log.effects) == ({"a · 503": 150}, {"unknown": 150})


def test_minutes_are_kept_until_there_are_160(path):
    """M50: one more, and each stands for two."""
    minutes = [line("time", server=1.0).replace(b"1000.0", b"%d" % (60 * n)) for n in range(161)]
    assert [row[:2] for row in read(path, *minutes[:160]).minutes[-1:]] == [[60.0 * 159, 60.0]]
    assert len(read(path, *minutes[:160]).minutes) == 160
    assert {row[1] for row in read(path, *minutes).minutes} == {120.0}
    assert len(read(path, *minutes).minutes) == 81


def test_a_table_has_at_most_48_columns(path):
    """F29: seven are there in every run; the first metrics have the others."""
    metrics = {f"m{n}": 1.0 for n in range(60)}
    steps = read(path, line("step", step=1, target="m", metrics=metrics)).steps["m"]
    assert steps.names[7:] == [f"m{n}" for n in range(41)]


@pytest.mark.parametrize(("depth", "bad"), [(240, 0), (247, 1), (400, 1)])
def test_a_line_that_is_nested_too_deeply_to_be_sent_counts_as_bad(path, depth, bad):
    """F29: the page is a JSON document of its own, around it."""
    nested = json.loads("[" * depth + "]" * depth)
    log = read(path, line("retry", operation="a", reason=nested, note="x" * 500))
    assert (log.bad, len(log.retries)) == (bad, 1 - bad)


def test_ten_thousand_shapes_of_lines_are_known_at_most(path):
    """M48: a log in which every call is of its own kind costs no memory."""
    starts = [line("start", number=n, operation=f"o{n}", target="m") for n in range(10_010)]
    log = read(path, *starts[:10_000])
    assert (len(log._known), len(log.pending)) == (10_000, 10_000)
    log = read(path, *starts)
    assert (len(log._known), len(log.pending), log.bad) == (9, 10_010, 0)


def test_a_log_is_behind_from_four_megabytes_on(path):
    """M50: less is read before anybody notices."""
    log = read(path, line("time", server=1.0))
    log.size = log.offset + (4 << 20)
    assert not log.behind
    log.size += 1
    assert log.behind


def test_an_index_is_saved_when_four_megabytes_were_read(path):
    """F29: less is read anew as quickly."""
    place = path.with_name("metrics.jsonl.index")
    long = b" " * ((1 << 20) - 1) + b"\n"
    whole = long * 4
    read(path, whole)
    assert not place.exists()
    read(path, whole, b"\n")
    assert place.exists()
    log = LogIndex(path)
    assert (log.offset, log.lines) == (len(whole) + 1, 5)
    with path.open("ab") as file:  # once more is read than was before, or all of it
        file.write(whole + b"\n" * 10)
    before = place.read_bytes()
    log.advance(1)
    assert place.read_bytes() == before
    log.advance()
    assert LogIndex(path).offset == path.stat().st_size


def test_a_run_reads_for_its_index_every_64_calls(path, monkeypatch):
    """M34: a megabyte at most, so that no call takes long; lines about 65 are written together."""
    asked = []
    monkeypatch.setattr(LogIndex, "advance", lambda self, most: asked.append((number, most)))
    runtime = SimpleNamespace(time=lambda: 0.0, call=lambda *_: None)
    writer = RunLogObserver(RunLog(path), Ledger(), runtime, {})
    written = []
    for number in range(1, 131):
        writer.notice(OperationStarted(number, "asample", "m", None))
        written.append(len(path.read_bytes().splitlines()) if path.exists() else 0)
        if number == 65:
            assert written == [0] * 64 + [65]
    for number in range(1, 131):
        writer.notice(OperationFinished(number=number, operation="asample", target="m", seconds=1))
    assert asked == [(64, 1 << 20), (128, 1 << 20)]


def test_calls_that_are_over_are_forgotten(path):
    """M50: with their retries; also one that opened the session, and all when it has ended."""
    start = line("start", number=1, operation="a", target="m")
    retry = line("retry", number=1, operation="a", reason="503", delay=1.0)
    ended = line("operation", number=1, operation="a", target="m", retries=1, error=None)
    log = read(path, start, retry)
    assert (len(log.pending), len(log.again)) == (1, 1)
    log = read(path, start, retry, ended)
    assert (log.pending, log.again) == ({}, {})
    log = read(path, start.replace(b'"s"', b"null"), ended)
    assert log.pending == {}
    log = read(path, start, line("session_end", status="errored"))
    assert (log.pending, log.ended) == ({}, "errored")
