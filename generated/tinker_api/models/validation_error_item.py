"""ValidationErrorItem. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
    Array,
    Choice,
)

__all__ = ["ValidationErrorItem"]


@frozen(kw_only=True, getstate_setstate=False)
class ValidationErrorItem(Model):
    """One value of a request that the server refused.

    Attributes:
        type: Short name of the rule broken.
        loc: Keys and indexes leading to the value.
        msg: Explanation.
    """

    type: str | None = field(default=None)
    loc: list[str | int] | None = field(default=None)
    msg: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", TEXT),
            Field(
                "loc",
                "loc",
                Array(
                    Choice(
                        others=(
                            TEXT,
                            INTEGER,
                        )
                    )
                ),
            ),
            Field("msg", "msg", TEXT),
        )
