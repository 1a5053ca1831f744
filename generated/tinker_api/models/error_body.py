"""ErrorBody. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    ANYTHING,
    TEXT,
    Array,
    Choice,
    Object,
    Table,
)

__all__ = ["ErrorBody"]


@frozen(kw_only=True, getstate_setstate=False)
class ErrorBody(Model):
    """Body of an answer with an error status. Servers use detail, or error with category, or both;
    proxies in between may send no JSON at all.

    Attributes:
        detail: Explanation, one item per invalid value, or an object of the server's own making.
        error: Explanation.
        category: Whose fault it was.
    """

    detail: str | list[models.ValidationErrorItem] | dict[str, Any] | None = field(default=None)
    error: str | None = field(default=None)
    category: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .validation_error_item import ValidationErrorItem

        return (
            Field(
                "detail",
                "detail",
                Choice(
                    others=(
                        TEXT,
                        Array(Object(ValidationErrorItem)),
                        Table(ANYTHING),
                    )
                ),
                nullable=True,
            ),
            Field("error", "error", TEXT, nullable=True),
            Field("category", "category", TEXT, nullable=True),
        )
