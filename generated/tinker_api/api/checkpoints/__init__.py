"""Calls tagged checkpoints. Generated file: run `nox -s regenerate` instead of editing it."""

from importlib import import_module
from types import ModuleType

__all__ = (
    "delete_checkpoint",
    "get_checkpoint_archive",
    "get_external_weights_urls",
    "list_checkpoints",
    "list_training_run_checkpoints",
    "publish_checkpoint",
    "set_checkpoint_ttl",
    "unpublish_checkpoint",
)


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{name}", __name__)
