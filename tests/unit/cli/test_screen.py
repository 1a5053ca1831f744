"""Numbers, times and records as commands print them."""

import json
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from tinker_api.models import TrainingRun

from tinker_ext.cli.screen import Screen, age, counted, plain, size

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RUN = {
    "training_run_id": "s:train:0",
    "base_model": "m",
    "model_owner": "me",
    "is_lora": True,
    "last_request_time": "2026-01-02T03:04:05Z",
    "later_key": [1],
}


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KB"), (5 << 20, "5.0 MB"), (3 << 50, "3072.0 TB")],
)
def test_size(count, text):
    """M36: sizes for people."""
    assert size(count) == text


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        (timedelta(seconds=3), "3 s ago"),
        (timedelta(minutes=90), "1 h ago"),
        (timedelta(days=-2), "in 2 d"),
        (timedelta(days=40), "2025-11-23"),
    ],
)
def test_age(delta, text):
    """M36: times for people, a date when they are long ago."""
    assert age(NOW - delta, NOW) == text


def test_counted():
    """M36: one run, two runs."""
    assert (counted(1, "run"), counted(0, "run")) == ("1 run", "0 runs")


def test_records_show_every_field(capsys):
    """M36: JSON has all fields, absent ones as null, times as ISO 8601, unknown keys kept."""
    screen = Screen()
    screen.json({"runs": [TrainingRun.from_dict(RUN)]})
    text = capsys.readouterr().out
    assert text.startswith('{\n  "runs": [\n    {\n      "training_run_id"')
    record = json.loads(text)["runs"][0]
    assert record["last_request_time"] == "2026-01-02T03:04:05+00:00"
    assert record["lora_rank"] is None
    assert record["corrupted"] is False
    assert record["later_key"] == [1]


def test_plain_goes_into_lists_and_maps():
    """M36: records anywhere in a value become dictionaries."""

    @attrs.frozen
    class Point:
        x: int

    assert plain({"a": (Point(1), [Point(2)])}) == {"a": [{"x": 1}, [{"x": 2}]]}


def test_tables_are_whole_in_a_file(capsys):
    """M36: ids are not cut when the output is no terminal, and `:train:` stays what it is."""
    run_id = "0123456789abcdef" * 8 + ":train:0"
    Screen().table("one", ("Run", "Model"), [(run_id, "m")])
    assert run_id in capsys.readouterr().out


def test_json_silences_talk(capsys):
    """M36: nothing but JSON on stdout, and nothing at all on stderr, for programs."""
    screen = Screen()
    screen.format = "json"
    screen.say("hello")
    screen.note("working")
    with screen.progress("work") as advance:
        advance(1, 2)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")


def test_times_are_iso_8601_for_programs_and_to_the_second_for_people(capsys):
    """M36: with a T between date and time; nobody reads microseconds."""
    from tinker_ext.cli.screen import moment

    at = datetime(2026, 1, 1, 2, 3, 4, 567_890, tzinfo=UTC)
    Screen().json({"at": at})
    assert '"at": "2026-01-01T02:03:04.567890+00:00"' in capsys.readouterr().out
    assert moment(at).startswith("2026-01-01T02:03:04Z (")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.123456, "0.1235"), (12.3456, "12.35"), (1234567.8, "1,234,567.80")],
)
def test_numbers_in_tables_are_rounded(value, text):
    """M36: JSON and CSV keep every digit."""
    from tinker_ext.cli.screen import number

    assert number(value) == text
