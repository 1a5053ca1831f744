"""AccessScope. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

AccessScope: TypeAlias = Literal[
    "owned",
    "accessible",
]

ACCESS_SCOPE_VALUES: tuple[AccessScope, ...] = (
    "owned",
    "accessible",
)

__all__ = ["ACCESS_SCOPE_VALUES", "AccessScope"]
