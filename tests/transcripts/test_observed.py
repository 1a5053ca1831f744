"""What the run log and telemetry say of a run, line by line, with every number.

M34 F29: see `transcript.py`; the wall clock follows the virtual one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from in_process import client, run
from scripted import fresh_url
from stub_server import RESULTS
from transcripts.transcript import Even, Server, Told, _called, check

from tinker_ext import Config
from tinker_ext._transport.messages import Lane
from tinker_ext.errors import (
    APIConnectionError,
    APIResponseValidationError,
    DeadlineExceededError,
    RequestFailedError,
    TinkerError,
    error_for_status,
)
from tinker_ext.observe.reporter import drafts, is_urgent
from tinker_ext.runlog import DEFAULT_NAME
from tinker_ext.telemetry import (
    OperationFinished,
    RequestFailed,
    RequestFinished,
    RetryScheduled,
    SessionEnded,
    SessionStarted,
)

PRICES = '[models."m"]\ntrain = 3.0\nprefill = 1.0\nsample = 2.0\n'
# Of this machine or this release, and not of the run.
UNTOLD = ("client", "event_id", "platform", "process_uuid", "sdk_version", "timestamp", "traceback")
# calls, what becomes of requests, arguments of the client
RUNS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "a run": ("fb2 opt wait save wait sample2 wait sleep:70 fb opt", {}, {}),
    "retries and waits": (
        "fb2 opt wait sample wait opt",
        {
            "forward_backward 2": "busy for 3 s",
            "optim_step 1": "down",
            "r2 1-3": "paused",
            "asample 1": "lost",
            "r5 1-4": "pending",
        },
        {},
    ),
    "failures": (
        "fb opt wait fb wait save sample wait sample",
        {
            "forward_backward 1": "refused",
            "r2 1": "failed",
            "r3 1": "failed on the server",
            "asample 1": "bad",
            "r5 1-2": "broken",
        },
        {},
    ),
    "many wait for long": (
        "fb opt 4*sample sleep:300",
        {"r1 1": "after 200", "r2 1-4": "paused", "asample 2": "after 100", "r4 1": "after 20"},
        {"budget": {"cost": 9.0, "train": 90}},
    ),
    "the budget is used up": (
        "fb2 opt wait fb2 wait sample",
        {},
        {"budget": {"train": 10, "sample": 2}},
    ),
    "closed while calls wait": ("fb opt sample sleep:75 close", {"r1 1+": "held"}, {}),
}


class Trainer(Server):
    """Also has losses, and takes telemetry."""

    def friendly(self, operation: str, body: Any) -> Any:
        """What a well-behaved server says."""
        if operation == "telemetry":
            return 200, {"status": "accepted"}
        known = self.futures.get((body or {}).get("request_id")) if body else None
        if operation == "retrieve_future" and known == "forward_backward":
            number = int(body["request_id"][1:])
            return 200, {**RESULTS[known], "metrics": {"loss:sum": 7.0 / number, "kl:mean": 0.5}}
        return super().friendly(operation, body)


async def _life(server: Trainer, words: str, place: Path, options: dict[str, Any]) -> None:
    (place / "prices.toml").write_text(PRICES)
    service = client(
        server,
        wire="json",
        config=Config(chunk_datums=1, retry_window=30.0, heartbeat_interval=3600.0),
        rng=Even(7),
        base_url=fresh_url(),
        run_log=place,
        telemetry=True,
        prices=place / "prices.toml",
        **options,
    )
    async with service:
        training = await service.create_lora_training_client_async("m", rank=4)
        sampler = await service.create_sampling_client_async(base_model="m")
        futures: list[Any] = []
        for word in words.split():
            times, star, name = word.rpartition("*")
            if name == "wait":
                await asyncio.gather(*futures, return_exceptions=True)
            elif name.startswith("sleep:"):
                await asyncio.sleep(float(name.removeprefix("sleep:")))
            elif name == "close":
                await service.close("success")
            else:
                for _ in range(int(times) if star else 1):
                    with contextlib.suppress(TinkerError):
                        futures.append(_awaited(await _called(name, training, sampler)))
        await asyncio.gather(*futures, return_exceptions=True)


def _awaited(future: Any) -> asyncio.Future[Any]:
    async def value() -> Any:
        return await future

    return asyncio.ensure_future(value())


def _shown(record: dict[str, Any]) -> str:
    text = json.dumps({key: value for key, value in record.items() if key not in UNTOLD})
    return re.sub(r"(\.\d{4})\d+", r"\1", text)  # each request takes a moment longer than the last


@pytest.mark.parametrize("name", RUNS)
def test_what_is_told_of_a_run(name, tmp_path, monkeypatch):
    """Every line of the log and every event that is reported are as they are on file."""
    words, plan, options = RUNS[name]
    reported: list[str] = []

    async def scenario():
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(time, "time", lambda: 100.0 + loop.time())
        server = Trainer(Told(), "dedupe", plan, {})
        await _life(server, words, tmp_path, options)
        for operation, body, _ in server.requests:
            if operation == "telemetry":
                reported.append(_shown({**body, "events": len(body["events"])}))
                reported.extend(f"  {_shown(event)}" for event in body["events"])

    run(scenario)
    monkeypatch.undo()
    lines = (tmp_path / DEFAULT_NAME).read_text().splitlines()
    check("observed", name, "\n".join([*(_shown(json.loads(line)) for line in lines), *reported]))


def _events():
    """Events of every kind, at the margins of what is told about them."""
    failures = [
        *(error_for_status(status, b"") for status in (400, 402, 404, 408, 409, 422, 429, 500)),
        RequestFailedError("no", "r1", "user"),
        RequestFailedError("no", "r1", "server"),
        APIConnectionError(message="no"),
        DeadlineExceededError("no"),
        APIResponseValidationError(httpx.Response(200, text="no"), "no", "no"),
        ValueError("no"),
    ]
    yield SessionStarted("s1")
    for status, detail in itertools.product(("success", "errored"), (None, "KeyError")):
        yield SessionEnded("s1", status, detail, 3661.5)
    yield SessionEnded(None, "success", None, -1.0)
    for lane, reason in itertools.product((Lane.TRAIN, Lane.TELEMETRY), ("503", "ConnectError")):
        yield RetryScheduled("forward", lane, 2, reason, 1.5, "backoff", 4)
    for lane, status in itertools.product((Lane.POLL, Lane.TRAIN), (200, 399, 400, 404, 408, 500)):
        yield RequestFinished("retrieve_future", lane, 3, status, None, 1.23456789)
    for error in (None, "CancelledError", "APITimeoutError", "ConnectError"):
        yield RequestFinished("retrieve_future", Lane.POLL, 3, None, error, 1.23456789)
    for lane, operation in (
        (Lane.TELEMETRY, "send_telemetry"),
        (Lane.SESSION, "session_heartbeat"),
        (Lane.SESSION, "create_session"),
        (Lane.REST, "get_session"),
        (Lane.TRAIN, "forward"),
    ):
        for failure in failures:
            yield RequestFailed(operation, lane, 2, 1.23456789, failure)
    for operation, request_id in itertools.product(("asample", "forward"), (None, "r1")):
        for failure in (None, *failures):
            yield OperationFinished(
                number=1,
                operation=operation,
                target="m",
                seconds=1.23456789,
                request_id=request_id,
                attempts=2,
                failure=failure,
            )


def test_what_is_reported_of_every_event():
    """As above, for every kind of event; `!` is sent at once."""
    lines = []
    for event in _events():
        failure = getattr(event, "failure", None)
        code = getattr(failure, "status_code", "")
        lines.append(f"{event} {'' if failure is None else type(failure).__name__} {code}".rstrip())
        lines += [f"  {'!' * is_urgent(each)} {json.dumps(each)}" for each in drafts(event)]
    check("observed", "events", "\n".join(lines))
