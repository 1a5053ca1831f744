"""A connection to one server with one credential: one attempt, or attempts by the retry table.

Each lane has its own pool, so a thousand polls never keep a training step waiting. `once` makes one
attempt and returns any status; `exchange` repeats by the retry table until there is an answer or an
error that says what, how often and what to do.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping

import attrs
import httpx

from tinker_ext._transport.deprecation import DeprecationNotes
from tinker_ext._transport.faults import LaneBusyError
from tinker_ext._transport.gate import RetryBudget, shared_budget
from tinker_ext._transport.headers import Credentials, HeaderBlock, forget_frames
from tinker_ext._transport.limits import FairQueue, SharedBackoff, shared_backoff
from tinker_ext._transport.messages import Call, Lane, Reply, RetryRule
from tinker_ext._transport.observe import (
    Observer,
    Observers,
    RequestFailed,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
)
from tinker_ext._transport.origin import encode_target, proxy_for, split_base_url
from tinker_ext._transport.ports import LANE_SETTINGS, LaneSettings, Port
from tinker_ext._transport.redirects import MAX_REDIRECTS, REDIRECTS, onward_target, refusal
from tinker_ext._transport.retry import Accept, Ended, Fail, Outcome, Retry, Timing, judge, run
from tinker_ext.config import Config
from tinker_ext.errors import ClientClosedError, TinkerError, error_for_status

__all__ = ["Call", "Connection", "Credentials", "Lane", "LaneSettings", "Reply", "RetryRule"]


log = logging.getLogger("tinker_ext")

COMPLAIN_SECONDS = 10.0
"""A call that fails for longer is worth a line in the log, and the next line comes no sooner."""


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
        lanes: Mapping[Lane, LaneSettings] | None = None,
        headers: Iterable[tuple[str, str]] = (),
        transport: httpx.AsyncBaseTransport | None = None,
        rng: random.Random | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.origin, self._base_path = split_base_url(base_url)
        self.base_url = f"{self.origin}{self._base_path}"
        self.observers = Observers.of(observer)
        self._credentials = credentials
        self._config = config = config or Config()
        self._lane_settings = {**LANE_SETTINGS, **(lanes or {})}
        self._rng = rng or random.Random()
        self._transport = transport
        self._proxy = None if transport is not None else proxy_for(self.origin)
        self._headers = HeaderBlock(credentials, [*config.extra_headers().items(), *headers])
        self._notes = DeprecationNotes()
        self._ports: dict[Lane, Port] = {}
        # Looked up once: a connection lives on one loop, and these are asked for at every call.
        self._backoff: SharedBackoff | None = None
        self._budget: RetryBudget | None = None
        self._closed = False
        self._complained = float("-inf")
        self._timing = Timing(
            base=config.retry_base,
            cap=config.retry_cap,
            server_cap=config.retry_after_cap,
            window=config.retry_window,
            billing=config.billing_pause,
            attempts=config.retry_attempts,
        )
        # A future is polled as long as its owner waits, however often that is.
        self._poll_timing = attrs.evolve(self._timing, attempts=None)

    def __repr__(self) -> str:
        return f"Connection({self.base_url!r})"

    @property
    def backoff(self) -> SharedBackoff:
        """The pause shared by everybody with this server and credential."""
        if self._backoff is None:
            credentials = self._credentials
            name = credentials.fingerprint if credentials is not None else "anonymous"
            self._backoff = shared_backoff(self.base_url, name)
        return self._backoff

    @property
    def budget(self) -> RetryBudget:
        """The retry budget shared by everybody with this server."""
        if self._budget is None:
            self._budget = shared_budget(self.base_url, self._config.retry_budget)
        return self._budget

    def queue(self, lane: Lane) -> FairQueue:
        """The slots of a lane, one per connection."""
        return self._port(lane).queue

    def httpx_transport(self, lane: Lane = Lane.REST) -> httpx.AsyncBaseTransport:
        """The lane's transport for an `httpx.AsyncClient` around generated code."""
        return self._port(lane).transport

    async def once(self, call: Call, *, deadline: float | None = None) -> Reply:
        """Make one attempt.

        Args:
            call: What to send.
            deadline: Loop time that neither waiting for a connection nor the exchange may pass; by
                default the retry window and the call's timeout from now.

        Returns:
            The reply, whatever its status; a GET follows redirects within the same origin.

        Raises:
            APIConnectionError: No usable reply; its `sent` says what is known.
            APITimeoutError: Not finished within `call.timeout`.
            LaneBusyError: No connection came free in time.
            ReplyTooLargeError: The reply exceeds its bound.
        """
        if deadline is None:
            deadline = asyncio.get_running_loop().time() + self._timing.window + call.timeout
        queue = self._port(call.lane).queue
        if not queue.try_acquire():
            await self._slot(queue, call, deadline)
        return await self.once_held(call.lane, lambda: call, deadline=deadline)

    async def once_held(self, lane: Lane, make: Callable[[], Call], *, deadline: float) -> Reply:
        """Do what `once` does for a caller that holds a slot of the lane; it is given back.

        Thousands wait for a slot at a time. Who takes it from `queue` first keeps neither body
        nor headers while waiting, and a token is as new as it can be.

        Args:
            lane: Whose slot is held.
            make: Makes the call.
            deadline: Loop time that the exchange may not pass.
        """
        try:
            call = make()
            headers = await self._headers.build(call, 0, self._idempotency_key(call))
        except BaseException:
            self._port(lane).queue.release()
            raise
        return await self._attempt(call, 0, deadline, headers)

    async def exchange(self, call: Call, *, deadline: float | None = None) -> Reply:
        """Make attempts by the retry table until there is an answer.

        Args:
            call: What to send; every attempt has the same body and idempotency key.
            deadline: Loop time after which nothing more is tried; by default 300 s from now.

        Returns:
            A 2xx reply (or a status the call's rule counts as an answer).

        Raises:
            APIStatusError: The final status, with attempts and elapsed time.
            APIConnectionError: The last failure without a reply; `sent` says what is known.
            RedirectRefusedError: A redirect that must not be followed.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        if deadline is None:
            deadline = began + self._timing.window
        key = self._idempotency_key(call)
        headers = await self._headers.build(call, 0, key)
        queue = self._port(call.lane).queue
        # Thousands may wait here: the first attempt comes before the retry machinery is built.
        if not queue.try_acquire():
            await self._slot(queue, call, deadline)
        started = loop.time()
        reply: Reply | None = None
        error: Exception | None = None
        try:
            reply = await self._attempt(call, 0, deadline, headers)
        except Exception as caught:
            error = caught
        timing = self._poll_timing if call.retry is RetryRule.POLL else self._timing
        first = judge(call.retry, reply, error, 1, self._rng, timing)
        self.budget.note_outcome(call.lane, reply, error, started)
        if isinstance(first.verdict, Retry):
            ended = await self._again(call, key, first, began, deadline, timing)
        else:
            ended = Ended(first, 1, loop.time() - began)
        try:
            return self._conclude(call, ended)
        except Exception as failure:
            if ended.in_doubt and isinstance(failure, TinkerError):
                failure.in_doubt = True
            if self.observers:
                self.observers.notice(
                    RequestFailed(call.operation, call.lane, ended.attempts, ended.elapsed, failure)
                )
            raise

    async def aclose(self) -> None:
        """Close all connections; later calls fail. A transport given by the caller stays open."""
        self._closed = True
        for port in self._ports.values():
            await port.aclose()

    # --- one attempt --------------------------------------------------------------------------

    async def _slot(self, queue: FairQueue, call: Call, deadline: float) -> None:
        try:
            await queue.acquire(deadline=deadline)
        except TimeoutError:
            raise LaneBusyError(
                f"all {queue.limit} connections of lane {call.lane} stayed busy and "
                f"{queue.waiting} more calls wait"
            ).with_context(operation=call.operation, attempts=0) from None

    async def _attempt(self, call: Call, earlier: int, deadline: float, headers: str) -> Reply:
        """Send once; the caller has taken a slot of the lane, which is given back here."""
        loop = asyncio.get_running_loop()
        port = self._port(call.lane)
        started = loop.time()
        status: int | None = None
        failure: str | None = None
        watched = bool(self.observers)
        if watched:
            self.observers.notice(
                RequestStarted(call.operation, call.lane, earlier + 1, len(call.content or b""))
            )
        try:
            if self._closed:
                raise ClientClosedError("this connection is closed")
            target = encode_target(self._base_path + call.path)
            raw = await port.send(call, target, headers, deadline)
            if raw[0] in REDIRECTS and not call.redirect_is_answer:
                for _ in range(MAX_REDIRECTS):
                    onward = onward_target(call, self.origin, target, raw[1].get("location"))
                    if onward is None or raw[0] not in REDIRECTS:
                        break
                    target = onward
                    raw = await port.send(call, target, headers, deadline)
            status, fields, content = self._headers.receive(raw)
            if "x-deprecation-note" in fields:
                self._notes.read(fields)
            return Reply(status, fields, content, loop.time() - started)
        except BaseException as error:
            failure = type(error).__name__
            forget_frames(error)
            if isinstance(error, TinkerError) and error.operation is None:
                error.with_context(operation=call.operation)
            raise
        finally:
            port.queue.release()
            if watched:
                took = loop.time() - started
                self.observers.notice(
                    RequestFinished(call.operation, call.lane, earlier + 1, status, failure, took)
                )

    def _port(self, lane: Lane) -> Port:
        port = self._ports.get(lane)
        if port is None:
            port = self._ports[lane] = Port(
                self.origin,
                self._lane_settings[lane],
                given=self._transport,
                proxy=self._proxy,
                connect_timeout=self._config.connect_timeout,
            )
        return port

    def _idempotency_key(self, call: Call) -> str | None:
        if call.method == "GET":
            return None
        return call.idempotency_key or f"tinker-ext-{self._rng.getrandbits(128):032x}"

    # --- attempts after the first -------------------------------------------------------------

    async def _again(
        self,
        call: Call,
        key: str | None,
        first: Outcome,
        began: float,
        deadline: float,
        timing: Timing,
    ) -> Ended:
        async def attempt(earlier: int) -> Reply:
            headers = await self._headers.build(call, earlier, key)
            await self._slot(self._port(call.lane).queue, call, deadline)
            return await self._attempt(call, earlier, deadline, headers)

        loop = asyncio.get_running_loop()

        def on_retry(attempts: int, outcome: Outcome) -> None:
            assert isinstance(outcome.verdict, Retry)
            now, reply = loop.time(), outcome.reply
            if now - max(began, self._complained) >= COMPLAIN_SECONDS:
                self._complained = now
                log.warning(
                    "%s to %s has failed %d times over %.0f s, last with %s; trying on for %.0f s.",
                    call.operation,
                    self.base_url,
                    attempts,
                    now - began,
                    outcome.error if reply is None else f"status {reply.status}",
                    deadline - now,
                )
            cause = str(reply.status if reply else type(outcome.error).__name__)
            if call.owner is not None:
                call.owner.retried(cause)
            if self.observers:
                delay, source = outcome.verdict.delay, outcome.verdict.source
                number = None if call.owner is None else call.owner.number
                self.observers.notice(
                    RetryScheduled(
                        call.operation, call.lane, attempts, cause, delay, source, number
                    )
                )

        return await run(
            attempt,
            call.retry,
            first=first,
            began=began,
            lane=call.lane,
            deadline=deadline,
            rng=self._rng,
            budget=self.budget,
            timing=timing,
            on_retry=on_retry,
        )

    def _conclude(self, call: Call, ended: Ended) -> Reply:
        """Return the reply, or raise what the last attempt came to."""
        reply, error = ended.last.reply, ended.last.error
        if error is not None:
            if isinstance(error, TinkerError):
                error.with_context(
                    operation=call.operation, attempts=ended.attempts, elapsed=ended.elapsed
                )
            raise error
        assert reply is not None
        if isinstance(ended.last.verdict, Accept):
            return reply
        if 300 <= reply.status < 400:
            if call.redirect_is_answer:
                return reply
            raise refusal(call, reply).with_context(
                operation=call.operation, attempts=ended.attempts, elapsed=ended.elapsed
            )
        raise error_for_status(
            reply.status,
            reply.content,
            reply.headers,
            method=call.method,
            url=self.base_url + call.path,
            operation=call.operation,
            attempts=ended.attempts,
            elapsed=ended.elapsed,
            hint=_UNSAFE_HINT if ended.last.verdict == Fail("unsafe") else None,
        )


_UNSAFE_HINT = (
    "This server does not recognise a repeated request, so it was not sent again; look at the "
    "state of the run first."
)
