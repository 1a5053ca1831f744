"""Samples on their way: limits that adapt to the server, and one task per sample."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from weakref import WeakSet

import attrs
import numpy as np
from tinker_api import operations as api
from tinker_api.errors import ApiError

import tinker_ext._statuses as statuses
from tinker_ext import forks
from tinker_ext._transport import retry
from tinker_ext._transport.limits import (
    AdaptiveLimit,
    ByteBudget,
    Deadlines,
    FairQueue,
    PollPace,
    SampleLimit,
)
from tinker_ext._transport.messages import Call, Reply, RetryRule
from tinker_ext._transport.retry import ACCEPT, Accept, Attempts, Fail, Retry, Verdict, back_off
from tinker_ext._wire.dialect import Ability, Dialect
from tinker_ext._wire.json_codec import PLAIN, SampleOptions, sample_body
from tinker_ext._wire.results import read_promise
from tinker_ext.batch.chunking import prompt_size
from tinker_ext.core.future import LightFuture
from tinker_ext.core.in_flight import Entry
from tinker_ext.core.polling import wait_for
from tinker_ext.core.retry_config import RetryConfig
from tinker_ext.core.server import Server, unreadable
from tinker_ext.errors import (
    APIConnectionError,
    APIResponseValidationError,
    ConflictError,
    FutureExpiredError,
    NotFoundError,
    ReplyParts,
    RequestFailedError,
    TinkerError,
    error_for_status,
)
from tinker_ext.types.enums import RequestErrorCategory
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.sampling import (
    SampleResponse,
    SamplingParams,
    count_sequences,
    give_ids,
)

if TYPE_CHECKING:
    from tinker_ext.core.completions import Completions

log = logging.getLogger("tinker_ext")

_FEW = 64


class Progress:
    """The last movement of a group of samples; on the loop.

    Args:
        patience: Seconds without movement after which the group is given up; None never does.
        give_up: Called with the group and its patience.
    """

    __slots__ = ("__weakref__", "_active", "_give_up", "_patience", "_timer", "moved")

    def __init__(
        self, patience: float | None, give_up: Callable[[Progress, float], object]
    ) -> None:
        self._patience = patience
        self._give_up = give_up
        self._active = 0
        self.moved = 0.0
        """Loop time when a sample was last accepted or finished."""
        self._timer: asyncio.TimerHandle | None = None

    def began(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note that a sample was started."""
        self._active += 1
        if self._timer is None and self._patience is not None:
            self.moved = loop.time()
            self._timer = loop.call_later(self._patience, self._look, loop, self._patience)

    def ended(self) -> None:
        """Note that a sample is over, however it ended."""
        self._active -= 1

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self._timer = None
        if not self._active:
            return
        if loop.time() >= self.moved + patience:  # as it is set: a difference is rounded otherwise
            self._give_up(self, patience)
            return
        self._timer = loop.call_at(self.moved + patience, self._look, loop, patience)


@attrs.define(eq=False)
class Source:
    """What samples are drawn from: one sampling client.

    Attributes:
        key: Name of the sampler in lists of pending work.
        address: Sampling session, base model or model path, as in the request.
        next_seq_id: Gives the number of a new request; None for addresses without numbers.
        retry: How this client retries; None follows the package.
        completions: Batched completion, where the server offers it.
        prepare: Awaited before the first request, for what must be known to number it.
        in_flight: Samples taken from the queue and not finished.
        progress: Whether its samples move; set by the pool.
    """

    key: str
    address: Mapping[str, str]
    next_seq_id: Callable[[], int] | None
    retry: RetryConfig | None = None
    completions: Completions | None = None
    prepare: Callable[[], Awaitable[None]] | None = None
    in_flight: int = 0
    progress: Progress | None = None

    @property
    def full(self) -> bool:
        """Whether the client has as many samples in flight as it allows itself."""
        most = None if self.retry is None else self.retry.max_connections
        return most is not None and self.in_flight >= most


class Sample(Entry):
    """One sample call."""

    __slots__ = (
        "begun",
        "failure",
        "key",
        "num_samples",
        "options",
        "owner",
        "params",
        "pool",
        "prompt",
        "queued",
        "result",
        "sending",
        "source",
        "task",
    )

    def __init__(
        self,
        source: Source,
        prompt: ModelInput,
        num_samples: int,
        params: SamplingParams,
        options: SampleOptions,
        started: float,
        deadline: float,
    ) -> None:
        super().__init__("asample", source.key, started, deadline)
        self.source = source
        self.prompt = prompt
        self.num_samples = num_samples
        self.params = params
        self.options = options
        self.key: str | None = None
        """Idempotency key; a repeat of the same request has the same."""
        self.failure = ""
        """What the last submission failed with, while it waits to be submitted anew."""
        self.result: LightFuture[SampleResponse] = LightFuture()
        self.task: asyncio.Task[None] | None = None
        self.queued = False
        """Whether it waits in line, and is not known to be given up."""
        self.pool: SamplePool | None = None
        self.owner: object = None
        """The client that ends everything when it is forgotten; held as long as this is pending."""
        self.begun = False
        """Whether its task has made a step."""
        self.sending = False
        """Whether its first attempt is under way."""

    # What its future calls when it is cancelled. An object of its own for that would be one more
    # for the garbage collector to visit, for each of 100,000 queued samples.

    def __call__(self) -> None:
        """Give the sample up, from any thread."""
        assert self.pool is not None
        self.pool.server.runtime.call(self.pool.cancel, self)

    def describe(self) -> str:
        """The operation as `pending()` shows it."""
        assert self.pool is not None
        return str(self.snapshot(self.pool.server.runtime.time()))


class RoundRobin:
    """Queued samples, and whose turn it is. A client at its own limit rests until one ends."""

    def __init__(self) -> None:
        self._turns: deque[Source] = deque()
        self._resting: set[Source] = set()
        self._lines: dict[Source, deque[Sample]] = {}
        self.count = 0
        """Samples in line, those included that were given up."""
        self._given_up = 0

    def push(self, sample: Sample) -> None:
        """Queue at the end of its client's line."""
        source = sample.source
        line = self._lines.get(source)
        if line is None:
            line = self._lines[source] = deque()
            self._line_up(source)
        line.append(sample)
        sample.queued = True
        self.count += 1

    def pop(self) -> Sample | None:
        """Take the first sample of the client whose turn it is; `ended` must follow.

        Returns:
            The sample, or None when nobody can have a turn now.
        """
        while self._turns:
            source = self._turns.popleft()
            line = self._lines[source]
            sample = line.popleft()
            self.count -= 1
            wanted = not sample.result.done()
            if wanted:
                source.in_flight += 1
            elif not sample.queued:  # else it was cancelled a moment ago, and is not counted yet
                self._given_up -= 1
            sample.queued = False
            if line:
                self._line_up(source)
            else:
                del self._lines[source]
            if wanted:
                return sample
        return None

    def gave_up(self, sample: Sample) -> None:
        """Note that a queued sample is not wanted any more; many of them are let go at once."""
        sample.queued = False
        self._given_up += 1
        if self._given_up <= _FEW or 2 * self._given_up <= self.count:
            return
        self._lines = {
            source: line
            for source, waiting in self._lines.items()
            if (line := deque(sample for sample in waiting if not sample.result.done()))
        }
        self._turns = deque(source for source in self._turns if source in self._lines)
        self._resting &= self._lines.keys()
        self.count = sum(map(len, self._lines.values()))
        self._given_up = 0

    def ended(self, source: Source) -> None:
        """Note that a sample taken by `pop` is over."""
        source.in_flight -= 1
        if source in self._resting:
            self._resting.discard(source)
            self._line_up(source)

    def _line_up(self, source: Source) -> None:
        if source.full:
            self._resting.add(source)
        else:
            self._turns.append(source)

    def __iter__(self) -> Iterator[Sample]:
        for line in list(self._lines.values()):
            yield from list(line)


_HEADERS = (("X-Tinker-Sampling-Backpressure", "1"),)

PAUSE_SECONDS = 1.0
LARGE_PAUSE_SECONDS = 5.0
LARGE_BYTES = 131_072
"""After a 429 without a named delay: one second, five for a request above 128 KB."""

SPREAD = 0.25
"""Part of a shared pause that is added at random, so that samples do not come back in step."""
EMPTY_400 = 3
"""So often a 400 without a body is taken for a gateway's."""
ARRIVALS = 1000
"""Samples taken in at once; more would hold up everything else on the loop for too long."""

EXPIRE_SECONDS = 0.05
"""Least time between two looks for samples whose deadline has passed."""

RESUBMITS = 5
"""An expired sample is submitted anew this often, unless its client says how it retries."""


class _ResubmitPace(PollPace):
    """How often samples that failed on the server are submitted anew; each costs two requests."""

    RATE = 6.0
    BURST = 10


class SamplePool:
    """All samples of one workspace."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._closed: TinkerError | None = None
        self._shared_limit: SampleLimit | None = None
        self._start_empty()
        self.owner: Callable[[], object] = lambda: None
        """Gives the client that ends all this when it is forgotten."""
        self.on_cancelled: Callable[[str], object] | None = None
        """Called with the request id of a sample that was given up after it was accepted."""
        server.in_flight.add_queue(self._queued)

    def _start_empty(self) -> None:
        config = self.server.config
        self._incoming: deque[Sample] = deque()
        self._lock = forks.lock()
        self._scheduled = False
        self._queue = RoundRobin()
        self._in_flight: dict[Sample, None] = {}
        self._finished: list[tuple[LightFuture[SampleResponse], SampleResponse]] = []
        self._sending = 0
        self._sized_for: Dialect | None = None
        self._slots: FairQueue | None = None
        self._polls: FairQueue | None = None
        self.most = config.sample_concurrency
        """The most that settings and server let be in flight at once."""
        self.refused: set[Sample] = set()
        """Those in flight that the server refused for now, until they are sent again."""
        self.bytes = ByteBudget(config.sample_bytes_in_flight)
        self.resubmits = _ResubmitPace()
        """Lets go those that failed or expired; each sample that succeeds lets two more go."""
        self._deadlines = Deadlines(self._expire)
        self.limit: SampleLimit = self._shared_limit or AdaptiveLimit(
            cap=config.sample_concurrency, on_change=self.limit_changed
        )
        self._most_polls = min(config.poll_connections, _spare_descriptors())
        self._progresses: WeakSet[Progress] = WeakSet()
        self._shared_progress: Progress | None = None

    def after_fork(self) -> None:
        """Forget the parent's samples in a forked child, and the room that they took."""
        self._start_empty()

    def share_limit(self, limit: SampleLimit) -> None:
        """Take the limit of a fleet from now on, also in forked children."""
        self.limit = self._shared_limit = limit

    @property
    def in_flight(self) -> int:
        """Samples sent and not finished."""
        return len(self._in_flight)

    @property
    def active(self) -> int:
        """Samples in flight without those that were refused and wait."""
        return len(self._in_flight) - len(self.refused)

    @property
    def accepted(self) -> int:
        """Samples in flight that the server has accepted; from any thread."""
        return sum(sample.request_id is not None for sample in list(self._in_flight))

    @property
    def queued(self) -> int:
        """Samples not sent yet."""
        return self._queue.count + len(self._incoming)

    # -- any thread ------------------------------------------------------------------------

    def submit(self, sample: Sample) -> LightFuture[SampleResponse]:
        """Queue a sample; returns its future."""
        result = sample.result
        sample.pool, sample.owner = self, self.owner()
        result.on_cancel = sample
        with self._lock:
            if self._closed is not None:
                raise self._closed
            self._incoming.append(sample)
            wake, self._scheduled = not self._scheduled, True
        if wake:
            self.server.runtime.call(self._pump)
        return result

    def _queued(self) -> Iterable[Entry]:
        waiting = [*list(self._incoming), *self._queue]
        return [sample for sample in waiting if not sample.result.done()]

    # -- on the loop -----------------------------------------------------------------------

    def limit_changed(self, _: int = 0) -> None:
        """Start what the new limit allows."""
        if self._queue.count and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        """Take in what arrived, then start as many as the limit allows."""
        loop = asyncio.get_running_loop()
        with self._lock:
            count = min(len(self._incoming), ARRIVALS)
            arrived = [self._incoming.popleft() for _ in range(count)]
            self._scheduled = bool(self._incoming)
        if self._scheduled:
            loop.call_soon(self._pump)
        for sample in arrived:
            if self._closed is not None:
                sample.result.fail(sample.cut_off(loop.time()))
            elif not sample.result.done():
                if sample.deadline < self._deadlines.rings:
                    self._deadlines.watch(loop, sample.deadline)
                self._queue.push(sample)
        self._refill(loop)

    def _refill(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start as many as the limit allows, and no more than can be sent now.

        One that waits for a connection would cost a task, a timer and its coroutines meanwhile.
        """
        server = self.server
        if server.dialect is not self._sized_for or self._slots is None:
            self._adapt(server)
        assert self._slots is not None
        slots = self._slots.limit
        if self._sending >= slots:
            return
        most = min(self.limit.value, self.most)
        while self._sending < slots and len(self._in_flight) < most:
            sample = self._queue.pop()
            if sample is None:
                return
            source = sample.source
            self._in_flight[sample] = None
            server.in_flight.add(sample)
            (source.progress or self._progress_of(source)).began(loop)
            if source.prepare is None:  # else it may be long before anything of it is sent
                sample.sending = True
                self._sending += 1
            # Not by `spawn`: two calls fewer for each. `_in_flight` keeps it alive.
            sample.task = task = asyncio.Task(self._run(sample, loop), loop=loop, name="tinker-ext")
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def was_sent(self, sample: Sample, loop: asyncio.AbstractEventLoop) -> None:
        """Note that the first attempt is over, whatever came of it: another may be sent."""
        if sample.sending:
            sample.sending = False
            self._sending -= 1
            if self._queue.count:
                self._refill(loop)

    def _adapt(self, server: Server) -> None:
        """Take over what the server says that it takes."""
        self._slots = server.connection.queue(api.SAMPLE.lane)
        self._polls = server.connection.queue(api.RETRIEVE_FUTURE.lane)
        self._sized_for = dialect = server.dialect
        if dialect is not None:
            told = dialect.config.sample_max_concurrent_requests
            self.most = min(server.config.sample_concurrency, told)
        self.bytes.resize(
            server.bytes_allowed("sample_bytes_in_flight", "sample_dispatch_bytes_semaphore_size")
        )

    def _end(self, sample: Sample) -> None:
        if sample.sending:
            sample.sending = False
            self._sending -= 1
        self._in_flight.pop(sample, None)
        self.refused.discard(sample)
        self._queue.ended(sample.source)
        (sample.source.progress or self._progress_of(sample.source)).ended()
        self.server.in_flight.discard(sample)
        sample.task = sample.owner = None
        if self._queue.count and (self._slots is None or self._sending < self._slots.limit):
            self._refill(self.server.connection.loop)

    def _progress_of(self, source: Source) -> Progress:
        """Whose movement counts for a client: its own with a RetryConfig, else everybody's."""
        if source.progress is None:
            if source.retry is None and self._shared_progress is not None:
                source.progress = self._shared_progress
                return source.progress
            patience: float | None = self.server.config.progress_timeout
            dialect = self.server.dialect
            if dialect is not None and not dialect.config.sample_enable_stuck_detection:
                patience = None
            elif source.retry is not None:
                retry = source.retry
                patience = retry.progress_timeout if retry.enable_stuck_detection else None
            source.progress = Progress(patience, self._give_up)
            self._progresses.add(source.progress)
            if source.retry is None:
                self._shared_progress = source.progress
        return source.progress

    def _give_up(self, stuck: Progress, patience: float) -> None:
        for sample in [*self._in_flight, *self._queue]:
            if self._progress_of(sample.source) is not stuck:
                continue
            error = APIConnectionError(
                None, f"Sampling is stuck: no sample was accepted or finished for {patience:.0f} s."
            )
            if sample.result.fail(error.with_context(operation="asample")):
                self.cancel(sample)

    def _expire(self, now: float) -> float:
        """End the samples whose time is over; looks at all of them, so not too often."""
        stall, earliest = self.server.in_flight.stall_seconds, math.inf
        for sample in [*self._queue, *self._in_flight]:
            if sample.deadline > now:
                earliest = min(earliest, sample.deadline)
            elif sample.result.fail(sample.late(now, stall, sample.failure)):
                self.cancel(sample)
        return max(earliest, now + EXPIRE_SECONDS)

    def cancel(self, sample: Sample) -> None:
        """Give a sample up, wherever it is."""
        sample.owner = None
        if sample.queued:
            self._queue.gave_up(sample)
        if sample.task is not None:
            self._stop(sample)
            if sample.request_id is not None and self.on_cancelled is not None:
                self.on_cancelled(sample.request_id)

    def _stop(self, sample: Sample) -> None:
        """Cancel the task of a sample; one that has not made its first step never will."""
        assert sample.task is not None
        sample.task.cancel()
        if not sample.begun:
            self._end(sample)

    async def _run(self, sample: Sample, loop: asyncio.AbstractEventLoop) -> None:
        """Submit a sample, and again as long as that is worth it."""
        source, sample.begun = sample.source, True
        try:
            if source.prepare is not None:
                await source.prepare()
            try:
                value = await self.submit_once(sample)
            except TinkerError as error:
                value = await self._submit_again(sample, error)
            (source.progress or self._progress_of(source)).moved = loop.time()
            self.resubmits.got_result()
            if not self._finished:
                loop.call_soon(self._settle)
            self._finished.append((sample.result, value))
        except asyncio.CancelledError:
            sample.result.cancel()
        except TinkerError as error:
            sample.result.fail(error)
        except Exception as error:
            sample.result.fail(error)
            log.error("A sample failed of an unexpected error.", exc_info=error)
        finally:
            self._end(sample)

    def _settle(self) -> None:
        """Give out the results that have come since the last turn of the loop, all at once.

        Each wakes a thread that waits for it, which would take the interpreter at the next system
        call of the loop and give it back when it waits for the next result.
        """
        finished, self._finished = self._finished, []
        for result, value in finished:
            result.settle(value)

    async def _submit_again(self, sample: Sample, error: TinkerError) -> SampleResponse:
        """Submit a sample that has failed once; few do, so the rest never build this."""
        submissions = _Submissions(self, sample)
        submissions.verdict = await submissions.take(None, error)
        if isinstance(submissions.verdict, Retry):
            await retry.run(submissions, submissions.make, tokens=self.server.connection.tokens)
        if submissions.error is not None:
            raise submissions.error
        assert submissions.value is not None
        return submissions.value

    async def submit_once(self, sample: Sample) -> SampleResponse:
        """Send a sample until the server takes it, and wait for its result."""
        server, source = self.server, sample.source
        sample.stage = "sending"
        if sample.seq_id is None and source.next_seq_id is not None:
            sample.seq_id = source.next_seq_id()
        post = _SamplePost(self, sample)
        await post.connection.send(post, post.make)
        reply = post.conclude()
        (source.progress or self._progress_of(source)).moved = post.loop.time()
        self.limit.accepted(in_flight=len(self._in_flight))
        try:
            request_id, sequence_ids = read_promise(reply.content)
        except (ApiError, ValueError) as error:
            raise unreadable(reply, api.SAMPLE.reply, None, error) from error
        elapsed = reply.elapsed
        del post, reply  # it may be long until the result is there
        known_size = None
        sample.request_id = request_id
        completions = source.completions
        if completions is None:
            # The polls get more connections while more samples wait than the lane carries.
            polls = self._polls
            if polls is not None and polls.waiting and polls.limit < self._most_polls:
                polls.resize(min(self._most_polls, len(self._in_flight)))
        else:
            sample.stage = "waiting"
            known_size = await completions.wait(request_id)
        value = await wait_for(
            server,
            sample,
            api.SAMPLE,
            request_id,
            roundtrip=elapsed,
            metadata_only=known_size is None,
        )
        assert isinstance(value, SampleResponse)
        if completions is not None:
            completions.fetched(request_id)
        return finished(value, sample.prompt, sample.num_samples, sample.options, sequence_ids)

    def close(self, error: TinkerError) -> None:
        """End all samples; on the loop."""
        with self._lock:
            self._closed = error
            arrived, self._incoming = self._incoming, deque()
        for progress in list(self._progresses):
            progress.close()
        now = asyncio.get_running_loop().time()
        queued, self._queue = self._queue, RoundRobin()
        for sample in [*arrived, *queued, *self._in_flight]:
            sample.result.fail(sample.cut_off(now))
            if sample.task is not None:
                self._stop(sample)
        self._deadlines.close()


class _SamplePost(Attempts):
    """One sample on its way: sent until the server takes it."""

    passing_pages = True
    enters = True
    _empty = 0

    def __init__(self, pool: SamplePool, sample: Sample) -> None:
        server = pool.server
        self.connection = connection = server.connection
        super().__init__(
            sample.operation,
            api.SAMPLE.lane,
            RetryRule.DEDUPE,
            sample.deadline,
            server.sample_timing,
            server.rng,
            connection.loop,
        )
        self.owner = self._sample = sample
        self._pool = pool
        self._size = prompt_size(sample.prompt)
        self._started = self.began
        if sample.key is None:
            sample.key = connection.new_key()

    async def enter(self) -> None:
        """Wait for the pause that everybody shares, and for bytes on their way."""
        pool, backoff = self._pool, self.connection.backoff
        if self._sample in pool.refused:
            await pool.limit.after_refusal(backoff)
            pool.refused.discard(self._sample)
        elif backoff.remaining() > 0:
            await backoff.wait()
        if not pool.bytes.try_acquire(self._size):
            await pool.bytes.acquire(self._size)
        self.taken = True
        self._started = self.loop.time()

    def leave(self) -> None:
        """Give the bytes back."""
        self.taken = False
        self._pool.bytes.release(self._size)

    def make(self) -> Call:
        """The next attempt."""
        sample = self._sample
        sample.attempt += 1
        dialect = self._pool.server.dialect
        return Call(
            self.operation,
            "POST",
            api.SAMPLE.path,
            sample_body(
                sample.source.address,
                sample.seq_id,
                sample.prompt,
                sample.num_samples,
                sample.params,
                sample.options,
                None if dialect is None else Ability.UNSIZED_IMAGES not in dialect.abilities,
            ),
            _HEADERS,
            "",
            self.lane,
            self._pool.server.seconds[api.SAMPLE.name],
            self.rule,
            sample.key,
        )

    async def judge(self, reply: Reply | None, error: Exception | None) -> Verdict:
        """Decide what follows from one attempt; its connection is free for another sample."""
        if reply is not None and reply.status in statuses.ACCEPTED:
            told: Verdict = ACCEPT
        else:
            told = self._judge_failure(reply, error)
        self._pool.was_sent(self._sample, self.loop)
        return told

    def _judge_failure(self, reply: Reply | None, error: Exception | None) -> Verdict:
        told = self.by_table(reply, error)
        if reply is not None and reply.status == 400 and not reply.content:
            self._empty += 1  # comes from a gateway; the official client also asks four times
            if self._empty <= EMPTY_400:
                return back_off(self._empty, self.rng.random(), self.timing, unhealthy=False)
        if not isinstance(told, Retry):
            return told
        status = None if reply is None else reply.status
        config = self._sample.source.retry
        if config is not None:
            if not config.resends(status, error):
                return Fail("final")
            if told.ours:
                delay = config.delay(self._failures, self.rng.random())
                told = Retry(delay, "configured", told.unhealthy)
        if status in statuses.REFUSED_FOR_NOW:
            return self._refused(told)
        return told

    def _refused(self, told: Retry) -> Verdict:
        """Let everybody with this server and credential pause, and send less from now on."""
        pause = told.delay
        if not (told.named or told.source == "billing"):
            pause = LARGE_PAUSE_SECONDS if self._size > LARGE_BYTES else PAUSE_SECONDS
        full = self.reply is not None and self.reply.status == statuses.BUSY
        self._pool.limit.refused(started=self._started, pause=pause, full=full)
        self._pool.refused.add(self._sample)
        backoff = self.connection.backoff
        backoff.pause(pause)
        return Retry(backoff.remaining() * (1.0 + SPREAD * self.rng.random()), told.source)

    def conclude(self) -> Reply:
        """Return the reply of an accepted sample, or raise what its sending came to."""
        sample, server = self._sample, self._pool.server
        if isinstance(self.verdict, Accept):
            assert self.reply is not None
            return self.reply
        error = self.error
        timed_out = isinstance(self.verdict, Retry) and self.delay() is None
        if error is None and timed_out and not self.out_of_funds():
            stall = server.in_flight.stall_seconds
            error = sample.late(self.loop.time(), stall, self.told_to_wait())
        if error is None:
            assert self.reply is not None
            refusal = error_for_status(self.reply.status, self.reply.content, self.reply.headers)
            error = server.missing(api.SAMPLE, refusal) or refusal
        if isinstance(error, TinkerError):
            error.with_context(
                operation=self.operation,
                attempts=sample.attempt,
                elapsed=self.loop.time() - sample.started,
            )
        raise error


class _Submissions(Attempts):
    """One sample call: a request that expired, or failed on the server, is submitted anew."""

    value: SampleResponse | None = None

    def __init__(self, pool: SamplePool, sample: Sample) -> None:
        server = pool.server
        super().__init__(
            sample.operation,
            api.SAMPLE.lane,
            RetryRule.ONCE,
            sample.deadline,
            server.poll_timing,
            server.rng,
        )
        self._pool = pool
        self._sample = sample

    async def make(self) -> None:
        """Submit the sample once and take note of what came."""
        error: Exception | None = None
        await self._pool.resubmits.turn(self.deadline)
        if self.loop.time() >= self.deadline:
            return  # what it failed with says more than that the time is over
        try:
            self.value = await self._pool.submit_once(self._sample)
        except TinkerError as caught:
            error = caught
        self.verdict = await self.take(None, error)

    async def judge(self, reply: Reply | None, error: Exception | None) -> Verdict:
        """Decide whether the sample is worth a new request."""
        sample = self._sample
        if error is None:
            return ACCEPT
        config = sample.source.retry
        dialect = self._pool.server.dialect
        if dialect is not None and dialect.config.sample_no_retries:
            return Fail("final")  # the server says that it does this itself
        if config is None:
            if self.count > RESUBMITS or not _is_worth_a_new_request(error):
                return Fail("final")
            pause = back_off(self.count, self.rng.random(), self.timing, unhealthy=False)
            chosen: Verdict = Retry(pause.delay, "resubmit")
        else:
            # Before a request is accepted the retry table has the last word on lost connections.
            judged = isinstance(error, APIConnectionError) and sample.request_id is None
            if judged or not config.retries(error):
                return Fail("final")
            chosen = Retry(config.delay(self.count, self.rng.random()), "configured")
        sample.failure = str(error)
        # A new request, a new number; none of the old ones is asked for again.
        sample.seq_id = sample.request_id = sample.key = None
        return chosen


def _is_worth_a_new_request(error: Exception) -> bool:
    """Whether the server lost a sample or failed on it, rather than refused it."""
    if isinstance(error, RequestFailedError):
        return error.category is RequestErrorCategory.Server
    # 404 to a poll: the server was restarted and does not know the request any more.
    lost = isinstance(error, NotFoundError) and error.request_id is not None
    # 409: the server has the number; a sample has no state, so another number does as well.
    return lost or isinstance(error, (FutureExpiredError, ConflictError))


def finished(
    value: SampleResponse,
    prompt: ModelInput,
    num_samples: int,
    options: SampleOptions,
    sequence_ids: list[str] | None,
) -> SampleResponse:
    """Give the sequences their ids, and prompt logprobs their place for the first token.

    Raises:
        APIResponseValidationError: Not as many sequences or prompt logprobs as asked for.
    """
    count = count_sequences(value)
    # Who asks for prompt logprobs may want nothing else, and some servers then sample nothing.
    if count != num_samples and (count or not options.prompt_logprobs):
        raise _unfit(f"The server gave {count} sequences where {num_samples} were asked for.")
    if sequence_ids is not None and len(sequence_ids) == count:
        give_ids(value, sequence_ids)
    logprobs = value.prompt_logprobs_np
    if logprobs is not None and options is not PLAIN:
        wants_all = options.prompt_logprobs_last_n is None
        length = _text_length(prompt)
        if wants_all and length >= 0 and len(logprobs) not in (length, length - 1):
            raise _unfit(
                f"The server gave {len(logprobs)} logprobs for a prompt of {length} tokens."
            )
        if wants_all and len(logprobs) == length - 1:
            # Some servers leave the first token out, which has no logprob.
            padded = np.empty(len(logprobs) + 1, np.float32)
            padded[0] = np.nan
            padded[1:] = logprobs
            return attrs.evolve(value, prompt_logprobs_np=padded)
    return value


def _text_length(prompt: ModelInput) -> int:
    try:
        return prompt.length
    except ValueError:
        return -1


def _unfit(why: str) -> APIResponseValidationError:
    return APIResponseValidationError(ReplyParts(200, {}, b"", None), None, why)


def _spare_descriptors() -> int:
    """File descriptors polls may take, leaving a quarter of the limit to everybody else."""
    try:
        import resource
    except ImportError:  # not on this platform, where other limits are far away
        return 1 << 16
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 16 if soft == resource.RLIM_INFINITY else max(64, soft * 3 // 4 - 128)
