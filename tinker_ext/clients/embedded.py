"""The server inside this process: one application per process, made when first needed."""

from __future__ import annotations

import os
import secrets
import threading
import warnings
from collections.abc import Callable
from typing import Any

import httpx

from tinker_ext._transport.asgi import InProcessTransport

URL = "http://embedded"
NAMES = ("embedded", "embedded:", "embedded://")

default_to_embedded = True
"""Whether a client without key and base URL gets the embedded server; the drop-in turns it off."""

_lock = threading.Lock()
_app: Any = None
# Ids of the application are the same in every process; this tells whose they are.
_name = secrets.token_hex(8)
_warned = False


def is_embedded(base_url: str | None) -> bool:
    """Whether a base URL names the embedded server."""
    return base_url is not None and base_url.rstrip("/") in NAMES


def application() -> Any:
    """The one ASGI application of this process."""
    global _app
    with _lock:
        if _app is None:
            from tinker_ext.mock.app import create_app

            _app = create_app()
        return _app


def name() -> str:
    """What tells the application of this process, and its copies in forks, from all others."""
    return _name


def knows(server: str | None, sampler_id: str | None) -> bool:
    """Whether a sampler lives here: on the application of this process, or on its copy of one.

    Args:
        server: What `name` was where the sampler was made.
        sampler_id: Id of its sampling session.
    """
    return _app is not None and server == _name and sampler_id in _app.world.samplers


def reset() -> None:
    """Forget the application and everything it has trained, for tests."""
    global _app, _name, _warned
    with _lock:
        _app = None
        _name = secrets.token_hex(8)
        _warned = False


def transport(app: Any = None) -> Callable[[], httpx.AsyncBaseTransport]:
    """Makes the transport that carries requests straight into an ASGI application."""

    def make() -> httpx.AsyncBaseTransport:
        return InProcessTransport(app or application())

    return make


def warn_once() -> None:
    """Say, once per process, that nothing leaves this machine."""
    global _warned
    with _lock:
        if _warned:
            return
        _warned = True
    warnings.warn(
        "No API key and no base URL are set, so this client talks to the embedded server: a tiny "
        "model in this process. Set TINKER_API_KEY (and TINKER_BASE_URL) for a real one, or pass "
        "base_url='embedded' to silence this.",
        UserWarning,
        stacklevel=4,
    )


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
