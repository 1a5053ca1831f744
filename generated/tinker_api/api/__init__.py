"""The calls of the API, one module for each tag and one below it for each operation.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from importlib import import_module
from types import ModuleType

__all__ = (
    "audit",
    "auth",
    "billing",
    "checkpoints",
    "futures",
    "models",
    "runs",
    "samplers",
    "sampling",
    "service",
    "sessions",
    "telemetry",
    "training",
    "weights",
)


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{name}", __name__)
