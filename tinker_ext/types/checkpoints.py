"""Checkpoints as users see them: parsed paths and the replies of the save operations."""

from __future__ import annotations

from typing import Literal as Literal  # of inherited fields: attrs writes `__init__` in this module

import attrs
from tinker_api import models

from tinker_ext import paths
from tinker_ext.paths import ParsedCheckpointTinkerPath

__all__ = ["ParsedCheckpointTinkerPath", "SaveWeightsForSamplerResponse", "SaveWeightsResponse"]


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
