"""JSON bodies of requests. What was not asked for is left out, so that old servers take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tinker_ext._wire.json_codec import model_input_json, tensor_json
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.optimizer import AdamParams, LoraConfig, OptimizerConfig, OptimParams
from tinker_ext.types.sampling import SamplingParams
from tinker_ext.types.tensor_data import TensorData


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def record_of(value: Any) -> dict[str, Any]:
    """A record of ours or of the generated code as JSON."""
    return value.to_dict() if hasattr(value, "to_dict") else attrs.asdict(value)


def create_model(
    session_id: str,
    model_seq_id: int,
    base_model: str,
    lora: LoraConfig,
    user_metadata: Mapping[str, Any] | None,
    optimizer: OptimizerConfig | None,
) -> dict[str, Any]:
    """Body of create_model."""
    return {
        "session_id": session_id,
        "model_seq_id": model_seq_id,
        "base_model": base_model,
        **_given(user_metadata=user_metadata),
        "lora_config": lora.to_dict(),
        **_given(optimizer_config=None if optimizer is None else record_of(optimizer)),
        "type": "create_model",
    }


def optim_step(model_id: str, params: OptimParams) -> dict[str, Any]:
    """Body of optim_step, without its seq_id."""
    if isinstance(params, AdamParams):
        return {"adam_params": params.to_dict(), "model_id": model_id, "type": "optim_step"}
    return {"optimizer_params": record_of(params), "model_id": model_id, "type": "optim_step"}


def save_weights(
    model_id: str,
    name: str,
    ttl_seconds: int | None,
    overwrite: bool,
    user_metadata: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Body of save_weights, without its seq_id."""
    return {
        "model_id": model_id,
        "path": name,
        **_given(ttl_seconds=ttl_seconds, overwrite=overwrite or None, user_metadata=user_metadata),
        "type": "save_weights",
    }


def save_weights_for_sampler(
    model_id: str,
    *,
    name: str | None = None,
    sampling_session_seq_id: int | None = None,
    ttl_seconds: int | None = None,
    user_metadata: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Body of save_weights_for_sampler, without its seq_id: named, or for a sampling session."""
    return {
        "model_id": model_id,
        **_given(
            path=name,
            sampling_session_seq_id=sampling_session_seq_id,
            ttl_seconds=ttl_seconds,
            user_metadata=user_metadata,
        ),
        "type": "save_weights_for_sampler",
    }


def save_weights_external(
    model_id: str, name: str, ttl_seconds: int | None, recipients: list[str] | None
) -> dict[str, Any]:
    """Body of save_weights_external, without its seq_id."""
    return {
        "model_id": model_id,
        "path": name,
        **_given(ttl_seconds=ttl_seconds, age_encryption_recipients=recipients),
        "type": "save_weights_external",
    }


def load_weights(
    path: str,
    *,
    optimizer: bool,
    era: str,
    model_id: str | None = None,
    session_id: str | None = None,
    model_seq_id: int | None = None,
    base_model: str | None = None,
    user_metadata: Mapping[str, Any] | None = None,
    optimizer_config: OptimizerConfig | None = None,
    weights_access_token: str | None = None,
) -> dict[str, Any]:
    """Body of load_weights, addressed by model or by session."""
    body = _given(
        model_id=model_id,
        session_id=session_id,
        model_seq_id=model_seq_id,
        base_model=base_model,
        user_metadata=user_metadata,
        path=path,
        optimizer_config=None if optimizer_config is None else record_of(optimizer_config),
        weights_access_token=weights_access_token,
    )
    # Required by the second era, unknown to the first.
    if optimizer or era != "0.4.1":
        body["optimizer"] = optimizer
    body["type"] = "load_weights"
    return body


@attrs.frozen
class SampleOptions:
    """What a sample call asks for beside prompt and parameters; the default asks for nothing."""

    prompt_logprobs: bool = False
    topk_prompt_logprobs: int = 0
    topk_sample_logprobs: int = 0
    target_prompt_logprobs: TensorData | None = None
    prompt_alt_tokens_k: int = 0
    prompt_logprobs_last_n: int | None = None
    record_stability_info: bool = False


PLAIN = SampleOptions()


def sample(
    address: Mapping[str, str],
    seq_id: int | None,
    prompt: ModelInput,
    num_samples: int,
    params: SamplingParams,
    options: SampleOptions = PLAIN,
) -> dict[str, Any]:
    """Body of asample; `address` names a sampling session, a base model or a model path."""
    body: dict[str, Any] = {
        "num_samples": num_samples,
        "prompt": model_input_json(prompt),
        "sampling_params": sampling_params(params),
        **address,
    }
    if seq_id is not None:
        body["seq_id"] = seq_id
    if options is not PLAIN:
        _add_options(body, options)
    body["type"] = "sample"
    return body


def _add_options(body: dict[str, Any], options: SampleOptions) -> None:
    if options.target_prompt_logprobs is not None:
        body["target_prompt_logprobs"] = tensor_json(options.target_prompt_logprobs)
    for name in (
        "prompt_logprobs",
        "topk_prompt_logprobs",
        "topk_sample_logprobs",
        "prompt_alt_tokens_k",
        "prompt_logprobs_last_n",
        "record_stability_info",
    ):
        value = getattr(options, name)
        if value:
            body[name] = value


def sampling_params(params: SamplingParams) -> dict[str, Any]:
    """JSON of the sampling parameters."""
    return params.to_dict()
