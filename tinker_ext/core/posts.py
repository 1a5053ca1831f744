"""One training request on its way: the ticket of a call, its numbered posts, and lost answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tinker_ext._transport import RedirectRefusedError, sent_of
from tinker_ext._wire.dialects import Wire
from tinker_ext._wire.payload import Payload
from tinker_ext.core.future import LightFuture
from tinker_ext.core.in_flight import Entry
from tinker_ext.errors import (
    APIConnectionError,
    APIStatusError,
    TinkerError,
    UnsafeToRetryError,
)

MakePayload = Callable[[Wire], Payload]
"""Encodes a chunk; called again with the other wire when the server refuses the first."""


class Ticket:
    """The place of one call in the order, and what it will send."""

    __slots__ = (
        "combine",
        "dropped",
        "entry",
        "left",
        "makers",
        "posts",
        "result",
        "timer",
        "values",
    )

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.makers: Sequence[MakePayload] | None = None
        self.combine: Callable[[list[Any]], Any] | None = None
        self.dropped = False
        self.result: LightFuture[Any] = LightFuture()
        self.posts: list[Post] = []
        self.values: list[Any] = []
        self.left = 0
        self.timer: asyncio.TimerHandle | None = None


class Post:
    """One numbered request."""

    __slots__ = (
        "answered",
        "doubted",
        "index",
        "make",
        "payload",
        "polling",
        "reached",
        "seq_id",
        "task",
        "ticket",
    )

    def __init__(self, ticket: Ticket | None, index: int, make: MakePayload, seq_id: int) -> None:
        self.ticket = ticket
        self.index = index
        self.make = make
        self.seq_id = seq_id
        self.payload: Payload | None = None
        self.doubted: Payload | None = None
        """What was sent before, over a wire that the server may not know."""
        self.polling = False
        self.reached = False
        """Whether an attempt may have taken effect."""
        self.task: asyncio.Task[Any] | None = None
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


def is_lost(error: BaseException) -> bool:
    """Whether the request may have had its effect although no usable answer came."""
    if isinstance(error, TinkerError) and error.in_doubt and is_transient(error):
        return True
    if isinstance(error, RedirectRefusedError):
        return False  # a server that sends elsewhere does not do the work itself
    if isinstance(error, APIConnectionError):
        return sent_of(error) is not False
    return isinstance(error, APIStatusError) and (
        error.status_code >= 500 or error.status_code == 408
    )


def is_transient(error: BaseException) -> bool:
    """Whether the same request may well succeed later."""
    if isinstance(error, APIStatusError):
        return error.status_code >= 500 or error.status_code in (408, 429)
    return isinstance(error, APIConnectionError) and not isinstance(error, RedirectRefusedError)


def resolve(future: asyncio.Future[bool], value: bool) -> None:
    """Answer a future unless it is answered."""
    if not future.done():
        future.set_result(value)


def applied(error: TinkerError, post: Post) -> TinkerError:
    """The error for a request that the server has, and whose result cannot be read."""
    made = UnsafeToRetryError(
        f"The first answer to seq_id {post.seq_id} was lost. The server says that it has the "
        "request, and refuses to repeat its answer, so the result cannot be read."
    )
    return made.with_context(
        operation=error.operation,
        attempts=error.attempts,
        elapsed=error.elapsed,
        hint="The operation takes effect; go on with the next one, do not submit it again.",
    )


def unsafe(error: TinkerError, post: Post) -> TinkerError:
    """The error for a request that may have taken effect and must not be sent again."""
    made = UnsafeToRetryError(
        f"The answer to seq_id {post.seq_id} was lost ({error.message}). This server does not "
        "recognise repeated requests, so it was not sent again: it may or may not have taken "
        "effect."
    )
    return made.with_context(
        operation=error.operation,
        attempts=error.attempts,
        elapsed=error.elapsed,
        hint="Load the last checkpoint and go on from there, or accept that one step may be lost.",
    )


def held_back(lost: Post) -> TinkerError:
    """The error for a request that waited behind one that was lost, and was not sent."""
    made = UnsafeToRetryError(
        f"Not sent: it was submitted before the answer to seq_id {lost.seq_id} was lost, and this "
        "server cannot tell whether that one took effect."
    )
    made.hint = "Load the last checkpoint and go on from there, or submit it again as it is."
    return made
