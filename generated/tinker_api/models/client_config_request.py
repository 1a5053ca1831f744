"""ClientConfigRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["ClientConfigRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class ClientConfigRequest(Model):
    """Names the client version for which settings are wanted. Era 0.36.0 only.

    Attributes:
        sdk_version: Version text of the calling client.
    """

    sdk_version: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("sdk_version", "sdk_version", TEXT, required=True),)
