"""The training requests of one model as a journal sees them: before, after, and after a crash."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

import attrs
import orjson

from tinker_ext._transport import Reply
from tinker_ext._wire.operations import OPERATIONS, Operation, operation
from tinker_ext._wire.payload import Payload
from tinker_ext._wire.records import decoder, is_binary
from tinker_ext.core.delivery import Delivery
from tinker_ext.core.future import LightFuture
from tinker_ext.core.in_flight import Entry
from tinker_ext.core.link import Link
from tinker_ext.core.loop import OFFLOAD_BYTES
from tinker_ext.core.polling import wait_for
from tinker_ext.core.posts import Post
from tinker_ext.journal import Journal, JournalError
from tinker_ext.types.outputs import ForwardBackwardOutput

log = logging.getLogger("tinker_ext")

NOTHING: Final = object()
"""Stands for "no earlier result": a result may be None."""
SMALL_NUMBERS: Final = 4096
"""Outputs of so many numbers are kept in the journal: servers forget results after minutes."""


class Recorded:
    """Writes requests down, and answers those that an earlier process has made already.

    Writing waits for the disk, so it happens beside the loop.

    Args:
        link: The server.
        journal: Where to write.
    """

    def __init__(self, link: Link, journal: Journal) -> None:
        self.journal = journal
        self._link = link
        self._values: dict[int, Any] = {}
        self._new: set[int] = set()
        self._live: set[LightFuture[Any]] = set()
        self._failed: BaseException | None = None

    # -- what happens now ------------------------------------------------------------------

    async def leaving(self, post: Post, *, again: bool = False) -> str | None:
        """Write a request down before it is sent.

        Args:
            post: The request.
            again: Its body was written anew for the other wire.

        Returns:
            Its request id when an earlier process saw it accepted: then it is not sent.
        """
        assert post.ticket is not None
        assert post.payload is not None
        if post.seq_id not in self.journal.state.kept:
            self._new.add(post.seq_id)
        note: Callable[..., Any] = self.journal.send_again if again else self.journal.leaving
        name = post.ticket.entry.operation
        kept = await self._beside(_note_leaving, note, name, post.seq_id, post.payload)
        return None if kept is None else kept.request_id

    async def accepted(self, post: Post, request_id: str) -> None:
        """Write down that the server has a request."""
        if not self._is_known(post.seq_id):
            await self._afterwards(self.journal.accepted, post.seq_id, request_id)

    async def result(self, post: Post, op: Operation, wait: Coroutine[Any, Any, Any]) -> Any:
        """The result that an earlier process has seen, or the one to wait for, written down."""
        known = self._earlier(op, post.seq_id)
        if known is not NOTHING:
            wait.close()
            return known
        value = await wait
        await self._afterwards(self.journal.done, post.seq_id, _small(op, value))
        return value

    def refused(self, post: Post) -> None:
        """Write down that a request had no effect."""
        # What an earlier process sent under this number stays in doubt. Written here and now,
        # since the number is used again at once.
        if post.seq_id in self._new:
            try:
                self.journal.void(post.seq_id)
            except JournalError as error:
                log.warning("%s", error)

    def _earlier(self, op: Operation, seq_id: int) -> Any:
        if seq_id in self._values:
            return self._values[seq_id]
        kept = self.journal.state.kept.get(seq_id)
        if kept is None or not kept.done or kept.value is None or op.result is None:
            return NOTHING
        return decoder(op.result).from_json(dict(kept.value))

    def _is_known(self, seq_id: int) -> bool:
        kept = self.journal.state.kept.get(seq_id)
        return kept is not None and kept.request_id is not None

    async def _afterwards(self, fn: Callable[..., Any], *args: Any) -> None:
        """Write down what has happened; without that line it is in doubt after a crash."""
        try:
            await self._beside(fn, *args)
        except JournalError as error:
            log.warning("%s", error)

    async def _beside(self, fn: Callable[..., Any], *args: Any) -> Any:
        return await self._link.runtime.offload(OFFLOAD_BYTES, fn, *args)

    # -- the end of a step -----------------------------------------------------------------

    def follow(self, result: LightFuture[Any]) -> None:
        """Count a call as part of the step under way."""
        self._live.add(result)
        result.add_done_callback(self._ended)

    def _ended(self, result: LightFuture[Any]) -> None:
        self._live.discard(result)
        if not result.cancelled():
            self._failed = self._failed or result.exception(0)

    async def settle(self) -> None:
        """Wait until every call of the step has ended; raises the first error among them."""
        while self._live:
            await asyncio.wait([asyncio.ensure_future(_ends(one)) for one in tuple(self._live)])
        self._new.clear()
        self._values.clear()
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    # -- after a crash ---------------------------------------------------------------------

    async def read_earlier(self, model_id: str, seconds: float) -> None:
        """Fetch the results of the requests that an earlier process saw accepted.

        Raises:
            TinkerError: One of them failed, or its result is gone.
        """
        loop = asyncio.get_running_loop()
        for seq_id, kept in sorted(self.journal.state.kept.items()):
            if kept.operation not in OPERATIONS:
                raise JournalError(
                    f"The journal speaks of an operation {kept.operation!r} that this version does "
                    "not know; a newer one wrote it."
                )
            op = operation(kept.operation)
            if kept.request_id is None or self._earlier(op, seq_id) is not NOTHING:
                continue
            entry = Entry(op.name, model_id, loop.time(), loop.time() + seconds)
            self._link.book.add(entry)
            try:
                self._values[seq_id] = await wait_for(self._link, entry, op, kept.request_id)
            finally:
                self._link.book.discard(entry)


class RecordedDelivery(Delivery):
    """Sends posts like its base, each written down before and after.

    Args:
        link: The server.
        awaited: Whether others wait at the server behind a post.
        recorded: Where posts are written down.
    """

    def __init__(self, link: Link, awaited: Callable[[Post], bool], recorded: Recorded) -> None:
        super().__init__(link, awaited)
        self._recorded = recorded

    async def deliver(self, post: Post) -> tuple[str, Reply]:
        """Send a post until the server has taken it, unless an earlier process did."""
        if post.ticket is None:
            return await super().deliver(post)
        first = post.payload
        earlier = await self._recorded.leaving(post)
        if earlier is not None:
            return earlier, Reply(status=200, headers={}, content=b"", elapsed=0.0)
        answer = await super().deliver(post)
        if post.payload is not first:
            await self._recorded.leaving(post, again=True)
        await self._recorded.accepted(post, answer[0])
        return answer


async def _ends(result: LightFuture[Any]) -> None:
    try:
        await result
    except (Exception, asyncio.CancelledError):
        return


def _note_leaving(
    note: Callable[..., Any], operation_name: str, seq_id: int, payload: Payload
) -> Any:
    head, name = payload.head, None
    if payload.operation == "save_weights_for_sampler":
        body = orjson.loads(head)
        # A repeat may carry another one: the session has gone on counting.
        body.pop("sampling_session_seq_id", None)
        head = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    elif payload.operation == "save_weights":
        name = orjson.loads(head).get("path")
    digest = hashlib.blake2b(head, digest_size=16).hexdigest()
    wire = None if payload.wire is None else payload.wire.value
    return note(operation_name, seq_id, digest, name=name, wire=wire)


def _small(op: Operation, value: Any) -> Any:
    """A result as JSON, unless it is large: that one is asked from the server again."""
    if isinstance(value, ForwardBackwardOutput):
        return _forward_json(value)
    if op.result is None or is_binary(op.result):
        return None
    return value.to_dict() if hasattr(value, "to_dict") else attrs.asdict(value)


def _forward_json(value: ForwardBackwardOutput) -> dict[str, Any] | None:
    tensors = [tensor for output in value.loss_fn_outputs for tensor in output.values()]
    if sum(tensor.array.size for tensor in tensors) > SMALL_NUMBERS:
        return None
    if any(tensor.crow is not None for tensor in tensors):
        return None
    return {
        "loss_fn_output_type": value.loss_fn_output_type,
        "loss_fn_outputs": [
            {
                name: {
                    "data": tensor.array.reshape(-1).tolist(),
                    "dtype": tensor.dtype,
                    "shape": tensor.shape,
                }
                for name, tensor in output.items()
            }
            for output in value.loss_fn_outputs
        ],
        "metrics": value.metrics,
    }
