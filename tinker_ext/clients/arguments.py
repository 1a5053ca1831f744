"""Arguments and results of client calls: what is refused at once, what the user gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinker_ext import paths, types
from tinker_ext.batch.custom_loss import CustomLossFn
from tinker_ext.clients.losses import LossHandle
from tinker_ext.errors import InvalidInputError
from tinker_ext.types.checkpoints import SaveWeightsForSamplerResponse
from tinker_ext.types.optimizer import AdamParams, LoraConfig, OptimParams

if TYPE_CHECKING:
    from tinker_api.models import SaveWeightsExternalResponse


def loss_function(loss_fn: CustomLossFn | LossHandle, loss_type_input: str | None) -> CustomLossFn:
    """The function behind a custom loss; raises for anything that is none."""
    if loss_type_input not in (None, "logprobs"):
        raise InvalidInputError(f"loss_type_input must be 'logprobs', not {loss_type_input!r}.")
    if isinstance(loss_fn, LossHandle):
        return loss_fn.on_batch
    if not callable(loss_fn):
        raise InvalidInputError(f"loss_fn must be a function or a LossHandle, not {loss_fn!r}.")
    return loss_fn


def step_params(optim_params: OptimParams | None, adam_params: AdamParams | None) -> OptimParams:
    """The parameters of a step, given under one of two names."""
    if (optim_params is None) == (adam_params is None):
        raise InvalidInputError("optim_step needs optim_params (or adam_params), and only one.")
    chosen = optim_params if optim_params is not None else adam_params
    assert chosen is not None
    if not hasattr(chosen, "learning_rate") and not hasattr(chosen, "type"):
        raise InvalidInputError(f"optim_params must be AdamParams or the like, not {chosen!r}.")
    return chosen


def check_name(name: str) -> None:
    """Refuse what cannot name a checkpoint."""
    if not isinstance(name, str) or not name:
        raise InvalidInputError(
            f"A checkpoint name must be a text that is not empty, not {name!r}."
        )


def check_state_path(path: str) -> None:
    """Refuse what cannot be a saved state, before anything is sent."""
    if not paths.looks_like_weights(path):
        raise InvalidInputError(
            f"{path!r} is no checkpoint path; pass what save_state returned, such as "
            "tinker://<run>/weights/<name>."
        )
    if "/sampler_weights/" in path:
        raise InvalidInputError(
            f"{path!r} holds sampler weights, which cannot be trained further; use save_state."
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
    if not reply.path:
        raise InvalidInputError("The server saved the weights without telling their path.")
    return SaveWeightsForSamplerResponse(path=reply.path, type="save_weights_for_sampler")


def external_weights(reply: Any) -> SaveWeightsExternalResponse:
    """The reply to an export, which has a path."""
    if not reply.path:
        raise InvalidInputError("The server exported the weights without telling their path.")
    return types.SaveWeightsExternalResponse(path=reply.path)
