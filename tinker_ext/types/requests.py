"""Requests made of types written by hand, and the union of what their futures yield."""

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

FutureRetrieveResponse: TypeAlias = Union[  # noqa: UP007 - users read its members with get_args
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
