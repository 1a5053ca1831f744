"""When a call without an answer is worth a line in the log, and when an error will say it."""

from __future__ import annotations

import asyncio
import logging
import random

import httpx
import pytest
from virtual_clock import run_virtual

from tinker_ext._transport.connection import Connection
from tinker_ext._transport.messages import Call, Lane, RetryRule
from tinker_ext.config import Config
from tinker_ext.errors import APIConnectionError, APIStatusError


class Silent(httpx.AsyncBaseTransport):
    """Answers nothing, or a status at once."""

    def __init__(self, status: int | None = None) -> None:
        self._status = status

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._status is None:
            await asyncio.sleep(10_000)
        return httpx.Response(self._status or 200, json={})


@pytest.fixture(autouse=True)
def known_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has answered before: the whole retry window applies."""
    monkeypatch.setattr("tinker_ext._transport.connection._answered", {"http://server"})


def connect(status: int | None = None) -> Connection:
    return Connection(
        "http://server", None, config=Config(), transport=Silent(status), rng=random.Random(1)
    )


def call(lane: Lane = Lane.SAMPLE, timeout: float = 60.0) -> Call:
    return Call("asample", "POST", "/x", b"{}", lane=lane, timeout=timeout, retry=RetryRule.DEDUPE)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "tinker_ext"]


@pytest.mark.parametrize(
    ("lane", "timeout", "deadline", "said"),
    [
        (Lane.SAMPLE, 60.0, 7.0, None),  # the error comes within a second
        (Lane.SAMPLE, 60.0, 7.6, "no answer for 6 s; giving up in 2 s"),
        (Lane.TRAIN, 60.0, 26.0, "no answer for 6 s; giving up in 20 s"),
        (Lane.SAMPLE, 10.0, 30.0, None),  # the attempt ends soon, and is told of as a failure
        (Lane.SAMPLE, 10.5, 8.0, "no answer for 6 s; giving up in 2 s"),
        (Lane.SAMPLE, 60.0, 5.9, None),
        (Lane.POLL, 60.0, 26.0, None),  # held on purpose
        (Lane.TELEMETRY, 60.0, 26.0, None),  # delays nobody
    ],
)
def test_six_seconds_without_an_answer_are_told(caplog, lane, timeout, deadline, said):
    """M12: unless the error that says it is about to come, or nobody waits for it."""

    async def main() -> None:
        connection = connect()
        with pytest.raises(APIConnectionError):
            await connection.exchange(call(lane, timeout), deadline=deadline)
        await connection.aclose()

    with caplog.at_level(logging.WARNING, "tinker_ext"):
        run_virtual(main())
    first = [line for line in lines(caplog) if "has had no answer" in line]
    assert len(first) == (said is not None)
    assert said is None or said in first[0]


def test_many_silent_calls_are_told_of_every_ten_seconds():
    """M12: one line for all that wait, then another when ten seconds have passed."""
    moments: list[float] = []

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            moments.append(asyncio.get_running_loop().time())

    async def main() -> None:
        connection = connect()

        async def late(start: float) -> None:
            await asyncio.sleep(start)
            with pytest.raises(APIConnectionError):
                await connection.exchange(call(timeout=300.0), deadline=start + 100.0)

        await asyncio.gather(*(late(start) for start in (0.0, 3.0, 9.5, 10.0, 15.0, 20.0)))
        await connection.aclose()

    log, handler = logging.getLogger("tinker_ext"), Noting()
    log.addHandler(handler)
    try:
        run_virtual(main())
    finally:
        log.removeHandler(handler)
    assert [moment for moment in moments if moment < 60.0] == [6.0, 16.0, 26.0]


def test_a_call_that_keeps_failing_is_told_of_after_ten_seconds(caplog):
    """M12: how often, over how long, with what, and when it ends."""

    async def main() -> None:
        connection = connect(503)
        with pytest.raises(APIStatusError):
            await connection.exchange(call(), deadline=40.0)
        await connection.aclose()

    with caplog.at_level(logging.WARNING, "tinker_ext"):
        run_virtual(main())
    told = [line for line in lines(caplog) if "has failed" in line]
    assert 2 <= len(told) <= 3
    assert "last with status 503" in told[0]
    assert "over 10 s" in told[0] or "over 11 s" in told[0]
