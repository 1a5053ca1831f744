"""Training calls about weights whose body is written when they leave: loads, unnamed samplers."""

from __future__ import annotations

import warnings
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from tinker_api import operations as api

from tinker_ext._wire.dialect import Ability
from tinker_ext._wire.json_codec import dumps
from tinker_ext._wire.payload import Payload, small
from tinker_ext.clients.arguments import check_retry_config, check_state_path
from tinker_ext.clients.sampling import SamplingClient
from tinker_ext.clients.submission import Submission
from tinker_ext.core.future import APIFuture, AwaitableConcurrentFuture, LightFuture
from tinker_ext.core.retry_config import RetryConfig
from tinker_ext.core.server import prepare
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import FeatureMissingError, UnprocessableEntityError

if TYPE_CHECKING:
    from tinker_api.models import LoadWeightsResponse


def warn_of_late_loads() -> None:
    """Say that loading into a client in use is refused by the hosted service.

    SkyRL pull request 2071 tried it there; SDK 0.36.0 warns with the same class.
    """
    warnings.warn(
        "load_state and load_state_with_optimizer are deprecated: the hosted service takes a load "
        "as a client's first request only. Make a new client with "
        "create_training_client_from_state or create_training_client_from_state_with_optimizer.",
        FutureWarning,
        stacklevel=3,
    )


def load(
    holder: Workspace,
    submission: Submission,
    model_id: str,
    path: str,
    weights_access_token: str | None,
    *,
    optimizer: bool,
) -> APIFuture[LoadWeightsResponse]:
    """Load a saved state into a model.

    Raises:
        InvalidInputError: The path is not one, or leads to sampler weights.
    """
    check_state_path(path)

    def make() -> Payload:
        dialect = holder.server.dialect
        told = dialect is not None and dialect.can(Ability.OPTIMIZER_RESTORE)
        arguments = {
            "model_id": model_id,
            "path": path,
            "weights_access_token": weights_access_token,
            # Required by the second era. Servers without its flags know it (Twinkle), overlook it
            # and restore the optimizer (SkyRL), or refuse it; so they get it when it is asked for.
            **({"optimizer": optimizer} if told or optimizer else {}),
        }
        return small(api.LOAD_WEIGHTS.name, dumps(prepare(api.LOAD_WEIGHTS, arguments).body))

    loading = submission.send_late(api.LOAD_WEIGHTS, make)
    return _refused_by_name(loading, holder) if optimizer else loading


def _refused_by_name(
    loading: AwaitableConcurrentFuture[LoadWeightsResponse], holder: Workspace
) -> AwaitableConcurrentFuture[LoadWeightsResponse]:
    """The same load; that the server does not know the key `optimizer` is told in words."""
    inner = loading.future()
    named: LightFuture[LoadWeightsResponse] = LightFuture()
    named.on_cancel = inner.cancel

    def read(done: Future[LoadWeightsResponse]) -> None:
        if done.cancelled():
            named.cancel()
            return
        error = done.exception()
        if error is None:
            named.settle(done.result())
        elif isinstance(error, UnprocessableEntityError) and _is_unknown_key(error, "optimizer"):
            missing = FeatureMissingError(Ability.OPTIMIZER_RESTORE, holder.server.base_url)
            named.fail(missing.with_context(operation=api.LOAD_WEIGHTS.name))
        else:
            named.fail(error)

    inner.add_done_callback(read)
    return AwaitableConcurrentFuture(named)


def _is_unknown_key(error: UnprocessableEntityError, key: str) -> bool:
    faults = error.body.get("detail") if isinstance(error.body, dict) else None
    return isinstance(faults, list) and any(
        isinstance(fault, dict)
        and fault.get("type") == "extra_forbidden"
        and key in (fault.get("loc") or ())
        for fault in faults
    )


def sampler_of_now(
    holder: Workspace,
    submission: Submission,
    model_id: str,
    name: str | None,
    retry_config: RetryConfig | None,
    record_stability_info: bool,
) -> AwaitableConcurrentFuture[SamplingClient]:
    """Save the weights without a name and make a sampling client of them.

    Raises:
        InvalidInputError: The retry configuration is not one.
    """
    check_retry_config(retry_config)
    if name is not None:
        warnings.warn(
            "`name` is ignored: these weights have none. Use save_weights_for_sampler.",
            DeprecationWarning,
            stacklevel=4,
        )

    def make() -> Payload:
        number = holder.session.next_sampling_session_seq_id()
        arguments = {"model_id": model_id, "sampling_session_seq_id": number}
        return small(op.name, dumps(prepare(op, arguments).body))

    op = api.SAVE_WEIGHTS_FOR_SAMPLER
    saved = submission.send_late(op, make).future()
    work = _sampler_of(holder, model_id, saved, retry_config, record_stability_info)
    return AwaitableConcurrentFuture(holder.submit(work))


async def _sampler_of(
    holder: Workspace,
    model_id: str,
    saved: Any,
    retry_config: RetryConfig | None,
    record_stability_info: bool,
) -> SamplingClient:
    reply = await saved
    watchers = holder.watchers
    watchers.name_model(reply.sampling_session_id, watchers.model_of(model_id))
    return await SamplingClient.create(
        holder,
        sampling_session_id=reply.sampling_session_id,
        # A server without ephemeral sessions answers with a path instead.
        model_path=None if reply.sampling_session_id else reply.path,
        retry_config=retry_config,
        record_stability_info=record_stability_info,
    )
