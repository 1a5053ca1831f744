"""Checkpoints as users see them: parsed paths and the replies of the save operations."""

from __future__ import annotations

from typing import Self

import attrs
from tinker_api import models

from tinker_ext import paths
from tinker_ext.types.enums import CheckpointType


@attrs.frozen(kw_only=True)
class ParsedCheckpointTinkerPath:
    """The parts of a checkpoint path.

    Example:
        >>> ParsedCheckpointTinkerPath.from_tinker_path("tinker://r/weights/1").checkpoint_type
        'training'
    """

    tinker_path: str
    training_run_id: str
    checkpoint_type: CheckpointType
    checkpoint_id: str

    @classmethod
    def from_tinker_path(cls, tinker_path: str) -> Self:
        """Parse `tinker://<run>/<weights|sampler_weights|external_weights>/<name>`.

        Raises:
            InvalidInputError: The path does not have this form.
        """
        parsed = paths.parse_checkpoint(tinker_path)
        return cls(
            tinker_path=parsed.path,
            training_run_id=parsed.run_id,
            checkpoint_type=parsed.type,
            checkpoint_id=parsed.checkpoint_id,
        )


@attrs.frozen(kw_only=True, getstate_setstate=False)
class SaveWeightsResponse(models.SaveWeightsResponse):
    """Where a training checkpoint was saved."""

    def get_console_url(self) -> str:
        """Console page of the checkpoint."""
        return paths.checkpoint_url(self.path)


@attrs.frozen(kw_only=True, getstate_setstate=False)
class SaveWeightsForSamplerResponse(models.SaveWeightsForSamplerResponse):
    """Where a sampler checkpoint was saved."""

    def get_console_url(self) -> str:
        """Console page of the checkpoint."""
        return paths.checkpoint_url(self.path)

    def get_playground_url(self) -> str:
        """Console page to chat with the checkpoint."""
        return paths.playground_url(self.path)
