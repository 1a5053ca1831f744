"""The server inside this process: one application per process, made when first needed."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

from tinker_ext import forks
from tinker_ext.errors import ConfigurationError

if TYPE_CHECKING:
    import httpx

URL = "http://embedded"
NAMES = ("embedded", "embedded:", "embedded://")
PREFIX = "embedded:"
PROFILE = "TINKER_EXT_PROFILE"
"""Variable with the profile of embedded servers that name none: `hosted` is as production."""

NOTICE = (
    "No API key and no base URL are set, so this process uses the embedded server: a tiny model "
    "that runs here and is forgotten at exit. Set TINKER_API_KEY for the hosted service or "
    "TINKER_BASE_URL for another one; base_url='embedded' says that this is meant and silences "
    "the warning."
)

_lock = forks.lock()
# One application per URL; the one without a folder lives and dies with this process.
_apps: dict[str, Any] = {}
# Ids of the application are the same in every process; this tells whose they are.
_name = secrets.token_hex(8)
_warned = False


def is_embedded(base_url: str | None) -> bool:
    """Whether a base URL names the embedded server: `embedded` or `embedded:FOLDER`."""
    if base_url is None:
        return False
    return base_url.rstrip("/") in NAMES or base_url.startswith(PREFIX)


def folder(base_url: str) -> str | None:
    """The state folder that a base URL names; None for a server that is forgotten at exit.

    Raises:
        ConfigurationError: It has options that there are not.
    """
    return _parts(base_url)[0]


def _parts(base_url: str) -> tuple[str | None, str]:
    place, _, query = base_url.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    profile = options.pop("profile", None) or os.environ.get(PROFILE, "default")
    if options:
        raise ConfigurationError(
            f"base_url {base_url!r}: the embedded server has no option {min(options)!r}; "
            "write embedded:FOLDER?profile=hosted."
        )
    place = place.removeprefix("embedded").removeprefix(":")
    place = place if place.strip("/") else ""
    return os.path.abspath(os.path.expanduser(place)) if place else None, profile


def url(base_url: str) -> str:
    """What requests are addressed to: one server, one URL."""
    place, profile = _parts(base_url)
    suffix = "" if profile == "default" else f"/{profile}"
    return URL + suffix + (quote(place) if place is not None else "")


def application(base_url: str = NAMES[0]) -> Any:
    """The application of this process for a base URL, made when it is first needed.

    Raises:
        ConfigurationError: Its folder is in use by another process or cannot be used.
    """
    place, profile = _parts(base_url)
    key = url(base_url)
    with _lock:
        if key not in _apps:
            from tinker_ext.mock.app import create_app
            from tinker_ext.mock.settings import Settings

            try:
                _apps[key] = create_app(Settings.of_profile(profile, state=place))
            except (ValueError, OSError) as error:
                raise ConfigurationError(f"base_url {base_url!r}: {error}") from None
        return _apps[key]


def name(base_url: str = NAMES[0]) -> str:
    """What tells the application of this process, and its copies in forks, from all others."""
    place = url(base_url)
    return place if folder(base_url) is not None else _name + place.removeprefix(URL)


def process(url: str) -> str | None:
    """What tells the server of this process at a URL of requests from that of another process.

    None for a server that outlives its process: it has a folder, or is not embedded.
    """
    # A forked child has the name, and a copy that goes on by itself.
    return f"{_name}-{os.getpid()}" if url in (URL, f"{URL}/hosted") else None


def knows(server: str | None, sampler_id: str | None) -> bool:
    """Whether a sampler lives here: on an application of this process, or on its copy of one."""
    place = server or ""
    if place.startswith(_name):
        place = URL + place.removeprefix(_name)
    app = _apps.get(place)
    return app is not None and sampler_id in app.world.samplers


def reset() -> None:
    """Forget the applications and everything they have trained, for tests."""
    global _name, _warned
    with _lock:
        for app in _apps.values():
            if app.settings.state is not None:
                app.close()
        _apps.clear()
        _name = secrets.token_hex(8)
        _warned = False


def transport(app: Any = None, base_url: str = NAMES[0]) -> Callable[[], httpx.AsyncBaseTransport]:
    """Makes the transport that carries requests straight into an ASGI application."""

    from tinker_ext.mock.in_process import InProcessTransport

    def make() -> httpx.AsyncBaseTransport:
        return InProcessTransport(app or application(base_url))

    return make


def warn_once() -> None:
    """Say, once per process, that nothing leaves this machine."""
    global _warned
    with _lock:
        if _warned:
            return
        _warned = True
    warnings.warn(NOTICE, UserWarning, stacklevel=4)
