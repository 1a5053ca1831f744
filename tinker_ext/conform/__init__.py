"""A conformance suite for any Tinker-compatible server: it compares numbers, not only shapes.

Example:
    >>> from tinker_ext.conform import run
    >>> report = run("embedded", only=["service"])
    >>> report.ok
    True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinker_ext.conform.comparison import matrix
    from tinker_ext.conform.dialect_file import dialect
    from tinker_ext.conform.junit import to_junit
    from tinker_ext.conform.preflight import CannotJudge
    from tinker_ext.conform.report import Report, Result
    from tinker_ext.conform.runner import names, run

_HOMES = {
    "CannotJudge": "preflight",
    "Report": "report",
    "Result": "report",
    "dialect": "dialect_file",
    "matrix": "comparison",
    "names": "runner",
    "run": "runner",
    "to_junit": "junit",
}

__all__ = ["CannotJudge", "Report", "Result", "dialect", "matrix", "names", "run", "to_junit"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"tinker_ext.conform.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
