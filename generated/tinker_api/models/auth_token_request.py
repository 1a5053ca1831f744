"""AuthTokenRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model

__all__ = ["AuthTokenRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class AuthTokenRequest(Model):
    """Empty body of the token exchange; the credential itself is in the X-API-Key header. Era
    0.36.0 only.
    """

    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return ()
