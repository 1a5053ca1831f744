"""The training requests of one model as a journal sees them: before, after, and after a crash."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import attrs
import orjson
from tinker_api.operations import OPERATIONS, Operation

from tinker_ext._wire import results
from tinker_ext.core.future import LightFuture
from tinker_ext.core.in_flight import Entry
from tinker_ext.core.loop import OFFLOAD_BYTES
from tinker_ext.core.polling import wait_for
from tinker_ext.core.server import Server
from tinker_ext.core.training_queue import NumberedRequest, QueuedCall
from tinker_ext.errors import InvalidInputError
from tinker_ext.journal.file import JournalError
from tinker_ext.journal.journal import CHANGING, FILLER, Journal
from tinker_ext.types.outputs import ForwardBackwardOutput

log = logging.getLogger("tinker_ext")

NOTHING: Final = object()
"""Stands for "no earlier result": a result may be None."""
SMALL_NUMBERS: Final = 4096
"""Outputs of so many numbers are kept in the journal: servers forget results after minutes."""


class Recorder:
    """Records requests in the journal, and answers those that an earlier process has made already.

    Writing waits for the disk, so it happens beside the loop.
    """

    def __init__(self, server: Server, journal: Journal) -> None:
        self.journal = journal
        self._server = server
        self._values: dict[int, Any] = {}
        self._new: set[int] = set()
        self._live: set[LightFuture[Any]] = set()
        self._failed: BaseException | None = None
        self._cancelled: list[QueuedCall] = []
        self._broken: JournalError | None = None

    # -- what happens now ------------------------------------------------------------------

    async def leaving(self, request: NumberedRequest, *, again: bool = False) -> str | None:
        """Record a request before it is sent.

        Returns:
            Its request id when an earlier process saw it accepted: then it is not sent.
        """
        if request.seq_id not in self.journal.state.requests:
            self._new.add(request.seq_id)
        again = again or request.call is None  # a filler replaces what was refused there
        if self._broken is not None:
            raise self._broken
        try:
            known: str | None = await self._beside(
                lambda: self.journal.leaving(**as_recorded(request), again=again)
            )
            return known
        except JournalError as error:
            # What comes after a request that was not sent must not be sent either: the journal
            # could not tell a later process what happened.
            self._broken = error
            raise

    async def accepted(self, request: NumberedRequest, request_id: str) -> None:
        """Record that the server has a request."""
        known = self.journal.state.requests.get(request.seq_id)
        if known is None or known.request_id is None:
            await self._afterwards("take", seq=request.seq_id, request_id=request_id)

    async def result(
        self, request: NumberedRequest, op: Operation[Any, Any], wait: Callable[[], Awaitable[Any]]
    ) -> Any:
        """The result that an earlier process has seen, else the one to wait for and record."""
        known = self._earlier(op, request.seq_id)
        if known is not NOTHING:
            return known
        value = await wait()
        await self._afterwards("done", seq=request.seq_id, value=_small(op, value))
        return value

    def is_filled(self, seq_id: int) -> bool:
        """Whether an earlier process has filled this number, which then has no place for a call."""
        known = self.journal.state.requests.get(seq_id)
        return known is not None and known.operation == FILLER and seq_id not in self._new

    def refused(self, request: NumberedRequest) -> None:
        """Record that a request had no effect."""
        # What an earlier process sent under this number stays in doubt. Written here and now,
        # since the number is used again at once.
        if request.seq_id in self._new and request.seq_id in self.journal.state.requests:
            try:
                self.journal.note("void", seq=request.seq_id)
            except JournalError as error:
                log.warning("%s", error)

    def _earlier(self, op: Operation[Any, Any], seq_id: int) -> Any:
        if seq_id in self._values:
            return self._values[seq_id]
        known = self.journal.state.requests.get(seq_id)
        if known is None or not known.done or known.value is None or op.result is None:
            return NOTHING
        return results.read_json(op, dict(known.value))

    async def _afterwards(self, kind: str, **fields: Any) -> None:
        """Record what has happened; without that line it is in doubt after a crash."""
        try:
            await self._beside(lambda: self.journal.note(kind, **fields))
        except JournalError as error:
            log.warning("%s", error)

    async def _beside(self, fn: Callable[[], Any]) -> Any:
        return await self._server.runtime.offload(OFFLOAD_BYTES, fn)

    # -- the end of a step -----------------------------------------------------------------

    def follow(self, call: QueuedCall) -> None:
        """Count a call as part of the step under way."""
        self._live.add(call.result)
        call.result.add_done_callback(partial(self._ended, call))

    def _ended(self, call: QueuedCall, result: LightFuture[Any]) -> None:
        self._live.discard(result)
        if not result.cancelled():
            self._failed = self._failed or result.exception(0)
        elif call.makers is not None and call.entry.operation in CHANGING:
            self._cancelled.append(call)

    async def settle(self) -> None:
        """Wait until every call of the step has ended; raises the first error among them.

        A call that was cancelled after it had left still takes effect. One that never left
        is missing: a step without it is not the step that a later process would repeat.
        """
        while self._live:
            await asyncio.wait([asyncio.ensure_future(_ends(one)) for one in tuple(self._live)])
        if self._failed is not None:
            raise self._failed
        missing = [call.entry.operation for call in self._cancelled if not call.requests]
        if missing:
            raise InvalidInputError(
                f"This step is not complete: {', '.join(missing)} was cancelled before it was sent."
            ).with_context(
                hint="Leave the Run and open it again: then the step is done again, and what was "
                "sent of it does not take effect twice."
            )
        self._new.clear()
        self._values.clear()
        self._cancelled.clear()

    # -- after a crash ---------------------------------------------------------------------

    async def read_earlier(self, model_id: str, seconds: float) -> None:
        """Fetch the results of the requests that an earlier process saw accepted.

        Raises:
            TinkerError: One of them failed, or its result is gone.
        """
        loop = asyncio.get_running_loop()
        for seq_id, known in sorted(self.journal.state.requests.items()):
            if known.operation == FILLER:
                continue  # it is sent again when its number comes up
            if known.operation not in OPERATIONS:
                raise JournalError(
                    f"The journal names an operation {known.operation!r} that this version does "
                    "not know; a newer one wrote it."
                )
            op = OPERATIONS[known.operation]
            if known.request_id is None or self._earlier(op, seq_id) is not NOTHING:
                continue
            entry = Entry(op.name, model_id, loop.time(), loop.time() + seconds)
            self._server.in_flight.add(entry)
            try:
                self._values[seq_id] = await wait_for(self._server, entry, op, known.request_id)
            finally:
                self._server.in_flight.discard(entry)


async def _ends(result: LightFuture[Any]) -> None:
    try:
        await result
    except (Exception, asyncio.CancelledError):
        return


def as_recorded(request: NumberedRequest) -> dict[str, Any]:
    """What a journal has of a request: a fingerprint of its body, and the name that it saves."""
    payload = request.payload
    assert payload is not None
    head, name = payload.head, None
    if payload.operation == "save_weights_for_sampler":
        body = orjson.loads(head)
        # A repeat may carry another one: the session has gone on counting.
        body.pop("sampling_session_seq_id", None)
        head = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    elif payload.operation == "save_weights":
        name = orjson.loads(head).get("path")
    operation = FILLER if request.call is None else request.operation
    digest = hashlib.blake2b(head, digest_size=16).hexdigest()
    wire = None if payload.wire is None else payload.wire.value
    return {"op": operation, "seq": request.seq_id, "digest": digest, "name": name, "wire": wire}


def _small(op: Operation[Any, Any], value: Any) -> Any:
    """A result as JSON, unless it is large: the server is asked for that one again."""
    if isinstance(value, ForwardBackwardOutput):
        return _forward_json(value)
    if op.result is None or bool(op.accept):
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
