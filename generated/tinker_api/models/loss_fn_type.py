"""LossFnType. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

LossFnType: TypeAlias = Literal[
    "cross_entropy",
    "importance_sampling",
    "ppo",
    "cispo",
    "dro",
    "gspo",
    "stable_reinforce",
    "custom",
]

LOSS_FN_TYPE_VALUES: tuple[LossFnType, ...] = (
    "cross_entropy",
    "importance_sampling",
    "ppo",
    "cispo",
    "dro",
    "gspo",
    "stable_reinforce",
    "custom",
)

__all__ = ["LOSS_FN_TYPE_VALUES", "LossFnType"]
