"""Samples on their way: limits that adapt to the server, and one task per sample."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from weakref import WeakSet

from tinker_ext import forks
from tinker_ext._transport import (
    AdaptiveLimit,
    Alarms,
    ByteBudget,
    Call,
    Connection,
    Lane,
    Reply,
    Retry,
    RetryRule,
    SampleLimit,
    sent_of,
    verdict,
)
from tinker_ext._transport.observe import RetryScheduled
from tinker_ext._wire import requests
from tinker_ext._wire.json_codec import dumps
from tinker_ext._wire.operations import operation
from tinker_ext.batch.sizes import prompt_size
from tinker_ext.core.future import LightFuture
from tinker_ext.core.in_flight import Entry
from tinker_ext.core.link import Link
from tinker_ext.core.polling import wait_for
from tinker_ext.core.progress import Progress
from tinker_ext.core.sample_queue import RoundRobin, Sample, Source
from tinker_ext.core.sampled import finished, read_promise
from tinker_ext.errors import (
    APIConnectionError,
    FutureExpiredError,
    TinkerError,
    error_for_status,
)
from tinker_ext.types.sampling import SampleResponse

_SAMPLE = operation("asample")
_PATH = _SAMPLE.url_path()
_HEADERS = (("X-Tinker-Sampling-Backpressure", "1"),)

PAUSE_SECONDS = 1.0
LARGE_PAUSE_SECONDS = 5.0
LARGE_BYTES = 131_072
"""After a 429 without a named delay: one second, five for a request above 128 KB."""

ARRIVALS = 1000
"""Samples taken in at once; more would hold up everything else on the loop for too long."""

RESUBMITS = 5
"""An expired sample is submitted anew this often, unless its client says how it retries."""


class SamplePool:
    """All samples of one workspace.

    Args:
        link: The server.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._closed: TinkerError | None = None
        self._shared_limit: SampleLimit | None = None
        self._start_empty()
        self.owner: Callable[[], object] = lambda: None
        """Gives the client that ends all this when it is forgotten; a pending sample holds it."""
        self.on_cancelled: Callable[[str], object] | None = None
        """Called with the request id of a sample that was given up after it was accepted."""
        link.book.add_queue(self._queued)

    def _start_empty(self) -> None:
        self._incoming: deque[Sample] = deque()
        self._lock = forks.lock()
        self._scheduled = False
        self._queue = RoundRobin()
        self._in_flight: dict[Sample, None] = {}
        self._bytes = ByteBudget(self._link.config.sample_bytes_in_flight)
        self._alarms = Alarms()
        self.limit = self._shared_limit or AdaptiveLimit(
            cap=self._link.config.sample_concurrency, on_change=self.limit_changed
        )
        self._most_polls = min(self._link.config.poll_connections, _spare_descriptors())
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
    def queued(self) -> int:
        """Samples not sent yet."""
        return len(self._queue) + len(self._incoming)

    # -- any thread ------------------------------------------------------------------------

    def submit(self, sample: Sample) -> LightFuture[SampleResponse]:
        """Queue a sample; returns its future."""
        result = sample.result
        result.on_cancel = _Cancel(self, sample)
        with self._lock:
            if self._closed is not None:
                raise self._closed
            self._incoming.append(sample)
            wake, self._scheduled = not self._scheduled, True
        if wake:
            self._link.runtime.call(self._pump)
        return result

    def _queued(self) -> Iterable[Entry]:
        waiting = [*list(self._incoming), *self._queue]
        return [sample for sample in waiting if not sample.result.done()]

    # -- on the loop -----------------------------------------------------------------------

    def limit_changed(self, _: int = 0) -> None:
        """Start what the new limit allows."""
        if self._queue and not self._scheduled:
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
                sample.timer = self._alarms.set(loop, sample.deadline, self._expire, sample)
                self._queue.push(sample)
        self._refill(loop)

    def _refill(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start as many as the limit allows."""
        most = self._most_in_flight()
        while self._queue.ready and len(self._in_flight) < most:
            sample = self._queue.pop()
            if sample is None:
                return
            self._in_flight[sample] = None
            self._link.book.add(sample)
            self._progress_of(sample.source).began(loop)
            sample.task = self._link.runtime.spawn(self._run(sample))
            # Not in the coroutine: one that is cancelled before its first step never runs at all.
            sample.task.add_done_callback(partial(self._end, sample))

    def _most_in_flight(self) -> int:
        """What the server takes, as far as it said and as far as was found out."""
        dialect = self._link.dialect
        if dialect is None:
            return self.limit.value
        return min(self.limit.value, dialect.config.sample_max_concurrent_requests)

    def _end(self, sample: Sample, _: object) -> None:
        if sample.timer is not None:
            sample.timer.cancel()
            sample.timer = None
        self._in_flight.pop(sample, None)
        self._queue.ended(sample.source)
        self._progress_of(sample.source).ended()
        self._link.book.discard(sample)
        sample.task = None
        if self._queue:
            self._refill(asyncio.get_running_loop())

    def _progress_of(self, source: Source) -> Progress:
        """Whose movement counts for a client: its own with a RetryConfig, else everybody's."""
        if source.progress is None:
            if source.retry is None and self._shared_progress is not None:
                source.progress = self._shared_progress
                return source.progress
            patience: float | None = self._link.config.progress_timeout
            dialect = self._link.dialect
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
                self._cancel(sample)

    def _expire(self, sample: Sample) -> None:
        now = asyncio.get_running_loop().time()
        if sample.result.fail(sample.late(now, self._link.book.stall_seconds)):
            self._cancel(sample)

    def _cancel(self, sample: Sample) -> None:
        """Give a sample up, wherever it is."""
        if sample.timer is not None:
            sample.timer.cancel()
            sample.timer = None
            if sample.task is None:
                self._queue.gave_up()
        if sample.task is not None:
            sample.task.cancel()
            if sample.request_id is not None and self.on_cancelled is not None:
                self.on_cancelled(sample.request_id)

    async def _run(self, sample: Sample) -> None:
        source = sample.source
        tries = 0
        try:
            if source.prepare is not None:
                await source.prepare()
            while True:
                try:  # no coroutine of its own: thousands are in here at a time
                    request_id, sequence_ids, elapsed = await self._post(sample)
                    known_size = None
                    sample.request_id = request_id
                    completions = source.completions
                    if completions is not None:
                        sample.stage = "waiting"
                        known_size = await completions.wait(request_id)
                    value = await wait_for(
                        self._link,
                        sample,
                        _SAMPLE,
                        request_id,
                        roundtrip=elapsed,
                        metadata_only=known_size is None,
                    )
                    assert isinstance(value, SampleResponse)
                    if completions is not None:
                        completions.fetched(request_id)
                    value = finished(
                        value, sample.prompt, sample.num_samples, sample.options, sequence_ids
                    )
                    break
                except TinkerError as error:
                    tries += 1
                    if not _resubmits(sample, error, tries):
                        raise
                    if source.retry is not None:
                        await asyncio.sleep(source.retry.delay(tries, self._link.rng.random()))
                    sample.seq_id = sample.request_id = None  # a new request, a new number
            self._progress_of(source).moved(asyncio.get_running_loop().time())
            sample.result.settle(value)
        except asyncio.CancelledError:
            sample.result.cancel()
        except TinkerError as error:
            sample.result.fail(error)
        except Exception as error:
            sample.result.fail(error)
            raise

    async def _post(self, sample: Sample) -> tuple[str, list[str] | None, float]:
        """Send a sample until the server takes it."""
        link, loop = self._link, asyncio.get_running_loop()
        connection = link.connection
        backoff = connection.backoff
        sample.stage = "sending"
        source = sample.source
        if sample.seq_id is None and source.next_seq_id is not None:
            sample.seq_id = source.next_seq_id()
        size = prompt_size(sample.prompt)
        queue = connection.queue(Lane.SAMPLE)
        failures = 0
        while True:
            if backoff.remaining() > 0:
                await backoff.wait()
            await self._bytes.acquire(size)
            reply: Reply | None = None
            error: APIConnectionError | None = None
            started = loop.time()
            try:
                if not queue.try_acquire():
                    await queue.acquire(deadline=sample.deadline)
                reply = await connection.once_held(
                    Lane.SAMPLE, partial(self._call, sample), deadline=sample.deadline
                )
            except APIConnectionError as caught:
                error = caught
            except TimeoutError:
                raise sample.late(loop.time(), link.book.stall_seconds) from None
            finally:
                self._bytes.release(size)
            sample.attempt += 1
            if reply is not None and 200 <= reply.status < 300:
                connection.budget.note(Lane.SAMPLE, ok=True, started=started)
                self._progress_of(source).moved(started)
                self.limit.accepted(in_flight=len(self._in_flight))
                if source.completions is None:
                    self._widen(connection)
                return (*read_promise(reply), reply.elapsed)
            failures += 1
            await self._pause(sample, reply, error, started, failures, size)

    def _widen(self, connection: Connection) -> None:
        """Give the polls more connections while more samples wait than the lane carries."""
        queue = connection.queue(Lane.POLL)
        if queue.waiting and queue.limit < self._most_polls:
            queue.resize(min(self._most_polls, len(self._in_flight)))

    async def _pause(
        self,
        sample: Sample,
        reply: Reply | None,
        error: APIConnectionError | None,
        started: float,
        failures: int,
        size: int,
    ) -> None:
        """Wait as a refused or failed attempt asks for, or raise what is final."""
        link, loop = self._link, asyncio.get_running_loop()
        connection = link.connection
        status = reply.status if reply is not None else None
        well = status is not None and status < 500
        connection.budget.note(Lane.SAMPLE, ok=well, started=started)
        decision = verdict(
            RetryRule.DEDUPE,
            status=status,
            error=error,
            headers=reply.headers if reply is not None else {},
            attempt=failures,
            sent=sent_of(error) if error is not None else None,
            jitter=link.rng.random(),
        )
        retry = sample.source.retry
        if not isinstance(decision, Retry) or not (retry is None or retry.resends(status, error)):
            if error is not None:
                final: TinkerError = error
            else:
                assert reply is not None
                final = error_for_status(reply.status, reply.content, reply.headers)
                final = link.missing(_SAMPLE, final) or final
            raise final.with_context(
                operation="asample", attempts=sample.attempt, elapsed=loop.time() - sample.started
            )
        delay = decision.delay
        ours = decision.source in ("immediate", "backoff")
        if ours and retry is not None:
            delay, ours = retry.delay(failures, link.rng.random()), False
        cause = str(status if error is None else type(error).__name__)
        sample.retried(cause)
        if connection.observers:
            connection.observers.notice(
                RetryScheduled(
                    "asample", Lane.SAMPLE, failures, cause, delay, decision.source, sample.number
                )
            )
        if status in (402, 429):
            named = decision.source in ("retry-after-ms", "retry-after", "date", "billing")
            pause = LARGE_PAUSE_SECONDS if size > LARGE_BYTES else PAUSE_SECONDS
            pause = delay if named else pause
            self.limit.refused(started=started, pause=pause, full=status == 429)
            connection.backoff.pause(pause)
            await self.limit.after_refusal(connection.backoff)
        elif decision.sick:
            await connection.budget.wait_turn(
                Lane.SAMPLE, delay, chosen_by_us=ours, deadline=sample.deadline
            )
        else:
            await asyncio.sleep(delay)

    def _call(self, sample: Sample) -> Call:
        source = sample.source
        body = requests.sample(
            source.address,
            sample.seq_id,
            sample.prompt,
            sample.num_samples,
            sample.params,
            sample.options,
        )
        return Call(
            operation="asample",
            method="POST",
            path=_PATH,
            content=dumps(body),
            headers=_HEADERS,
            lane=Lane.SAMPLE,
            timeout=self._link.seconds(_SAMPLE),
            retry=RetryRule.DEDUPE,
        )

    def close(self, error: TinkerError) -> None:
        """End all samples; on the loop."""
        with self._lock:
            self._closed = error
            arrived, self._incoming = self._incoming, deque()
        for progress in list(self._progresses):
            progress.close()
        now = asyncio.get_running_loop().time()
        for sample in [*arrived, *self._queue, *self._in_flight]:
            if sample.timer is not None:
                sample.timer.cancel()
            sample.result.fail(sample.cut_off(now))
            if sample.task is not None:
                sample.task.cancel()
        self._queue = RoundRobin()


def _resubmits(sample: Sample, error: TinkerError, tries: int) -> bool:
    retry = sample.source.retry
    if retry is None:
        return isinstance(error, FutureExpiredError) and tries <= RESUBMITS
    # Before a request is accepted the retry table has the last word on lost connections.
    judged = isinstance(error, APIConnectionError) and sample.request_id is None
    return not judged and retry.retries(error)


class _Cancel:
    """What `future.cancel()` does to a sample, and what a pending future tells about it."""

    __slots__ = ("_owner", "_pool", "_sample")

    def __init__(self, pool: SamplePool, sample: Sample) -> None:
        self._pool = pool
        self._sample = sample
        self._owner = pool.owner()

    def __call__(self) -> None:
        self._pool._link.runtime.call(self._pool._cancel, self._sample)

    def describe(self) -> str:
        """The operation as `pending()` shows it."""
        return str(self._sample.snapshot(self._pool._link.runtime.time()))


def _spare_descriptors() -> int:
    """File descriptors polls may take, leaving a quarter of the limit to everybody else."""
    try:
        import resource
    except ImportError:  # not on this platform, where other limits are far away
        return 1 << 16
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 16 if soft == resource.RLIM_INFINITY else max(64, soft * 3 // 4 - 128)
