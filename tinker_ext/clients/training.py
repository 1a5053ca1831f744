"""`TrainingClient`: train, save and load one model."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Literal

import attrs
import numpy as np
from tinker_api import operations as api
from tinker_api.operations import Operation

from tinker_ext import forks, paths, types
from tinker_ext._wire import json_codec
from tinker_ext._wire.dialect import Ability, Dialect, Wire
from tinker_ext._wire.payload import Payload, small
from tinker_ext.batch import custom_loss
from tinker_ext.batch.checks import check_batch
from tinker_ext.batch.chunking import NUMBERS_ERA, Limits, datum_size, split
from tinker_ext.batch.custom_loss import Backend
from tinker_ext.batch.merge import merge, trained_positions
from tinker_ext.clients.arguments import (
    async_form,
    blocking,
    check_metadata,
    check_name,
    check_retry_config,
    check_state_path,
    check_ttl,
    external_weights,
    loss_function,
    named_sampler,
    record_of,
    submitted,
    warn,
)
from tinker_ext.clients.losses import LossHandle
from tinker_ext.clients.sampling import SamplingClient
from tinker_ext.core.future import APIFuture, AwaitableConcurrentFuture
from tinker_ext.core.in_flight import PendingOperation
from tinker_ext.core.retry_config import RetryConfig
from tinker_ext.core.server import prepare
from tinker_ext.core.training_queue import QueuedCall, TrainingQueue
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import InvalidInputError
from tinker_ext.types.datum import Datum
from tinker_ext.types.enums import LossFnType, QueueState
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.optimizer import AdamParams, DimuonParams, OptimParams
from tinker_ext.types.outputs import ForwardBackwardOutput

LossConfig = Mapping[str, "float | str"]

_MEASURED_DATUMS = 16


@attrs.define
class ForwardChunk:
    """One chunk of forward or forward_backward; called with a wire, it gives the encoded body."""

    model_id: str
    data: Sequence[Datum]
    loss_fn: str
    loss_fn_config: LossConfig | None
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
def has_zstd() -> bool:
    """Whether bodies can be compressed here."""
    return importlib.util.find_spec("zstandard") is not None


def filler(model_id: str) -> ForwardChunk:
    """A forward pass over one token with weight 0: takes a number and changes nothing."""
    nothing = {"target_tokens": np.zeros(1, np.int64), "weights": np.zeros(1, np.float32)}
    datum = Datum(ModelInput.from_ints([0]), nothing)
    return ForwardChunk(model_id, [datum], "cross_entropy", None, True, False)


def encode(chunks: Sequence[ForwardChunk], wire: Wire) -> None:
    """Encode chunks for a wire before they leave."""
    for chunk in chunks:
        chunk(wire)


# Least value of a setting, and the one it must stay below. Checked where a step is taken:
# AdamParams itself takes any finite number, as users of the official type know it.
_STEP_BOUNDS: Mapping[str, tuple[float, float]] = {
    "learning_rate": (0.0, math.inf),
    "beta1": (0.0, 1.0),
    "beta2": (0.0, 1.0),
    "eps": (0.0, math.inf),
    "weight_decay": (0.0, math.inf),
    "grad_clip_norm": (0.0, math.inf),
}


def step_params(optim_params: OptimParams | None, adam_params: AdamParams | None) -> OptimParams:
    """The parameters of a step, given under one of two names, with all settings in range."""
    if (optim_params is None) == (adam_params is None):
        raise InvalidInputError("optim_step needs optim_params (or adam_params), and only one.")
    chosen = optim_params if optim_params is not None else adam_params
    assert chosen is not None
    if isinstance(chosen, type):
        raise InvalidInputError(
            f"optim_params must be an object, not the class; pass {chosen.__name__}(…)."
        )
    if not (hasattr(chosen, "learning_rate") or hasattr(chosen, "type")) or not (
        hasattr(chosen, "to_dict") or attrs.has(type(chosen))
    ):
        raise InvalidInputError(f"optim_params must be AdamParams or the like, not {chosen!r}.")
    if not isinstance(chosen, (AdamParams, DimuonParams)):
        # What the settings of other families mean is known to the server alone.
        json_codec.check_json("optim_params", record_of(chosen))
    else:
        for name, (least, below) in _STEP_BOUNDS.items():
            value = getattr(chosen, name, least)
            if not least <= value < below:
                wanted = f"in [{least:g}, {below:g})" if below < math.inf else "at least 0"
                raise InvalidInputError(f"optim_params: {name} must be {wanted}, got {value}.")
    return chosen


def step_fields(params: OptimParams) -> dict[str, Any]:
    """The fields of an optim_step request that hold its parameters."""
    if isinstance(params, AdamParams):
        return {"adam_params": params}
    return {"optimizer_params": record_of(params)}


# SkyRL pull request 2071 tried it there; SDK 0.36.0 warns with the same class.
_LATE = (
    "load_state and load_state_with_optimizer are deprecated: the hosted service takes a load as "
    "a client's first request only. Make a new client with create_training_client_from_state or "
    "create_training_client_from_state_with_optimizer."
)

_losing: ContextVar[TrainingClient | None] = ContextVar("losing", default=None)
"""Whose custom loss function runs here."""


class TrainingClient(forks.OfThisProcess):
    """Trains one model; made by a `ServiceClient`.

    Calls take effect in the order they were made, whatever thread makes them, and return at once
    with an `APIFuture`. The `_async` form of a training method returns the same future after one
    `await`, so a result takes two. A wrong argument raises `InvalidInputError` at the call, before
    anything is sent.

    Example:
        >>> import tinker_ext
        >>> from tinker_ext import AdamParams, Datum, ModelInput
        >>> service = tinker_ext.ServiceClient(base_url="embedded")
        >>> client = service.create_lora_training_client("tinker-ext/tiny", rank=4)
        >>> datum = Datum(ModelInput.from_ints([1, 2]), {"target_tokens": [2, 3]})
        >>> step = client.forward_backward([datum], "cross_entropy")
        >>> update = client.optim_step(AdamParams(learning_rate=1e-3))
        >>> step.result().loss > 0
        True
        >>> service.close("success").result()
    """

    elsewhere = (
        "Train in one process; save weights and give the other one their path, or a "
        "SamplingClient, which can be pickled."
    )

    def __init__(self, holder: Workspace, model_seq_id: int, model_id: str) -> None:
        # The official SDK calls the argument so, and code that makes clients by hand passes it.
        self._workspace = workspace = holder
        self._owner = workspace.owner()
        self._model_seq_id = model_seq_id
        self.model_id = model_id
        self.queue = TrainingQueue(workspace.server, model_id, filler(model_id))
        """The order in which the requests of this client leave."""
        self.queue.owner = workspace.owner
        workspace.queues.append(self.queue)
        workspace.server.in_flight.listen(model_id, self)

    def __repr__(self) -> str:
        return f"TrainingClient(model_id={self.model_id!r})"

    def _repr_html_(self) -> str:
        from tinker_ext import displays

        facts = [("model", self.model_id), ("server", self._workspace.server.base_url)]
        return displays.card("TrainingClient", facts, displays.pending(self.pending()))

    @property
    def model_seq_id(self) -> int:
        """Number of the model within its session."""
        return self._model_seq_id

    # -- training --------------------------------------------------------------------------

    def forward(
        self, data: list[Datum], loss_fn: LossFnType, loss_fn_config: LossConfig | None = None
    ) -> APIFuture[ForwardBackwardOutput]:
        """Compute the loss without gradients; otherwise the same as `forward_backward`."""
        return self._forward(api.FORWARD, data, loss_fn, loss_fn_config)

    async def forward_async(
        self, data: list[Datum], loss_fn: LossFnType, loss_fn_config: LossConfig | None = None
    ) -> APIFuture[ForwardBackwardOutput]:
        """Async form of `forward`."""
        return await self._forward_async(api.FORWARD, data, loss_fn, loss_fn_config)

    def forward_backward(
        self, data: list[Datum], loss_fn: LossFnType, loss_fn_config: LossConfig | None = None
    ) -> APIFuture[ForwardBackwardOutput]:
        """Compute the loss and add its gradient to the model's.

        Args:
            data: The batch; it is split into requests the server can take.
            loss_fn: Name of the loss, for example `cross_entropy`.
            loss_fn_config: Settings of the loss.

        Returns:
            Future of the outputs, all chunks combined.
        """
        return self._forward(api.FORWARD_BACKWARD, data, loss_fn, loss_fn_config)

    async def forward_backward_async(
        self, data: list[Datum], loss_fn: LossFnType, loss_fn_config: LossConfig | None = None
    ) -> APIFuture[ForwardBackwardOutput]:
        """Async form of `forward_backward`."""
        return await self._forward_async(api.FORWARD_BACKWARD, data, loss_fn, loss_fn_config)

    def forward_backward_custom(
        self,
        data: list[Datum],
        loss_fn: custom_loss.CustomLossFn | LossHandle,
        *,
        loss_type_input: Literal["logprobs"] | None = None,
        backend: Backend = "auto",
    ) -> APIFuture[ForwardBackwardOutput]:
        """Train with a loss written in Python.

        The call waits for a forward pass, runs your function on its logprobs, and submits the
        gradient. Calls made meanwhile by other threads come after it.

        Args:
            data: The batch; every datum needs `target_tokens`.
            loss_fn: With torch: (data, logprobs) → (loss, metrics). With numpy it also returns
                one gradient per datum. Or a handle of `ServiceClient.create_custom_loss`.
            loss_type_input: What the function gets; only `logprobs` exists.
            backend: `torch` or `numpy`: what the logprobs are. `auto` takes torch where it is
                installed, as code written for the official SDK expects.

        Returns:
            Future of the outputs; `loss:sum` is your loss.
        """
        function = loss_function(loss_fn, loss_type_input, backend)
        on_server = self._loss_on_server(data, loss_fn)
        if on_server is not None:
            return self.forward_backward(data, "custom", on_server)
        return self._custom(data, function, backend)

    async def forward_backward_custom_async(
        self,
        data: list[Datum],
        loss_fn: custom_loss.CustomLossFn | LossHandle,
        *,
        loss_type_input: Literal["logprobs"] | None = None,
        backend: Backend = "auto",
    ) -> APIFuture[ForwardBackwardOutput]:
        """Async form of `forward_backward_custom`."""
        function = loss_function(loss_fn, loss_type_input, backend)
        on_server = self._loss_on_server(data, loss_fn)
        if on_server is not None:
            return await self.forward_backward_async(data, "custom", on_server)
        return await self._custom_async(data, function, backend)

    def _loss_on_server(self, data: list[Datum], loss_fn: object) -> LossConfig | None:
        """The settings that name a loss which the server runs; None when it runs on this side."""
        if not isinstance(loss_fn, LossHandle):
            return None
        loss_fn.check(data, self._workspace.session.session_id)
        return None if loss_fn.loss_id is None else {"loss_id": loss_fn.loss_id}

    def optim_step(
        self, optim_params: OptimParams | None = None, *, adam_params: AdamParams | None = None
    ) -> APIFuture[types.OptimStepResponse]:
        """Update the weights with the gradients gathered so far.

        Args:
            optim_params: Parameters of this step: `AdamParams`, `DimuonParams`, or of another
                family the server knows.
            adam_params: The same, by the name older code uses.

        Returns:
            Future of the step's metrics.
        """
        params = step_params(optim_params, adam_params)
        return self._send(api.OPTIM_STEP, **step_fields(params))

    optim_step_async = submitted(optim_step)

    # -- weights ---------------------------------------------------------------------------

    def save_state(
        self,
        name: str,
        ttl_seconds: int | None = None,
        overwrite: bool = False,
        user_metadata: dict[str, str] | None = None,
    ) -> APIFuture[types.SaveWeightsResponse]:
        """Save weights and optimizer state.

        Args:
            name: Name of the checkpoint within this run.
            ttl_seconds: Lifetime of the checkpoint; None keeps it.
            overwrite: Replace a checkpoint of the same name.
            user_metadata: Kept with the checkpoint.

        Returns:
            Future of the reply, whose `path` loads the state again.
        """
        more = {"user_metadata": user_metadata, "overwrite": overwrite}
        return self._save(api.SAVE_WEIGHTS, None, name, ttl_seconds, **more)

    save_state_async = submitted(save_state)

    def load_state(
        self, path: str, weights_access_token: str | None = None
    ) -> APIFuture[types.LoadWeightsResponse]:
        """Load weights saved by `save_state`; the optimizer starts anew.

        The hosted service takes this as a client's first request only, so it warns (FutureWarning,
        as the official client does); `create_training_client_from_state` works everywhere.
        """
        warn(_LATE, FutureWarning)
        return self._load(path, False, weights_access_token)

    load_state_async = submitted(load_state)

    def load_state_with_optimizer(
        self, path: str, weights_access_token: str | None = None
    ) -> APIFuture[types.LoadWeightsResponse]:
        """Load weights and optimizer state saved by `save_state`; warns as `load_state` does."""
        warn(_LATE, FutureWarning)
        return self._load(path, True, weights_access_token)

    load_state_with_optimizer_async = submitted(load_state_with_optimizer)

    def save_weights_for_sampler(
        self,
        name: str,
        ttl_seconds: int | None = None,
        user_metadata: dict[str, str] | None = None,
    ) -> APIFuture[types.SaveWeightsForSamplerResponse]:
        """Save weights to sample from.

        Args:
            name: Name of the checkpoint within this run.
            ttl_seconds: Lifetime of the checkpoint; None keeps it.
            user_metadata: Kept with the checkpoint.

        Returns:
            Future of the reply, whose `path` goes to `create_sampling_client`.
        """
        op, more = api.SAVE_WEIGHTS_FOR_SAMPLER, {"user_metadata": user_metadata}
        return self._save(op, named_sampler, name, ttl_seconds, **more)

    save_weights_for_sampler_async = submitted(save_weights_for_sampler)

    def save_weights_external(
        self,
        name: str,
        ttl_seconds: int | None = None,
        age_encryption_recipients: list[str] | None = None,
    ) -> APIFuture[types.SaveWeightsExternalResponse]:
        """Export weights as files that can be fetched by URL.

        Args:
            name: Name of the checkpoint within this run.
            ttl_seconds: Lifetime of the checkpoint; None keeps it.
            age_encryption_recipients: Encrypt the files for these age recipients.
        """
        op, more = (
            api.SAVE_WEIGHTS_EXTERNAL,
            {"age_encryption_recipients": age_encryption_recipients},
        )
        return self._save(op, external_weights, name, ttl_seconds, **more)

    save_weights_external_async = submitted(save_weights_external)

    # -- sampling clients ------------------------------------------------------------------

    @blocking
    def save_weights_and_get_sampling_client(
        self,
        name: str | None = None,
        retry_config: RetryConfig | None = None,
        record_stability_info: bool = False,
    ) -> APIFuture[SamplingClient]:
        """Make a sampling client of the weights as they are now.

        Args:
            name: Ignored; such weights have no name.
            retry_config: How the sampling client retries.
            record_stability_info: Ask the server to record stability information.
        """
        if name is not None:
            warn(
                "`name` is ignored: these weights have no name. Use save_weights_for_sampler.",
                DeprecationWarning,
            )
        return self._sampler(retry_config, record_stability_info)

    save_weights_and_get_sampling_client_async = async_form(save_weights_and_get_sampling_client)

    def save_weights_and_get_sampling_client_submit(
        self, retry_config: RetryConfig | None = None
    ) -> APIFuture[SamplingClient]:
        """Old form of `save_weights_and_get_sampling_client` that returns a future."""
        warn(
            "save_weights_and_get_sampling_client_submit is deprecated; "
            "use save_weights_and_get_sampling_client_async.",
            DeprecationWarning,
        )
        return self._sampler(retry_config, False)

    @blocking
    def create_sampling_client(
        self,
        model_path: str,
        retry_config: RetryConfig | None = None,
        record_stability_info: bool = False,
    ) -> APIFuture[SamplingClient]:
        """Make a sampling client of saved sampler weights."""
        return SamplingClient.create(
            self._workspace,
            model_path=model_path,
            retry_config=retry_config,
            record_stability_info=record_stability_info,
        )

    create_sampling_client_async = async_form(create_sampling_client)

    # -- look-ups --------------------------------------------------------------------------

    @blocking
    def get_info(self) -> Future[types.GetInfoResponse]:
        """What the server knows about the model."""
        return self._workspace.submit(self._info())

    get_info_async = async_form(get_info)

    async def _info(self) -> types.GetInfoResponse:
        reply = await self._workspace.server.call(api.GET_INFO, model_id=self.model_id)
        data = reply.model_data
        if data is not None and data.tokenizer_id:
            short = attrs.evolve(data, tokenizer_id=data.tokenizer_id.split(":", 1)[0])
            return attrs.evolve(reply, model_data=short)
        return reply

    def get_tokenizer(self) -> Any:
        """The tokenizer of the model, from this machine's files or the hub."""
        from tinker_ext import tokenizers

        info = self.get_info()
        name = (info.model_data.model_name or "").split(":", 1)[0]
        chosen = tokenizers.tokenizer_for_model(name, info.model_data.tokenizer_id)
        return tokenizers.load(chosen)

    def get_console_url(self) -> str:
        """Page of this run in the web console."""
        return paths.training_run_url(self.model_id)

    def pending(self) -> list[PendingOperation]:
        """Operations of this model in flight or queued, oldest first."""
        return self._workspace.pending(self.model_id)

    def on_queue_state_change(
        self, queue_state: QueueState, queue_state_reason: str | None = None
    ) -> None:
        """Called when the server holds work back; override it to act on that."""

    def get_telemetry(self) -> None:
        """Nothing: telemetry is an observer of the connection here."""

    # -- how calls leave -------------------------------------------------------------------

    def _reserve(self, op: Operation[Any, Any], data: Sequence[Datum] = ()) -> QueuedCall:
        """Take a place in the order."""
        if _losing.get() is self:
            raise InvalidInputError(
                "A custom loss function must not call its own training client: the call would "
                "wait for the loss, and the loss for the call. Compute it before or afterwards."
            )
        now, seconds = self._workspace.begin()
        watchers = self._workspace.watchers
        watched = watchers.ledger is not None or watchers.observers.each
        watch = watchers.begin_training(op.name, self.model_id, data) if watched else None
        try:
            call = self.queue.reserve(op.name, now, seconds)
        except BaseException:
            if watch is not None:
                watch.drop()
            raise
        if watch is not None:
            watch.follow(call.entry, call.result)
        return call

    @contextlib.contextmanager
    def _place(self, op: Operation[Any, Any], data: Sequence[Datum]) -> Iterator[QueuedCall]:
        """A place in the order; given up if an error comes before it is known what it sends."""
        call = self._reserve(op, data)
        try:
            yield call
        except BaseException:
            if call.makers is None:
                self.queue.drop(call)
            raise

    def _send(
        self,
        op: Operation[Any, Any],
        convert: Callable[[Any], Any] | None = None,
        late: Callable[[], Mapping[str, Any]] | None = None,
        **arguments: Any,
    ) -> AwaitableConcurrentFuture[Any]:
        """Send a small body of fields, those of `late` known only when it leaves."""
        arguments["model_id"] = self.model_id
        head = json_codec.dumps(prepare(op, arguments).body) if late is None else b""

        def make(_: Wire) -> Payload:
            more = {} if late is None else late()
            return small(op.name, head or json_codec.dumps(prepare(op, {**arguments, **more}).body))

        call = self._reserve(op)
        combine = None if convert is None else (lambda values: convert(values[0]))
        return AwaitableConcurrentFuture(self.queue.arm(call, [make], combine))

    def _save(
        self,
        op: Operation[Any, Any],
        convert: Callable[[Any], Any] | None,
        name: str,
        ttl_seconds: int | None,
        **arguments: Any,
    ) -> AwaitableConcurrentFuture[Any]:
        """Save a checkpoint; a lifetime of None keeps it and is not sent."""
        check_name(name)
        check_metadata(arguments.get("user_metadata"))
        check_ttl(ttl_seconds)
        if ttl_seconds is not None:
            self._workspace.dialect().require(Ability.CHECKPOINT_TTL)
            arguments["ttl_seconds"] = ttl_seconds
        return self._send(op, convert, path=name, **arguments)

    def _forward(
        self, op: Operation[Any, Any], data: Sequence[Datum], *loss: Any
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        """Check, split and encode a batch in the caller's thread, and let it leave."""
        dialect = self._workspace.server.dialect or self._workspace.dialect()
        check_batch(data, *loss, finite=dialect.wire is Wire.JSON)
        with self._place(op, data) as call:
            chunks = self._chunks(dialect, op, data, *loss)
            encode(chunks, dialect.wire)
            return self._arm(call, chunks)

    async def _forward_async(
        self, op: Operation[Any, Any], data: Sequence[Datum], *loss: Any
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        """The same as `_forward`, encoding large batches beside the caller's loop."""
        known, workspace = self._workspace.server.dialect, self._workspace
        check_batch(data, *loss, finite=known is not None and known.wire is Wire.JSON)
        with self._place(op, data) as call:
            ready = workspace.server.ready
            dialect = known if known is not None else await workspace.submit(ready())
            chunks = self._chunks(dialect, op, data, *loss)
            measured = data[:_MEASURED_DATUMS]
            size = sum(datum_size(each, "bytes") for each in measured) * len(data) // len(measured)
            await workspace.runtime.offload(size, encode, chunks, dialect.wire)
            return self._arm(call, chunks)

    def _chunks(
        self,
        dialect: Dialect,
        op: Operation[Any, Any],
        data: Sequence[Datum],
        loss_fn: str,
        loss_fn_config: LossConfig | None,
    ) -> list[ForwardChunk]:
        """Split a batch by the limits of the server, or of the user; nothing is encoded yet."""
        told, config, limits = dialect.config, self._workspace.server.config, NUMBERS_ERA
        if Ability.CHUNKS_BY_BYTES in dialect.abilities:
            limits = Limits(told.fwdbwd_max_chunk_len, told.fwdbwd_max_chunk_bytes_count, "bytes")
        datums, size = config.chunk_datums or limits.datums, config.chunk_size or limits.size
        return [
            ForwardChunk(
                self.model_id,
                part,
                loss_fn,
                loss_fn_config,
                op is api.FORWARD,
                told.proto_compress_fwdbwd and has_zstd(),
                later=index > 0,
                sized_images=Ability.UNSIZED_IMAGES not in dialect.abilities,
            )
            for index, part in enumerate(split(data, Limits(datums, size, limits.unit)))
        ]

    def _arm(
        self,
        call: QueuedCall,
        chunks: Sequence[ForwardChunk],
        evaluation: custom_loss.Evaluation | None = None,
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        """Let chunks leave; their results are joined, without keeping their data."""
        trained = sum(trained_positions(chunk.data) for chunk in chunks)
        counts = [len(chunk.data) for chunk in chunks]

        def combine(values: list[Any]) -> ForwardBackwardOutput:
            whole = merge(values, counts, trained)
            return whole if evaluation is None else custom_loss.with_custom_loss(whole, evaluation)

        return AwaitableConcurrentFuture(self.queue.arm(call, chunks, combine))

    def _custom(
        self, data: Sequence[Datum], function: custom_loss.CustomLossFn, backend: Backend
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        """Forward, the user's function, backward; waits in the caller's thread for the first."""
        check_batch(data, "cross_entropy")
        # Both places at once, so that nothing comes between the two.
        with (
            self._place(api.FORWARD, data) as first,
            self._place(api.FORWARD_BACKWARD, data) as second,
        ):
            forward = self._arm_linear(first, data, self._workspace.dialect()).result()
            return self._arm_custom(second, data, function, backend, forward)

    async def _custom_async(
        self, data: Sequence[Datum], function: custom_loss.CustomLossFn, backend: Backend
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        """The same as `_custom`; the user's function runs on the caller's loop."""
        check_batch(data, "cross_entropy")
        with (
            self._place(api.FORWARD, data) as first,
            self._place(api.FORWARD_BACKWARD, data) as second,
        ):
            dialect = await self._workspace.submit(self._workspace.server.ready())
            forward = await self._arm_linear(first, data, dialect)
            return self._arm_custom(second, data, function, backend, forward)

    def _arm_linear(
        self, call: QueuedCall, data: Sequence[Datum], dialect: Dialect
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        reduced = custom_loss.forward_data(data)
        return self._arm(call, self._chunks(dialect, api.FORWARD, reduced, "cross_entropy", None))

    def _arm_custom(
        self,
        call: QueuedCall,
        data: Sequence[Datum],
        function: custom_loss.CustomLossFn,
        backend: Backend,
        forward: ForwardBackwardOutput,
    ) -> AwaitableConcurrentFuture[ForwardBackwardOutput]:
        inside = _losing.set(self)
        try:
            evaluation = custom_loss.evaluate(function, data, forward, backend=backend)
        finally:
            _losing.reset(inside)
        linear = custom_loss.backward_data(data, evaluation.gradients)
        dialect, op = self._workspace.dialect(), api.FORWARD_BACKWARD
        return self._arm(call, self._chunks(dialect, op, linear, "cross_entropy", None), evaluation)

    def _load(
        self, path: str, optimizer: bool, weights_access_token: str | None
    ) -> APIFuture[types.LoadWeightsResponse]:
        check_state_path(path)

        def told() -> Mapping[str, Any]:
            # Required by the second era. Servers without its flags know it (Twinkle), overlook it
            # and restore the optimizer (SkyRL), or refuse it; so they get it when it is asked for.
            dialect = self._workspace.server.dialect
            known = dialect is not None and Ability.OPTIMIZER_RESTORE in dialect.abilities
            return {"optimizer": optimizer} if known or optimizer else {}

        return self._send(
            api.LOAD_WEIGHTS, late=told, path=path, weights_access_token=weights_access_token
        )

    def _sampler(
        self, retry_config: RetryConfig | None, record_stability_info: bool
    ) -> AwaitableConcurrentFuture[SamplingClient]:
        """Save the weights without a name and make a sampling client of them."""
        check_retry_config(retry_config)
        workspace = self._workspace

        def numbered() -> Mapping[str, Any]:
            return {"sampling_session_seq_id": workspace.session.next_sampling_session_seq_id()}

        saved = self._send(api.SAVE_WEIGHTS_FOR_SAMPLER, late=numbered)

        async def sampler() -> SamplingClient:
            reply = await saved
            watchers = workspace.watchers
            watchers.name_model(reply.sampling_session_id, watchers.model_of(self.model_id))
            return await SamplingClient.create(
                workspace,
                sampling_session_id=reply.sampling_session_id,
                # A server without ephemeral sessions answers with a path instead.
                model_path=None if reply.sampling_session_id else reply.path,
                retry_config=retry_config,
                record_stability_info=record_stability_info,
            )

        return AwaitableConcurrentFuture(workspace.submit(sampler()))
