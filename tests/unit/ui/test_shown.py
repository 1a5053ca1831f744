"""A run log on the page: what is read of it, how it goes on, and odd and hostile logs."""

import json
import math
import os
import threading
import time

import numpy as np
import orjson
import pytest
from in_process import MODEL, adam, client, datum, run, server

from tinker_ext.mock.settings import Pause
from tinker_ext.observe import index
from tinker_ext.observe.index import MARKED
from tinker_ext.ui.folder import Folder
from tinker_ext.ui.samples import SampleIndex
from tinker_ext.ui.shown import Shown

DEEP = json.loads("[" * 400 + "]" * 400)


def line(kind, **fields):
    return json.dumps(
        {"type": kind, "time": 1000.0, "session": "s", **fields}, separators=(",", ":")
    )


def step(number, loss=10.0, **metrics):
    return line(
        "step",
        step=number,
        target="m",
        model="M",
        loss=loss,
        metrics=metrics,
        tokens={"train": 5},
        seconds=2.0,
        totals={"train": 5 * number, "cost": 0.5 * number},
    )


def write(path, *lines, mode="a"):
    with path.open(mode) as file:
        file.write("".join(f"{text}\n" for text in lines))
    return path


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "metrics.jsonl", line("session_start", version=1, budget={"cost": 9}))


def read(path):
    log = Shown(path)
    log.advance()
    return log


def test_a_real_run_shows_its_steps_its_waits_and_its_cost(tmp_path):
    """M50 M34: what the client writes is what the index reads, names and all."""

    async def scenario():
        pause = Pause(state="paused_capacity", seconds=40.0, reason="busy")
        async with client(server(pause=pause), run_log=tmp_path) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            for _ in range(3):
                first = await training.forward_backward_async([datum(4)], "cross_entropy")
                second = await training.optim_step_async(adam())
                await first
                await second

    run(scenario)
    log = read(tmp_path / "metrics.jsonl")
    assert (log.step, log.bad, log.pending, log.ended) == (3, 0, {}, "success")
    steps = log.steps[log.target]
    rows = steps.curve("loss/token", "step", -math.inf, math.inf, 100)
    assert [row[0] for row in rows] == [1, 2, 3]
    assert rows[0][1] == pytest.approx(steps.columns["loss"][0] / 4)
    assert sum(sum(row[2:]) for row in log.minutes) > 30
    assert log.why(time.time()).state == "done"


def test_pending_calls_carry_lane_reason_attempts_and_deadline(path):
    """M50 M26: the parts of several lines come together at the call they are about."""
    call = {
        "number": 7,
        "operation": "optim_step",
        "target": "m",
        "lane": "train",
        "attempts": 3,
        "deadline": 2000.0,
        "stage": "waiting",
        "since": 990.0,
    }
    write(
        path,
        line("start", number=6, operation="forward_backward", target="m"),
        line("start", number=7, operation="optim_step", target="m"),
        line("waiting", count=2, calls=[call]),
        line(
            "operation", number=6, operation="forward_backward", target="m", retries=0, error=None
        ),
        line("queue", operation="optim_step", target="m", state="paused_capacity", reason="full"),
    )
    log = read(path)
    (found,) = log.calls(1001.0)
    assert found == {
        **call,
        "state": "paused_capacity",
        "reason": "full",
        "held": "paused_capacity",
    }
    state, reason, advice = log.why(1001.0)
    assert (state, reason) == ("held back", "full")
    assert "goes on by itself" in advice
    write(
        path,
        line(
            "operation",
            number=7,
            operation="optim_step",
            target="m",
            retries=1,
            effect="yes",
            error=None,
        ),
    )
    log.advance()
    assert (log.calls(1001.0), log.effects) == ([], {"yes": 1})


def test_a_call_that_is_let_go_on_is_not_held_back_any_more(path):
    """M50 M26: the server says active again, and the page follows."""
    call = {"number": 1, "operation": "optim_step", "target": "m", "stage": "waiting", "since": 1.0}
    write(
        path,
        line("start", number=1, operation="optim_step", target="m"),
        line("queue", operation="optim_step", target="m", state="paused_capacity", reason="full"),
        line("waiting", count=1, calls=[call | {"state": "paused_capacity", "reason": "full"}]),
    )
    log = read(path)
    assert log.why(1000.0).state == "held back"
    write(path, line("waiting", count=1, calls=[call | {"state": "active", "reason": None}]))
    log.advance()
    assert log.why(1000.0).state == "running"


@pytest.mark.parametrize(
    ("reason", "state", "words"),
    [
        ("429", "held back", "limits how much"),
        ("402", "held back", "no credit"),
        ("503", "retrying", "doctor"),
        ("ConnectError", "retrying", "doctor"),
    ],
)
def test_a_call_that_is_sent_again_says_why_and_what_to_do(path, reason, state, words):
    """M26 M50: at once, from the line of the retry; and no longer once it has stopped failing."""
    write(
        path,
        line("start", number=1, operation="asample", target="m"),
        line("retry", number=1, operation="asample", lane="sample", reason=reason, delay=2.0),
    )
    log = read(path)
    why = log.why(1003.0)
    assert (why.state, reason in why.reason, words in why.advice) == (state, True, True)
    write(path, line("time", seconds=10.0).replace("1000.0", "1020.0"))
    log.advance()
    assert log.why(1021.0).state == "running"


@pytest.mark.parametrize(("pending", "words"), [(True, "killed"), (False, "between two calls")])
def test_a_run_that_writes_no_more_is_quiet_and_says_what_to_do(path, pending, words):
    """M50: a client with pending calls writes every ten seconds, so silence means that it ended."""
    write(path, step(1))
    if pending:
        write(path, line("start", number=1, operation="asample", target="m"))
    log = read(path)
    assert log.why(1025.0).state == "running"
    assert log.why(1031.0).state == ("quiet" if pending else "running")
    why = log.why(1200.0)
    assert why.state == "quiet"
    assert words in why.advice


def test_an_answer_that_takes_unusually_long_is_pointed_out(path):
    """M50: the server works on it, but five times as long as a step takes."""
    write(path, step(1), line("start", number=1, operation="asample", target="m"))
    write(path, line("time", seconds=10.0).replace("1000.0", "1070.0"))
    log = read(path)
    assert log.why(1050.0).advice is None
    assert "longer than usual" in log.why(1075.0).advice


def test_an_index_beside_the_log_saves_reading_it_again(path):
    """F29: a million lines are read once; the next look reads on from there."""
    write(path, *(step(n, loss=None if n == 2 else n, kl=n) for n in range(1, 6)))
    first = read(path)
    first.save()
    again = Shown(path)
    assert again.offset == path.stat().st_size
    assert again.step == 5
    args = ("kl", "step", -math.inf, math.inf, 10)
    assert again.steps["m"].curve(*args) == first.steps["m"].curve(*args)
    write(path, step(6, loss=1, kl=1, new=2.0))
    assert again.advance()
    assert [row[0] for row in again.steps["m"].curve("new", *args[1:])] == [6]
    assert len(again.steps["m"].curve("loss", *args[1:])) == 5


@pytest.mark.parametrize("metrics", [{}, {"b": 2.0}, {"b": 2.0, "a": 1.0}, {"b": 2.0, "c": 3.0}])
def test_steps_with_other_metrics_after_an_index_keep_their_rows(path, metrics):
    """M50: read on from an index, every step has its own numbers, as without the index."""
    write(path, *(step(n, a=1.0, b=2.0) for n in range(1, 6)))
    read(path).save()
    write(path, *(step(n, loss=n, **metrics) for n in range(6, 17)))
    again = read(path)
    path.with_name("metrics.jsonl.index").unlink()
    whole = read(path)
    assert again.details(1001.0) == whole.details(1001.0)
    for name in ("time", "loss", "a", "b", "c"):
        args = (name, "step", -math.inf, math.inf, 100)
        assert again.steps["m"].curve(*args) == whole.steps["m"].curve(*args)


@pytest.mark.parametrize("count", [3, 51])
def test_the_table_is_copied_for_new_metrics_only(path, count, monkeypatch):
    """M50: steps of changing metrics, and of more than are kept, are read in linear time."""
    copies, plain = [], np.pad
    monkeypatch.setattr(np, "pad", lambda *words, **more: copies.append(1) or plain(*words, **more))
    metrics = {f"m{n}": float(n) for n in range(count)}
    write(path, *(step(n, **metrics if n % 2 else {"m0": 5.0}) for n in range(1, 101)))
    steps = read(path).steps["m"]
    assert len(copies) == 1
    assert [row[1] for row in steps.curve("m0", "step", 1, 3, 9)] == [0.0, 5.0, 0.0]
    assert [row[0] for row in steps.curve("m2", "step", 1, 4, 9)] == [1, 3]


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 torn"])
def test_a_broken_index_is_made_anew(path, content):
    """F29: the log is the truth; an index that cannot be read costs a second, not the page."""
    write(path, step(1))
    (path.parent / "metrics.jsonl.index").write_bytes(content)
    assert read(path).step == 1


@pytest.mark.parametrize(
    ("written", "changed"),
    [
        (b'"step":2', b'"step":"2"'),
        (b'"offset":', b'"offset":-'),
        (b'"minutes":[', b'"minutes":[7'),
    ],
)
def test_an_index_that_was_edited_is_made_anew(path, written, changed):
    """F29: whatever types its values have now, the page shows what the log says, and reads on."""
    write(path, step(1), step(2))
    whole = read(path)
    whole.save()
    place = path.parent / "metrics.jsonl.index"
    text = place.read_bytes()
    assert written in text
    place.write_bytes(text.replace(written, changed))
    again = read(path)
    assert again.details(1001.0) == whole.details(1001.0)
    write(path, step(3), line("time", server=1.0))
    assert whole.advance() == again.advance()
    assert again.details(1001.0) == whole.details(1001.0)


def test_an_index_that_lost_its_end_is_made_anew(path):
    """F29: a machine that stopped amid writing leaves tables that are not whole."""
    write(path, step(1), step(2))
    read(path).save()
    place = path.parent / "metrics.jsonl.index"
    place.write_bytes(place.read_bytes()[:-8])
    assert read(path).details(1001.0)["step"] == 2


def test_the_time_of_a_long_run_is_all_there_in_few_rows(path):
    """M50: minutes, then twos, then fours; nothing is left out."""
    moments = (
        line("time", server=6.0, us=4.0).replace("1000.0", f"{60.0 * n}") for n in range(900)
    )
    write(path, *moments)
    rows = read(path).minutes
    assert len(rows) <= 160
    assert sum(row[2] for row in rows) == 900 * 6.0
    assert {row[1] for row in rows} == {480.0}


@pytest.mark.parametrize("totals", [None, {"cost": 7.0}])
def test_what_was_spent_is_that_of_the_last_line_that_says_it(path, totals):
    """M34: a `time` line after a step may say it, or not."""
    write(
        path, step(1), step(2), line("time", server=1.0, **({"totals": totals} if totals else {}))
    )
    assert read(path).summary(1001.0)["cost"] == (7.0 if totals else 1.0)


def test_curves_are_thinned_with_least_and_most(path):
    """M50 M34: a spike between two points of the screen is still seen."""
    write(path, *(step(n, loss=1000.0 if n == 777 else 1.0) for n in range(1, 2001)))
    rows = read(path).steps["m"].curve("loss", "step", 500, 1500, 50)
    assert len(rows) == 50
    assert rows[0][0] >= 500
    assert rows[-1][0] <= 1500
    assert max(row[3] for row in rows) == 1000.0
    assert min(row[2] for row in rows) == 1.0


# -- logs that are not what they seem ---------------------------------------------------------


def test_a_log_of_another_version_says_so_and_shows_what_it_has(tmp_path):
    """Bad input: a newer format."""
    path = write(tmp_path / "metrics.jsonl", line("session_start", version=2), step(4))
    log = read(path)
    assert log.step == 4
    assert "format 2" in log.notes(1100.0)[0]
    assert "knows 1" in log.notes(1100.0)[0]


def test_a_torn_last_line_waits_for_its_end(path):
    """Bad input: a writer was cut off, or is still writing."""
    whole = step(2)
    write(path, step(1))
    with path.open("a") as file:
        file.write(whole[:40])
    log = read(path)
    assert (log.step, log.bad) == (1, 0)
    assert log.notes(1001.0) == []
    assert "cut off" in log.notes(1100.0)[0]
    with path.open("a") as file:
        file.write(whole[40:] + "\n" + "{torn\n" + step(3) + "\n")
    log.advance()
    assert (log.step, log.bad) == (3, 1)
    assert log.notes(1100.0) == ["Lines left out because they could not be read: 1."]


@pytest.mark.parametrize("torn", ["", '{"type":"step","step":'])
def test_a_finished_log_is_read_to_its_end_slice_by_slice(path, torn):
    """M50: a slice that ends near the end of the log is not the last one."""
    write(path, *(step(number) for number in range(1, 2000)), line("session_end", status="success"))
    whole = path.stat().st_size
    path.write_text(path.read_text() + torn)
    log = Shown(path)
    while log.advance(whole - index.CHUNK // 2):
        pass
    assert (log.offset, log.step, log.ended) == (whole, 1999, "success")


@pytest.mark.parametrize("shorter", [True, False])
def test_a_log_that_another_process_rotates_begins_again(path, shorter):
    """Bad input: the file is another one now, whether shorter or longer."""
    write(path, *(step(n) for n in range(1, 30)))
    log = read(path)
    path.rename(path.with_suffix(".1"))
    start = line("session_start", version=1, client="x" * MARKED)
    write(path, start, *(step(n) for n in range(1, 3 if shorter else 300)))
    log.advance()
    assert log.step == (2 if shorter else 299)
    assert "replaced" in log.notes(1100.0)[0]


def test_a_log_that_vanishes_says_so_and_comes_back(path):
    """Bad input: between two files of a rotation there is none."""
    write(path, step(1))
    log = read(path)
    path.rename(path.with_suffix(".1"))
    assert log.advance()
    state, reason, _ = log.why(time.time())
    assert state == "unreadable"
    assert "cannot be read" in reason
    path.with_suffix(".1").rename(path)
    log.advance()
    assert (log.step, log.notes(1100.0)) == (1, [])


@pytest.mark.parametrize(
    "odd",
    [
        "[]",
        "7",
        '{"type":"step"}',
        '{"type":7}',
        '{"type":"step","step":"x"}',
        '{"type":"waiting","calls":7}',
        "\x00\x01",
    ],
)
def test_any_line_is_survived(path, odd):
    """Bad input: lines of other programs in the same file."""
    write(path, step(1), odd, step(2))
    assert read(path).step == 2


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("retry", {"time": "noon", "number": 1, "reason": "503", "delay": 1.0}),
        ("retry", {"number": 1, "reason": {}, "delay": []}),
        ("time", {"server": 1.0, "totals": 7}),
        ("time", {"server": "long"}),
        ("operation", {"number": 2, "retries": 1, "effect": 10**30, "error": {}}),
        ("start", {"time": "noon", "number": 3, "operation": 7, "target": []}),
        ("waiting", {"calls": [{"number": 1, "since": "noon", "state": {}}]}),
        ("session_start", {"budget": 7, "version": []}),
        ("session_end", {"status": 7, "totals": "all"}),
        ("step", {"step": 2, "target": "m", "metrics": [{"a": 1}]}),
        ("step", {"step": 2, "target": "m", "model": DEEP}),
        ("retry", {"time": "noon", "number": 1, "delay": "late"}),
        ("retry", {"time": [1], "number": 1, "delay": [2]}),
        ("time", {"totals": [[1, 2]]}),
        ("session_start", {"budget": [[1, 2]]}),
        ("session_start", {"version": DEEP}),
        ("session_start", {"currency": DEEP}),
        ("session_end", {"totals": [[1, 2]]}),
        ("session_end", {"totals": {"cost": DEEP}}),
        ("operation", {"number": 2, "error": DEEP}),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_line_of_odd_values_stops_no_page(path, kind, fields):
    """Bad input: JSON of the right names and the wrong types; the other lines are still shown."""
    write(path, step(1), line("start", number=1, operation="asample", target="m"))
    write(path, line(kind, **fields))
    assert orjson.dumps(read(path).details(1001.0))
    write(path, step(2))
    log = read(path)
    log.save()
    for each in (log, read(path)):
        for now in (1001.0, 1065.0, 5000.0):
            assert orjson.loads(orjson.dumps(each.details(now)))["step"] == 2


def test_a_log_without_a_line_says_so(tmp_path):
    """Bad input: empty so far, or not a log at all."""
    for content in ("", "\x00\x01 not a log\n" * 3):
        (tmp_path / "metrics.jsonl").write_text(content)
        assert read(tmp_path / "metrics.jsonl").why(1000.0)[:2] == (
            "quiet",
            "its log has no line that can be read",
        )


def test_a_folder_of_runs_is_found_by_name_and_new_ones_appear(tmp_path):
    """M50 M34: logs of any name, other .jsonl files left out, a later run picked up."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    write(tmp_path / "a" / "b" / "metrics.jsonl", line("session_start"), step(1))
    write(tmp_path / "other.jsonl", line("session_start"), step(2))
    write(tmp_path / "data.jsonl", '{"prompt": "no log"}')
    write(tmp_path / ".hidden" / "metrics.jsonl", line("session_start"))
    folder = Folder(tmp_path)
    assert set(folder.refresh()) == {"a/b", "other.jsonl"}
    assert folder.refresh() == []
    (tmp_path / "late").mkdir()
    write(tmp_path / "late" / "metrics.jsonl", step(3))
    folder._looked -= 60
    assert set(folder.refresh()) == {"late"}
    assert [folder.logs[name].summary(0.0)["step"] for name in ("a/b", "other.jsonl", "late")] == [
        1,
        2,
        3,
    ]


def test_every_log_has_a_name_of_its_own(tmp_path):
    """M50: a folder in the folder that is called the same hides no run."""
    inner = tmp_path / tmp_path.name
    (inner / tmp_path.name).mkdir(parents=True)
    for number, place in enumerate((tmp_path, inner, inner / tmp_path.name), 1):
        write(place / "metrics.jsonl", step(number))
    folder = Folder(tmp_path)
    assert len(folder.refresh()) == 3
    assert {log.path: log.step for log in folder.logs.values()} == {
        tmp_path / "metrics.jsonl": 1,
        inner / "metrics.jsonl": 2,
        inner / tmp_path.name / "metrics.jsonl": 3,
    }
    folder._looked -= 60
    assert (folder.refresh(), len(folder.logs)) == ([], 3)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
def test_a_pipe_in_the_folder_is_not_waited_for(tmp_path):
    """M50: only regular files are read, whatever a pipe is called."""
    write(tmp_path / "good.jsonl", step(1))
    (tmp_path / "run").mkdir()
    write(tmp_path / "run" / "metrics.jsonl", step(2))
    (tmp_path / "pipe").mkdir()
    names = ("pipe.jsonl", "run/samples.jsonl", "run/metrics.jsonl.index", "pipe/metrics.jsonl")
    for name in names:
        os.mkfifo(tmp_path / name)
    folder = Folder(tmp_path)
    reader = threading.Thread(target=folder.refresh, daemon=True)
    reader.start()
    reader.join(60)
    assert not reader.is_alive()
    shown = {name: log.summary(0.0) for name, log in folder.logs.items()}
    assert {name: row["step"] for name, row in shown.items()} == {
        "good.jsonl": 1,
        "run": 2,
        "pipe": 0,
    }
    assert "not a regular file" in shown["pipe"]["reason"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
@pytest.mark.parametrize("name", ["metrics.jsonl", "samples.jsonl"])
def test_a_file_swapped_for_a_pipe_is_not_waited_for(path, name, monkeypatch):
    """M50: also when it was a regular file at the last look."""
    place = write(path.with_name(name), step(1))
    status, log, samples = place.stat(), Shown(path), SampleIndex(path.parent)
    place.unlink()
    os.mkfifo(place)
    monkeypatch.setattr(type(place), "stat", lambda *_, **__: status)
    reader = threading.Thread(target=lambda: (log.advance(), samples.advance()), daemon=True)
    reader.start()
    reader.join(60)
    assert not reader.is_alive()
    assert (log.error is None) == (name == "samples.jsonl")


def test_the_end_of_a_long_log_is_shown_while_the_rest_is_read(path, monkeypatch):
    """M50: state, calls, last step and recent curve at once; then the same as if read at once."""
    write(path, *(step(n) for n in range(1, 2000)))
    write(path, line("start", number=7, operation="optim_step", target="m"))
    whole = read(path)
    path.with_name("metrics.jsonl.index").unlink(missing_ok=True)
    monkeypatch.setattr(index, "BEHIND", 4000)
    monkeypatch.setattr("tinker_ext.ui.shown.BEHIND", 4000)
    monkeypatch.setattr(index, "CHUNK", 4000)
    log = Shown(path)
    log.advance(1)
    shown = log.details(1001.0)
    assert (shown["state"], shown["step"], len(shown["calls"])) == ("reading", 1999, 1)
    assert 0 < shown["read"] < 0.1
    assert "still being read" in shown["notes"][0]
    curve = log.tail.steps["m"].curve("loss", "step", 0, 9999, 9999)
    assert curve[0][0] < 20
    assert curve[-1][0] == 1999
    assert [row[0] for row in curve] == sorted({row[0] for row in curve})
    while log.advance(100_000):
        pass
    assert log.details(1001.0) == whole.details(1001.0)


def test_a_long_log_that_goes_away_amid_the_reading_is_not_said_to_be_read(path, monkeypatch):
    """M50: the page says why nothing more comes; when the log is back, its end is shown again."""
    write(path, *(step(n) for n in range(1, 2000)))
    monkeypatch.setattr(index, "BEHIND", 4000)
    monkeypatch.setattr("tinker_ext.ui.shown.BEHIND", 4000)
    monkeypatch.setattr(index, "CHUNK", 4000)
    log = Shown(path)
    log.advance(1)
    away = path.rename(path.with_name("away"))
    assert log.advance(1)
    for shown in (log.summary(1001.0), log.details(1001.0)):
        assert shown["state"] == "unreadable"
        assert "cannot be read" in shown["reason"]
    away.rename(path)
    assert log.advance(1)
    shown = log.details(1001.0)
    assert (shown["state"], shown["step"]) == ("reading", 1999)


# -- reading without parsing -------------------------------------------------------------------

ENDED = {"retries": 0, "effect": "yes", "error": None}


def call(number, *, session="s", **other):
    """Both lines of a call, as the run log writes them."""
    about = {"session": session, "number": number, "operation": "optim_step", "target": "m"}
    end = about | {"model": "M", "seconds": 1.0, "tokens": {"train": 4}, "metrics": {"a": 1.5}}
    return line("start", **about, model="M"), line("operation", **end | ENDED | other)


def torn(*texts):
    """One line that another runs into: a disk was full."""
    return "".join(text[:-30] for text in texts[:-1]) + texts[-1]


def turned(text):
    """The same line with its keys in another order."""
    return json.dumps(dict(reversed(json.loads(text).items())))


HOSTILE = {
    "as written": [text for n in range(1, 9) for text in call(n)][:-1],
    "one fails": [call(1)[0], call(1, error="TimeoutError", effect="unknown", retries=2)[1]],
    "other key order": [turned(text) for n in (1, 2) for text in call(n)] + [call(3)[0]],
    "order differs": [call(1)[0], turned(call(1)[1]), turned(call(2)[0]), call(2)[1]],
    "spaces": [text.replace(":", ": ").replace(",", ", ") for text in call(1)],
    "escapes": [t.replace('"s"', r'"\u0073"') for t in call(1)] + [call(2)[0], call(3)[0]],
    "escape in one": [call(1)[0], call(1)[1].replace('"s"', r'"\u0073"')],
    "commas": [text for n in (1, 2) for text in call(n, session='a,"number":1,"b')],
    "a session comes later": [call(1, session=None)[0], call(1)[1], *call(2)],
    "two sessions": [call(1)[0], call(1, session="t")[0], call(1)[1]],
    "the same number twice": [call(1)[0], call(1)[0], call(1)[1], call(2)[1], call(2)[0]],
    "torn": [call(1)[0], call(2)[0], torn(call(1)[1], call(2)[1]), torn(call(3)[0], step(4))],
    "huge": [t.replace('"number":1,', f'"number":{10**40},') for t in call(1)] + [step(10**40)],
    "float": [t.replace('"number":1,', '"number":1e0,') for t in call(1)] + [call(1)[1]],
    "no number": [t.replace('"number":1', '"number":null') for t in call(1)] + [call(1)[0]],
    "not JSON": [step(1, a=1).replace("1.5", "NaN"), step(2, loss=math.nan), call(1)[0][:-1]],
    "infinite": [step(1, loss=math.inf, kl=-math.inf), step(2).replace("10.0", "1e999")],
    "surrogate": [step(1).replace('"M"', r'"\ud800"'), call(1)[0].replace('"M"', r'"\udc00"')],
    "deep": ["[" * 5000 + "]" * 5000, '{"type":' + "[" * 5000],
    "nulls": [step(1, loss=None, a=None), step(2, a="x"), step(3, a=[1]), step(4, a=True)],
    "types": ['{"type":"steps"}', '{"type":"","time":1}', '{"type":[1]}', "null", '"x"'],
    "held": [
        *call(1),
        line("queue", operation="optim_step", target="m", state="paused_capacity", reason="full"),
        *call(2),
        call(3)[0],
    ],
    "waiting": [
        *(call(n)[0] for n in (1, 2)),
        line("waiting", count=1, calls=[{"number": n, "stage": "sending"} for n in (1, 2)]),
        call(1)[1],
    ],
    "waiting, held, waiting": [
        *(call(n)[0] for n in (1, 2)),
        line("waiting", count=1, calls=[{"number": 1, "state": "active"}]),
        line("queue", operation="optim_step", target="m", state="paused_capacity", reason="full"),
        *call(3),
        line("waiting", count=1, calls=[{"number": 2, "state": "paused_rate_limit"}]),
        call(1)[1],
    ],
    "sent again": [
        call(1)[0],
        line("retry", number=1, operation="optim_step", reason="503", delay=9.0, lane="train"),
        *call(2),
    ],
    "sessions": [call(1)[0], line("session_start", session="t", version=7), *call(1, session="t")],
    "an end": [call(1)[0], line("session_end", status="success"), call(1)[1], call(2)[0]],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_not_parsed_is_as_if_it_were(path, name, monkeypatch):
    """F29: reading by the first and last bytes shows the same as reading every line as JSON."""
    usual = [text for n in range(100, 104) for text in (*call(n), step(n, a=n))]
    write(path, *usual, *HOSTILE[name], *usual[:-4])
    with path.open("a") as file:
        file.write(call(999)[0][:50])
    read_fast = read(path)
    for constant in ("START", "OPERATION", "WAITING"):
        monkeypatch.setattr(index, constant, b"\0")
    plain = read(path)
    for now in (1001.0, 1100.0):
        assert orjson.dumps(read_fast.details(now)) == orjson.dumps(plain.details(now))
    assert read_fast.pending == plain.pending
    curves = [
        {n: c.tolist() for n, c in log.steps["m"].columns.items()} for log in (read_fast, plain)
    ]
    assert str(curves[0]) == str(curves[1])


def test_the_lines_of_a_torn_and_a_whole_call_are_told_apart(path):
    """F29: nothing that another line ran into counts, and a reader is told how many there are."""
    write(path, *HOSTILE["as written"], *HOSTILE["torn"])
    log = read(path)
    assert log.bad == 2
    assert [found["number"] for found in log.calls(1001.0)] == [8, 1, 2]


def test_a_call_with_a_time_that_is_not_json_stops_no_page(path):
    """Bad input: the one field of a start line that is not looked at."""
    write(path, *HOSTILE["as written"], call(9)[0].replace("1000.0", r'"\ud800"'))
    assert orjson.dumps(read(path).details(1001.0))


def test_nan_as_other_programs_write_it_is_a_gap_in_the_curve(path):
    """Bad input: Python's own json writes NaN, which JSON does not have."""
    write(path, step(1, kl=0.5), step(2, loss=math.nan, kl=0.25), step(3))
    log = read(path)
    assert (log.step, log.bad) == (3, 0)
    args = ("step", -math.inf, math.inf, 10)
    assert [row[0] for row in log.steps["m"].curve("loss", *args)] == [1, 3]
    assert [row[0] for row in log.steps["m"].curve("kl", *args)] == [1, 2]


def test_a_torn_line_of_samples_is_news_once(tmp_path):
    """M50: what its writer left amid a line is read again when there is more, not all the time."""
    (tmp_path / "samples.jsonl").write_text('{"prompt_id":"p","prompt":"q","sequences":[]}\n{"pro')
    samples = SampleIndex(tmp_path)
    assert [samples.advance(), samples.advance(), len(samples.rows)] == [True, False, 1]
    with (tmp_path / "samples.jsonl").open("a") as file:
        file.write('mpt_id":"p","prompt":"q","sequences":[]}\n')
    assert [samples.advance(), samples.advance(), len(samples.rows)] == [True, False, 2]
