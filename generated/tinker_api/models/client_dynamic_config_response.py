"""ClientDynamicConfigResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    BOOLEAN,
    INTEGER,
)

__all__ = ["ClientDynamicConfigResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class ClientDynamicConfigResponse(Model):
    """Settings that may change during a session and are fetched again at intervals. Era 0.36.0
    only.

    Attributes:
        refresh_interval_sec: Seconds until the next fetch.
        sample_cancel_enabled: Whether abandoned samples should be cancelled on the server.
        sample_cancel_max_batch_size: Most cancellations to send together.
    """

    refresh_interval_sec: int = field(default=300)
    sample_cancel_enabled: bool = field(default=False)
    sample_cancel_max_batch_size: int = field(default=64)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("refresh_interval_sec", "refresh_interval_sec", INTEGER, default=300),
            Field("sample_cancel_enabled", "sample_cancel_enabled", BOOLEAN, default=False),
            Field(
                "sample_cancel_max_batch_size", "sample_cancel_max_batch_size", INTEGER, default=64
            ),
        )
