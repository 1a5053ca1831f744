"""SampleRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    BOOLEAN,
    INTEGER,
    TEXT,
    Object,
    Tag,
)

__all__ = ["SampleRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class SampleRequest(Model):
    """Asks for completions of a prompt; answered with a future. The model is named by
    sampling_session_id with seq_id, or by base_model, or by model_path.

    Attributes:
        num_samples: Number of completions.
        prompt: What a model reads: pieces of text, image or audio in order.
        sampling_params: How tokens are drawn. Unknown keys are ignored.
        base_model: Untuned model to sample from, when there is no sampling session.
        model_path: Sampler weights to sample from, when there is no sampling session.
        sampling_session_id: Sampling session to draw from.
        seq_id: Number of this request within the sampling session, counted from 0; a repeat is the
            same request.
        prompt_logprobs: Whether to return the log-probability of each prompt token. Absent, true and false
            are three different wishes.
        topk_prompt_logprobs: How many of the likeliest tokens to return per prompt position.
        topk_sample_logprobs: How many of the likeliest tokens to return per sampled position. Era 0.36.0 only.
        target_prompt_logprobs: Token ids per prompt position whose log-probabilities are wanted. Era 0.36.0 only.
        prompt_alt_tokens_k: How many alternative tokens to return per prompt position. Era 0.36.0 only.
        prompt_logprobs_last_n: Limits prompt log-probabilities to the last n positions. Era 0.36.0 only.
        record_stability_info: Whether the server should keep data for checking numerical stability. Era 0.36.0
            only.
        type: Tag of this type. Era 0.36.0 always sends it; era 0.4.1 leaves it out.
    """

    num_samples: int = field(default=1)
    prompt: models.ModelInput
    sampling_params: models.SamplingParams
    base_model: str | None = field(default=None)
    model_path: str | None = field(default=None)
    sampling_session_id: str | None = field(default=None)
    seq_id: int | None = field(default=None)
    prompt_logprobs: bool | None = field(default=None)
    topk_prompt_logprobs: int = field(default=0)
    topk_sample_logprobs: int = field(default=0)
    target_prompt_logprobs: models.TensorData | None = field(default=None)
    prompt_alt_tokens_k: int = field(default=0)
    prompt_logprobs_last_n: int | None = field(default=None)
    record_stability_info: bool | None = field(default=None)
    type: Literal["sample"] = field(default="sample")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .model_input import ModelInput
        from .sampling_params import SamplingParams
        from .tensor_data import TensorData

        return (
            Field("num_samples", "num_samples", INTEGER, default=1, always=True),
            Field("prompt", "prompt", Object(ModelInput), required=True),
            Field("sampling_params", "sampling_params", Object(SamplingParams), required=True),
            Field("base_model", "base_model", TEXT, nullable=True),
            Field("model_path", "model_path", TEXT, nullable=True),
            Field("sampling_session_id", "sampling_session_id", TEXT, nullable=True),
            Field("seq_id", "seq_id", INTEGER, nullable=True),
            Field("prompt_logprobs", "prompt_logprobs", BOOLEAN, nullable=True),
            Field("topk_prompt_logprobs", "topk_prompt_logprobs", INTEGER, default=0),
            Field("topk_sample_logprobs", "topk_sample_logprobs", INTEGER, default=0),
            Field(
                "target_prompt_logprobs",
                "target_prompt_logprobs",
                Object(TensorData),
                nullable=True,
            ),
            Field("prompt_alt_tokens_k", "prompt_alt_tokens_k", INTEGER, default=0),
            Field("prompt_logprobs_last_n", "prompt_logprobs_last_n", INTEGER, nullable=True),
            Field("record_stability_info", "record_stability_info", BOOLEAN, nullable=True),
            Field("type", "type", Tag("sample"), default="sample"),
        )
