"""`TrainingClient`: train, save and load one model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal

import attrs
from tinker_api import operations as api

from tinker_ext import forks, paths
from tinker_ext._wire.dialect import Ability
from tinker_ext._wire.json_codec import check_json, dumps
from tinker_ext._wire.payload import Payload, small
from tinker_ext.batch import custom_loss
from tinker_ext.clients.arguments import (
    async_form,
    blocking,
    chained,
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
)
from tinker_ext.clients.losses import LossHandle
from tinker_ext.clients.sampling import SamplingClient
from tinker_ext.clients.submission import LossConfig, Submission
from tinker_ext.core.future import APIFuture, AwaitableConcurrentFuture
from tinker_ext.core.in_flight import PendingOperation, PendingOperations
from tinker_ext.core.retry_config import RetryConfig
from tinker_ext.core.server import prepare
from tinker_ext.core.training_queue import TrainingQueue
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import FeatureMissingError, InvalidInputError, UnprocessableEntityError
from tinker_ext.types.checkpoints import SaveWeightsForSamplerResponse, SaveWeightsResponse
from tinker_ext.types.datum import Datum
from tinker_ext.types.enums import LossFnType, QueueState
from tinker_ext.types.optimizer import AdamParams, DimuonParams, OptimParams
from tinker_ext.types.outputs import ForwardBackwardOutput

if TYPE_CHECKING:
    from tinker_api.models import (
        GetInfoResponse,
        LoadWeightsResponse,
        OptimStepResponse,
        SaveWeightsExternalResponse,
    )


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
    """The parameters of a step, given under one of two names.

    Raises:
        InvalidInputError: Not exactly one was given, it is not one, or a setting is out of range.
    """
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
        check_json("optim_params", record_of(chosen))
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


def _is_unknown_key(error: UnprocessableEntityError, key: str) -> bool:
    faults = error.body.get("detail") if isinstance(error.body, dict) else None
    return isinstance(faults, list) and any(
        isinstance(fault, dict)
        and fault.get("type") == "extra_forbidden"
        and key in (fault.get("loc") or ())
        for fault in faults
    )


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
        self._submission = Submission(workspace, model_id)
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

    @property
    def queue(self) -> TrainingQueue:
        """The order in which the requests of this client leave."""
        return self._submission.queue

    # -- training --------------------------------------------------------------------------

    def forward(
        self, data: list[Datum], loss_fn: LossFnType, loss_fn_config: LossConfig | None = None
    ) -> APIFuture[ForwardBackwardOutput]:
        """Compute the loss without gradients; otherwise the same as `forward_backward`."""
        return self._submission.forward(data, loss_fn, loss_fn_config, forward_only=True)

    async def forward_async(
        self, data: list[Datum], loss_fn: LossFnType, loss_fn_config: LossConfig | None = None
    ) -> APIFuture[ForwardBackwardOutput]:
        """Async form of `forward`."""
        return await self._submission.forward_async(
            data, loss_fn, loss_fn_config, forward_only=True
        )

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
        return self._submission.forward(data, loss_fn, loss_fn_config, forward_only=False)

    async def forward_backward_async(
        self, data: list[Datum], loss_fn: LossFnType, loss_fn_config: LossConfig | None = None
    ) -> APIFuture[ForwardBackwardOutput]:
        """Async form of `forward_backward`."""
        return await self._submission.forward_async(
            data, loss_fn, loss_fn_config, forward_only=False
        )

    def forward_backward_custom(
        self,
        data: list[Datum],
        loss_fn: custom_loss.CustomLossFn | LossHandle,
        *,
        loss_type_input: Literal["logprobs"] | None = None,
        backend: custom_loss.Backend = "auto",
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
        return self._submission.custom(data, function, backend)

    async def forward_backward_custom_async(
        self,
        data: list[Datum],
        loss_fn: custom_loss.CustomLossFn | LossHandle,
        *,
        loss_type_input: Literal["logprobs"] | None = None,
        backend: custom_loss.Backend = "auto",
    ) -> APIFuture[ForwardBackwardOutput]:
        """Async form of `forward_backward_custom`."""
        function = loss_function(loss_fn, loss_type_input, backend)
        on_server = self._loss_on_server(data, loss_fn)
        if on_server is not None:
            return await self.forward_backward_async(data, "custom", on_server)
        return await self._submission.custom_async(data, function, backend)

    def _loss_on_server(self, data: list[Datum], loss_fn: object) -> LossConfig | None:
        """The settings that name a loss which the server runs; None when it runs on this side."""
        if not isinstance(loss_fn, LossHandle):
            return None
        loss_fn.check(data, self._workspace.session.session_id)
        return None if loss_fn.loss_id is None else {"loss_id": loss_fn.loss_id}

    def optim_step(
        self, optim_params: OptimParams | None = None, *, adam_params: AdamParams | None = None
    ) -> APIFuture[OptimStepResponse]:
        """Update the weights with the gradients gathered so far.

        Args:
            optim_params: Parameters of this step: `AdamParams`, `DimuonParams`, or of another
                family the server knows.
            adam_params: The same, by the name older code uses.

        Returns:
            Future of the step's metrics.
        """
        params = step_params(optim_params, adam_params)
        return self._submission.send(api.OPTIM_STEP, **step_fields(params))

    optim_step_async = submitted(optim_step)

    # -- weights ---------------------------------------------------------------------------

    def save_state(
        self,
        name: str,
        ttl_seconds: int | None = None,
        overwrite: bool = False,
        user_metadata: dict[str, str] | None = None,
    ) -> APIFuture[SaveWeightsResponse]:
        """Save weights and optimizer state.

        Args:
            name: Name of the checkpoint within this run.
            ttl_seconds: Lifetime of the checkpoint; None keeps it.
            overwrite: Replace a checkpoint of the same name.
            user_metadata: Kept with the checkpoint.

        Returns:
            Future of the reply, whose `path` loads the state again.
        """
        check_name(name)
        check_metadata(user_metadata)
        return self._submission.send(
            api.SAVE_WEIGHTS,
            path=name,
            overwrite=overwrite,
            user_metadata=user_metadata,
            **self._lifetime(ttl_seconds),
        )

    save_state_async = submitted(save_state)

    def load_state(
        self, path: str, weights_access_token: str | None = None
    ) -> APIFuture[LoadWeightsResponse]:
        """Load weights saved by `save_state`; the optimizer starts anew.

        The hosted service takes this as a client's first request only, so it warns (FutureWarning,
        as the official client does); `create_training_client_from_state` works everywhere.
        """
        return self._load_late(path, False, weights_access_token)

    async def load_state_async(
        self, path: str, weights_access_token: str | None = None
    ) -> APIFuture[LoadWeightsResponse]:
        """Async form of `load_state`."""
        return self._load_late(path, False, weights_access_token)

    def load_state_with_optimizer(
        self, path: str, weights_access_token: str | None = None
    ) -> APIFuture[LoadWeightsResponse]:
        """Load weights and optimizer state saved by `save_state`; warns as `load_state` does."""
        return self._load_late(path, True, weights_access_token)

    async def load_state_with_optimizer_async(
        self, path: str, weights_access_token: str | None = None
    ) -> APIFuture[LoadWeightsResponse]:
        """Async form of `load_state_with_optimizer`."""
        return self._load_late(path, True, weights_access_token)

    def save_weights_for_sampler(
        self,
        name: str,
        ttl_seconds: int | None = None,
        user_metadata: dict[str, str] | None = None,
    ) -> APIFuture[SaveWeightsForSamplerResponse]:
        """Save weights to sample from.

        Args:
            name: Name of the checkpoint within this run.
            ttl_seconds: Lifetime of the checkpoint; None keeps it.
            user_metadata: Kept with the checkpoint.

        Returns:
            Future of the reply, whose `path` goes to `create_sampling_client`.
        """
        check_name(name)
        check_metadata(user_metadata)
        return self._submission.send(
            api.SAVE_WEIGHTS_FOR_SAMPLER,
            named_sampler,
            path=name,
            user_metadata=user_metadata,
            **self._lifetime(ttl_seconds),
        )

    save_weights_for_sampler_async = submitted(save_weights_for_sampler)

    def save_weights_external(
        self,
        name: str,
        ttl_seconds: int | None = None,
        age_encryption_recipients: list[str] | None = None,
    ) -> APIFuture[SaveWeightsExternalResponse]:
        """Export weights as files that can be fetched by URL.

        Args:
            name: Name of the checkpoint within this run.
            ttl_seconds: Lifetime of the checkpoint; None keeps it.
            age_encryption_recipients: Encrypt the files for these age recipients.
        """
        check_name(name)
        return self._submission.send(
            api.SAVE_WEIGHTS_EXTERNAL,
            external_weights,
            path=name,
            age_encryption_recipients=age_encryption_recipients,
            **self._lifetime(ttl_seconds),
        )

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
            warnings.warn(
                "`name` is ignored: these weights have no name. Use save_weights_for_sampler.",
                DeprecationWarning,
                stacklevel=3,
            )
        return self._sampler(retry_config, record_stability_info)

    save_weights_and_get_sampling_client_async = async_form(save_weights_and_get_sampling_client)

    def save_weights_and_get_sampling_client_submit(
        self, retry_config: RetryConfig | None = None
    ) -> APIFuture[SamplingClient]:
        """Old form of `save_weights_and_get_sampling_client` that returns a future."""
        warnings.warn(
            "save_weights_and_get_sampling_client_submit is deprecated; "
            "use save_weights_and_get_sampling_client_async.",
            DeprecationWarning,
            stacklevel=2,
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
    def get_info(self) -> Future[GetInfoResponse]:
        """What the server knows about the model."""
        return self._workspace.submit(self._info())

    get_info_async = async_form(get_info)

    async def _info(self) -> GetInfoResponse:
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
        return PendingOperations(
            op for op in self._workspace.pending() if op.target == self.model_id
        )

    def on_queue_state_change(
        self, queue_state: QueueState, queue_state_reason: str | None = None
    ) -> None:
        """Called when the server holds work back; override it to act on that."""

    def get_telemetry(self) -> None:
        """Nothing: telemetry is an observer of the connection here."""

    def _lifetime(self, ttl_seconds: int | None) -> dict[str, Any]:
        """The lifetime of a checkpoint as an argument; None keeps it and is not sent."""
        check_ttl(ttl_seconds)
        if ttl_seconds is None:
            return {}
        self._workspace.dialect().require(Ability.CHECKPOINT_TTL)
        return {"ttl_seconds": ttl_seconds}

    # -- how calls leave -------------------------------------------------------------------

    def _load_late(
        self, path: str, optimizer: bool, weights_access_token: str | None
    ) -> APIFuture[LoadWeightsResponse]:
        """Load into a client that may be in use, which the hosted service refuses.

        SkyRL pull request 2071 tried it there; SDK 0.36.0 warns with the same class.
        """
        warnings.warn(
            "load_state and load_state_with_optimizer are deprecated: the hosted service takes a "
            "load as a client's first request only. Make a new client with "
            "create_training_client_from_state or "
            "create_training_client_from_state_with_optimizer.",
            FutureWarning,
            stacklevel=3,
        )
        return self._load(path, optimizer, weights_access_token)

    def _load(
        self, path: str, optimizer: bool, weights_access_token: str | None
    ) -> APIFuture[LoadWeightsResponse]:
        check_state_path(path)

        def make() -> Payload:
            dialect = self._workspace.server.dialect
            told = dialect is not None and Ability.OPTIMIZER_RESTORE in dialect.abilities
            arguments = {
                "model_id": self.model_id,
                "path": path,
                "weights_access_token": weights_access_token,
                # Required by the second era. Servers without its flags know it (Twinkle), overlook
                # it and restore the optimizer (SkyRL), or refuse it; so they get it when it is
                # asked for.
                **({"optimizer": optimizer} if told or optimizer else {}),
            }
            return small(api.LOAD_WEIGHTS.name, dumps(prepare(api.LOAD_WEIGHTS, arguments).body))

        def read(done: Future[LoadWeightsResponse]) -> LoadWeightsResponse:
            try:
                return done.result()
            except UnprocessableEntityError as error:
                if not _is_unknown_key(error, "optimizer"):
                    raise
            base_url = self._workspace.server.base_url
            missing = FeatureMissingError(Ability.OPTIMIZER_RESTORE, base_url)
            raise missing.with_context(operation=api.LOAD_WEIGHTS.name)

        loading = self._submission.send_late(api.LOAD_WEIGHTS, make)
        return AwaitableConcurrentFuture(chained(loading.future(), read)) if optimizer else loading

    def _sampler(
        self, retry_config: RetryConfig | None, record_stability_info: bool
    ) -> AwaitableConcurrentFuture[SamplingClient]:
        """Save the weights without a name and make a sampling client of them."""
        check_retry_config(retry_config)
        workspace, op = self._workspace, api.SAVE_WEIGHTS_FOR_SAMPLER

        def make() -> Payload:
            number = workspace.session.next_sampling_session_seq_id()
            arguments = {"model_id": self.model_id, "sampling_session_seq_id": number}
            return small(op.name, dumps(prepare(op, arguments).body))

        saved: Any = self._submission.send_late(op, make).future()

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
