"""Names with a fixed set of values, those of requests as the document lists them."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from tinker_api.models import LOSS_FN_TYPE_VALUES
from tinker_api.models import AccessScope as AccessScope
from tinker_api.models import AuditEventType as AuditEventType
from tinker_api.models import LossFnType as LossFnType
from tinker_api.models import TensorDtype as TensorDtype

StopReason: TypeAlias = Literal["length", "stop"]
CheckpointType: TypeAlias = Literal["training", "sampler", "external"]
ClientSessionFinishReasonType: TypeAlias = Literal["success", "errored", "interrupted"]
# Plain strings on the wire; the official SDK exports these two names as `str`.
ModelID = str
RequestID = str

LOSS_FN_TYPES: tuple[str, ...] = LOSS_FN_TYPE_VALUES


class RequestErrorCategory(StrEnum):
    """Whose fault a failed request is.

    Any letter case is understood; a value that is not known here reads as `Unknown`.
    """

    Unknown = "unknown"
    Server = "server"
    User = "user"

    @classmethod
    def _missing_(cls, value: object) -> RequestErrorCategory:
        return next((member for member in cls if str(value).lower() == member.value), cls.Unknown)


class QueueState(StrEnum):
    """Why a request waits on the server; a value that is not known here reads as `UNKNOWN`."""

    ACTIVE = "active"
    PAUSED_RATE_LIMIT = "paused_rate_limit"
    PAUSED_CAPACITY = "paused_capacity"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> QueueState:
        return cls.UNKNOWN
