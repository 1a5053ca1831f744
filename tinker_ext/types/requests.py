"""Requests made of types written by hand, and names for the unions of generated records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, Union

import attrs
from tinker_api import models

from tinker_ext.errors import InvalidInputError
from tinker_ext.types.checkpoints import SaveWeightsForSamplerResponse, SaveWeightsResponse
from tinker_ext.types.datum import Datum
from tinker_ext.types.enums import LossFnType, ModelID
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.optimizer import OptimParams
from tinker_ext.types.outputs import ForwardBackwardOutput
from tinker_ext.types.sampling import SamplingParams
from tinker_ext.types.tensor_data import TensorData

# ruff: noqa: UP007 - users read the members of these aliases with typing.get_args
BillingEventInfo: TypeAlias = Union[
    models.TrainingBillingEvent,
    models.SamplingPrefillBillingEvent,
    models.SamplingSampleBillingEvent,
    models.CheckpointBillingEvent,
    models.StorageBillingEvent,
]
ClientSessionFinishReason: TypeAlias = Union[
    models.ClientSessionFinishSuccess,
    models.ClientSessionFinishErrored,
    models.ClientSessionFinishInterrupted,
]
FutureCompletion: TypeAlias = Union[models.FutureFinished, models.FutureFailed]
FutureRetrieveResponse: TypeAlias = Union[
    models.TryAgainResponse,
    ForwardBackwardOutput,
    models.OptimStepResponse,
    SaveWeightsResponse,
    models.LoadWeightsResponse,
    SaveWeightsForSamplerResponse,
    models.SaveWeightsExternalResponse,
    models.CreateModelResponse,
    models.UnloadModelResponse,
    models.RequestFailedResponse,
]
SearchOwner: TypeAlias = Union[
    models.OwnSearchOwner, models.AccessibleSearchOwner, models.UserSearchOwner
]
SessionFailedReason: TypeAlias = Union[
    models.SessionFailedRequestReason,
    models.SessionFailedTrainingRunReason,
    models.SessionFailedSamplingSessionReason,
]
SessionStatus: TypeAlias = Union[
    models.SessionFailed,
    models.SessionCancelled,
    models.ClientSessionFinished,
    models.SessionActive,
]
SessionStatusQuery: TypeAlias = Union[
    models.ActiveSessionStatusQuery,
    models.CancelledSessionStatusQuery,
    models.FailedSessionStatusQuery,
    models.ClientFinishedSessionStatusQuery,
]
TelemetryEvent: TypeAlias = Union[
    models.SessionStartEvent,
    models.SessionEndEvent,
    models.UnhandledExceptionEvent,
    models.GenericEvent,
]


def _data(value: Iterable[Datum]) -> list[Datum]:
    try:
        return list(value)
    except TypeError:
        raise InvalidInputError(
            f"data: expected a list of Datum, got {type(value).__name__}."
        ) from None


@attrs.frozen
class ForwardBackwardInput:
    """A batch and the loss to compute on it."""

    data: list[Datum] = attrs.field(converter=_data)
    loss_fn: LossFnType
    loss_fn_config: Mapping[str, float | str] | None = None


@attrs.frozen
class ForwardBackwardRequest:
    """One chunk of a forward_backward call."""

    forward_backward_input: ForwardBackwardInput
    model_id: ModelID
    seq_id: int | None = None


@attrs.frozen
class ForwardRequest:
    """One chunk of a forward call."""

    forward_input: ForwardBackwardInput
    model_id: ModelID
    seq_id: int | None = None


@attrs.frozen(kw_only=True)
class OptimStepRequest:
    """One optimizer step."""

    optim_params: OptimParams
    model_id: str
    seq_id: int | None = None
    type: Literal["optim_step"] = "optim_step"


@attrs.frozen(kw_only=True)
class SampleRequest:
    """One sample call, addressed by sampling session, base model or model path."""

    num_samples: int = 1
    prompt: ModelInput
    sampling_params: SamplingParams
    base_model: str | None = None
    model_path: str | None = None
    sampling_session_id: str | None = None
    seq_id: int | None = None
    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: int = 0
    topk_sample_logprobs: int = 0
    target_prompt_logprobs: TensorData | None = None
    prompt_alt_tokens_k: int = 0
    prompt_logprobs_last_n: int | None = None
    record_stability_info: bool | None = None
    type: Literal["sample"] = "sample"
