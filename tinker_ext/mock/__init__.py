"""The embedded server: a real, tiny Tinker in process or on a port.

Example:
    >>> from tinker_ext.mock import Server, Settings
    >>> with Server(Settings(seed=1)) as server:
    ...     server.log.training()
    []
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinker_ext.mock.app import App, create_app
    from tinker_ext.mock.faults import Fault, FaultPlan
    from tinker_ext.mock.server import Server, serve
    from tinker_ext.mock.settings import BUGS, Pause, Settings

_HOMES = {
    "App": "app",
    "BUGS": "settings",
    "Fault": "faults",
    "FaultPlan": "faults",
    "Pause": "settings",
    "Server": "server",
    "Settings": "settings",
    "create_app": "app",
    "serve": "server",
}

__all__ = [
    "BUGS",
    "App",
    "Fault",
    "FaultPlan",
    "Pause",
    "Server",
    "Settings",
    "create_app",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"tinker_ext.mock.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
