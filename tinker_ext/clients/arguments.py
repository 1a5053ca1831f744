"""Arguments and results of client calls: what is refused at once, what the user gets."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from tinker_ext import paths, types
from tinker_ext._reply_parts import ReplyParts
from tinker_ext._wire.json_codec import check_json
from tinker_ext.batch.checks import check_count
from tinker_ext.batch.custom_loss import CustomLossFn
from tinker_ext.clients.losses import LossHandle
from tinker_ext.core.retry_config import RetryConfig
from tinker_ext.errors import APIResponseValidationError, InvalidInputError
from tinker_ext.types.checkpoints import SaveWeightsForSamplerResponse
from tinker_ext.types.optimizer import (
    AdamParams,
    DimuonParams,
    LoraConfig,
    OptimizerConfig,
    OptimParams,
)

if TYPE_CHECKING:
    from tinker_api.models import SaveWeightsExternalResponse


def loss_function(
    loss_fn: CustomLossFn | LossHandle, loss_type_input: str | None, backend: str = "auto"
) -> CustomLossFn:
    """The function behind a custom loss; raises for anything that is not one."""
    if backend not in ("auto", "torch", "numpy"):
        raise InvalidInputError(f"backend must be 'auto', 'torch' or 'numpy', not {backend!r}.")
    if loss_type_input is not None:
        warnings.warn(
            "`loss_type_input` has no effect, since a loss always gets logprobs; leave it out.",
            DeprecationWarning,
            stacklevel=3,
        )
    if loss_type_input not in (None, "logprobs"):
        raise InvalidInputError(f"loss_type_input must be 'logprobs', not {loss_type_input!r}.")
    if isinstance(loss_fn, LossHandle):
        return loss_fn.on_batch
    if not callable(loss_fn):
        raise InvalidInputError(f"loss_fn must be a function or a LossHandle, not {loss_fn!r}.")
    return loss_fn


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


def record_of(value: Any) -> dict[str, Any]:
    """A record of ours or of the generated code as JSON."""
    fields: dict[str, Any] = value.to_dict() if hasattr(value, "to_dict") else attrs.asdict(value)
    return fields


def step_fields(params: OptimParams) -> dict[str, Any]:
    """The fields of an optim_step request that hold its parameters."""
    if isinstance(params, AdamParams):
        return {"adam_params": params}
    return {"optimizer_params": record_of(params)}


def check_name(name: str) -> None:
    """Refuse what cannot name a checkpoint."""
    if not isinstance(name, str) or not name:
        raise InvalidInputError(
            f"A checkpoint name must be a text that is not empty, not {name!r}."
        )


def check_base_model(base_model: str) -> None:
    """Refuse what cannot name a model."""
    if not isinstance(base_model, str) or not base_model:
        raise InvalidInputError(f"base_model must be the name of a model, not {base_model!r}.")


def check_metadata(user_metadata: Mapping[str, str] | None) -> None:
    """Refuse metadata that is no JSON object."""
    if user_metadata is None:
        return
    if not isinstance(user_metadata, Mapping):
        raise InvalidInputError(f"user_metadata must be a dict, not {user_metadata!r}.")
    check_json("user_metadata", dict(user_metadata))


def check_optimizer(optimizer: OptimizerConfig | None) -> None:
    """Refuse what configures no optimizer family."""
    if optimizer is None:
        return
    if isinstance(optimizer, type) or not (
        hasattr(optimizer, "to_dict") or attrs.has(type(optimizer))
    ):
        raise InvalidInputError(
            f"optimizer must be AdamOptimizerConfig(…) or the like, not {optimizer!r}."
        )
    check_json("optimizer", record_of(optimizer))


def check_ttl(ttl_seconds: int | None) -> None:
    """Refuse what cannot be the life of a checkpoint; None is for ever."""
    if ttl_seconds is not None:
        check_count("ttl_seconds", ttl_seconds, least=1)


def check_retry_config(retry_config: RetryConfig | None) -> None:
    """Refuse what is no retry behaviour."""
    if retry_config is not None and not isinstance(retry_config, RetryConfig):
        raise InvalidInputError(
            f"retry_config must be a RetryConfig, not {type(retry_config).__name__}."
        )


def check_state_path(path: str) -> None:
    """Refuse what cannot be a saved state, before anything is sent."""
    if not paths.looks_like_weights(path):
        raise InvalidInputError(
            f"{path!r} is no checkpoint path; pass the path that save_state returned, such as "
            "tinker://<run>/weights/<name>."
        )
    for kind, name in (("/sampler_weights/", "sampler"), ("/external_weights/", "exported")):
        if kind in path:
            raise InvalidInputError(
                f"{path!r} holds {name} weights, which cannot be trained further; use save_state."
            )


def lora_config(
    rank: int, seed: int | None, train_mlp: bool, train_attn: bool, train_unembed: bool
) -> LoraConfig:
    """The adapter of a new model; raises when no layer would have one."""
    if not (train_mlp or train_attn or train_unembed):
        raise InvalidInputError(
            "Nothing would be trained: set train_mlp, train_attn or train_unembed."
        )
    return LoraConfig(
        rank=rank,
        seed=seed,
        train_mlp=train_mlp,
        train_attn=train_attn,
        train_unembed=train_unembed,
    )


def named_sampler(reply: Any) -> SaveWeightsForSamplerResponse:
    """The reply to a named save, which has a path."""
    return SaveWeightsForSamplerResponse(path=_path(reply), type="save_weights_for_sampler")


def external_weights(reply: Any) -> SaveWeightsExternalResponse:
    """The reply to an export, which has a path."""
    return types.SaveWeightsExternalResponse(path=_path(reply))


def _path(reply: Any) -> str:
    if not reply.path:
        raise APIResponseValidationError(
            ReplyParts(200, {}, b"", None),
            reply.to_dict(),
            "The server saved the weights without telling their path.",
        )
    return str(reply.path)
