"""`Later`: a module that annotations name and that loads when they are read."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """Stands for a module at run time, where a type checker is given the module itself.

    Example:
        >>> Later("fractions").Fraction(1, 2)
        Fraction(1, 2)
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        # Tools that look for `__wrapped__` or `__file__` in everything must not load it.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
