"""Lines of a run log about the state of the server's queue: one for each time that it changes."""

from __future__ import annotations

import asyncio
from typing import Any

from in_process import InlineRuntime
from virtual_clock import run_virtual

from tinker_ext.ledger import Ledger, Tokens
from tinker_ext.observe.run_log import RunLogObserver
from tinker_ext.runlog import RunLog, read
from tinker_ext.telemetry import OperationFinished, QueueStateSeen


def seen(state: str, request_id: str = "r1") -> QueueStateSeen:
    return QueueStateSeen("optim_step", request_id, state, "busy", "model")


def ended(request_id: str | None) -> OperationFinished:
    fields: dict[str, Any] = dict.fromkeys(("model", "loss", "trained", "seq_id", "failure"))
    fields |= {"operation": "optim_step", "target": "model", "seconds": 1.0, "metrics": {}}
    return OperationFinished(tokens=Tokens(), request_id=request_id, effect="yes", **fields)


def test_a_state_is_written_when_it_changes(tmp_path):
    """M26: held, at work, held again are two lines; a poll that says the same is none."""

    async def scenario() -> RunLogObserver:
        runtime = InlineRuntime(asyncio.get_running_loop())
        observer = RunLogObserver(RunLog(tmp_path / "run"), Ledger(), runtime, {})
        held, other = seen("paused_capacity"), seen("paused_rate_limit")
        active = seen("active")
        for event in (held, held, active, active, held, other, seen("paused_capacity", "r2")):
            observer.notice(event)
        observer.notice(ended("r1"))
        observer.notice(held)  # a later request of the same id is news again
        observer.notice(ended("r1"))
        observer.notice(ended("r2"))
        observer.notice(ended(None))
        await observer.aclose()
        return observer

    observer = run_virtual(scenario())
    lines = [line for line in read(tmp_path / "run") if line["type"] == "queue"]
    assert [(line["state"], line["request_id"]) for line in lines] == [
        ("paused_capacity", "r1"),
        ("paused_capacity", "r1"),
        ("paused_rate_limit", "r1"),
        ("paused_capacity", "r2"),
        ("paused_capacity", "r1"),
    ]
    assert observer._states == {}
