"""Low-level client generated from the OpenAPI document.

`operations` has one row for each operation of the document: how it is called, checked, sent and
read. `api.<tag>.<operation>` has the calls, which send a row with a `Client`; `models` has the
records and `errors` what can go wrong. Nothing is imported before it is used.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from importlib import import_module

# Type checkers take this name as true; importing it would cost more than this whole package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .client import Client
    from .errors import (
        ApiError,
        ArgumentError,
        ParseError,
        ResponseError,
        StatusError,
        UnexpectedBody,
        UnexpectedStatus,
    )
    from .types import Response, Unknown, dumps, loads

__version__ = "0.36.0"

_MODULES = {
    "ApiError": "errors",
    "ArgumentError": "errors",
    "Client": "client",
    "ParseError": "errors",
    "Response": "types",
    "ResponseError": "errors",
    "StatusError": "errors",
    "UnexpectedBody": "errors",
    "UnexpectedStatus": "errors",
    "Unknown": "types",
    "dumps": "types",
    "loads": "types",
}
_SUBMODULES = frozenset({"api", "client", "errors", "models", "operations", "types"})

__all__ = (
    "ApiError",
    "ArgumentError",
    "Client",
    "ParseError",
    "Response",
    "ResponseError",
    "StatusError",
    "UnexpectedBody",
    "UnexpectedStatus",
    "Unknown",
    "dumps",
    "loads",
)


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f".{name}", __name__)
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
