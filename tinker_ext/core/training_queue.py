"""Training requests of one model leave in call order, numbered without gaps, whatever is cancelled.

A call takes its place in the caller's thread. On the loop it gets its seq ids only when it leaves,
and from then on its requests belong to the core: no cancellation or timeout of the caller reaches
them. Where the server sorts by seq_id requests are sent ahead of each other's answers; elsewhere
one is in flight at a time.

docs/architecture.md draws the states of one numbered request, every legal move, and what is
impossible by construction.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
import orjson
from tinker_api import operations as api
from tinker_api.errors import ApiError
from tinker_api.operations import OPERATIONS

import tinker_ext._statuses as statuses
from tinker_ext import forks
from tinker_ext._transport.limits import ByteBudget
from tinker_ext._transport.messages import Call, Reply, RetryRule
from tinker_ext._transport.retry import (
    ACCEPT,
    CONFLICTS,
    FIRST_RETRY_SPREAD,
    Attempts,
    Fail,
    Retry,
    Verdict,
    back_off,
    is_gateway_page,
    is_passing,
    may_have_acted,
)
from tinker_ext._wire.dialect import Ability, Dialect, Seq, Wire, has_protobuf
from tinker_ext._wire.payload import Body, Payload
from tinker_ext._wire.results import read_promise
from tinker_ext.core.future import LightFuture
from tinker_ext.core.in_flight import Entry
from tinker_ext.core.polling import wait_for
from tinker_ext.core.server import Server, unreadable
from tinker_ext.errors import (
    APIConnectionError,
    APIError,
    APIResponseValidationError,
    APIStatusError,
    ClientClosedError,
    ConflictError,
    FeatureMissingError,
    RequestFailedError,
    TinkerError,
    UnsafeToRetryError,
    is_page,
)

if TYPE_CHECKING:
    from tinker_ext.journal.recorder import Recorder

UNREADABLE: Final = 3
"""So many acceptances that cannot be read are one too many."""
FIND_OUT_SECONDS: Final = 2.5
"""How long each answer about a repeated request is waited for, to see what the server makes of it.
Short, since the caller of a request that was lost is waiting; there are three of them."""
SLOW_SECONDS: Final = 30.0
"""A server that takes so long to accept requests gets no more time for such a question."""
BROKEN: Final = 3
"""So many 500 in a row to a body without effect mean that its wire is not read."""
OUTCOME_SECONDS: Final = 5.0
"""How long a call that has failed waits for the results of its other parts, which say what took
effect; its deadline may be sooner."""
AGAIN: Final = 3
"""So often is a request sent that the server accepts and refuses when its result is asked for."""

MakePayload = Callable[[Wire], Payload]
"""Encodes a part of a call; called again with the other wire when the server refuses the first."""


@attrs.define(eq=False)
class QueuedCall:
    """The place of one call in the order, and what it will send."""

    queue: TrainingQueue
    entry: Entry
    makers: Sequence[MakePayload] | None = None
    combine: Callable[[list[Any]], Any] | None = None
    result: LightFuture[Any] = attrs.field(factory=LightFuture)
    requests: list[NumberedRequest] = attrs.field(factory=list)
    values: dict[int, Any] = attrs.field(factory=dict)
    """Results of its parts, by their places."""
    error: BaseException | None = None
    """Why one part failed, while the answers to the others are awaited."""
    goes_on: bool = False
    """The server has the part whose answer was lost, so those behind it are sent as well."""
    filling: int = 0
    """Numbers of refused parts that are being filled, for later parts that wait behind them."""
    timer: asyncio.TimerHandle | None = None

    def __call__(self) -> None:
        """Give the call up, from any thread: what `cancel()` of its future does."""
        self.queue.server.runtime.call(self.queue._abandon, self)

    def describe(self) -> str:
        """The operation as `pending()` shows it."""
        return str(self.entry.snapshot(self.queue.server.runtime.time()))


@attrs.define(eq=False)
class NumberedRequest:
    """One part of a call under its seq_id; without a call it is a filler."""

    call: QueuedCall | None
    operation: str
    """Name of the operation, for errors and the journal."""
    index: int
    make: MakePayload
    seq_id: int
    body: int
    """Number of its body, for the idempotency key, which belongs to one body."""
    answered: asyncio.Future[bool]
    payload: Payload | None = None
    polling: bool = False
    sent: bool = False
    """Whether a byte of it may have left this machine."""
    reached: bool = False
    """Whether an attempt may have taken effect."""
    accepted: bool = False
    """Whether the server has its number."""
    took: bool | None = None
    """Whether it took effect, once its result says so; None leaves it open."""
    probed: bool = False
    """Whether a later number was used to find out about repeats before it was sent again."""
    again: int = 0
    """How often it was accepted and then refused, because the server waited for another."""
    seconds: float | None = None
    """Time for one attempt, where the usual is too long."""
    refusals: tuple[int, int] | None = None
    """Statuses with which the server refused it in both wires, the first wire first."""

    def encoded(self, wire: Wire) -> Payload:
        """What it sends; written now if it is not yet."""
        if self.payload is None:
            self.payload = self.make(wire)
        return self.payload


class _Delivery(Attempts):
    """Gets one numbered request to the server: sent until it is answered, refused or lost.

    Every attempt carries the same number, and the same key as long as the body is the same. How an
    answer is read depends on what it costs to be wrong:

    * 409: a gateway's, or the server's memory. Where repeats are harmless it is sent a few times
      more; a server that goes on saying 409 has the number.
    * the first body is refused (4xx), or breaks a server that recognises repeats (500): perhaps it
      does not speak this wire. The other one is tried for the same request, and used from then on
      only if it is accepted; else the first refusal stands.
    * "no such endpoint" on a web page: a gateway's, and passing; the server has the endpoint.
    * no answer, with later numbers waiting behind this one: sent until it gets through.
    """

    passing_pages = True

    def __init__(self, queue: TrainingQueue, request: NumberedRequest) -> None:
        timing = queue.server.connection.timing
        super().__init__(
            request.operation,
            api.FORWARD.lane,
            RetryRule.FINAL409 if queue.dialect.resends else RetryRule.UNSAFE,
            asyncio.get_running_loop().time() + timing.window,
            timing,
            queue.server.rng,
        )
        self.owner = None if request.call is None else request.call.entry
        self.enters = True
        self._queue = queue
        self._request = request
        self._unreadable = 0
        self._broken = 0
        self._first: tuple[Payload, int, Reply] | None = None
        """Payload, number and refusal of the body that was tried first."""
        self._rendered: Payload | None = None
        self._content: bytes | Body = b""
        self.request_id = ""

    async def enter(self) -> None:
        """Write the body, beside the loop when it is large."""
        request, server = self._request, self._queue.server
        payload = request.encoded(self._queue.dialect.wire)
        if payload is not self._rendered:
            self._content = await server.runtime.offload(
                payload.work, payload.content, request.seq_id
            )
            self._rendered = payload
        if request.call is not None:
            request.call.entry.attempt += 1

    def make(self) -> Call:
        """The next attempt."""
        payload = self._rendered
        assert payload is not None
        op = OPERATIONS[payload.operation]
        return Call(
            operation=self.operation,
            method=op.method,
            path=op.path,
            content=self._content,
            headers=payload.headers,
            lane=op.lane,
            timeout=self._request.seconds or self._queue.server.seconds[op.name],
            retry=self.rule,
            idempotency_key=f"{self._queue.run_key}-{self._request.seq_id}-{self._request.body}",
        )

    async def judge(self, reply: Reply | None, error: Exception | None) -> Verdict:
        """Decide what follows from one attempt."""
        request, queue = self._request, self._queue
        server, payload = queue.server, request.payload
        if reply is not None and reply.status in statuses.ACCEPTED:
            try:
                self.request_id, _ = read_promise(reply.content)
            except (ApiError, ValueError) as wrong:
                self._unreadable += 1
                self.error = unreadable(reply, OPERATIONS[request.operation].reply, None, wrong)
                self.error.__cause__ = wrong
                request.reached = True
                if not queue.dialect.resends or self._unreadable == UNREADABLE:
                    return Fail("final")
                return back_off(self._unreadable, self.rng.random(), self.timing, unhealthy=False)
            if payload is not None and payload.wire is not None and not server.wire_confirmed:
                server.use_wire(payload.wire)
            return ACCEPT
        if reply is not None and is_gateway_page(reply):
            # It may have been written after the server had done the work.
            request.reached = True
            if not (queue.dialect.resends or request.call is None):
                return Fail("unsafe")
        told = self.by_table(reply, error)
        if reply is None:
            assert error is not None
            request.reached = request.reached or may_have_acted(error)
        elif not is_gateway_page(reply) and (
            other := self._other_wire(reply) or self._wanted_field(reply)
        ):
            return other  # the body, written in another way
        else:
            request.reached = request.reached or reply.status in statuses.MAY_HAVE_ACTED
            again = queue.dialect.resends and self._conflicts < CONFLICTS
            if reply.status == statuses.CONFLICT and again:
                return back_off(self._conflicts, self.rng.random(), self.timing, unhealthy=False)
        if isinstance(told, Retry) and queue.dialect.resends and queue.awaited(request):
            # Later requests wait at the server for this number, so giving up would hold them
            # all; each has its own deadline.
            self.deadline = max(self.deadline, self.loop.time() + self.timing.window)
        return told

    def _other_wire(self, reply: Reply) -> Verdict | None:
        """Change to the other wire, or back; None when the status is not about the wire."""
        queue, request = self._queue, self._request
        payload = request.payload
        if self._first is not None:
            first, body, refusal = self._first
            if payload is not first and reply.status not in statuses.PASSING:
                # Neither wire is taken. A broken server (500) goes on with the first one, of
                # which it may know; any other refusal is the answer.
                request.payload, request.body = first, body
                if refusal.status in statuses.BODY_REFUSED:
                    self.reply = refusal
                    request.refusals = refusal.status, reply.status
                    return Fail("final")
                return back_off(1, self.rng.random(), self.timing, unhealthy=False)
            return None
        if queue.server.wire_confirmed or payload is None or payload.wire is None:
            return None
        if queue.dialect.chosen_by != "probe":
            return None
        # A filler has no effect, so it is the one to try a wire with on a server that breaks.
        harmless = queue.dialect.resends or request.call is None
        broken = reply.status == 500 and harmless and payload.wire is Wire.PROTO
        if reply.status not in statuses.BODY_REFUSED and not broken:
            return None
        other = Wire.JSON if payload.wire is Wire.PROTO else Wire.PROTO
        if other is Wire.PROTO and not has_protobuf():
            return None
        if broken and not queue.dialect.resends:
            # What is concluded from this lets a request be sent twice, so once is not enough.
            self._broken += 1
            if self._broken < BROKEN:
                return Retry(FIRST_RETRY_SPREAD, "immediate")
        request.reached = request.reached or reply.status in statuses.MAY_HAVE_ACTED
        self._first = payload, request.body, reply
        try:
            request.payload = request.make(other)
        except Exception:
            return None  # the other wire cannot carry it: the refusal stands
        request.body = next(queue.bodies)
        return Retry(0.0, "immediate")

    def _wanted_field(self, reply: Reply) -> Verdict | None:
        """Send `optimizer` to a server of the first era that wants it; None for other refusals.

        Of these servers one knows the key and wants it in every load (Twinkle 0.5.1), others refuse
        it, so which kind this is shows at the first load.
        """
        queue, request = self._queue, self._request
        known = Ability.OPTIMIZER_RESTORE in queue.dialect.abilities
        if known or not _is_about_optimizer(request, reply.status, reply.content, "missing"):
            return None
        queue.server.use_ability(Ability.OPTIMIZER_RESTORE)
        request.payload = request.make(queue.dialect.wire)
        request.body = next(queue.bodies)
        return Retry(0.0, "immediate")


def _is_about_optimizer(request: NumberedRequest, status: int, body: Any, fault: str) -> bool:
    """Whether a load was refused with this fault of its field `optimizer`, in FastAPI's words."""
    if request.operation != api.LOAD_WEIGHTS.name or status not in statuses.BODY_REFUSED:
        return False
    try:
        said = orjson.loads(body) if isinstance(body, bytes) else body
        return any(each["type"] == fault and "optimizer" in each["loc"] for each in said["detail"])
    except (KeyError, TypeError, ValueError):
        return False


class TrainingQueue:
    """The order of one training client."""

    def __init__(self, server: Server, model_id: str, filler: MakePayload) -> None:
        self.model_id = model_id
        self.server = server
        self._filler = filler
        self.next_seq_id = 1
        """The number the next request will get."""
        self._lock = forks.lock()
        self._queue: deque[QueuedCall] = deque()
        self._driver: asyncio.Task[Any] | None = None
        self._woken = asyncio.Event()
        self._carried: dict[NumberedRequest, asyncio.Task[Any]] = {}
        self._unsettled: deque[NumberedRequest] = deque()
        self._untold: NumberedRequest | None = None
        self._gaps: dict[int, float] = {}
        """Numbers whose requests failed at their poll, which some servers still wait for, and the
        last number that may have been refused because of each; infinite until it is filled."""
        self._holes: list[NumberedRequest] = []
        """Requests lost on the way to a server that has not shown what it makes of repeats."""
        self._given_back: int | None = None
        """The number that was last refused and used again."""
        self._conflicting: int | None = None
        """The number that was last refused with 409 and used again."""
        self._slowest = 0.0
        """Longest time that a request took to be accepted."""
        self._bytes = ByteBudget(
            server.bytes_allowed("train_bytes_in_flight", "fwdbwd_dispatch_bytes_semaphore_size")
        )
        self._closed: TinkerError | None = None
        # Not the model id: text of a server never becomes a header.
        self.run_key = f"tinker-ext-{server.rng.getrandbits(64):016x}"
        self.bodies = itertools.count()
        self._finding = asyncio.Lock()
        self.recorder: Recorder | None = None
        """Writes requests down, when the user asked for it."""
        self.owner: Callable[[], object] = lambda: None
        """Gives the client that ends all this when it is forgotten; a pending call holds it."""
        server.in_flight.add_queue(self._queued_entries)

    @property
    def dialect(self) -> Dialect:
        """What is known about the server; something is, before the first request leaves."""
        known = self.server.dialect
        assert known is not None
        return known

    # -- any thread ------------------------------------------------------------------------

    def reserve(self, operation_name: str, now: float, seconds: float) -> QueuedCall:
        """Take the next place in the order."""
        entry = Entry(operation_name, self.model_id, now, now + seconds)
        call = QueuedCall(self, entry)
        with self._lock:
            if self._closed is not None:
                raise self._closed
            self._queue.append(call)
        if self.recorder is not None:
            self.recorder.follow(call)
        return call

    def arm(
        self,
        call: QueuedCall,
        makers: Sequence[MakePayload],
        combine: Callable[[list[Any]], Any] | None = None,
    ) -> LightFuture[Any]:
        """Say what a reserved place will send; returns the future of its result."""
        call.combine = combine
        call.result.on_cancel = call
        call.result.keep(self.owner())
        call.makers = makers  # last: from here on the loop may let it leave
        self.server.runtime.call(self._wake, call)
        return call.result

    def drop(self, call: QueuedCall) -> None:
        """Give a reserved place up, before it was armed."""
        call.result.cancel()
        self.server.runtime.call(self._wake, call)

    def _queued_entries(self) -> list[Entry]:
        return [call.entry for call in list(self._queue) if not call.result.done()]

    # -- on the loop -----------------------------------------------------------------------

    def _wake(self, call: QueuedCall) -> None:
        """Let calls leave: at once those that have nothing to wait for, else by a task."""
        if call.makers is not None and not call.result.done():
            loop = asyncio.get_running_loop()
            call.timer = loop.call_at(call.entry.deadline, self._expire, call)
        self._woken.set()
        if self._driver is not None:
            return
        while (first := self._front()) is not None and first.makers is not None:
            behind = self._unsettled or self._holes or self._untold
            if behind or len(first.makers) > 1 or not self._ahead or self._bytes.left < 0:
                self._driver = self.server.runtime.spawn(self._drive())
                return
            self._queue.popleft()
            self._start(first, 0)

    def _front(self) -> QueuedCall | None:
        """The first call that somebody waits for; others leave the order."""
        while self._queue and self._closed is None:
            call = self._queue[0]
            if not call.result.done():
                return call
            self._queue.popleft()
        return None

    @property
    def _ahead(self) -> bool:
        """Whether requests may leave before the ones in front of them are answered."""
        dialect = self.server.dialect
        return dialect is not None and dialect.pipelined and self.server.wire_confirmed

    def _start(self, call: QueuedCall, index: int) -> NumberedRequest:
        """Give a part its number and let it go."""
        assert call.makers is not None
        entry = call.entry
        if not index:
            entry.stage = "sending"
            self.server.in_flight.add(entry)
        request = self._number(call, index, call.makers[index])
        call.requests.append(request)
        if entry.seq_id is None:
            entry.seq_id = request.seq_id
        self._carried[request] = self.server.runtime.spawn(self._carry(request))
        return request

    def _number(
        self, call: QueuedCall | None, index: int, make: MakePayload, seq_id: int | None = None
    ) -> NumberedRequest:
        """Make a request under the next number, or under one that is to be used up."""
        if seq_id is None:
            if self.recorder is not None:
                self.pass_fillers()
            seq_id = self.next_seq_id
            self.next_seq_id += 1
        operation = "forward" if call is None else call.entry.operation
        answered = asyncio.get_running_loop().create_future()
        return NumberedRequest(call, operation, index, make, seq_id, next(self.bodies), answered)

    def pass_fillers(self) -> None:
        """Leave out the numbers that an earlier process has filled; on the loop.

        Before a step is written down as complete, too: the journal then forgets its requests, and
        the number would be given to another one.
        """
        while self.recorder is not None and self.recorder.is_filled(self.next_seq_id):
            self._fill(self.next_seq_id)  # the server may not have it
            self.next_seq_id += 1

    async def _drive(self) -> None:
        """Let calls leave, one after the other, until none is left."""
        leaving: tuple[QueuedCall, ...] = ()
        try:
            while (call := self._front()) is not None:
                if call.makers is None:
                    self._woken.clear()  # whoever arms or drops it calls `_wake` afterwards
                    await self._woken.wait()
                    continue
                leaving = (self._queue.popleft(),)
                behind = self._unsettled or self._holes or self._untold
                unready = behind or self.server.dialect is None
                if unready and not await self._settle_before(call):
                    continue
                for index in range(len(call.makers)):
                    if call.error is not None and not call.goes_on:
                        break  # an earlier part was refused, and the caller is told which were not
                    request = self._start(call, index)
                    ahead = self._ahead
                    if ahead and self._bytes.left >= 0:
                        continue
                    accepted = await request.answered
                    if not accepted and not ahead:
                        if request in self._unsettled:
                            self._owe(call, index + 1)
                        break
                if self.dialect.one_by_one:  # this server mixes up what is queued there
                    tasks = [task for each, task in self._carried.items() if each.call is call]
                    if tasks:
                        await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for stuck in leaving:  # of which nothing may be under way, before or between its parts
                self._cut_off(stuck)
            raise
        except Exception as error:  # a mistake of ours: nobody is to wait for a dead driver
            for stuck in (*leaving, *self._queue):
                self._end(stuck, error=error)
            raise
        finally:
            self._driver = None

    async def _settle_before(self, call: QueuedCall) -> bool:
        """Do what has to be done first; says whether the call may leave after it.

        That is what earlier requests left to do, and the first contact of a client that was made
        for a model of another session.
        """
        entry = call.entry
        entry.stage = "sending"
        self.server.in_flight.add(entry)
        try:
            await self.server.ready()
            if self._holes:
                await self._close_holes()
            if self._unsettled:
                await self._settle_lost()
        except TinkerError as error:
            if self._holes or self._unsettled:
                error.hint = (
                    "This request was not sent, because the answer to an earlier one is still "
                    "missing. Submit it again when the server is back."
                )
            self._end(call, error=error)
        if self._untold is not None and not call.result.done():
            lost, self._untold = self._untold, None
            self._end(call, error=_unsafe("held back", lost))
        return not call.result.done()  # whatever ended it has taken its entry back

    def _owe(self, call: QueuedCall, first: int) -> None:
        """Keep the parts behind a lost one, to be sent after it."""
        assert call.makers is not None
        for index, make in enumerate(call.makers[first:], first):
            self._unsettled.append(self._number(call, index, make))

    async def _carry(self, request: NumberedRequest) -> None:
        """Send one part, wait for its result, and hand that to its call."""
        call = request.call
        assert call is not None
        try:
            try:
                request_id, elapsed = await self._post(request)
            finally:
                if not request.answered.done():  # a driver that was stopped has cancelled it
                    request.answered.set_result(request.accepted)
            if call.result.done():
                return
            value = await self._result(request, call, request_id, elapsed)
        except asyncio.CancelledError:
            return  # by one who ends the call as well
        except TinkerError as error:
            if request.accepted and _hides_effect(error):
                error.hint = "Look at the run before you submit it again."
            call.error = call.error or error
            return
        except Exception as error:
            call.error = call.error or error
            raise
        finally:
            request.polling = False
            self._carried.pop(request, None)
            self._tell_parts(call)
        call.values[request.index] = value
        if len(call.values) == len(call.makers or ()):
            values = [call.values[place] for place in sorted(call.values)]
            try:
                whole = values[0] if call.combine is None else call.combine(values)
            except Exception as error:
                self._end(call, error=error)
            else:
                self._end(call, value=whole)

    async def _result(
        self, request: NumberedRequest, call: QueuedCall, request_id: str, elapsed: float
    ) -> Any:
        """Wait for the result of an accepted request."""
        op = OPERATIONS[call.entry.operation]
        while True:
            wait = partial(wait_for, self.server, call.entry, op, request_id, roundtrip=elapsed)
            request.polling = True
            try:
                value = await (
                    wait() if self.recorder is None else self.recorder.result(request, op, wait)
                )
            except ConflictError as error:
                request.polling = False
                if not await self._make_way(request, call):
                    case = "has number" if not request.sent else "refused late"
                    if request.reached:
                        request.took = await self._is_repeat(request) or None
                        case = "has number" if request.took else "may have number"
                    call.goes_on = call.error is None
                    raise _unsafe(case, request, error) from error
            except (APIStatusError, RequestFailedError) as error:
                if isinstance(error, RequestFailedError) and not error.in_doubt:
                    request.took = False
                self._gaps[request.seq_id] = math.inf
                raise
            else:
                request.took = True
                if self._gaps:
                    # A server that has worked on this one waits for none before it.
                    self._gaps = {
                        number: last
                        for number, last in self._gaps.items()
                        if number > request.seq_id or request.seq_id < last < math.inf
                    }
                return value
            request_id, elapsed = await self._post(request)

    async def _make_way(self, request: NumberedRequest, call: QueuedCall) -> bool:
        """Use up the numbers that a server waits for although their requests have failed.

        TuFT 0.2.2 accepts every request and looks at its number later. One that fails before that
        leaves its number unused, and all behind it are refused, without effect, at their polls.
        Says whether this is one of them, on its first arrival, and may be sent again.
        """
        # Where a 409 at the poll can mean anything else, the request may have taken effect.
        if self.dialect.seq not in (Seq.LATE, Seq.UNKNOWN) or request.reached or not request.sent:
            return False
        if not self._is_behind_gap(request):
            return False
        await self._find_out()
        if self.dialect.seq is not Seq.LATE:
            return False
        await self._wait_for_earlier(request)
        for seq_id in sorted(n for n, last in self._gaps.items() if last == math.inf):
            if seq_id < request.seq_id:
                self._gaps[seq_id] = self.next_seq_id - 1
                await self._use_up(seq_id)
        if call.result.done() or call.error is not None or request.again == AGAIN:
            self._gaps[request.seq_id] = math.inf
            return False
        request.again += 1
        if self.recorder is not None:
            self.recorder.refused(request)
        request.body = next(self.bodies)
        return True

    async def _is_repeat(self, request: NumberedRequest) -> bool:
        """Whether a 409 at the poll was for a repeat, and not for a number that is missing."""
        # An earlier request that has no result yet may have failed, and left its number unused.
        settled = await self._wait_for_earlier(request, OUTCOME_SECONDS)
        return settled and not self._is_behind_gap(request)

    async def _wait_for_earlier(
        self, request: NumberedRequest, seconds: float | None = None
    ) -> bool:
        """Wait for the results of all requests before one; says whether they are there."""
        tasks = [task for other, task in self._carried.items() if other.seq_id < request.seq_id]
        return not tasks or not (await asyncio.wait(tasks, timeout=seconds))[1]

    def _is_behind_gap(self, request: NumberedRequest) -> bool:
        """Whether the server may have refused a request because it waits for another number."""
        return any(number < request.seq_id <= last for number, last in self._gaps.items())

    async def _use_up(self, seq_id: int) -> None:
        """Have a forward pass without effect worked on under a number."""
        # If the number is still missing after an error, the request behind it is refused again.
        with contextlib.suppress(TinkerError):
            request_id, _ = await self._post(self._number(None, 0, self._filler, seq_id))
            await self._await_forward(request_id)

    async def _await_forward(self, request_id: str) -> None:
        """Wait for a forward pass without effect, for a short time."""
        now = asyncio.get_running_loop().time()
        entry = Entry("forward", self.model_id, now, now + FIND_OUT_SECONDS)
        await wait_for(self.server, entry, api.FORWARD, request_id)

    # -- a part that failed ----------------------------------------------------------------

    def _tell_parts(self, call: QueuedCall) -> None:
        """End a call with the error of one part, once it is known what became of the others."""
        if call.error is None or call.result.done() or call.filling:
            return
        if any(not request.answered.done() for request in call.requests):
            return
        if call.goes_on and len(call.requests) < len(call.makers or ()):
            return
        if not any(request in self._carried for request in call.requests):
            self._end(call, error=call.error)
            return
        loop, entry = asyncio.get_running_loop(), call.entry
        entry.deadline = min(entry.deadline, loop.time() + OUTCOME_SECONDS)
        if call.timer is not None:
            call.timer.cancel()
        call.timer = loop.call_at(entry.deadline, self._expire, call)

    def _say_effect(self, call: QueuedCall, error: TinkerError) -> None:
        """Say what of a call took effect, so that nobody submits it again."""
        parts = len(call.makers or ()) or 1
        took = [each for each in call.requests if each.took]
        doubted = [each for each in call.requests if _is_in_doubt(each)]
        waiting = [each for each in doubted if each.accepted and each in self._carried]
        lost = any(each in self._unsettled for each in call.requests)
        unsent = self._still_leaving(call, lost)
        in_doubt = [*_places(doubted), *unsent]
        unsafe = isinstance(error, UnsafeToRetryError)
        error.parts_taken = tuple(_places(took))
        if parts > 1 or not unsafe:
            sent = parts > 1 or call.requests
            error.effect = _effect(parts, took, waiting, in_doubt) if sent else "It was not sent."
        if unsent:
            error.effect = f"{error.effect} Those that were not sent yet are still sent."
        # Of a lost request and of an unsafe one the hint says more, if it fits all parts.
        whole = len(took) + len(in_doubt) == parts
        fits = (lost and (may_have_acted(error) or is_passing(error))) or (unsafe and not took)
        if parts > 1 and not (whole and fits) and (in_doubt or 0 < len(took) < parts):
            advice = _ADVICE[bool(unsent) and whole, bool(in_doubt)]
            error.hint = advice.format(unknown=_listed(in_doubt))

    def _still_leaving(self, call: QueuedCall, lost: bool) -> Sequence[int]:
        """The parts of a failed call, counted from 1, that were not sent yet and still are."""
        goes_on = call.error is None or call.goes_on or (lost and not self._ahead)
        if not (call.requests and goes_on) or self._closed is not None:
            return ()
        return range(len(call.requests) + 1, len(call.makers or ()) + 1)

    # -- one request -----------------------------------------------------------------------

    async def _post(self, request: NumberedRequest) -> tuple[str, float]:
        """Get a request to the server; returns the id of its future and the seconds it took."""
        size = 0
        try:
            wanted = request.encoded(self.dialect.wire).size
            if not self._bytes.try_acquire(wanted):
                await self._bytes.acquire(wanted)
            size = wanted
            request_id, elapsed = await self._deliver(request)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            shown = self._failed(request, error)
            if shown is error:  # an error that names itself as its cause would be a loop
                raise
            raise shown from error
        finally:
            if size:
                self._bytes.release(size)
        self._slowest = max(self._slowest, elapsed)
        request.payload = None  # accepted: its bytes are not needed any more
        request.accepted = True
        return request_id, elapsed

    async def _deliver(self, request: NumberedRequest) -> tuple[str, float]:
        """Send a request until the server has taken it, unless an earlier process did."""
        first = request.encoded(self.dialect.wire)
        if self.recorder is not None:
            earlier = await self.recorder.leaving(request)
            if earlier is not None:
                return earlier, 0.0
        before = self.dialect
        try:
            answer = await self._send_by_rule(request)
        except TinkerError as error:
            if not self._is_lost(request, error):
                raise
            wire = self.dialect.wire
            request.probed = request.probed or before.seq is Seq.UNKNOWN
            await self._find_out()
            # A server that breaks on every body of a wire has not read this one either.
            unread = self.dialect.wire is not wire
            if not unread and (before.resends or not self.dialect.resends):
                raise
            if unread:
                request.payload, request.body = None, next(self.bodies)
            answer = await self._send_by_rule(request)
        if self.recorder is not None:
            if request.payload is not first:
                await self.recorder.leaving(request, again=True)
            await self.recorder.accepted(request, answer[0])
        return answer

    async def _send_by_rule(self, request: NumberedRequest) -> tuple[str, float]:
        """Make attempts as the known rule of the server allows."""
        connection = self.server.connection
        delivery = _Delivery(self, request)
        # Until it has taken a body the server may be one that never answers; later ones may be
        # large and take their time.
        send = connection.send if self.server.wire_confirmed else connection.send_watched
        try:
            await send(delivery, delivery.make)
        finally:
            request.sent = request.sent or delivery.sent
        reply = delivery.reply
        if delivery.verdict is not ACCEPT or reply is None:
            reply = connection.conclude(delivery.make, delivery)
        return delivery.request_id, reply.elapsed

    def _is_lost(self, request: NumberedRequest, error: BaseException) -> bool:
        """Whether the request may have taken effect: what becomes of its number hangs on it."""
        if not request.sent or isinstance(error, ConflictError):
            return False
        return may_have_acted(error) or (request.reached and is_passing(error))

    async def _find_out(self) -> None:
        """Find out what a server makes of a repeated number that has not said so.

        A forward pass without effect is sent twice under a fresh number. The same id twice means
        that repeats are recognised, 409 that they are refused. Two ids mean that the second is
        worked on again, or refused when its result is asked for.
        """
        async with self._finding:
            if self.dialect.seq is Seq.UNKNOWN and self._closed is None:
                found = await self._send_twice()
                if found is not None:
                    self.server.use_seq(found)

    async def _send_twice(self) -> Seq | None:
        probe = self._number(None, 0, self._filler)
        probe.payload = self._filler(self.dialect.wire)
        probe.seconds = max(FIND_OUT_SECONDS, 2 * min(self._slowest, SLOW_SECONDS))
        ids: list[str] = []
        for _ in range(2):
            try:
                if self.recorder is not None and not ids:
                    await self.recorder.leaving(probe)  # as a filler: the number is used up
                ids.append((await self._send_by_rule(probe))[0])
                if self.recorder is not None and len(ids) == 1:
                    await self.recorder.accepted(probe, ids[0])
            except ConflictError:
                return Seq.STRICT if ids else None
            except TinkerError as error:
                if self._is_lost(probe, error):
                    self._holes.append(probe)
                elif not ids and probe.seq_id == self.next_seq_id - 1:
                    self.next_seq_id = probe.seq_id  # refused: the number is free
                    if self.recorder is not None:
                        self.recorder.refused(probe)
                return None
        if ids[0] == ids[1]:
            return Seq.ORDER if self.dialect.sorts else Seq.DEDUPE
        try:
            await self._await_forward(ids[1])
        except ConflictError:
            if self._gaps:
                self._gaps[probe.seq_id] = math.inf  # perhaps the first one was refused as well
            return Seq.LATE
        except TinkerError:
            return None
        return Seq.IGNORE

    def awaited(self, request: NumberedRequest) -> bool:
        """Whether others, on their way or accepted, cannot be worked on without this one."""
        return self._closed is None and any(
            other.seq_id > request.seq_id and not (other.call and other.call.result.done())
            for other in self._carried
        )

    def _failed(self, request: NumberedRequest, error: BaseException) -> BaseException:
        """Decide what becomes of the number of a failed request, and which error to show."""
        if request.call is not None:
            request.call.goes_on = False
        if isinstance(error, ConflictError) and self._note_conflict(request):
            # The server has the number, so it is neither used again nor filled.
            if self.dialect.repeats_answers:
                return error
            # A number that was refused before may have been used up by that; and after a question
            # under a later number, a server may refuse every one below it.
            reused = self._given_back == request.seq_id and not request.reached
            if reused or request.probed:
                request.reached = True
                return _unsafe("may have number", request, error)
            request.accepted = request.took = True
            if request.call is not None:
                request.call.goes_on = True
            return _unsafe("has number", request, error)
        if isinstance(error, APIResponseValidationError) and not self.dialect.resends:
            return error  # the server has it, in all likelihood, and cannot say so
        if not self._is_lost(request, error):
            self._give_back(request)
            return self._refusal(request, error)
        if self.dialect.resends and isinstance(error, TinkerError):
            self._unsettled.append(request)
            page = isinstance(error, APIError) and is_page(error.body)
            error.hint = (
                f"{'A gateway answered. ' if page else ''}The server may have received it. It is "
                "sent again, with the same number, before the next training request of this "
                "client, so do not submit it anew."
            )
            return error
        found = self.dialect.seq is not Seq.UNKNOWN
        if not found:
            self._holes.append(request)
        self._hold_back(request)
        return _unsafe("repeats ignored" if found else "rule unknown", request, error)

    def _note_conflict(self, request: NumberedRequest) -> bool:
        """Note a 409; says whether it is about the number and not, say, about a taken name.

        A server of unknown rule may mean either: the first time the number is used again, and a
        second 409 to it shows that the server has it.
        """
        if self.dialect.resends or request.reached:
            return True
        again = self._conflicting == request.seq_id
        self._conflicting = request.seq_id
        return again and self.dialect.seq is Seq.UNKNOWN

    def _refusal(self, request: NumberedRequest, error: BaseException) -> BaseException:
        """The error to show for a refused request, with what the refusal says about the server."""
        missing = self.server.missing(OPERATIONS[request.operation], error)
        if missing is not None or not isinstance(error, APIStatusError):
            return missing or error
        server, status = self.server, error.status_code
        if request.refusals is not None:
            first, second = request.refusals
            error.hint = (
                f"{server.base_url} refused this body in both wires, protobuf and JSON "
                f"(HTTP {first}, then HTTP {second}). If its words are not about your data, it "
                "speaks neither; `tinker-ext doctor` finds out."
            )
            if {first, second} <= statuses.UNREAD:
                error.hint = (
                    f"{server.base_url} takes training bodies in neither wire, protobuf or JSON; "
                    "check that it is a training server."
                )
        elif _is_about_optimizer(request, status, error.body, "extra_forbidden"):
            lacking = FeatureMissingError(Ability.OPTIMIZER_RESTORE, server.base_url)
            return lacking.with_context(operation=request.operation)
        elif (
            status in statuses.BODY_REFUSED
            and self.dialect.wire is Wire.JSON
            and not server.wire_confirmed
            and not has_protobuf()
            and (status == 415 or "json" in str(error.body).lower())
        ):
            error.hint = (
                "This server may take protobuf bodies only, and protobuf is not installed; "
                "install tinker-ext[proto]."
            )
        return error

    def _hold_back(self, lost: NumberedRequest) -> None:
        """Send nothing that was submitted before its caller could know of the loss."""
        waiting = [call for call in self._queue if not call.result.done()]
        for call in waiting:
            self._end(call, error=_unsafe("held back", lost))
        gone = lost.call is None or lost.call.result.done()
        if gone and not waiting:
            self._untold = lost  # its caller had left; the next one is told

    def _give_back(self, request: NumberedRequest) -> None:
        """Use the number of a request that had no effect again, or fill it."""
        if self.recorder is not None:
            self.recorder.refused(request)
        if request.seq_id == self.next_seq_id - 1:
            self.next_seq_id = self._given_back = request.seq_id
        elif request.call is None:
            pass  # a refused filler is not filled; `_fill_number` tells those behind it
        elif self._closed is None:
            later = any(other.seq_id > request.seq_id for other in request.call.requests)
            self._fill(request.seq_id, request.call if later else None)

    def _fill(self, seq_id: int, call: QueuedCall | None = None) -> None:
        """Send a forward pass without effect under a number that others wait behind.

        What becomes of the later parts of a call is known, and told, only when it has arrived.
        """
        filler = self._number(None, 0, self._filler, seq_id)
        if call is not None:
            call.filling += 1
        self._carried[filler] = self.server.runtime.spawn(self._fill_number(filler, call))

    async def _fill_number(self, filler: NumberedRequest, call: QueuedCall | None) -> None:
        try:
            await self._post(filler)
        except asyncio.CancelledError:
            return
        except Exception as error:
            if filler in self._unsettled:
                return  # it may have arrived, and is sent again before anything new leaves
            self._block(filler, call, error)
        finally:
            self._carried.pop(filler, None)
            if call is not None:
                call.filling -= 1
                self._tell_parts(call)

    def _block(self, filler: NumberedRequest, part_of: QueuedCall | None, cause: Exception) -> None:
        """End everything behind a number that the server does not let be filled."""
        why = cause.message if isinstance(cause, TinkerError) else str(cause)

        def blocked() -> TinkerError:
            error = TinkerError(
                f"The server refused seq_id {filler.seq_id}, and then the request in its place "
                f"that would change nothing ({why}). It works in the order of these numbers, so "
                "nothing after it can be worked on."
            )
            error.__cause__ = cause
            hint = "Make a new training client from the last checkpoint and go on with that."
            return error.with_context(hint=hint)

        later = blocked()  # for calls that are made from here on
        later.effect, later.parts_taken = "It was not sent.", ()
        with self._lock:
            self._closed = self._closed or later
        ended = dict.fromkeys(self._queue)
        for request in (*self._carried, *(() if part_of is None else part_of.requests)):
            if request.seq_id > filler.seq_id and request.call is not None:
                if request in self._carried:
                    self._carried[request].cancel()
                if not request.answered.done():
                    request.answered.set_result(False)
                if self.dialect.seq is Seq.ORDER:  # arrived or not, the server never works on it
                    request.accepted = request.reached = False
                else:
                    request.reached = True
                ended[request.call] = None
        for call in ended:
            self._end(call, error=call.error or blocked())

    async def _close_holes(self) -> None:
        """Have lost requests sent again, once it is known that the server recognises repeats.

        It may wait for their numbers. Nobody could tell whether they had arrived, and their callers
        were told so.
        """
        await self._find_out()
        if self.dialect.seq is Seq.UNKNOWN:
            return
        if self.dialect.repeats_answers:
            lost = sorted(self._holes, key=lambda request: request.seq_id)
            self._unsettled.extendleft(reversed(lost))
        self._holes = []

    async def _settle_lost(self) -> None:
        """Send requests again whose answer was lost, before anything new leaves."""
        while self._unsettled:
            request = self._unsettled[0]
            try:
                await self._deliver(request)
            except APIResponseValidationError as error:
                if is_page(error.body):
                    raise  # a gateway's page: whether the server has it is still not known
                # Else the server has it, and nobody waits for its answer any more.
            except (APIConnectionError, APIStatusError) as error:
                if self._is_lost(request, error) or is_passing(error):
                    raise
                if not isinstance(error, ConflictError):
                    self._unsettled.popleft()
                    self._give_back(request)
                    continue
            self._unsettled.popleft()

    # -- ends ------------------------------------------------------------------------------

    def _expire(self, call: QueuedCall) -> None:
        now, stall = asyncio.get_running_loop().time(), self.server.in_flight.stall_seconds
        self._end(call, error=call.error or call.entry.late(now, stall))

    def _abandon(self, call: QueuedCall) -> None:
        """Stop polling for a call nobody waits for; its requests go on."""
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None
        self.server.in_flight.discard(call.entry)
        for request in call.requests:
            if request.polling:
                self._carried[request].cancel()

    def _end(
        self, call: QueuedCall, *, value: Any = None, error: BaseException | None = None
    ) -> None:
        self._abandon(call)
        if error is None:
            call.result.settle(value)
            return
        if not call.requests:
            call.entry.stage = "queued"  # it waited for something, and nothing of it has left
        if isinstance(error, TinkerError) and not call.result.done():
            self._say_effect(call, error)
        call.result.fail(error)

    def _cut_off(self, call: QueuedCall) -> None:
        self._end(call, error=call.entry.cut_off(asyncio.get_running_loop().time()))

    def after_fork(self) -> None:
        """Refuse to work in a forked child, which would send other bodies under equal numbers."""
        self._queue, self._carried = deque(), {}
        self._driver = None
        self._closed = ClientClosedError(
            f"The training client of {self.model_id} belongs to the process that forked this one. "
            "Train in one process only: make a new training client here, or give the child a "
            "sampling client."
        )

    def close(self, error: TinkerError) -> None:
        """End everything that is queued or in flight; on the loop."""
        with self._lock:
            self._closed = error
            queued, self._queue = list(self._queue), deque()
        for call in queued:
            self._cut_off(call)
        for request, task in tuple(self._carried.items()):
            task.cancel()
            if request.call is not None and not request.call.result.done():
                self._cut_off(request.call)
        if self._driver is not None:
            self._driver.cancel()


_EFFECTS: Final = {
    (True, True, False): "Of the {parts} parts of this call {names} (seq_id {numbers}) took "
    "effect{others}.",
    (True, True, True): "Of the {parts} parts of this call {names} (seq_id {numbers}) took "
    "effect. Of {unknown} it is not known{others}.",
    (True, False, True): "Of the {parts} parts of this call {unknown} may or may not have taken "
    "effect{others}.",
    (True, False, False): "None of the {parts} parts of this call took effect.",
    (False, True, False): "It took effect (seq_id {numbers}).",
    (False, False, True): "It may or may not have taken effect.",
    (False, False, False): "It had no effect.",
}
"""What is said of a call: with several parts or one, some with an effect, some in doubt."""

_WAITING: Final = " The server has accepted {accepted} (seq_id {waiting}), with no result yet."

_ADVICE: Final = {
    (True, True): "Do not submit it again: wait for a later call, or restore a checkpoint.",
    (False, True): "Go back to the last checkpoint: whether part {unknown} took effect is not "
    "known, and what did would count twice.",
    (False, False): "Submit only the parts that did not take effect, or go back to the last "
    "checkpoint; the whole call again would count the others twice.",
}
"""What to do about a call of several parts: some are still sent, some are in doubt."""


def _effect(
    parts: int, took: list[NumberedRequest], waiting: list[NumberedRequest], in_doubt: list[int]
) -> str:
    """What became of the parts of a call, in words."""
    told = _EFFECTS[parts > 1, bool(took), bool(in_doubt)] + _WAITING * bool(waiting)
    return told.format(
        parts=parts,
        names=_listed(_places(took)),
        numbers=_listed(each.seq_id for each in took),
        unknown=_listed(in_doubt),
        others="" if len(took) + len(in_doubt) == parts else ", the others did not",
        accepted=_listed(_places(waiting)) if parts > 1 else "it",
        waiting=_listed(each.seq_id for each in waiting),
    )


def _is_in_doubt(request: NumberedRequest) -> bool:
    """Whether nobody can tell if a request took effect, or it is still on its way."""
    if request.took is not None:
        return False
    return request.accepted or request.reached or not request.answered.done()


def _places(requests: list[NumberedRequest]) -> list[int]:
    """The parts of a call, counted from 1."""
    return [request.index + 1 for request in requests]


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _hides_effect(error: TinkerError) -> bool:
    """Whether an error at a poll says nothing about the request that was asked for."""
    if isinstance(error, APIStatusError):
        return error.status_code not in statuses.ABOUT_THE_REQUEST
    return isinstance(error, APIResponseValidationError)


_FROM_CHECKPOINT = "Load the last checkpoint and go on from there"
_UNSAFE: Final = {
    "has number": (
        "The first answer to seq_id {seq_id} was lost. The server says that it has the request, "
        "and refuses to repeat its answer, so the result cannot be read.",
        "The operation takes effect.",
        "Go on with the next one, do not submit it again.",
    ),
    "may have number": (
        "The server says that it has seq_id {seq_id} already, and does not show an answer to it.",
        "It may or may not have taken effect.",
        f"{_FROM_CHECKPOINT}, or accept that one step may be lost.",
    ),
    "refused late": (
        "The server accepted seq_id {seq_id}, and refused it when its result was asked for "
        "({why}). No answer was lost on the way here.",
        "It may or may not have taken effect.",
        "Compare log-probabilities with what you expect, or load the last checkpoint into a new "
        "training client.",
    ),
    "repeats ignored": (
        "The answer to seq_id {seq_id} was lost ({why}). This server does not recognise repeated "
        "requests, so it was not sent again.",
        "It may or may not have taken effect.",
        f"{_FROM_CHECKPOINT}, or accept that one step may be lost.",
    ),
    "rule unknown": (
        "The answer to seq_id {seq_id} was lost ({why}). This server did not show whether it "
        "recognises repeated requests, so it was not sent again.",
        "It may or may not have taken effect.",
        f"{_FROM_CHECKPOINT}, or go on as it is. Do not submit it anew: it is sent again, with its "
        "number, if the server turns out to recognise it.",
    ),
    "held back": (
        "Not sent: it was submitted before the answer to seq_id {seq_id} was lost, and this server "
        "cannot tell whether that one was worked on.",
        "It was not sent.",
        f"{_FROM_CHECKPOINT}, or submit it again as it is.",
    ),
}
"""What is said, told of the effect, and advised about a number that nobody can tell more of."""


def _unsafe(
    case: str, request: NumberedRequest, cause: BaseException | None = None
) -> UnsafeToRetryError:
    """The error for a request that must not be sent again."""
    message, effect, hint = _UNSAFE[case]
    why = cause.message if isinstance(cause, TinkerError) else repr(cause)
    made = UnsafeToRetryError(message.format(seq_id=request.seq_id, why=why))
    if isinstance(cause, TinkerError):
        made.with_context(operation=cause.operation, attempts=cause.attempts, elapsed=cause.elapsed)
    made.effect = effect
    return made.with_context(hint=hint)
