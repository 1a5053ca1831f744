"""Sampling clients in other processes: what travels, and how a client is made from it again."""

from __future__ import annotations

import base64
import binascii
import os
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from tinker_ext import forks
from tinker_ext.auth import origin_of
from tinker_ext.clients import endings
from tinker_ext.config import HOSTED_BASE_URL, Config
from tinker_ext.core.retry_config import RetryConfig
from tinker_ext.errors import ConfigurationError, InvalidInputError
from tinker_ext.mock import embedded

if TYPE_CHECKING:
    from tinker_ext.clients.sampling import SamplingClient
    from tinker_ext.core.workspace import Workspace

_lock = forks.lock()


@attrs.frozen
class _Shared:
    """What the copies of one session in this process share; it ends with the last of them."""

    workspace: Workspace


_shared: weakref.WeakValueDictionary[tuple[Any, ...], _Shared] = weakref.WeakValueDictionary()


def encode_handle(state: Mapping[str, Any]) -> str:
    """The state as url-safe text."""
    return base64.urlsafe_b64encode(orjson.dumps(state)).decode("ascii")


def decode_handle(handle: str) -> dict[str, Any]:
    """The state of a handle; refuses other texts."""
    try:
        state = orjson.loads(base64.urlsafe_b64decode(handle.encode("ascii")))
    except (ValueError, binascii.Error, UnicodeError):
        state = None
    if not isinstance(state, dict) or "sampling_session_id" not in state:
        raise InvalidInputError("This is not a sampler handle; pass what get_sampler_handle gave.")
    return state


_told: set[str] = set()
"""Origins that this program made a client for, and so may send its credential to."""


def trust(base_url: str) -> None:
    """Let the credential of this process go where a handle leads, if that is here."""
    _told.add(origin_of(base_url))


def revive(
    state: Mapping[str, Any],
    api_key: str | None = None,
    retry_config: RetryConfig | None = None,
    *,
    foreign: bool = False,
) -> SamplingClient:
    """Make a sampling client from its state, sharing one connection per server and session.

    Settings of the client travel in the state. Credentials and extra headers do not: they are
    those of this process. A `foreign` state came as text, which anybody may have written: the
    credential is sent only to a server that this process knows by other means. The samples of
    weights that only another process has fail, and not this call: an error while unpickling would
    end a worker process, or hang its pool.
    """
    from tinker_ext.clients.sampling import SamplingClient

    settings = state.get("retry_config")
    if retry_config is None and settings is not None:
        retry_config = RetryConfig(**settings)
    # Whether the sampler lives on the embedded server of another process.
    elsewhere = embedded.is_embedded(state.get("base_url")) and not embedded.knows(
        state.get("server"), state.get("sampling_session_id")
    )
    if elsewhere:
        # That session does not exist here; a base model does, under its name.
        state = {**state, "session_id": None}
        if state.get("base_model") is not None:
            state["sampling_session_id"] = None
    shared = _share(state, api_key, foreign)
    client = SamplingClient(
        shared.workspace,
        sampling_session_id=state.get("sampling_session_id"),
        shadow=True,
        retry_config=retry_config,
        record_stability_info=bool(state.get("record_stability_info")),
        model_path=state.get("model_path"),
        base_model=state.get("base_model"),
    )
    if elsewhere and state.get("base_model") is None:
        client._source.prepare = _refuse
    return client


async def _refuse() -> None:
    raise ConfigurationError(
        "These weights were trained on the embedded server of another process, and an embedded "
        "server lives in one process only."
    ).with_context(hint="Run `tinker-ext serve` and give its address as base_url to all processes.")


def _own_secrets_stay(base_url: str, config: Config, api_key: str | None) -> Config:
    """The configuration for a server that a text led to, without secrets meant for others."""
    origin = origin_of(base_url)
    own = origin_of(os.environ.get("TINKER_BASE_URL") or HOSTED_BASE_URL)
    if embedded.is_embedded(base_url) or origin == own or origin in _told:
        return config
    given = os.environ.get("TINKER_API_KEY") or os.environ.get("TINKER_CREDENTIAL_CMD")
    if given and not api_key:
        raise ConfigurationError(
            f"This handle leads to {origin}, and the credential of this process is for {own}, so "
            "it is not sent there."
        ).with_context(
            hint="If you trust the handle, pass api_key=… for that server, or set TINKER_BASE_URL."
        )
    return attrs.evolve(
        config,
        api_key=None,
        credential_cmd=None,
        cloudflare_client_id=None,
        cloudflare_client_secret=None,
    )


def _share(state: Mapping[str, Any], api_key: str | None, foreign: bool) -> _Shared:
    """The workspace of a session's copies; a client keeps it by the owner it reads there."""
    from tinker_ext.clients.opening import concealed, open_workspace

    api_key = concealed(api_key)
    base_url = state.get("base_url")
    config = Config.from_portable(state.get("config") or {}, base_url)
    if foreign and isinstance(base_url, str):
        config = _own_secrets_stay(base_url, config, api_key)
    if api_key:
        config = attrs.evolve(config, api_key=api_key)
    if state.get("fleet"):
        config = attrs.evolve(config, fleet=state["fleet"])
    # The configuration is compared with its key, so that no two credentials share anything.
    key = (base_url, state.get("session_id"), state.get("wire"), config)
    with _lock:
        found = _shared.get(key)
        if found is None or found.workspace.closed:
            workspace = open_workspace(
                base_url=base_url,
                api_key=api_key,
                wire=state.get("wire"),
                session_id=state.get("session_id"),
                config=config,
                # An error here would end a worker process, or hang its pool.
                must_join=False,
            )
            found = _shared[key] = _Shared(workspace)
            endings.end_with(found, workspace)
        return found
