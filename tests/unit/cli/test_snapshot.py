"""What `watch` makes of a run log."""

import json

import pytest

from tinker_ext.cli.run import run
from tinker_ext.cli.snapshot import Snapshot


def start(number, operation="forward_backward", **more):
    return {"type": "start", "time": 10.0, "session": "s", "number": number,
            "operation": operation, "target": "m", **more}  # fmt: skip


def end(number, operation="forward_backward", **more):
    return {"type": "operation", "time": 12.0, "session": "s", "number": number,
            "operation": operation, "target": "m", "error": None, **more}  # fmt: skip


def step(number, loss, **more):
    return {"type": "step", "time": 13.0, "session": "s", "step": number, "target": "m",
            "model": "tiny", "loss": loss, "metrics": {"loss:sum": loss}, "seconds": 0.5,
            "tokens": {"train": 100, "prefill": 0, "sample": 0},
            "totals": {"train": 100 * number, "prefill": 0, "sample": 0, "cost": 0.25},
            **more}  # fmt: skip


def test_a_call_is_pending_until_it_ends():
    """M26: pending work is what has started and not ended."""
    shot = Snapshot()
    shot.add([start(1), start(2), end(1)])
    assert [item.since for item in shot.pending.values()] == [10.0]
    shot.add([end(2, error="APITimeoutError")])
    assert not shot.pending
    assert shot.operations == {"forward_backward": 2}
    assert shot.errors == {"APITimeoutError": 1}


def test_the_call_that_opened_the_session_ends_too():
    """M26: a call that started before the session had an id is found again."""
    shot = Snapshot()
    shot.add([start(1, session=None), end(1)])
    assert not shot.pending


def test_queue_states_belong_to_the_oldest_call():
    """M26: the state the server reports is shown beside the call it holds back."""
    shot = Snapshot()
    queue = {"type": "queue", "time": 11.0, "session": "s", "operation": "forward_backward",
             "target": "m", "state": "paused_capacity", "reason": "full"}  # fmt: skip
    shot.add([start(1), start(2, "optim_step"), queue])
    assert [(item.operation, item.reason) for item in shot.held_back] == [
        ("forward_backward", "full")
    ]
    assert len(shot.pending) == 2


@pytest.mark.parametrize(
    "odd",
    [
        step(2, 1.0, metrics=[1]),
        step(2, 1.0, totals=[[1]]),
        step(2, 1.0, tokens=7),
        step(2, 1.0, model={}, target=[1]),
        step(1e999, 1.0),
        start({}),
        start(5, session=[]),
        end([]),
        {"type": "queue", "session": {}, "state": {}, "reason": {"a": 1}},
        {"type": "session_end", "totals": 7},
        {"type": [], "time": "noon", "session": {"a": 1}},
    ],
    ids=str,
)
def test_a_line_of_odd_values_costs_itself_only(tmp_path, capsys, odd):
    """M34: `watch` shows the rest of the log."""
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in (step(1, 4.0), odd, step(3, 2.0))))
    assert run(["watch", str(path), "--once"]) == 0
    shown = capsys.readouterr().out
    assert "Step   3" in shown


def test_steps_give_rates_and_totals():
    """M34: speed, losses, tokens and cost come from the step lines."""
    shot = Snapshot()
    assert shot.add([step(1, 4.0), step(2, 3.0), {"type": "later"}]) == [1, 2]
    assert shot.losses == [4.0, 3.0]
    assert shot.tokens_per_second == 200.0
    assert (shot.tokens["train"], shot.cost) == (200, 0.25)
    shot.add([{"type": "session_end", "status": "success", "totals": {"train": 5, "cost": None}}])
    assert shot.ended == "success"
    assert shot.tokens == {"train": 5}


def test_watch_once(tmp_path, capsys):
    """M36: one look at a directory that holds a log, for people and for programs."""
    lines = [start(1), step(1, 4.0), step(2, 3.0)]
    log = tmp_path / "metrics.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"type": "ste')
    assert run(["watch", str(tmp_path), "--once"]) == 0
    page = capsys.readouterr().out
    assert "forward_backward" in page
    assert "200 tokens/s" in page
    assert run(["--format", "json", "watch", str(log)]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 2


def test_watch_follows_until_the_session_ends(tmp_path, capsys):
    """M36: without a terminal every step is a line, and the end of the session is the end."""
    import threading
    import time

    log = tmp_path / "metrics.jsonl"
    log.write_text(json.dumps(step(1, 4.0)) + "\n")

    def train():
        time.sleep(0.2)
        with log.open("a") as file:
            file.write(json.dumps(step(2, 3.0, loss_per_token=0.03)) + "\n")
            file.write(json.dumps({"type": "session_end", "status": "success"}) + "\n")

    thread = threading.Thread(target=train)
    thread.start()
    assert run(["watch", str(log), "--interval", "0.05"]) == 0
    thread.join()
    assert capsys.readouterr().out.splitlines() == [
        "step 1  loss (sum) 4  200 tokens/s",
        "step 2  loss per token 0.03  200 tokens/s",
        "session ended: success",
    ]


def test_watch_says_what_it_needs(tmp_path, capsys):
    """M36: a file that is not there is an error that says who would write it."""
    assert run(["watch", str(tmp_path / "none.jsonl")]) == 1
    assert "run_log" in capsys.readouterr().err
