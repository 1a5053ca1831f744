"""EventType. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

EventType: TypeAlias = Literal[
    "SESSION_START",
    "SESSION_END",
    "UNHANDLED_EXCEPTION",
    "GENERIC_EVENT",
]

EVENT_TYPE_VALUES: tuple[EventType, ...] = (
    "SESSION_START",
    "SESSION_END",
    "UNHANDLED_EXCEPTION",
    "GENERIC_EVENT",
)

__all__ = ["EVENT_TYPE_VALUES", "EventType"]
