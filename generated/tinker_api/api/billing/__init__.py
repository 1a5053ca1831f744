"""Calls tagged billing. Generated file: run `nox -s regenerate` instead of editing it."""

from importlib import import_module
from types import ModuleType

__all__ = (
    "get_current_checkpoint_storage",
    "list_billing_usage_events",
)


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{name}", __name__)
