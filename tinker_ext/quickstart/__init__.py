"""The first five minutes: a small data set, a lesson trained on it, and pictures of the loss."""

from __future__ import annotations

from tinker_ext.quickstart.data import animals, conversations

__all__ = ["animals", "conversations"]
