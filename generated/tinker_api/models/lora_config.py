"""LoraConfig. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    BOOLEAN,
    INTEGER,
)

__all__ = ["LoraConfig"]


@frozen(kw_only=True, getstate_setstate=False)
class LoraConfig(Model):
    """Shape of a LoRA adapter.

    Attributes:
        rank: Inner dimension of the low-rank factors.
        seed: Seed of the initial factors; absent or null leaves the choice to the server.
        train_unembed: Whether the output projection gets an adapter.
        train_mlp: Whether the feed-forward layers, experts included, get adapters.
        train_attn: Whether the attention layers get adapters.
    """

    rank: int
    seed: int | None = field(default=None)
    train_unembed: bool = field(default=True)
    train_mlp: bool = field(default=True)
    train_attn: bool = field(default=True)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("rank", "rank", INTEGER, required=True),
            Field("seed", "seed", INTEGER, nullable=True),
            Field("train_unembed", "train_unembed", BOOLEAN, default=True, always=True),
            Field("train_mlp", "train_mlp", BOOLEAN, default=True, always=True),
            Field("train_attn", "train_attn", BOOLEAN, default=True, always=True),
        )
