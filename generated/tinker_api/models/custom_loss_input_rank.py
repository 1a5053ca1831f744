"""CustomLossInputRank. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

CustomLossInputRank: TypeAlias = Literal[
    0,
    1,
    2,
]

CUSTOM_LOSS_INPUT_RANK_VALUES: tuple[CustomLossInputRank, ...] = (
    0,
    1,
    2,
)

__all__ = ["CUSTOM_LOSS_INPUT_RANK_VALUES", "CustomLossInputRank"]
