"""Names with a fixed set of values: closed in requests, tolerant in responses."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias, get_args

LossFnType: TypeAlias = Literal[
    "cross_entropy",
    "importance_sampling",
    "ppo",
    "cispo",
    "dro",
    "gspo",
    "stable_reinforce",
    "custom",
]
TensorDtype: TypeAlias = Literal["int64", "float32"]
StopReason: TypeAlias = Literal["length", "stop"]
Severity: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
EventType: TypeAlias = Literal[
    "SESSION_START", "SESSION_END", "UNHANDLED_EXCEPTION", "GENERIC_EVENT"
]
CheckpointType: TypeAlias = Literal["training", "sampler", "external"]
ImageFormat: TypeAlias = Literal["png", "jpeg"]
ClientSessionFinishReasonType: TypeAlias = Literal["success", "errored", "interrupted"]
CustomLossInputRank: TypeAlias = Literal[0, 1, 2]
# Plain strings on the wire; the official SDK exports these two names as `str`.
ModelID = str
RequestID = str

LOSS_FN_TYPES: tuple[str, ...] = get_args(LossFnType)
IMAGE_FORMATS: tuple[str, ...] = get_args(ImageFormat)


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
