"""Transcripts: what a server sees of a client and what the user is told, moment by moment.

A scenario is a line of calls and the faults that they meet, on a virtual clock and without chance.
What happens is written down and compared with a file beside this one, so that no request, pause,
state or sentence changes unseen. `TRANSCRIPTS=write pytest tests/transcripts` writes them anew;
the difference is to be read like one of code.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import math
import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from in_process import adam, client, datum, deadline, run
from scripted import fresh_url, lost
from stub_server import StubServer

from tinker_ext import Config, ModelInput, RetryConfig, SamplingParams, ServiceClient
from tinker_ext.clients.models import _obstacle
from tinker_ext.errors import TinkerError
from tinker_ext.journal import Journal, JournalError
from tinker_ext.journal.recorder import Recorder
from tinker_ext.telemetry import Event, OperationFinished, QueueStateSeen, RetryScheduled

DATA = Path(__file__).parent
LATENCY = 0.01
UNTOLD = (
    "client/config",
    "create_session",
    "create_model",
    "session_heartbeat",
    "sessions/S/finish",
)
NUMBERED = ("forward", "forward_backward", "optim_step", "save_weights", "load_weights")

# What becomes of a request: an answer, or one of these.
ANSWERS: dict[str, Any] = {
    "refused": (422, {"detail": "not welcome"}),
    "bad": (400, {"detail": "no such thing"}),
    "empty 400": (400, b""),
    "unknown key": (401, {"detail": "who?"}),
    "no credit": (402, {"detail": "no credit"}),
    "nothing here": (404, {"detail": "Not Found"}),
    "no such future": (404, {"detail": "no such future"}),
    "conflict": (409, {"detail": "conflict"}),
    "expired": (410, {"detail": "expired"}),
    "unread": (415, {"detail": "what is this?"}),
    "busy": (429, {"detail": "busy"}),
    "busy for 3 s": (429, {"detail": "busy"}, {"retry-after": "3"}),
    "busy for 400 s": (429, {"detail": "busy"}, {"retry-after": "400"}),
    "broken": (500, {"detail": "broken"}),
    "down": (503, {"detail": "down"}),
    "page": (200, "<html><title>Sign in</title></html>", {"content-type": "text/html"}),
    "gateway": (502, "<html><title>502</title></html>", {"content-type": "text/html"}),
    "garbage": (200, {"type": "brand_new"}),
    "pending": (408, {"queue_state": "active"}),
    "paused": (408, {"queue_state": "paused_capacity", "queue_state_reason": "full"}),
    "try again": (200, {"type": "try_again", "request_id": "?", "queue_state": "active"}),
    "failed": (200, {"error": "bad data", "category": "user"}),
    "failed as SkyRL": (400, {"detail": "bad data"}),
    "announced": (200, {"status": "complete_metadata", "response_payload_size": 4000}),
    "failed on the server": (200, {"error": "a GPU broke", "category": "server"}),
    "nothing new": (200, {"cursor": 0, "completions": []}),
}


class Even(random.Random):
    """Every pause is as long as the middle of its range."""

    def random(self) -> float:
        return 0.5


class Server(StubServer):
    """Numbers requests by one of the rules that servers have, and strikes as planned.

    Args:
        told: Where requests are written down.
        rule: What a repeated number means, as in `Seq`; with a `?` behind it nobody is told.
        plan: "operation 2", "operation 2-5" or "operation 2+" → what becomes of these requests;
            polls go by the id they ask for, as in "r1 2".
        flags: Fields of the client/config reply.
    """

    def __init__(
        self, told: Told, rule: str, plan: Mapping[str, str], flags: Mapping[str, Any]
    ) -> None:
        self._told = told
        self._rule = rule.removesuffix("?")
        self._plan = [_parsed(key, name) for key, name in plan.items()]
        self._arrived: Counter[str] = Counter()
        self._numbers: dict[int, str] = {}
        self._polls: dict[str, Any] = {}
        self._gaps: set[int] = set()
        self._announced: set[str] = set()
        self._arrivals = itertools.count()
        self.effects: list[str] = []
        self.from_then_on = math.inf
        declared = {} if rule.endswith("?") else {"seq_ids": self._rule}
        super().__init__(self._answered, config={**declared, **flags})

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer, and write down what was asked and answered."""
        began = asyncio.get_running_loop().time()
        operation = request.url.path.partition("/api/v1/")[2]
        status: Any = "nothing"
        try:
            response = await super().handle_async_request(request)
            status = response.status_code
        finally:
            if operation not in UNTOLD and began >= self.from_then_on:
                self._told.write(f"{began:8.2f} {self._shown(operation, request)} -> {status}")
        return response

    def _shown(self, operation: str, request: httpx.Request) -> str:
        body = next(body for _, body, sent in self.requests if sent is request)
        facts = [operation]
        if isinstance(body, bytes):
            facts.append("protobuf")
        elif body is not None:
            known = (
                "seq_id",
                "request_id",
                "num_samples",
                "allow_metadata_only",
                "retrieved_request_ids",
                "prev_cursor",
            )
            facts += [f"{key} {body[key]}" for key in known if key in body]
        if nth := request.headers.get("x-tinker-request-iteration"):
            facts.append(f"iteration {nth}")
        took = request.headers.get("x-tinker-create-promise-roundtrip-time")
        shown = None if took is None else f"{float(took):.2f}"
        if shown != (f"{LATENCY:.2f}" if nth == "0" else None):
            facts.append(f"roundtrip {shown}")
        return " ".join(facts)

    async def _answered(self, operation: str, body: Any, request: httpx.Request) -> Any:
        # Each a moment longer: what ends at one time goes on in an order that any timer may change.
        await asyncio.sleep(LATENCY + next(self._arrivals) * 1e-7)
        what = body["request_id"] if operation == "retrieve_future" else operation
        if isinstance(body, bytes):
            what = "protobuf"
        self._arrived[what] += 1
        name = self._planned(what, self._arrived[what])
        if name == "swallowed":
            await asyncio.sleep(1e6)
        if name == "cut":
            raise httpx.ConnectError("no route to host")
        if name in ANSWERS:
            return ANSWERS[name]
        answer = self._served(operation, body, fails=name == "fails")
        if name == "lost":
            raise lost()
        if name == "held":
            await asyncio.sleep(1e6)
        if name.startswith("after "):
            await asyncio.sleep(float(name.removeprefix("after ")))
        return answer

    def _planned(self, what: str, nth: int) -> str:
        hits = (name for at, first, last, name in self._plan if at == what and first <= nth <= last)
        return next(hits, "")

    def _served(self, operation: str, body: Any, *, fails: bool) -> Any:
        if operation == "retrieve_future":
            return self._polls.get(body["request_id"])
        if operation == "retrieve_futures":
            new = [each for each in self.futures if each not in self._announced]
            self._announced.update(new)
            done = [{"state": "finished", "request_id": each} for each in new]
            return 200, {"cursor": len(self._announced), "completions": done}
        if operation == "client/dynamic_config":
            return 200, {"sample_cancel_enabled": True}
        if operation == "cancel_future":
            return 200, {}
        if operation not in NUMBERED or not isinstance(body, dict):
            return None
        seq_id = body["seq_id"]
        known = self._numbers.get(seq_id)
        if known is not None and self._rule in ("dedupe", "order"):
            return 200, {"request_id": known}
        if known is not None and self._rule == "strict":
            return 409, {"detail": "this number is taken"}
        answer = self.promise(operation)
        request_id = answer[1]["request_id"]
        if self._rule == "late" and (known is not None or min(self._gaps, default=seq_id) < seq_id):
            self._polls[request_id] = 409, {"detail": "another number is expected"}
        elif fails:
            self._polls[request_id] = ANSWERS["failed"]
            if self._rule == "late":  # as TuFT: the number is still expected
                self._gaps.add(seq_id)
            else:
                self._numbers[seq_id] = request_id
        else:
            self._gaps.discard(seq_id)
            self._numbers[seq_id] = request_id
            self.effects.append(f"{operation} {seq_id}")
        return answer


def _parsed(key: str, name: str) -> tuple[str, int, float, str]:
    """A row of a plan: what, the first and the last of it, and what becomes of them."""
    what, first, last = re.fullmatch(r"(\S+) (\d+)(\+|-\d+)?", key).groups()
    end = math.inf if last == "+" else int((last or f"-{first}")[1:])
    return what, int(first), end, name


class Told(logging.Handler):
    """Writes down what a user is told: log lines, events and the ends of calls."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: list[tuple[float, str]] = []
        self.contradictions: list[str] = []
        """What was told of the effect of a call by its error, and otherwise by its event."""
        self._state: tuple[str, str | None] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a log line down."""
        self.line(f"log {record.levelname}: {record.getMessage()}")

    def notice(self, event: Event) -> None:
        """Write an event down, if users see it elsewhere than in the requests."""
        if isinstance(event, RetryScheduled):
            self.line(
                f"  {event.operation} attempt {event.attempt} of call {event.number}: "
                f"{event.reason}, again in {event.delay:.3f} s ({event.source})"
            )
        elif isinstance(event, QueueStateSeen) and self._state != (event.state, event.reason):
            self._state = (event.state, event.reason)
            what = f"{event.operation} on {event.target}"
            self.line(f"  state of {what}: {event.state}, reason {event.reason}")
        elif isinstance(event, OperationFinished) and (event.failure or event.retries):
            said = getattr(event.failure, "effect", None) or ""
            if event.effect == "no" and ("may or may not" in said or "not known" in said):
                self.contradictions.append(said)
            self.line(
                f"  call {event.number} {event.operation}: seconds {event.seconds:.2f}, "
                f"attempts {event.attempts}, retries {event.retries}, effect {event.effect}, "
                f"seq_id {event.seq_id}, tokens {event.tokens_in} {event.tokens_out}"
            )

    def line(self, text: str) -> None:
        """Write something down with the time."""
        self.write(f"{asyncio.get_running_loop().time():8.2f} {text}")

    def write(self, text: str) -> None:
        """Write something down as it is."""
        self._lines.append((round(asyncio.get_running_loop().time(), 3), text))

    def lines(self) -> list[str]:
        """What was written, by time; what happened at one time by its words."""
        return [text for _, text in sorted(self._lines)]

    async def end(self, number: int, future: Any) -> None:
        """Write down what a call came to."""
        try:
            value = await future
            self.line(f"{number} is done: {type(value).__name__}")
        except asyncio.CancelledError:
            self.line(f"{number} was cancelled")
        except Exception as error:
            taken = getattr(error, "parts_taken", None)
            parts = "" if taken is None else f" parts {taken}"
            self.line(f"{number} fails with {type(error).__name__}{parts}: {error}")


def transcript(
    rule: str,
    calls: str,
    plan: Mapping[str, str],
    flags: Mapping[str, Any] | None = None,
    wire: str = "json",
    retry: RetryConfig | None = None,
    journal: Path | None = None,
    **settings: Any,
) -> str:
    """Run a scenario; returns what happened, line by line.

    `calls` are words: `fb3` (three parts), `opt`, `save`, `load`, `sample`, `sample2` (sequences),
    `large` (a sample of more than 128 KB); `5*sample` for five of them, `wait` for all, `sleep:5`,
    `cancel:2`, `within:5` for the next calls, `show` what is pending, `close`; behind a ` | ` comes
    what the next client does. A journal has what its requests came to.
    """
    told, lines = Told(), list[str]()
    logger = logging.getLogger("tinker_ext")

    async def scenario() -> None:
        server = Server(told, rule, plan, flags or {})
        url = fresh_url()
        usual = {"chunk_datums": 1, "retry_window": 30.0, "heartbeat_interval": 3600.0}
        config = Config(**{**usual, **settings})
        for words in calls.split(" | "):
            service = client(
                server, wire=wire, config=config, rng=Even(7), observer=told, base_url=url
            )
            async with service:
                await _life(service, server, told, words, retry, journal)
        if server.effects:
            told.write(f"effects: {', '.join(server.effects)}")
        lines.extend(line.replace(url, "the server") for line in told.lines())

    logger.addHandler(told)
    try:
        run(scenario)
    finally:
        logger.removeHandler(told)
    assert told.contradictions == []
    return _shortened(lines)


async def _life(
    service: ServiceClient,
    server: Server,
    told: Told,
    words: str,
    retry: RetryConfig | None,
    journal: Path | None,
) -> None:
    """Do what the words say with one client."""
    training = sampler = recorder = None
    server.from_then_on = math.inf
    if re.search("fb|opt|save|load", words):
        training = await service.create_lora_training_client_async("m", rank=4)
    if "sample" in words or "large" in words:
        sampler = await service.create_sampling_client_async(base_model="m", retry_config=retry)
    server.from_then_on = asyncio.get_running_loop().time()
    if journal is not None:
        recorder = Recorder(service._workspace.server, Journal(journal))
        try:
            await _follow(training, recorder)
        except TinkerError as error:
            told.line(f"the run cannot go on: {type(error).__name__}: {error}")
            recorder.journal.close()
            return
    futures: list[Any] = []
    watched: list[asyncio.Task[None]] = []
    seconds = 500.0
    for word in _each(words):
        name, _, value = word.partition(":")
        if name == "wait":
            await asyncio.gather(*watched)
        elif name == "sleep":
            await asyncio.sleep(float(value))
        elif name == "cancel":
            futures[int(value) - 1].cancel()
        elif name == "within":
            seconds = float(value)
        elif name == "show":
            for each in service.pending():
                told.line(f"pending: {each}")
        elif name == "close":
            await service.close("success")
            await _nothing_runs()
        else:
            with deadline(seconds):
                try:
                    future = await _called(name, training, sampler)
                except Exception as error:
                    told.line(f"{name} raises {type(error).__name__}: {error}")
                    continue
            futures.append(future)
            watched.append(asyncio.ensure_future(told.end(len(futures), future)))
    await asyncio.gather(*watched)
    await asyncio.sleep(60.0)  # what follows by itself
    if training is not None:
        told.line(f"next seq_id {training.queue.next_seq_id}, {service.dialect.seq}")
    if recorder is not None:
        for seq_id, known in sorted(recorder.journal.state.requests.items()):
            told.write(
                f"journal: {known.operation} {seq_id}, request_id {known.request_id}, "
                f"done {known.done}"
            )
        recorder.journal.close()


async def _nothing_runs() -> None:
    """A client that is closed does nothing more, also not what it would give up by itself."""
    for _ in range(3):
        await asyncio.sleep(0)  # what was cancelled last ends
    assert [task for task in asyncio.all_tasks() if task.get_name() == "tinker-ext"] == []


def _each(words: str) -> Iterator[str]:
    for word in words.split():
        times, star, name = word.rpartition("*")
        yield from [name] * (int(times) if star else 1)


async def _follow(training: Any, recorder: Recorder) -> None:
    """Let a journal write the requests of a client down, as a `Run` does."""
    journal = recorder.journal
    if journal.state.model is None:
        journal.note("model", session="S", model="M", number=0, seq=1, step=0)
    assert training.queue.server.dialect is not None
    if obstacle := _obstacle(journal, training.queue.server.dialect):
        raise JournalError(f"It goes back to a checkpoint: {obstacle}.")
    await recorder.read_earlier("M", 500.0)
    training.queue.recorder, training.queue.next_seq_id = recorder, journal.state.next_seq_id


async def _called(name: str, training: Any, sampler: Any) -> Any:
    kind, count = re.fullmatch(r"([a-z]+)(\d*)", name).groups()
    parts = int(count or 1)
    if kind == "fb":
        batch = [datum(first=i + 1) for i in range(parts)]
        return await training.forward_backward_async(batch, "cross_entropy")
    if kind == "opt":
        return await training.optim_step_async(adam())
    if kind == "save":
        return await training.save_state_async("a")
    if kind == "load":
        return await training.load_state_async("tinker://M/weights/a")
    prompt = ModelInput.from_ints([123456] * (40_000 if kind == "large" else 3))
    return sampler.sample(prompt, parts, SamplingParams(max_tokens=4, seed=1))


def _shortened(lines: list[str]) -> str:
    """The lines; of a row of like ones, alone or in pairs, the first and the last, and how many."""
    found: list[str] = []
    alike = [re.sub(r"(?<!-> )\b\d[\d.]*", "0", line) for line in lines]
    at = 0
    while at < len(lines):
        for size in (1, 2):
            end = at + size
            while alike[end : end + size] == alike[at : at + size]:
                end += size
            if end > at + 2 * size:
                break
        else:
            size, end = 1, at + 1
        found += lines[at : at + size]
        if end > at + 2 * size:
            found.append(f"         … {(end - at) // size - 2} more")
        if end > at + size:
            found += lines[end - size : end]
        at = end
    return "\n".join(line.rstrip() for line in found)


def check(file: str, name: str, found: str) -> None:
    """Compare with what is on file, or write it there when asked to."""
    if os.environ.get("TRANSCRIPTS") == "write":
        place = DATA / f"{file}.txt"
        sections = _sections(place.read_text()) if place.exists() else {}
        sections[name] = found
        place.write_text("".join(f"# {key}\n{body}\n" for key, body in sections.items()))
    else:
        assert found.splitlines() == _on_file(file)[name].splitlines()


@functools.cache
def _on_file(file: str) -> dict[str, str]:
    return _sections((DATA / f"{file}.txt").read_text())


def _sections(text: str) -> dict[str, str]:
    parts = (part.partition("\n") for part in text.removeprefix("# ").split("\n# "))
    return {name: body.removesuffix("\n") for name, _, body in parts}
