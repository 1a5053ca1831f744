"""How training calls leave: a place in the order, the encoded bodies, and the combined result."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import attrs
import numpy as np
from tinker_api.operations import Operation

from tinker_ext._wire import json_codec
from tinker_ext._wire.dialect import Ability, Dialect, Wire
from tinker_ext._wire.json_codec import dumps
from tinker_ext._wire.payload import Payload, small
from tinker_ext.batch import custom_loss
from tinker_ext.batch.checks import check_batch
from tinker_ext.batch.chunking import NUMBERS_ERA, Limits, datum_size, split
from tinker_ext.batch.merge import merge, trained_positions
from tinker_ext.core.future import AwaitableConcurrentFuture
from tinker_ext.core.server import prepare
from tinker_ext.core.training_queue import QueuedCall, TrainingQueue
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import InvalidInputError
from tinker_ext.types.datum import Datum
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.outputs import ForwardBackwardOutput
from tinker_ext.types.tensor_data import TensorData


@attrs.define
class ForwardChunk:
    """One chunk of forward or forward_backward; called with a wire, it gives the encoded body."""

    model_id: str
    data: Sequence[Datum]
    loss_fn: str
    loss_fn_config: Mapping[str, float | str] | None
    forward_only: bool
    zstd: bool
    later: bool = False
    """Whether JSON may be written when the chunk leaves, because others leave before it."""
    sized_images: bool | None = None
    """Whether JSON has images with their size (first era) or without; None: as they were given."""
    _encoded: Payload | None = None

    def __call__(self, wire: Wire) -> Payload:
        """Encode, unless that was done for this wire already."""
        if self._encoded is not None and self._encoded.wire is wire:
            return self._encoded
        batch = self.model_id, self.data, self.loss_fn, self.loss_fn_config
        if wire is Wire.JSON:
            self._encoded = json_codec.encode_forward(
                *batch,
                forward_only=self.forward_only,
                later=self.later,
                sized_images=self.sized_images,
            )
        else:
            from tinker_ext._wire import proto_codec

            self._encoded = proto_codec.encode_forward(
                *batch, forward_only=self.forward_only, zstd=self.zstd
            )
        return self._encoded


@functools.cache
def _has_zstd() -> bool:
    return importlib.util.find_spec("zstandard") is not None


def filler(model_id: str) -> ForwardChunk:
    """A forward pass over one token with weight 0: takes a number and changes nothing."""
    datum = Datum(
        ModelInput.from_ints([0]),
        {
            "target_tokens": TensorData.adopt(np.zeros(1, np.int64), [1]),
            "weights": TensorData.adopt(np.zeros(1, np.float32), [1]),
        },
    )
    return ForwardChunk(model_id, [datum], "cross_entropy", None, True, False)


LossConfig = Mapping[str, "float | str"]

_MEASURED_DATUMS = 16

_losing: ContextVar[Submission | None] = ContextVar("losing", default=None)
"""Whose custom loss function runs here."""


class Submission:
    """The way out of one training client."""

    def __init__(self, workspace: Workspace, model_id: str) -> None:
        self._workspace = workspace
        self._model_id = model_id
        self.queue = TrainingQueue(workspace.server, model_id, filler(model_id))
        self.queue.owner = workspace.owner
        workspace.queues.append(self.queue)

    def _reserve(self, operation: str, data: Sequence[Datum] = ()) -> QueuedCall:
        if _losing.get() is self:
            raise InvalidInputError(
                "A custom loss function must not call its own training client: the call would "
                "wait for the loss, and the loss for the call. Compute it before or afterwards."
            )
        workspace = self._workspace
        now, seconds = workspace.begin()
        watchers = workspace.watchers
        watched = watchers.ledger is not None or watchers.observers.each
        watch = watchers.begin_training(operation, self._model_id, data) if watched else None
        try:
            call = self.queue.reserve(operation, now, seconds)
        except BaseException:
            if watch is not None:
                watch.drop()
            raise
        if watch is not None:
            watch.follow(call.entry, call.result)
        return call

    @contextlib.contextmanager
    def _place(self, operation: str, data: Sequence[Datum]) -> Iterator[QueuedCall]:
        """A place in the order; given up if an error comes before it is known what it sends."""
        call = self._reserve(operation, data)
        try:
            yield call
        except BaseException:
            if call.makers is None:
                self.queue.drop(call)
            raise

    def send(
        self,
        op: Operation[Any, Any],
        convert: Callable[[Any], Any] | None = None,
        **arguments: Any,
    ) -> AwaitableConcurrentFuture[Any]:
        """Send a small body.

        Args:
            op: Row of the generated table.
            convert: Turns the result into what the user gets.
            **arguments: Fields of the body by name, without its seq_id.
        """
        head = dumps(prepare(op, {"model_id": self._model_id, **arguments}).body)
        return self.send_late(op, lambda: small(op.name, head), convert)

    def send_late(
        self,
        op: Operation[Any, Any],
        make: Callable[[], Payload],
        convert: Callable[[Any], Any] | None = None,
    ) -> AwaitableConcurrentFuture[Any]:
        """Send a body that is written when it leaves, once: a retry sends the same."""
        call = self._reserve(op.name)
        combine = None if convert is None else (lambda values: convert(values[0]))
        return AwaitableConcurrentFuture(self.queue.arm(call, [lambda _: make()], combine))

    # -- forward ---------------------------------------------------------------------------

    def forward(
        self,
        data: Sequence[Datum],
        loss_fn: str,
        loss_fn_config: LossConfig | None,
        *,
        forward_only: bool,
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        """Check, split and encode a batch in the caller's thread, and let it leave."""
        dialect = self._workspace.server.dialect or self._workspace.dialect()
        check_batch(data, loss_fn, loss_fn_config, finite=dialect.wire is Wire.JSON)
        with self._place("forward" if forward_only else "forward_backward", data) as call:
            makers = self._chunks(data, loss_fn, loss_fn_config, forward_only, dialect)
            for make in makers:
                make(dialect.wire)
            return self._arm(call, makers)

    async def forward_async(
        self,
        data: Sequence[Datum],
        loss_fn: str,
        loss_fn_config: LossConfig | None,
        *,
        forward_only: bool,
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        """The same as `forward`, encoding large batches beside the caller's loop."""
        known = self._workspace.server.dialect
        finite = known is not None and known.wire is Wire.JSON
        check_batch(data, loss_fn, loss_fn_config, finite=finite)
        with self._place("forward" if forward_only else "forward_backward", data) as call:
            ready = self._workspace.server.ready
            dialect = known if known is not None else await self._workspace.submit(ready())
            makers = self._chunks(data, loss_fn, loss_fn_config, forward_only, dialect)
            await self._workspace.runtime.offload(
                _roughly_bytes(data), _encode_all, makers, dialect.wire
            )
            return self._arm(call, makers)

    def _arm(
        self,
        call: QueuedCall,
        makers: Sequence[ForwardChunk],
        evaluation: custom_loss.Evaluation | None = None,
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        """Let chunks leave; their results are joined, without keeping their data."""
        trained = sum(trained_positions(make.data) for make in makers)
        joined = functools.partial(
            merge, counts=[len(make.data) for make in makers], trained=trained
        )

        def combine(values: list[Any]) -> ForwardBackwardOutput:
            whole = joined(values)
            return whole if evaluation is None else custom_loss.with_custom_loss(whole, evaluation)

        return AwaitableConcurrentFuture(self.queue.arm(call, makers, combine))

    def _chunks(
        self,
        data: Sequence[Datum],
        loss_fn: str,
        loss_fn_config: LossConfig | None,
        forward_only: bool,
        dialect: Dialect,
    ) -> list[ForwardChunk]:
        """Split a batch for this server; nothing is encoded yet."""
        told, chosen = dialect.config, self._workspace.server.config
        zstd = told.proto_compress_fwdbwd and _has_zstd()
        datums, size, unit = NUMBERS_ERA.datums, NUMBERS_ERA.size, NUMBERS_ERA.unit
        if Ability.CHUNKS_BY_BYTES in dialect.abilities:
            datums, size = told.fwdbwd_max_chunk_len, told.fwdbwd_max_chunk_bytes_count
            unit = "bytes"
        limits = Limits(chosen.chunk_datums or datums, chosen.chunk_size or size, unit)
        return [
            ForwardChunk(
                self._model_id,
                part,
                loss_fn,
                loss_fn_config,
                forward_only,
                zstd,
                later=index > 0,
                sized_images=Ability.UNSIZED_IMAGES not in dialect.abilities,
            )
            for index, part in enumerate(split(data, limits))
        ]

    # -- custom loss -----------------------------------------------------------------------

    def custom(
        self,
        data: Sequence[Datum],
        function: custom_loss.CustomLossFn,
        backend: custom_loss.Backend,
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        """Forward, the user's function, backward; waits in the caller's thread for the first."""
        check_batch(data, "cross_entropy")
        # Both places at once, so that nothing comes between the two.
        with self._place("forward", data) as first, self._place("forward_backward", data) as second:
            forward = self._arm(first, self._linear(data, self._workspace.dialect())).result()
            return self._arm_custom(second, data, function, backend, forward)

    async def custom_async(
        self,
        data: Sequence[Datum],
        function: custom_loss.CustomLossFn,
        backend: custom_loss.Backend,
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        """Async form of `custom`; the user's function runs on the caller's loop."""
        check_batch(data, "cross_entropy")
        with self._place("forward", data) as first, self._place("forward_backward", data) as second:
            dialect = await self._workspace.submit(self._workspace.server.ready())
            forward = await self._arm(first, self._linear(data, dialect))
            return self._arm_custom(second, data, function, backend, forward)

    def _linear(self, data: Sequence[Datum], dialect: Dialect) -> list[ForwardChunk]:
        reduced = custom_loss.forward_data(data)
        return self._chunks(reduced, "cross_entropy", None, True, dialect)

    def _arm_custom(
        self,
        call: QueuedCall,
        data: Sequence[Datum],
        function: custom_loss.CustomLossFn,
        backend: custom_loss.Backend,
        forward: ForwardBackwardOutput,
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        inside = _losing.set(self)
        try:
            evaluation = custom_loss.evaluate(function, data, forward, backend=backend)
        finally:
            _losing.reset(inside)
        linear = custom_loss.backward_data(data, evaluation.gradients)
        chunks = self._chunks(linear, "cross_entropy", None, False, self._workspace.dialect())
        return self._arm(call, chunks, evaluation)


def _encode_all(makers: Sequence[ForwardChunk], wire: Wire) -> None:
    for make in makers:
        make(wire)


def _roughly_bytes(data: Sequence[Datum]) -> int:
    """Size of a batch, from its first datums."""
    measured = data[:_MEASURED_DATUMS]
    return sum(datum_size(datum, "bytes") for datum in measured) * len(data) // len(measured)
