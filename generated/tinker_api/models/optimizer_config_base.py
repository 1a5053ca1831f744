"""OptimizerConfigBase. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["OptimizerConfigBase"]


@frozen(kw_only=True, getstate_setstate=False)
class OptimizerConfigBase(Model):
    """Any optimizer family this document does not know by name. Its further keys are kept and
    passed on untouched. Era 0.36.0 only.

    Attributes:
        type: Name of the family.
    """

    _open: ClassVar[bool] = True
    type: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("type", "type", TEXT, required=True),)
