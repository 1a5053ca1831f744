"""Calls tagged runs. Generated file: run `nox -s regenerate` instead of editing it."""

from importlib import import_module
from types import ModuleType

__all__ = (
    "get_training_run",
    "list_training_runs",
)


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{name}", __name__)
