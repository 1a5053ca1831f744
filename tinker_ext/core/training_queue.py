"""Training requests of one model leave in call order, numbered without gaps, whatever is cancelled.

A call takes a `Ticket` in the caller's thread, which fixes its place. On the loop a ticket gets its
seq ids only when it leaves, and from then on its posts belong to the core: no cancellation or
timeout of the caller reaches them. Where the server sorts by seq_id (`Seq.ORDER`) posts are sent
ahead of each other's answers; elsewhere one post is in flight at a time.

What happens to a number when its post fails:

* refused (4xx): nothing happened on the server. The number is used again, or, when later ones have
  left already, filled with a forward pass that changes nothing.
* answer lost, server deduplicates: the post is kept and sent again before the next one.
* 409 that stays: the server has the number, which is not used again.
* answer lost, server ignores numbers: never sent again; the caller gets `UnsafeToRetryError`, and
  so does everybody who is queued behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from tinker_ext import forks
from tinker_ext._transport import ByteBudget, Reply
from tinker_ext._wire.dialects import Seq
from tinker_ext._wire.operations import operation
from tinker_ext.core.delivery import Delivery
from tinker_ext.core.future import LightFuture
from tinker_ext.core.in_flight import Entry
from tinker_ext.core.link import Link
from tinker_ext.core.polling import wait_for
from tinker_ext.core.posts import (
    MakePayload,
    Post,
    Ticket,
    applied,
    held_back,
    is_lost,
    is_transient,
    resolve,
    unsafe,
)
from tinker_ext.core.recorded import Recorded, RecordedDelivery
from tinker_ext.errors import (
    APIConnectionError,
    APIResponseValidationError,
    APIStatusError,
    ClientClosedError,
    ConflictError,
    TinkerError,
)


class Turns:
    """The order of one training client.

    Args:
        link: The server.
        model_id: Whose requests these are.
        filler: Encodes a forward pass without effect, for a number the server refused.
        first_seq_id: Next number; more than 1 only when a run is resumed.
    """

    def __init__(
        self, link: Link, model_id: str, filler: MakePayload, *, first_seq_id: int = 1
    ) -> None:
        self.model_id = model_id
        self._link = link
        self._filler = filler
        self._next = first_seq_id
        self._lock = forks.lock()
        self._queue: deque[Ticket] = deque()
        self._driver: asyncio.Task[Any] | None = None
        self._woken: asyncio.Event | None = None
        self._carried: dict[Post, None] = {}
        self._unsettled: deque[Post] = deque()
        self._untold: Post | None = None
        self._bytes = ByteBudget(link.config.train_bytes_in_flight)
        self._closed: TinkerError | None = None
        self._delivery = Delivery(link, self._has_later)
        self._recorded: Recorded | None = None
        self.owner: Callable[[], object] = lambda: None
        """Gives the client that ends all this when it is forgotten; a pending call holds it."""
        self.listeners: list[Callable[[str, str, int, str | None], object]] = []
        """Called as (event, operation, seq_id, request_id): leaving, accepted, done, failed."""
        link.book.add_queue(self._queued_entries)

    @property
    def next_seq_id(self) -> int:
        """The number the next request will get."""
        return self._next

    def record(self, recorded: Recorded, next_seq_id: int) -> None:
        """Write every request down from now on; before the first call.

        Args:
            recorded: Where to.
            next_seq_id: Number of the next request; an earlier process may have sent it already.
        """
        self._recorded = recorded
        self._delivery = RecordedDelivery(self._link, self._has_later, recorded)
        self._next = next_seq_id

    @property
    def recorded(self) -> Recorded | None:
        """Where requests are written down, when they are."""
        return self._recorded

    # -- any thread ------------------------------------------------------------------------

    def reserve(self, operation_name: str, now: float, seconds: float) -> Ticket:
        """Take the next place in the order.

        Args:
            operation_name: For errors and `pending()`.
            now: Loop time.
            seconds: How long the whole operation may take.
        """
        ticket = Ticket(Entry(operation_name, self.model_id, now, now + seconds))
        with self._lock:
            if self._closed is not None:
                raise self._closed
            self._queue.append(ticket)
        if self._recorded is not None:
            self._recorded.follow(ticket.result)
        return ticket

    def arm(
        self,
        ticket: Ticket,
        makers: Sequence[MakePayload],
        combine: Callable[[list[Any]], Any] | None = None,
    ) -> LightFuture[Any]:
        """Say what a reserved place will send; returns the future of its result."""
        ticket.combine = combine
        ticket.result.on_cancel = _GiveUp(self, ticket)
        ticket.makers = makers  # last: from here on the loop may let it leave
        self._link.runtime.call(self._wake, ticket)
        return ticket.result

    def drop(self, ticket: Ticket) -> None:
        """Give a reserved place up, before it was armed."""
        ticket.dropped = True
        ticket.result.cancel()
        self._link.runtime.call(self._wake, ticket)

    def _queued_entries(self) -> list[Entry]:
        waiting = [ticket for ticket in list(self._queue) if not ticket.dropped]
        return [ticket.entry for ticket in waiting if not ticket.result.done()]

    # -- on the loop -----------------------------------------------------------------------

    def _wake(self, ticket: Ticket) -> None:
        if ticket.makers is not None and not ticket.result.done():
            loop = asyncio.get_running_loop()
            ticket.timer = loop.call_at(ticket.entry.deadline, self._expire, ticket)
        if self._woken is not None:
            self._woken.set()
        if self._driver is None:
            self._leave_at_once()
            if self._queue and self._queue[0].makers is not None and self._closed is None:
                self._driver = self._link.runtime.spawn(self._drive())

    def _leave_at_once(self) -> None:
        """Let tickets leave that have nothing to wait for, without a task to drive them."""
        while self._queue and self._closed is None:
            ticket = self._queue[0]
            if ticket.dropped or ticket.result.done():
                self._queue.popleft()
                self._settle_timer(ticket)
                continue
            if (
                ticket.makers is None
                or len(ticket.makers) > 1
                or self._unsettled
                or self._untold is not None
                or not self._ahead
                or self._bytes.left < 0
            ):
                return
            self._queue.popleft()
            self._link.book.add(ticket.entry)
            ticket.left, ticket.values = 1, [None]
            self._start(ticket, 0, ticket.makers[0])

    @property
    def _ahead(self) -> bool:
        """Whether posts may leave before the ones in front of them are answered."""
        dialect = self._link.dialect
        return dialect is not None and dialect.pipelined and self._link.wire_confirmed

    def _start(self, ticket: Ticket, index: int, make: MakePayload) -> Post:
        """Give a chunk its number and let it go."""
        entry = ticket.entry
        entry.stage = "sending"
        post = Post(ticket, index, make, self._take())
        ticket.posts.append(post)
        if entry.seq_id is None:
            entry.seq_id = post.seq_id
        self._carried[post] = None
        post.task = self._link.runtime.spawn(self._carry(post))
        return post

    async def _drive(self) -> None:
        """Let tickets leave, one after the other, until none is left."""
        self._woken = asyncio.Event()
        leaving: tuple[Ticket, ...] = ()
        try:
            while self._queue and self._closed is None:
                ticket = self._queue[0]
                if ticket.dropped or ticket.result.done():
                    self._queue.popleft()
                    self._settle_timer(ticket)
                elif ticket.makers is None:
                    self._woken.clear()
                    if ticket.makers is None and not ticket.dropped:
                        await self._woken.wait()
                else:
                    leaving = (self._queue.popleft(),)
                    await self._leave(ticket)
                    await self._let_finish(ticket)
        except Exception as error:  # a mistake of ours: nobody is to wait for a dead driver
            for stuck in (*leaving, *self._queue):
                self._end(stuck, error=error)
            raise
        finally:
            self._driver = None
            self._woken = None

    async def _let_finish(self, ticket: Ticket) -> None:
        """Wait for the results of a call, on servers that mix up what is queued there."""
        dialect = self._link.dialect
        tasks = [post.task for post in ticket.posts if post.task is not None]
        if tasks and dialect is not None and dialect.one_by_one:
            await asyncio.wait(tasks)

    async def _leave(self, ticket: Ticket) -> None:
        assert ticket.makers is not None
        entry = ticket.entry
        entry.stage = "sending"
        self._link.book.add(entry)
        try:
            await self._settle_lost()
        except TinkerError as error:
            error.hint = (
                "This request was not sent, because the answer to an earlier one is still "
                "missing. Submit it again when the server is back."
            )
            self._end(ticket, error=error)
            return
        except asyncio.CancelledError:
            self._end(ticket, error=entry.cut_off(asyncio.get_running_loop().time()))
            raise
        if self._untold is not None:
            lost, self._untold = self._untold, None
            self._end(ticket, error=held_back(lost))
            return
        if ticket.result.done():  # cancelled while earlier posts were settled: nothing was sent
            self._link.book.discard(entry)
            return
        ticket.left = len(ticket.makers)
        ticket.values = [None] * ticket.left
        for index, make in enumerate(ticket.makers):
            post = self._start(ticket, index, make)
            ahead = self._ahead
            if not ahead or self._bytes.left < 0:
                accepted = await post.answered
                if not accepted and not ahead:
                    if post in self._unsettled:
                        self._owe(ticket, index + 1)
                    break

    def _owe(self, ticket: Ticket, first: int) -> None:
        """Keep the chunks behind a lost one, to be sent after it."""
        assert ticket.makers is not None
        for index, make in enumerate(ticket.makers[first:], first):
            self._unsettled.append(Post(ticket, index, make, self._take()))

    def _take(self) -> int:
        seq_id = self._next
        self._next += 1
        return seq_id

    async def _carry(self, post: Post) -> None:
        """Post one chunk, wait for its result, and hand that to its ticket."""
        ticket = post.ticket
        assert ticket is not None
        try:
            try:
                request_id, reply = await self._post(post)
            finally:
                resolve(post.answered, False)
            if ticket.result.done():
                return
            post.polling = True
            op = operation(ticket.entry.operation)
            wait = wait_for(self._link, ticket.entry, op, request_id, roundtrip=reply.elapsed)
            value = await (
                wait if self._recorded is None else self._recorded.result(post, op, wait)
            )
            self._tell("done", post, request_id)
        except asyncio.CancelledError:
            if self._closed is not None:
                self._end(ticket, error=ticket.entry.cut_off(asyncio.get_running_loop().time()))
            return
        except TinkerError as error:
            self._tell("failed", post, ticket.entry.request_id)
            self._end(ticket, error=error)
            return
        except Exception as error:
            self._end(ticket, error=error)
            raise
        finally:
            post.polling = False
            self._carried.pop(post, None)
        ticket.values[post.index] = value
        ticket.left -= 1
        if ticket.left == 0:
            self._finish(ticket)

    def _finish(self, ticket: Ticket) -> None:
        try:
            value = ticket.values[0] if ticket.combine is None else ticket.combine(ticket.values)
        except Exception as error:
            self._end(ticket, error=error)
        else:
            self._end(ticket, value=value)

    # -- one post --------------------------------------------------------------------------

    async def _post(self, post: Post) -> tuple[str, Reply]:
        size = 0
        try:
            if post.payload is None:
                dialect = self._link.dialect
                assert dialect is not None
                post.payload = post.make(dialect.wire)
            size = post.payload.size
            await self._bytes.acquire(size)
            self._tell("leaving", post, None)
            request_id, reply = await self._delivery.deliver(post)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            shown = self._failed(post, error)
            if shown is error:  # an error that names itself as its cause would be a loop
                raise
            raise shown from error
        finally:
            if size:
                self._bytes.release(size)
        if post.payload is not None and post.payload.wire is not None:
            self._link.wire_confirmed = True
        post.payload = None  # accepted: its bytes are not needed any more
        if post.ticket is not None:
            post.ticket.entry.moved = asyncio.get_running_loop().time()
        resolve(post.answered, True)
        self._tell("accepted", post, request_id)
        return request_id, reply

    def _has_later(self, post: Post) -> bool:
        """Whether others, on their way or accepted, cannot be worked on without this one."""
        return self._closed is None and any(
            other.seq_id > post.seq_id and not (other.ticket and other.ticket.result.done())
            for other in self._carried
        )

    def _failed(self, post: Post, error: BaseException) -> BaseException:
        """Decide what becomes of the number of a failed post, and which error to show."""
        if isinstance(error, ConflictError) and self._delivery.resends:
            # The server has the number, so it is neither used again nor filled.
            dialect = self._link.dialect
            if dialect is None or dialect.seq is not Seq.STRICT:
                return error
            resolve(post.answered, True)  # the chunks behind it go on
            return applied(error, post)
        if not isinstance(error, (APIConnectionError, APIStatusError)):
            if not isinstance(error, APIResponseValidationError):
                self._give_back(post)  # it could not even be encoded
            return error
        if not (is_lost(error) or (post.reached and is_transient(error))):
            self._give_back(post)
            ticket = post.ticket
            name = ticket.entry.operation if ticket is not None else "forward"
            return self._link.missing(operation(name), error) or error
        if self._delivery.resends:
            self._unsettled.append(post)
            error.hint = (
                "The server may have received it. It is sent again, with the same number, before "
                "the next training request of this client, so do not submit it anew."
            )
            return error
        self._hold_back(post)
        return unsafe(error, post)

    def _hold_back(self, lost: Post) -> None:
        """Send nothing that was submitted before its caller could know of the loss."""
        waiting = [ticket for ticket in self._queue if not ticket.result.done()]
        for ticket in waiting:
            self._end(ticket, error=held_back(lost))
        gone = lost.ticket is None or lost.ticket.result.done()
        if gone and not waiting:
            self._untold = lost  # its caller had left; the next one is told

    def _give_back(self, post: Post) -> None:
        """Use the number of a post that had no effect again, or fill it."""
        if self._recorded is not None:
            self._recorded.refused(post)
        if post.seq_id == self._next - 1:
            self._next = post.seq_id
        elif self._closed is None:
            filler = Post(None, 0, self._filler, post.seq_id)
            self._carried[filler] = None
            filler.task = self._link.runtime.spawn(self._fill(filler))

    async def _fill(self, post: Post) -> None:
        """Send a forward pass without effect under a number that others wait behind."""
        try:
            await self._post(post)
        except asyncio.CancelledError:
            return
        except Exception:
            return  # the ones behind it end by their own deadline and say what they wait for
        finally:
            self._carried.pop(post, None)
            resolve(post.answered, False)

    async def _settle_lost(self) -> None:
        """Send posts again whose answer was lost, before anything new leaves."""
        while self._unsettled:
            post = self._unsettled[0]
            try:
                await self._delivery.deliver(post)
            except APIResponseValidationError:
                pass  # the server has it, and nobody waits for its answer any more
            except (APIConnectionError, APIStatusError) as error:
                if is_lost(error) or is_transient(error):
                    raise
                if not isinstance(error, ConflictError):
                    self._unsettled.popleft()
                    self._give_back(post)
                    continue
            self._unsettled.popleft()

    # -- ends ------------------------------------------------------------------------------

    def _tell(self, event: str, post: Post, request_id: str | None) -> None:
        if self.listeners and post.ticket is not None:
            for listener in tuple(self.listeners):
                listener(event, post.ticket.entry.operation, post.seq_id, request_id)

    def _expire(self, ticket: Ticket) -> None:
        now = asyncio.get_running_loop().time()
        self._end(ticket, error=ticket.entry.late(now, self._link.book.stall_seconds))
        self._abandon(ticket)

    def _abandon(self, ticket: Ticket) -> None:
        """Stop polling for a ticket nobody waits for; its posts go on."""
        self._settle_timer(ticket)
        self._link.book.discard(ticket.entry)
        for post in ticket.posts:
            if post.polling and post.task is not None:
                post.task.cancel()
        if self._woken is not None:
            self._woken.set()

    def _settle_timer(self, ticket: Ticket) -> None:
        if ticket.timer is not None:
            ticket.timer.cancel()
            ticket.timer = None

    def _end(
        self, ticket: Ticket, *, value: Any = None, error: BaseException | None = None
    ) -> None:
        self._settle_timer(ticket)
        self._link.book.discard(ticket.entry)
        if error is None:
            ticket.result.settle(value)
        else:
            ticket.result.fail(error)

    def after_fork(self) -> None:
        """Refuse to work in a forked child, which would send other bodies under equal numbers."""
        self._queue, self._carried = deque(), {}
        self._driver = self._woken = None
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
        now = asyncio.get_running_loop().time()
        for ticket in queued:
            self._end(ticket, error=ticket.entry.cut_off(now))
        for post in tuple(self._carried):
            if post.task is not None:
                post.task.cancel()
            if post.ticket is not None and not post.ticket.result.done():
                self._end(post.ticket, error=post.ticket.entry.cut_off(now))
        if self._driver is not None:
            self._driver.cancel()


class _GiveUp:
    """What `future.cancel()` does to a call, and what a pending future tells about it."""

    __slots__ = ("_owner", "_ticket", "_turns")

    def __init__(self, turns: Turns, ticket: Ticket) -> None:
        self._turns = turns
        self._ticket = ticket
        self._owner = turns.owner()

    def __call__(self) -> None:
        self._turns._link.runtime.call(self._turns._abandon, self._ticket)

    def describe(self) -> str:
        """The operation as `pending()` shows it."""
        return str(self._ticket.entry.snapshot(self._turns._link.runtime.time()))
