"""SessionHeartbeatRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["SessionHeartbeatRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class SessionHeartbeatRequest(Model):
    """Tells the server that the client behind a session is still alive.

    Attributes:
        session_id: Session to keep alive.
        type: Tag of this type. Era 0.36.0 always sends it; era 0.4.1 leaves it out.
    """

    session_id: str
    type: Literal["session_heartbeat"] = field(default="session_heartbeat")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("session_id", "session_id", TEXT, required=True),
            Field("type", "type", Tag("session_heartbeat"), default="session_heartbeat"),
        )
