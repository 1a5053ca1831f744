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
    from tinker_ext.conform.report import Report, Result
    from tinker_ext.conform.runner import names, run

_HOMES = {
    "Report": "report",
    "Result": "report",
    "matrix": "comparison",
    "names": "runner",
    "run": "runner",
}

__all__ = ["Report", "Result", "matrix", "names", "run"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"tinker_ext.conform.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
