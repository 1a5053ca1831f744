"""The reporter: queue, batches, flushes, failures and forks, on a virtual clock."""

import asyncio
import json
import logging

import pytest
from in_process import InlineRuntime
from virtual_clock import run_virtual

from tinker_ext._transport.messages import Lane
from tinker_ext.errors import FeatureMissingError, error_for_status
from tinker_ext.observe.reporter import Reporter, process_uuid
from tinker_ext.telemetry import RetryScheduled, SessionEnded, SessionStarted

QUIET = RetryScheduled("asample", Lane.SAMPLE, 1, "503", 1.0, "backoff")
LOUD = SessionEnded("s1", "errored", "ZeroDivisionError", 3.5)


class Endpoint:
    """Takes batches and notes when; `answers` are raised or waited for in turn."""

    def __init__(self, *answers):
        self.batches = []
        self.times = []
        self.answers = list(answers)

    async def send(self, body):
        self.times.append(round(asyncio.get_running_loop().time(), 3))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            await asyncio.sleep(answer)
        self.batches.append(json.loads(json.dumps(body)))

    @property
    def indexes(self):
        return [event["event_session_index"] for batch in self.batches for event in batch["events"]]


def make(endpoint):
    runtime = InlineRuntime(asyncio.get_running_loop())
    reporter = Reporter(endpoint.send, runtime, sdk_version="1.2.3")
    reporter.notice(SessionStarted("s1"))
    return reporter


def test_quiet_events_leave_together_after_ten_seconds():
    """M34: events are batched and flushed every 10 s."""
    endpoint = Endpoint()

    async def scenario():
        reporter = make(endpoint)
        for _ in range(5):
            reporter.notice(QUIET)
            await asyncio.sleep(1)
        assert endpoint.times == []
        await asyncio.sleep(20)
        reporter.notice(QUIET)
        await asyncio.sleep(11)

    run_virtual(scenario())
    assert [len(batch["events"]) for batch in endpoint.batches] == [6, 1]
    assert endpoint.times == [10.0, 35.0]
    assert endpoint.indexes == list(range(7))
    first = endpoint.batches[0]
    assert first["session_id"] == "s1"
    assert first["process_uuid"] == process_uuid()
    assert first["sdk_version"] == "1.2.3"
    assert first["events"][0]["event"] == "SESSION_START"
    assert len({event["event_id"] for event in first["events"]}) == 6


def test_an_exception_is_sent_at_once():
    """M34: exceptions flush at once, with everything queued before them."""
    endpoint = Endpoint()

    async def scenario():
        reporter = make(endpoint)
        reporter.notice(QUIET)
        await asyncio.sleep(3)
        reporter.notice(LOUD)
        await asyncio.sleep(0.5)

    run_virtual(scenario())
    assert endpoint.times == [3.0]
    kinds = [event["event"] for event in endpoint.batches[0]["events"]]
    assert kinds == ["SESSION_START", "GENERIC_EVENT", "UNHANDLED_EXCEPTION", "SESSION_END"]
    assert endpoint.batches[0]["events"][-1]["duration"] == "0:00:03.500000"


def test_a_batch_holds_a_hundred_and_the_queue_ten_thousand(caplog):
    """M34: 10,000 events queue up, more are dropped with one warning, batches hold 100."""
    endpoint = Endpoint()

    async def scenario():
        reporter = make(endpoint)
        for _ in range(10_500):
            reporter.notice(QUIET)
        assert reporter.queued == 10_000
        await asyncio.sleep(11)

    with caplog.at_level(logging.WARNING, "tinker_ext"):
        run_virtual(scenario())
    assert len(caplog.records) == 1
    assert {len(batch["events"]) for batch in endpoint.batches} == {100}
    assert endpoint.indexes == list(range(10_000))


@pytest.mark.parametrize(
    "refusal",
    [
        error_for_status(404, b"Not Found"),
        error_for_status(405, b""),
        error_for_status(401, b""),
        FeatureMissingError("telemetry"),
    ],
)
def test_a_server_without_the_endpoint_turns_it_off(refusal):
    """M34: a 404 or 405 on /telemetry ends it, and nothing is queued any more."""
    endpoint = Endpoint(refusal)

    async def scenario():
        reporter = make(endpoint)
        await asyncio.sleep(11)
        assert reporter.off
        reporter.notice(LOUD)
        await asyncio.sleep(100)
        assert reporter.queued == 0
        await reporter.aclose()

    run_virtual(scenario())
    assert endpoint.times == [10.0]


def test_an_unhealthy_server_gets_the_same_events_later_and_less_often():
    """M34: what could not be delivered is sent again, once, with growing pauses."""
    endpoint = Endpoint(*[error_for_status(503, b"")] * 3)

    async def scenario():
        reporter = make(endpoint)
        await asyncio.sleep(12)
        reporter.notice(LOUD)
        await asyncio.sleep(300)

    run_virtual(scenario())
    assert endpoint.times == [10.0, 30.0, 70.0, 150.0]
    assert endpoint.indexes == [0, 1, 2]


def test_a_server_that_stays_unhealthy_is_asked_every_five_minutes():
    """M34: and at the usual pace again once it has taken something."""
    endpoint = Endpoint(*[error_for_status(503, b"")] * 7)

    async def scenario():
        reporter = make(endpoint)
        await asyncio.sleep(1500)
        reporter.notice(QUIET)
        await asyncio.sleep(30)
        endpoint.answers.append(error_for_status(503, b""))
        reporter.notice(QUIET)
        await asyncio.sleep(50)

    run_virtual(scenario())
    assert endpoint.times == [
        *(10.0, 30.0, 70.0, 150.0, 310.0, 610.0, 910.0, 1210.0),
        *(1510.0, 1540.0, 1560.0),
    ]
    assert endpoint.indexes == [0, 1, 2]


def test_a_batch_the_server_calls_wrong_is_dropped_and_the_next_one_goes_out():
    """M34: one bad batch does not hold up the others."""
    endpoint = Endpoint(error_for_status(422, b""))

    async def scenario():
        reporter = make(endpoint)
        await asyncio.sleep(11)
        reporter.notice(QUIET)
        await asyncio.sleep(11)

    run_virtual(scenario())
    assert endpoint.indexes == [1]


@pytest.mark.parametrize("hangs", [False, True])
def test_close_sends_the_rest_and_waits_two_seconds_at_most(hangs):
    """M34 M21: close drains the queue within a bound, and leaves no task behind."""
    endpoint = Endpoint(*([3600.0] if hangs else []))

    async def scenario():
        reporter = make(endpoint)
        reporter.notice(QUIET)
        reporter.notice(LOUD)
        loop = asyncio.get_running_loop()
        await reporter.aclose()
        assert loop.time() == pytest.approx(2.0 if hangs else 0.0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(scenario())
    assert endpoint.indexes == ([] if hangs else [0, 1, 2, 3])


def test_close_does_not_wait_for_a_server_that_failed_before():
    """M34: an unhealthy server does not delay the end."""
    endpoint = Endpoint(*[error_for_status(503, b"")] * 9)

    async def scenario():
        reporter = make(endpoint)
        await asyncio.sleep(15)
        await reporter.aclose()
        assert asyncio.get_running_loop().time() == pytest.approx(15.0)

    run_virtual(scenario())


def test_before_a_session_the_id_says_so():
    """M34: a client without a session reports neither start nor end."""
    endpoint = Endpoint()

    async def scenario():
        runtime = InlineRuntime(asyncio.get_running_loop())
        reporter = Reporter(endpoint.send, runtime, sdk_version="1")
        reporter.notice(QUIET)
        reporter.notice(SessionEnded(None, "success", None, 0.0))
        await reporter.aclose()

    run_virtual(scenario())
    (batch,) = endpoint.batches
    assert batch["session_id"].startswith("sessionless-")
    assert [event["event"] for event in batch["events"]] == ["GENERIC_EVENT"]


def test_close_does_not_wait_for_a_server_that_fails_just_then():
    """M34: the rest is sent once; what the server does not take is lost, not sent again."""
    endpoint = Endpoint(*[error_for_status(503, b"")] * 9)

    async def scenario():
        reporter = make(endpoint)
        for _ in range(100):
            reporter.notice(QUIET)
        await reporter.aclose()
        assert asyncio.get_running_loop().time() == 0.0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(scenario())
    assert endpoint.times == [0.0]
