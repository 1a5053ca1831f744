"""SessionFinishKind. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

SessionFinishKind: TypeAlias = Literal[
    "success",
    "errored",
    "interrupted",
]

SESSION_FINISH_KIND_VALUES: tuple[SessionFinishKind, ...] = (
    "success",
    "errored",
    "interrupted",
)

__all__ = ["SESSION_FINISH_KIND_VALUES", "SessionFinishKind"]
