"""Severity. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

Severity: TypeAlias = Literal[
    "DEBUG",
    "INFO",
    "WARNING",
    "ERROR",
    "CRITICAL",
]

SEVERITY_VALUES: tuple[Severity, ...] = (
    "DEBUG",
    "INFO",
    "WARNING",
    "ERROR",
    "CRITICAL",
)

__all__ = ["SEVERITY_VALUES", "Severity"]
