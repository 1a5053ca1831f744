"""Calls tagged weights. Generated file: run `nox -s regenerate` instead of editing it."""

from importlib import import_module
from types import ModuleType

__all__ = (
    "copy_weights",
    "get_weights_info",
    "load_weights",
    "save_weights",
    "save_weights_external",
    "save_weights_for_sampler",
)


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{name}", __name__)
