"""CheckpointKind. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

CheckpointKind: TypeAlias = Literal[
    "weights",
    "sampler_weights",
    "external_weights",
]

CHECKPOINT_KIND_VALUES: tuple[CheckpointKind, ...] = (
    "weights",
    "sampler_weights",
    "external_weights",
)

__all__ = ["CHECKPOINT_KIND_VALUES", "CheckpointKind"]
