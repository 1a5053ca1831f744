"""What the log of waiting writes and when, on a clock that is set by hand (M26)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from virtual_clock import run_virtual

from tinker_ext._transport.messages import Lane
from tinker_ext.observe.run_log import SHOWN, Waits
from tinker_ext.telemetry import RequestStarted


class Log:
    def __init__(self):
        self.lines = []

    def write(self, kind, **fields):
        loop = asyncio.get_running_loop()
        self.lines.append((kind, round(loop.time(), 3), fields))

    def of(self, kind):
        return [(moment, fields) for name, moment, fields in self.lines if name == kind]


class Runtime:
    """Runs on the loop under test."""

    def time(self):
        return asyncio.get_running_loop().time()

    def call(self, fn, *args):
        asyncio.get_running_loop().call_soon(fn, *args)


def entry(stage="waiting", **more):
    fields = {
        "stage": stage, "started": 0.0, "deadline": 100.0, "attempt": 1, "retries": 0,
        "cause": None, "queue_state": None, "reason": None, "request_id": None, "seq_id": None,
    }  # fmt: skip
    return SimpleNamespace(**{**fields, **more})


def event(number, operation="optim_step"):
    return SimpleNamespace(number=number, operation=operation, target="model")


def made(live, totals=dict):
    log = Log()
    waits = Waits(log, Runtime(), live, totals, flush=lambda: None)
    waits.session_id = "s"
    return log, waits


def timers():
    loop = asyncio.get_running_loop()
    return sum(not handle.cancelled() for handle in loop._scheduled)


def test_nobody_looks_while_nothing_is_pending():
    """M26: the timer ends with the last call, and a new call starts it again."""

    async def scenario():
        live = {1: entry(), 2: entry()}
        log, waits = made(live)
        waits.started(event(1))
        await asyncio.sleep(0.1)
        assert timers() == 1
        waits.started(event(2))
        await asyncio.sleep(0.1)
        assert timers() == 1
        waits.finished(event(1))
        await asyncio.sleep(2.0)
        assert timers() == 1
        waits.finished(event(2))
        await asyncio.sleep(1.0)
        assert timers() == 0
        count = len(log.lines)
        await asyncio.sleep(60.0)
        assert len(log.lines) == count
        waits.started(event(1))
        await asyncio.sleep(0.1)
        assert timers() == 1
        assert log.of("waiting")[-1][1]["count"] == 1
        waits.close()
        assert timers() == 0
        waits.started(event(2))
        await asyncio.sleep(0.1)
        assert timers() == 0  # closed is closed

    run_virtual(scenario())


def test_news_is_written_within_a_second_and_the_same_calls_once():
    """M26: other calls that wait for the same are told every five seconds."""

    async def scenario():
        live = {n: entry() for n in range(1, 9)}
        log, waits = made(live)
        waits.started(event(1))
        await asyncio.sleep(0.1)
        assert [moment for moment, _ in log.of("waiting")] == [0.0]
        await asyncio.sleep(9.9)
        assert len(log.of("waiting")) == 1
        live[1].retries = 1  # news, seen at the next look
        await asyncio.sleep(0.6)
        assert [moment for moment, _ in log.of("waiting")] == [0.0, 10.5]
        live[1].retries = 2
        await asyncio.sleep(0.6)  # 11.2: less than a second after the last line
        assert len(log.of("waiting")) == 2
        await asyncio.sleep(0.5)
        assert [moment for moment, _ in log.of("waiting")][2:] == [11.5]
        # Another call that waits for the same is not news: five seconds after the last line.
        live[2].retries = 2
        waits.started(event(2))
        await asyncio.sleep(4.5)
        assert len(log.of("waiting")) == 3
        await asyncio.sleep(1.0)
        assert [moment for moment, _ in log.of("waiting")][3:] == [16.5]
        await asyncio.sleep(60.0)
        assert len(log.of("waiting")) == 4
        waits.close()

    run_virtual(scenario())


def test_calls_one_after_the_other_are_looked_at_twice_a_second():
    """M26 M48: a look may fall between two of them; each begins no new round of looks."""

    async def scenario():
        looks, loop = [], asyncio.get_running_loop()
        live = {number: entry() for number in range(20)}
        waits = Waits(Log(), Runtime(), live, dict, flush=lambda: looks.append(loop.time()))
        for number in live:
            waits.started(event(number))
            await asyncio.sleep(0.05)
            waits.finished(event(number))
            await asyncio.sleep(0.25)
        await asyncio.sleep(60.0)
        return looks

    assert run_virtual(scenario()) == pytest.approx([0.5 * n for n in range(14)])


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (None, "us"),
        (entry("queued"), "queue"),
        (entry("waiting"), "server"),
        (entry("waiting", queue_state="active"), "server"),
        (entry("waiting", queue_state="paused_capacity"), "queue"),
        (entry("sending"), "network"),
        (entry("sending", cause="503"), "network"),
        (entry("sending", cause="429"), "queue"),
        (entry("sending", cause="402"), "queue"),
    ],
)
def test_a_moment_counts_for_what_the_oldest_call_does(call, kind):
    """M26: and its seconds are written every ten seconds, then counted anew."""

    async def scenario():
        log, waits = made({} if call is None else {1: call}, lambda: {"tokens": 7})
        waits.started(event(1))
        await asyncio.sleep(4.0)
        waits.flush()
        ((_, line),) = log.of("time")
        assert line["seconds"] == 4.0
        assert {name: line[name] for name in ("server", "queue", "network", "us")} == {
            **dict.fromkeys(("server", "queue", "network", "us"), 0.0),
            kind: 4.0,
        }
        assert (line["session"], line["totals"]) == ("s", {"tokens": 7})
        waits.flush()
        assert len(log.of("time")) == 1  # nothing has passed since
        for _ in range(25):
            await asyncio.sleep(1.0)
            waits.moved()
        assert [line["seconds"] for _, line in log.of("time")[1:]] == [10.0, 10.0]
        waits.close()

    run_virtual(scenario())


def test_the_time_between_calls_is_ours():
    """M26: a call counts from its start to its end, and for the network until it was answered."""

    async def scenario():
        live = {1: entry("sending"), 2: entry("sending"), 3: entry("waiting")}
        log, waits = made(live)
        for number in (1, 2):
            waits.started(event(number))
            await asyncio.sleep(0.125)
            waits.answered(SimpleNamespace(lane=Lane.POLL))
            await asyncio.sleep(0.125)
            waits.answered(SimpleNamespace(lane=Lane.TRAIN))
            live[number].stage = "waiting"
            await asyncio.sleep(0.0625)
            waits.finished(event(number))
            await asyncio.sleep(0.03125)
        waits.started(event(3))
        waits.flush()
        ((_, line),) = log.of("time")
        assert {name: line[name] for name in ("server", "queue", "network", "us")} == {
            "network": 2 * 0.25,
            "server": 2 * 0.0625,
            "us": 2 * 0.03125,
            "queue": 0.0,
        }
        waits.close()

    run_virtual(scenario())


def test_a_line_shows_the_oldest_calls_and_their_lane():
    """M26: sixteen of them, and how many there are."""

    async def scenario():
        live = {n: entry(started=float(n)) for n in range(40)}
        log, waits = made(live)
        lane = RequestStarted.__new__(RequestStarted)
        object.__setattr__(lane, "operation", "optim_step")
        object.__setattr__(lane, "lane", Lane.TRAIN)
        waits.sent(lane)
        for number in range(40):
            waits.started(event(number, "optim_step" if number else "forward"))
        await asyncio.sleep(0.1)
        _, line = log.of("waiting")[-1]
        assert line["count"] == 40
        assert [call["number"] for call in line["calls"]] == list(range(SHOWN))
        assert SHOWN == 16
        assert [call["lane"] for call in line["calls"]] == [None] + ["train"] * 15
        first, last = line["calls"][0], line["calls"][-1]
        assert last["since"] - first["since"] == pytest.approx(15.0, abs=0.01)
        assert first["deadline"] - first["since"] == pytest.approx(100.0, abs=0.01)
        waits.close()

    run_virtual(scenario())
