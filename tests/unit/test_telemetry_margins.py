"""Telemetry in numbers: how much is queued, sent at once and waited for, and what ends it."""

from __future__ import annotations

import asyncio
import itertools
import random
import re

import pytest
from in_process import InlineRuntime
from virtual_clock import run_virtual

from tinker_ext._transport.messages import Lane
from tinker_ext.errors import error_for_status
from tinker_ext.observe.reporter import Reporter
from tinker_ext.telemetry import (
    Callback,
    Observers,
    RetryScheduled,
    SessionEnded,
    SessionStarted,
    opentelemetry_observer,
)

QUIET = RetryScheduled("asample", Lane.SAMPLE, 1, "503", 1.0, "backoff")
LOUD = SessionEnded("s1", "errored", "ZeroDivisionError", 3.5)


class Endpoint:
    """Notes when it was sent how much; raises as long as it is unwell."""

    def __init__(self):
        self.sent, self.error, self.seconds = [], None, 0.0

    async def send(self, body):
        now = round(asyncio.get_running_loop().time(), 3)
        self.sent.append((now, [each["event_session_index"] for each in body["events"]]))
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error


def reporter(endpoint):
    runtime = InlineRuntime(asyncio.get_running_loop())
    return Reporter(endpoint.send, runtime, sdk_version="1", rng=random.Random(1))


def test_ten_thousand_events_wait_and_a_hundred_leave_at_once():
    """M34: one more is dropped; the batches follow one another without a pause."""
    endpoint = Endpoint()

    async def scenario():
        made = reporter(endpoint)
        for _ in range(10_005):
            made.notice(QUIET)
        assert made.queued == 10_000
        await asyncio.sleep(9.9)
        assert endpoint.sent == []
        await asyncio.sleep(0.2)
        assert made.queued == 0
        made.notice(QUIET)
        assert made.queued == 1
        await made.aclose()

    run_virtual(scenario())
    assert [len(events) for _, events in endpoint.sent] == [100] * 100 + [1]
    assert {now for now, _ in endpoint.sent[:100]} == {10.0}


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_pauses_double_from_twenty_seconds_to_five_minutes(status):
    """M34 M24: and start over once the server is well."""
    endpoint = Endpoint()
    endpoint.error = error_for_status(status, b"")

    async def scenario():
        made = reporter(endpoint)
        made.notice(QUIET)
        await asyncio.sleep(1300)
        endpoint.error = None
        await asyncio.sleep(600)
        times = [now for now, _ in endpoint.sent]
        endpoint.sent.clear()
        endpoint.error = error_for_status(status, b"")
        made.notice(QUIET)
        await asyncio.sleep(45)
        await made.aclose()
        return times

    times = run_virtual(scenario())
    waits = [round(b - a, 3) for a, b in itertools.pairwise(times)]
    assert times[0] == 10.0
    assert waits[:5] == [20.0, 40.0, 80.0, 160.0, 300.0]
    assert set(waits[5:]) == {300.0}
    again = [now - endpoint.sent[0][0] for now, _ in endpoint.sent[:2]]
    assert again == [0.0, 20.0]


@pytest.mark.parametrize(
    ("status", "dropped"), [(400, True), (422, True), (499, True), (500, False)]
)
def test_what_the_server_calls_wrong_is_not_sent_twice(status, dropped):
    """M34: any refusal of the batch itself; what passes is sent again."""
    endpoint = Endpoint()
    endpoint.error = error_for_status(status, b"")

    async def scenario():
        made = reporter(endpoint)
        made.notice(QUIET)
        await asyncio.sleep(11)
        left = made.queued
        endpoint.error = None
        await asyncio.sleep(100)
        await made.aclose()
        return left

    assert run_virtual(scenario()) == (0 if dropped else 1)
    assert len(endpoint.sent) == (1 if dropped else 2)


def test_an_urgent_event_wakes_the_reporter_once():
    """M34: what comes after it waits for its ten seconds again."""
    endpoint = Endpoint()

    async def scenario():
        made = reporter(endpoint)
        made.notice(QUIET)
        await asyncio.sleep(2)
        made.notice(LOUD)
        await asyncio.sleep(1)
        made.notice(QUIET)
        await asyncio.sleep(30)
        await made.aclose()

    run_virtual(scenario())
    # The exception is an event of its own beside the end of the session.
    assert endpoint.sent == [(2.0, [0, 1, 2]), (13.0, [3])]


@pytest.mark.parametrize("status", ["success", "errored", "interrupted"])
def test_the_end_of_a_session_is_told_at_once(status):
    """M34: the program may be over a moment later, however it went."""
    endpoint = Endpoint()

    async def scenario():
        made = reporter(endpoint)
        made.notice(QUIET)
        await asyncio.sleep(1.0)
        assert endpoint.sent == []
        made.notice(SessionEnded("s1", status, None, 3.5))
        await asyncio.sleep(0.1)
        assert len(endpoint.sent) == 1
        await made.aclose()

    run_virtual(scenario())


def test_events_say_when_in_the_form_of_the_document():
    """M34: universal time with a Z, as every moment of the API."""
    bodies = []

    async def send(body):
        bodies.append(body)

    async def scenario():
        made = Reporter(send, InlineRuntime(asyncio.get_running_loop()), sdk_version="1")
        made.notice(QUIET)
        await made.aclose()

    run_virtual(scenario())
    (event,) = bodies[0]["events"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", event["timestamp"])


def test_a_slow_endpoint_is_left_after_two_seconds():
    """M34 M21: closing waits no longer, leaves no task, and nothing is taken in afterwards."""
    endpoint = Endpoint()
    endpoint.seconds = 50.0

    async def scenario():
        made = reporter(endpoint)
        made.notice(QUIET)
        await made.aclose()
        assert asyncio.get_running_loop().time() == pytest.approx(2.0)
        made.notice(QUIET)
        await asyncio.sleep(100)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return made.queued, made.off

    assert run_virtual(scenario()) == (1, True)
    assert len(endpoint.sent) == 1


def test_a_forked_child_sends_nothing_of_its_parent():
    """F19: the queue and the task are the parent's; what the child notes it sends itself."""
    endpoint = Endpoint()

    async def scenario():
        made = reporter(endpoint)
        made.notice(SessionStarted("s1"))
        await asyncio.sleep(1)
        task = made._task
        made.after_fork()
        assert made.queued == 0
        made.notice(QUIET)
        await asyncio.sleep(0)
        assert made._task is not task
        await made.aclose()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(scenario())
    assert [events for _, events in endpoint.sent] == [[1]]


def test_an_observer_that_is_removed_is_told_nothing_more():
    """M34: the others are, in their order."""
    told = []
    first, second = (Callback(lambda event, name=name: told.append(name)) for name in "ab")
    observers = Observers([first])
    observers.add(second)
    observers.notice(SessionStarted("S"))
    observers.remove(first)
    observers.remove(first)
    observers.notice(SessionStarted("S"))
    assert told == ["a", "b", "b"]
    observers.remove(second)
    assert not observers


def test_without_opentelemetry_there_is_no_observer(monkeypatch):
    """M39: it is an extra; neither half of it will do."""

    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.util.find_spec", missing)
    assert opentelemetry_observer() is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert opentelemetry_observer() is None
