"""A connection to one server with one credential: every request of the package goes through `send`.

Each lane has its own pool, so a thousand polls never keep a training step waiting. `send` makes the
first attempt, and by the retry loop as many more as the verdicts on them ask for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import attrs

import tinker_ext._statuses as statuses
import tinker_ext._transport.retry as retry
from tinker_ext._transport.channel import RawReply
from tinker_ext._transport.headers import DeprecationNotes, HeaderBlock, forget_frames
from tinker_ext._transport.limits import (
    FairQueue,
    RetryTokens,
    SharedBackoff,
    shared_backoff,
    shared_tokens,
)
from tinker_ext._transport.messages import Call, Lane, LaneBusyError, Reply, RetryRule
from tinker_ext._transport.origin import (
    MAX_REDIRECTS,
    encode_target,
    onward_target,
    proxy_for,
    refusal,
    split_base_url,
)
from tinker_ext._transport.pool import LANE_SETTINGS, LaneSettings, Pool
from tinker_ext._transport.retry import (
    DEFAULT_TIMING,
    Accept,
    Attempts,
    Fail,
    Retry,
    Timing,
)
from tinker_ext.auth import Credentials
from tinker_ext.config import Config
from tinker_ext.errors import ClientClosedError, TinkerError, error_for_status
from tinker_ext.telemetry import (
    Observer,
    Observers,
    RequestFailed,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
)

if TYPE_CHECKING:
    import httpx

log = logging.getLogger("tinker_ext")

COMPLAIN_SECONDS = 10.0
"""A call that fails for longer is worth a line in the log, and the next line comes no sooner."""
SLOW_SECONDS = 6.0
"""… and so is one that a healthy server answers at once, and that has no answer for this long.

It is waited for all the same; with the start of a program the line is there within ten seconds."""

LAST_SECONDS = 1.0
"""Time for an attempt that is the last one at a server that has never answered."""

_YEAR_SECONDS = 365 * 86400.0

_answered: set[str] = set()
"""Servers that have answered this process at least once."""


class Connection:
    """Everything that goes to one base URL with one credential.

    Args:
        base_url: http(s) URL of the server; its path is kept in front of every call's path.
        credentials: Gives the API key for each attempt; None sends no key.
        config: Times and retry limits; the defaults when None.
        lanes: Sizes of lanes that differ from `LANE_SETTINGS`.
        headers: Sent with every call (Cloudflare Access, overrides of the user).
        transport: Replaces our own transport: an `httpx.ASGITransport`, a mock.
        rng: Source of jitter and idempotency keys.
        observer: Told about every attempt.

    Raises:
        ConfigurationError: The base URL or a header cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        credentials: Credentials | None,
        *,
        config: Config | None = None,
        lanes: Mapping[str, LaneSettings] | None = None,
        headers: Iterable[tuple[str, str]] = (),
        transport: httpx.AsyncBaseTransport | None = None,
        rng: random.Random | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.origin, self._base_path = split_base_url(base_url)
        self.base_url = f"{self.origin}{self._base_path}"
        self.observers = Observers.of(observer)
        self.rng = rng or random.Random()
        self._credentials = credentials
        self._config = config = config or Config()
        self._lane_settings: dict[str, LaneSettings] = {**LANE_SETTINGS, **(lanes or {})}
        self._transport = transport
        self._proxy = None if transport is not None else proxy_for(self.origin)
        self._headers = HeaderBlock(credentials, [*config.extra_headers().items(), *headers])
        self._notes = DeprecationNotes()
        self._pools: dict[str, Pool] = {}
        # Looked up once: a connection lives on one loop, and these are asked for at every call.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._backoff: SharedBackoff | None = None
        self._tokens: RetryTokens | None = None
        self._closed = False
        self._has_answered = False
        self._complained = float("-inf")
        self.timing = Timing(
            base=config.retry_base,
            cap=config.retry_cap,
            server_cap=config.retry_after_cap,
            window=config.retry_window,
            first_window=_first_window(config),
            billing=config.billing_pause,
            attempts=config.retry_attempts,
        )

    def __repr__(self) -> str:
        return f"Connection({self.base_url!r})"

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that it lives on; Python 3.11 makes a system call to find the running one."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def use_credentials(self, credentials: Credentials) -> None:
        """Send another form of the same credential from now on, such as a token it gave."""
        self._credentials = credentials
        self._headers.use(credentials)

    @property
    def backoff(self) -> SharedBackoff:
        """The pause shared by everybody with this server and credential."""
        if self._backoff is None:
            credentials = self._credentials
            name = credentials.fingerprint if credentials is not None else "anonymous"
            self._backoff = shared_backoff(self.base_url, name)
        return self._backoff

    @property
    def tokens(self) -> RetryTokens:
        """The retry tokens shared by everybody with this server."""
        if self._tokens is None:
            self._tokens = shared_tokens(self.base_url, self._config.retry_budget)
        return self._tokens

    def queue(self, lane: str) -> FairQueue:
        """The slots of a lane, one per connection."""
        return self.pool(lane).queue

    def pool(self, lane: str) -> Pool:
        """The connections of a lane."""
        pool = self._pools.get(lane)
        if pool is None:
            pool = self._pools[lane] = Pool(
                self.origin,
                self._lane_settings[lane],
                given=self._transport,
                proxy=self._proxy,
                connect_timeout=self._config.connect_timeout,
            )
        return pool

    def new_key(self) -> str:
        """An idempotency key; it belongs to one body."""
        return f"tinker-ext-{self.rng.getrandbits(128):032x}"

    def attempts(self, call: Call, deadline: float | None = None) -> Attempts:
        """A request that obeys its row of the table, within the retry window by default."""
        loop = self.loop
        if deadline is None:
            deadline = loop.time() + self.timing.window
        return Attempts(
            call.operation, call.lane, call.retry, deadline, self.timing, self.rng, loop
        )

    async def exchange(
        self,
        call: Call,
        *,
        deadline: float | None = None,
        ask_unpaid: Callable[[], Awaitable[Timing]] | None = None,
        pending: Callable[[Reply], float | None] | None = None,
    ) -> Reply:
        """Send a call by its row of the table until there is an answer.

        Args:
            call: What to send; every attempt has the same body and idempotency key.
            deadline: Loop time after which nothing more is tried; by default 300 s from now.
            ask_unpaid: Asked at the first 402 how long such a status is waited out.
            pending: Says in how many seconds to ask again when a 2xx reply is not the answer yet.

        Returns:
            A 2xx reply (or a status the call's rule counts as an answer).

        Raises:
            APIStatusError: The final status, with attempts and elapsed time.
            APIConnectionError: The last failure without a reply; `sent` says what is known.
            RedirectRefusedError: A redirect that must not be followed.
        """
        call = self._with_key(call)
        attempts = self.attempts(call, deadline)
        attempts.ask_unpaid = ask_unpaid
        if pending is not None:
            attempts.pending = pending
            attempts.timing = attrs.evolve(attempts.timing, attempts=None)
        await self.send_watched(attempts, lambda: call)
        return self.conclude(lambda: call, attempts)

    def _with_key(self, call: Call) -> Call:
        if call.idempotency_key is not None or call.method == "GET":
            return call
        return attrs.evolve(call, idempotency_key=self.new_key())

    async def once(self, call: Call, *, deadline: float | None = None) -> Reply:
        """Make one attempt and return the reply, whatever its status; raises without one."""
        if deadline is None:
            deadline = self.loop.time() + self.timing.window + call.timeout
        call = self._with_key(call)
        attempts = self.attempts(attrs.evolve(call, retry=RetryRule.ONCE), deadline)
        with self._watched(attempts, lambda: call):
            await self.send(attempts, lambda: call, once=True)
        if attempts.reply is None:
            assert attempts.error is not None
            raise attempts.error
        return attempts.reply

    async def send_watched(self, attempts: Attempts, make: Callable[[], Call]) -> None:
        """Do what `send` does, and warn when there is no answer for a while."""
        with self._watched(attempts, make):
            await self.send(attempts, make)

    @contextlib.contextmanager
    def _watched(self, attempts: Attempts, make: Callable[[], Call]) -> Iterator[None]:
        slow = attempts.loop.call_later(SLOW_SECONDS, self._report_slow, make, attempts)
        try:
            yield
        finally:
            slow.cancel()

    def conclude(self, make: Callable[[], Call], attempts: Attempts) -> Reply:
        """Return the reply of a request that has ended, or raise what it came to."""
        reply = attempts.reply
        # A 2xx reply without that verdict says "not yet", and the time is over.
        if (
            reply is not None
            and attempts.error is None
            and (isinstance(attempts.verdict, Accept) or reply.status in statuses.ACCEPTED)
        ):
            return reply
        call = make()
        try:
            return self._answer(call, attempts)
        except Exception as failure:
            if self.observers:
                self.observers.notice(
                    RequestFailed(
                        call.operation, Lane(call.lane), attempts.count, attempts.elapsed, failure
                    )
                )
            raise

    def _answer(self, call: Call, attempts: Attempts) -> Reply:
        reply, error = attempts.reply, attempts.error
        if error is not None:
            if isinstance(error, TinkerError):
                lost = call.retry in _WITH_EFFECT and retry.may_have_acted(error)
                error.in_doubt = error.in_doubt or attempts.in_doubt or lost
                if lost and call.retry is RetryRule.UNSAFE:
                    error.hint = _UNSAFE_HINT
                if self.base_url not in _answered and self.base_url not in error.message:
                    error.message = f"{self.base_url} has not answered: {error.message}"
                error.with_context(
                    operation=call.operation, attempts=attempts.count, elapsed=attempts.elapsed
                )
            raise error
        assert reply is not None
        if 300 <= reply.status < 400:
            if call.redirect_is_answer:
                return reply
            raise refusal(call, reply).with_context(
                operation=call.operation, attempts=attempts.count, elapsed=attempts.elapsed
            )
        failure = error_for_status(
            reply.status,
            reply.content,
            reply.headers,
            method=call.method,
            url=self.base_url + call.path,
        ).with_context(
            operation=call.operation,
            attempts=attempts.count,
            elapsed=attempts.elapsed,
            hint=_UNSAFE_HINT if attempts.verdict == Fail("unsafe") else None,
        )
        failure.in_doubt = attempts.in_doubt
        if self.base_url not in _answered:
            said = f"{self.base_url} answers, but the server behind it is down or unwell"
            failure.message = f"{said}: {failure.message}"
        raise failure

    async def aclose(self) -> None:
        """Close all connections; later calls fail. A transport given by the caller stays open."""
        self._closed = True
        for pool in self._pools.values():
            await pool.aclose()

    # --- one request --------------------------------------------------------------------------

    async def send(
        self, attempts: Attempts, make: Callable[[], Call], *, once: bool = False
    ) -> None:
        """Make an attempt, and more of them until `attempts` has its final verdict.

        Thousands wait for a slot of their lane at a time, so a call is made only when it has one:
        nobody keeps a body or headers while waiting, and a token is as new as it can be. The first
        attempt comes before the retry machinery is built, for the same reason.

        Args:
            attempts: Judges what comes of each attempt.
            make: Makes the call of each.
            once: Make one attempt, whatever the verdict.
        """
        loop, earlier, lane = attempts.loop, attempts.count, attempts.lane
        pool = self._pools.get(lane) or self.pool(lane)
        if attempts.enters:
            await attempts.enter()
        watched = self.observers.each
        call: Call | None = None
        reply: Reply | None = None
        error: Exception | None = None
        started = loop.time()
        try:
            if not pool.queue.try_acquire():
                await self._slot(pool.queue, attempts)
                started = loop.time()
            if not (self._has_answered or earlier or attempts.rule is RetryRule.ONCE):
                self._limit_first_contact(attempts, started)
            try:
                call = make()
                if not self._headers.has_key:
                    await self._headers.renew(call)
                if watched:
                    self._tell_start(call, earlier)
                if self._closed:
                    raise ClientClosedError("this connection is closed")
                target = encode_target(self._base_path + call.path)
                attempts.sent = True
                end = attempts.deadline
                if attempts.give_up_by < end:
                    end = attempts.give_up_by
                if earlier:  # the last one may have begun just before the first window ends
                    end = max(end, min(attempts.deadline, started + LAST_SECONDS))
                # Not kept in a variable: thousands wait in the next line.
                raw = await pool.send(call, target, self._headers.build(call, earlier), end)
                if raw[0] in statuses.REDIRECTS and not call.redirect_is_answer:
                    headers = self._headers.build(call, earlier)
                    raw = await self._follow(pool, call, target, headers, raw, end)
                reply = Reply(*self._headers.receive(raw), loop.time() - started)
                del raw
                if not self._has_answered or attempts.give_up_by != math.inf:
                    self._note_answer(attempts, reply)
                if "x-deprecation-note" in reply.headers:
                    self._notes.read(reply.headers)
            finally:
                pool.queue.release()
        except BaseException as problem:
            forget_frames(problem)
            if isinstance(problem, TinkerError) and problem.operation is None and call is not None:
                problem.with_context(operation=call.operation)
            if watched and call is not None:
                self._tell_end(call, earlier, None, problem, loop.time() - started)
            if not isinstance(problem, Exception):
                raise
            error = problem
        else:
            if watched:
                self._tell_end(call, earlier, reply.status, None, reply.elapsed)
        finally:
            if attempts.taken:
                attempts.leave()
        tokens = self._tokens or self.tokens
        tokens.note_outcome(lane, reply, error, started)
        attempts.verdict = await attempts.take(reply, error)
        if isinstance(attempts.verdict, Retry) and not once:
            del call, reply, error  # it may be long until the last attempt
            again = partial(self.send, attempts, make, once=True)
            await retry.run(attempts, again, tokens=tokens, on_retry=self._on_retry)

    def _limit_first_contact(self, attempts: Attempts, started: float) -> None:
        """Give a request less time while the server has never answered this process."""
        if self.base_url in _answered:
            self._has_answered = True
        else:
            attempts.give_up_by = started + self.timing.first_window

    def _note_answer(self, attempts: Attempts, reply: Reply) -> None:
        """Note that the server is there; a gateway answers 5xx for one that is down."""
        if reply.status not in statuses.FAILED or "retry-after" in reply.headers:
            _answered.add(self.base_url)
            self._has_answered = True
            attempts.give_up_by = math.inf

    async def _follow(
        self, pool: Pool, call: Call, target: str, headers: str, raw: RawReply, deadline: float
    ) -> RawReply:
        """Go where a redirect points, as long as that is allowed."""
        for _ in range(MAX_REDIRECTS):
            onward = onward_target(call, self.origin, target, raw[1].get("location"))
            if onward is None or raw[0] not in statuses.REDIRECTS:
                break
            target = onward
            raw = await pool.send(call, target, headers, deadline)
        return raw

    async def _slot(self, queue: FairQueue, attempts: Attempts) -> None:
        try:
            await queue.acquire(deadline=attempts.deadline)
        except TimeoutError:
            raise LaneBusyError(
                f"all {queue.limit} connections of lane {attempts.lane} stayed busy and "
                f"{queue.waiting} more calls wait"
            ).with_context(operation=attempts.operation, attempts=attempts.count) from None

    # --- what is told about attempts ----------------------------------------------------------

    def _tell_start(self, call: Call, earlier: int) -> None:
        size = len(call.content or b"")
        self.observers.notice(RequestStarted(call.operation, Lane(call.lane), earlier + 1, size))

    def _tell_end(
        self,
        call: Call,
        earlier: int,
        status: int | None,
        problem: BaseException | None,
        took: float,
    ) -> None:
        failure = None if problem is None else type(problem).__name__
        self.observers.notice(
            RequestFinished(call.operation, Lane(call.lane), earlier + 1, status, failure, took)
        )

    def _report_slow(self, make: Callable[[], Call], attempts: Attempts) -> None:
        now, call = attempts.loop.time(), make()
        # Telemetry and heartbeats delay nobody, and a poll is held on purpose; a call that was
        # answered and repeats, like one that asks until something is ready, is reported by its
        # retries.
        unwatched = call.lane in (Lane.TELEMETRY, Lane.POLL)
        # An error that is about to come says it, too.
        ending = attempts.end - now <= LAST_SECONDS
        if call.timeout <= COMPLAIN_SECONDS or attempts.count or unwatched or ending:
            return
        if now - self._complained >= COMPLAIN_SECONDS:
            self._complained = now
            log.warning(
                "%s to %s has had no answer for %.0f s%s.",
                attempts.operation,
                self.base_url,
                attempts.elapsed,
                _patience(attempts.end - now),
            )

    def _on_retry(self, attempts: Attempts) -> None:
        last, reply = attempts.verdict, attempts.reply
        assert isinstance(last, Retry)
        if last.source == "pending":
            return
        now = attempts.loop.time()
        if now - max(attempts.began, self._complained) >= COMPLAIN_SECONDS:
            self._complained = now
            log.warning(
                "%s to %s has failed %d times over %.0f s, last with %s%s.",
                attempts.operation,
                self.base_url,
                attempts.count,
                attempts.elapsed,
                _brief(attempts.error) if reply is None else f"status {reply.status}",
                _patience(attempts.end - now),
            )
        cause = str(reply.status if reply else type(attempts.error).__name__)
        if attempts.owner is not None:
            attempts.owner.retried(cause)
        if self.observers:
            self.observers.notice(
                RetryScheduled(
                    attempts.operation,
                    Lane(attempts.lane),
                    attempts.count,
                    cause,
                    last.delay,
                    last.source,
                    None if attempts.owner is None else attempts.owner.number,
                )
            )


def _brief(error: BaseException | None) -> str:
    """What went wrong, for the middle of a sentence: without context and hint."""
    return (error.message if isinstance(error, TinkerError) else str(error)).rstrip(".")


def _patience(seconds: float) -> str:
    """When a call is given up, unless that is so far away that nobody has chosen it."""
    return f"; giving up in {seconds:.0f} s" if seconds < _YEAR_SECONDS else ""


_WITH_EFFECT = (RetryRule.UNSAFE, RetryRule.DEDUPE, RetryRule.FINAL409)
_UNSAFE_HINT = (
    "This server does not recognise a repeated request, so it was not sent again; look at the "
    "state of the run first."
)


def _first_window(config: Config) -> float:
    """Seconds for a server that has never answered; longer ones that the user chose hold as well.

    The first request of a client is a small one, which a healthy server answers at once.
    """
    fields = attrs.fields(Config)
    limits = (
        (config.connect_timeout, fields.connect_timeout),
        (config.request_timeout, fields.request_timeout),
    )
    chosen = [seconds for seconds, field in limits if seconds != field.default]
    return max([DEFAULT_TIMING.first_window, *chosen])
