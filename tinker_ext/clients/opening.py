"""From constructor arguments and environment to a workspace: which server, whose credential."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import attrs

from tinker_ext import auth, forks
from tinker_ext._transport.origin import encode_header, proxy_for, split_base_url
from tinker_ext.clients.arguments import check_metadata, warn
from tinker_ext.config import HOSTED_BASE_URL, Concealed, Config, fleet_address, normal_url
from tinker_ext.core.loop import Runtime, shared_loop
from tinker_ext.core.server import Server
from tinker_ext.core.session import SessionOptions
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import ConfigurationError, InvalidInputError
from tinker_ext.mock import embedded
from tinker_ext.telemetry import Observer
from tinker_ext.types.records import check_type

if TYPE_CHECKING:
    import httpx

_OURS = frozenset({"transport", "observer", "rng", "_runtime"})
_OLD = frozenset({"timeout", "max_retries", "http_client", "default_headers", "default_query"})
_loading = forks.fork_lock()
_WIRES = (None, "", "auto", "json", "proto")


def open_workspace(
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    options: SessionOptions | None = None,
    session_id: str | None = None,
    config: Config | None = None,
    wire: str | None = None,
    fleet: str | os.PathLike[str] | None = None,
    must_join: bool = True,
    http_client: httpx.AsyncClient | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
    observer: Observer | None = None,
    runtime: Runtime | None = None,
    rng: random.Random | None = None,
) -> Workspace:
    """Find server and credential and put a workspace on them; nothing is sent yet.

    Arguments and errors as in `ServiceClient`, and: `session_id` joins that session instead of
    making one, `must_join` says whether a fleet whose store cannot be used is an error,
    `http_client` has the transport that carries the requests, `runtime` is where the core runs.
    """
    api_key = concealed(api_key)
    _check_types(base_url, config, wire, options, http_client)
    settings = config or Config.from_env(base_url=base_url)
    if fleet is not None:
        settings = attrs.evolve(settings, fleet=fleet_address(fleet))
    _check_headers({**settings.extra_headers(), **(headers or {})})
    if api_key is None and config is not None and config.api_key:
        api_key = config.api_key.reveal()
    url = base_url or (config.base_url if config is not None else os.environ.get("TINKER_BASE_URL"))
    if not url:
        command = config is not None and config.credential_cmd
        if api_key or command or auth.has_credentials():
            url = HOSTED_BASE_URL
        else:
            embedded.warn_once()
            url = embedded.NAMES[0]
    # Neither a credential nor the extra headers, which may hold one (a gateway's token, a cookie):
    # another process takes its own from its environment.
    description: dict[str, Any] = {
        "base_url": url,
        "wire": wire,
        "config": settings.portable(),
    }
    given = http_client._transport if transport is None and http_client is not None else transport
    make: Callable[[], httpx.AsyncBaseTransport] | None = None
    if given is not None:
        make = lambda: given  # noqa: E731 - a name would say nothing more
    if embedded.is_embedded(url):
        _load_httpx()
        make = make or embedded.transport(base_url=url)
        description["server"] = embedded.name(url)
        credentials: auth.Credentials = auth.StaticKey(api_key)
        url = embedded.url(url)
    else:
        url = normal_url(url)
        origin, _ = split_base_url(url)
        if make is not None or proxy_for(origin) is not None or origin.secure:
            _load_httpx()
        command = config.credential_cmd if config is not None else None
        credentials = auth.resolve(api_key, base_url=url, command=command)
        if make is None:
            auth.warn_if_exposed(url, credentials)
        if api_key is None and isinstance(credentials, auth.StaticKey):
            api_key = concealed(os.environ.get("TINKER_API_KEY"))
    if api_key is not None:
        encode_header("X-API-Key", api_key)
    server = Server(
        url,
        credentials,
        config=attrs.evolve(settings, base_url=url),
        runtime=runtime or shared_loop(),
        headers=tuple((headers or {}).items()),
        transport=make,
        wire=wire,
        rng=rng,
        observer=observer,
    )
    workspace = Workspace(server, options, session_id=session_id, description=description)
    if settings.fleet is not None:
        from tinker_ext.fleet import Member, without_password

        run = options.display_name if options is not None else None
        member = Member(settings.fleet, workspace.samples, run)
        member.join(strict=must_join)
        workspace.enter(member)
        workspace.description["fleet"] = without_password(settings.fleet)
    return workspace


def concealed(api_key: str | None) -> Concealed | None:
    """The key as text that tracebacks do not show; None for an empty one."""
    check_type("api_key", api_key, str | None, "text", ConfigurationError)
    return Concealed(api_key) if api_key else None


def _load_httpx() -> None:
    """Not on the loop when it is first needed: a child forked meanwhile could never load it."""
    with _loading:
        import_module("tinker_ext._transport.bridge")


def _check_types(
    base_url: object,
    config: object,
    wire: object,
    options: SessionOptions | None,
    http_client: object,
) -> None:
    """Refuse what would fail far from the constructor, in code that expects another type."""
    check_type("base_url", base_url, str | None, "text", ConfigurationError)
    check_type("config", config, Config | None, "a Config", ConfigurationError)
    if http_client is not None:
        from httpx import AsyncClient  # who gives one has loaded it

        wanted = "an httpx.AsyncClient"
        check_type("http_client", http_client, AsyncClient, wanted, ConfigurationError)
    if not (wire is None or isinstance(wire, str)) or wire not in _WIRES:
        raise ConfigurationError(f"wire must be 'json', 'proto' or None, not {wire!r}.")
    try:
        check_metadata(None if options is None else options.user_metadata)
    except InvalidInputError as error:
        raise ConfigurationError(error.message) from None


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigurationError(f"header {name!r} must be text, not {type(value).__name__}.")
        encode_header(name, Concealed(value))


def stands_in() -> bool:
    """Whether this process uses us as `tinker`, so that warnings are those of the official SDK."""
    return getattr(sys.modules.get("tinker"), "__emulated_by__", None) == "tinker_ext"


def older_arguments(
    kwargs: Mapping[str, Any], headers: Mapping[str, str] | None, config: Config | None
) -> tuple[dict[str, str], Config | None]:
    """Take over what clients of the first era were given, with a warning.

    Under compat other arguments are ignored with a warning, as by the official SDK.
    """
    unknown = sorted(set(kwargs) - _OURS - _OLD)
    if unknown and stands_in():
        ignored = ", ".join(unknown)
        warn(f"ServiceClient ignores arguments it does not know: {ignored}.", FutureWarning)
    elif unknown:
        raise TypeError(
            f"ServiceClient has no argument {', '.join(unknown)}; help(ServiceClient) lists those "
            "it has"
        )
    for name, given in (
        ("default_headers_overrides", headers),
        ("default_headers", kwargs.get("default_headers")),
    ):
        check_type(name, given, Mapping | None, "a dict", ConfigurationError)
    merged = dict(headers or {})
    old = sorted(set(kwargs) & _OLD)
    if not old:
        return merged, config
    warn(
        f"ServiceClient({', '.join(old)}=…) is deprecated; use config, transport or "
        "default_headers_overrides.",
        DeprecationWarning,
    )
    merged = {**(kwargs.get("default_headers") or {}), **merged}
    changes: dict[str, Any] = {}
    if isinstance(kwargs.get("timeout"), (int, float)):
        changes["request_timeout"] = float(kwargs["timeout"])
    if isinstance(kwargs.get("max_retries"), int):
        changes["retry_attempts"] = kwargs["max_retries"] + 1
    if changes:
        config = attrs.evolve(config or Config.from_env(), **changes)
    return merged, config
