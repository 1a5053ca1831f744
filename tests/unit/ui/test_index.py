"""The index of a run log: what it reads, how it goes on, and logs that are not what they seem."""

import json
import math
import os
import subprocess
import sys
import time

import pytest
from in_process import MODEL, adam, client, datum, run, server

from tinker_ext.mock.settings import Pause
from tinker_ext.ui.folder import Folder
from tinker_ext.ui.index import HEAD, MOST_MINUTES, LogIndex


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
    log = LogIndex(path)
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
    again = LogIndex(path)
    assert again.offset == path.stat().st_size
    assert again.step == 5
    args = ("kl", "step", -math.inf, math.inf, 10)
    assert again.steps["m"].curve(*args) == first.steps["m"].curve(*args)
    write(path, step(6, loss=1, kl=1, new=2.0))
    assert again.advance()
    assert [row[0] for row in again.steps["m"].curve("new", *args[1:])] == [6]
    assert len(again.steps["m"].curve("loss", *args[1:])) == 5


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 torn"])
def test_a_broken_index_is_made_anew(path, content):
    """F29: the log is the truth; an index that cannot be read costs a second, not the page."""
    write(path, step(1))
    (path.parent / "metrics.jsonl.index").write_bytes(content)
    assert read(path).step == 1


def test_the_time_of_a_long_run_is_all_there_in_few_rows(path):
    """M50: minutes, then twos, then fours; nothing is left out."""
    moments = (
        line("time", server=6.0, us=4.0).replace("1000.0", f"{60.0 * n}") for n in range(900)
    )
    write(path, *moments)
    rows = read(path).minutes
    assert len(rows) <= MOST_MINUTES
    assert sum(row[2] for row in rows) == 900 * 6.0
    assert {row[1] for row in rows} == {480.0}


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


@pytest.mark.parametrize("shorter", [True, False])
def test_a_log_that_another_process_rotates_begins_again(path, shorter):
    """Bad input: the file is another one now, whether shorter or longer."""
    write(path, *(step(n) for n in range(1, 30)))
    log = read(path)
    path.rename(path.with_suffix(".1"))
    start = line("session_start", version=1, client="x" * HEAD)
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


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads Linux's /proc")
def test_many_lines_need_less_than_200_mb(tmp_path):
    """F29: memory on 100,000 lines here, on a million in the bench."""
    path = tmp_path / "metrics.jsonl"
    with path.open("w") as file:
        for number in range(33_334):
            file.write(line("start", number=number, operation="optim_step", target="m") + "\n")
            file.write(
                line(
                    "operation",
                    number=number,
                    operation="optim_step",
                    target="m",
                    retries=0,
                    effect="yes",
                    error=None,
                    padding="x" * 200,
                )
                + "\n"
            )
            file.write(step(number, kl=0.1, entropy=0.2) + "\n")
    # Not ru_maxrss: that keeps what the parent had at the fork.
    script = (
        "import re, sys; from pathlib import Path\n"
        "from tinker_ext.ui.index import LogIndex\n"
        "log = LogIndex(Path(sys.argv[1])); log.advance(); log.save()\n"
        "most = re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]\n"
        "print(int(most) / 1024, log.lines)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    after, lines = map(float, done.stdout.split())
    assert lines == 100_002
    assert after < 200
