"""Settings of the optimizer and of the LoRA adapter it trains."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any, Literal, TypeAlias, Union

import attrs
from tinker_api import models

from tinker_ext.types.records import Record, follow


class _Open(metaclass=ABCMeta):
    """A tagged record that keeps every keyword it is given.

    Optimizer families are an open set: a server may know one that this package does not.
    """

    __slots__ = ("_extra", "type")
    type: str

    def __init__(self, *, type: str, **extra_data: Any) -> None:
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "_extra", dict(extra_data))

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._extra:
            return self._extra[name]
        raise AttributeError(f"{type(self).__name__} has no field {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise attrs.exceptions.FrozenInstanceError

    def to_dict(self) -> dict[str, Any]:
        """The object as it is sent."""
        return {"type": self.type, **self._extra}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, _Open):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.type)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.to_dict().items())
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.type, self._extra)


def _reopen(cls: type[_Open], tag: str, extra: dict[str, Any]) -> _Open:
    return cls(type=tag, **extra)


class OptimizerConfigBase(_Open):
    """Configuration of an optimizer family that this package does not know."""

    __slots__ = ()


class OptimParamsBase(_Open):
    """Step parameters of an optimizer family that this package does not know.

    Example:
        >>> OptimParamsBase(type="lion", learning_rate=1e-4).to_dict()
        {'type': 'lion', 'learning_rate': 0.0001}
    """

    __slots__ = ()


@attrs.frozen(kw_only=True, getstate_setstate=False, field_transformer=follow)
class AdamParams(Record, models.AdamParams):
    """Parameters of one AdamW step.

    Args:
        learning_rate: Step size.
        beta1: Decay of the mean of gradients.
        beta2: Decay of the mean of squared gradients.
        eps: Added to the denominator.
        weight_decay: Decoupled weight decay; 0 is off.
        grad_clip_norm: Largest gradient norm; 0 is off.
    """

    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0


@attrs.frozen(kw_only=True, getstate_setstate=False, field_transformer=follow)
class DimuonParams(Record, models.DimuonParams):
    """Parameters of one Dimuon step."""

    learning_rate: float = attrs.field(metadata={"least": 0})
    beta1: float = attrs.field(default=0.9, metadata={"least": 0, "below": 1})


@attrs.frozen(kw_only=True, getstate_setstate=False, field_transformer=follow)
class AdamOptimizerConfig(Record, models.AdamOptimizerConfig):
    """Train with AdamW (the default)."""


@attrs.frozen(kw_only=True, getstate_setstate=False, field_transformer=follow)
class DimuonOptimizerConfig(Record, models.DimuonOptimizerConfig):
    """Train with Dimuon."""

    version: Literal[1] = attrs.field(default=1, metadata={"least": 1, "most": 1})


@attrs.frozen(kw_only=True, getstate_setstate=False, field_transformer=follow)
class LoraConfig(Record, models.LoraConfig):
    """Size and placement of a LoRA adapter.

    Args:
        rank: Rank of the adapter, at least 1.
        seed: Seed of its initial weights; None lets the server choose.
        train_unembed: Whether the output layer gets an adapter.
        train_mlp: Whether the MLP layers do.
        train_attn: Whether the attention layers do.
    """

    rank: int = attrs.field(metadata={"least": 1})


# The families that have a class of their own are members of the open set all the same.
OptimParamsBase.register(DimuonParams)
OptimizerConfigBase.register(AdamOptimizerConfig)
OptimizerConfigBase.register(DimuonOptimizerConfig)

OptimParams: TypeAlias = Union[AdamParams, DimuonParams, OptimParamsBase]  # noqa: UP007
OptimizerConfig: TypeAlias = Union[  # noqa: UP007
    AdamOptimizerConfig, DimuonOptimizerConfig, OptimizerConfigBase
]
