"""Sampling clients in other processes: what travels, and how a client is made from it again."""

from __future__ import annotations

import base64
import binascii
import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from tinker_ext.clients import endings
from tinker_ext.errors import InvalidInputError
from tinker_ext.sessions.retry_config import RetryConfig

if TYPE_CHECKING:
    from tinker_ext.clients.sampling import SamplingClient
    from tinker_ext.sessions.workspace import Workspace

_lock = threading.Lock()


@attrs.frozen(eq=False)
class _Shared:
    """What the copies of one session in this process share; it ends with the last of them."""

    workspace: Workspace


_shared: weakref.WeakValueDictionary[tuple[Any, ...], _Shared] = weakref.WeakValueDictionary()


def encode_handle(state: Mapping[str, Any]) -> str:
    """The state as url-safe text."""
    return base64.urlsafe_b64encode(orjson.dumps(state)).decode("ascii")


def decode_handle(handle: str) -> dict[str, Any]:
    """The state of a handle.

    Raises:
        InvalidInputError: The text is no handle.
    """
    try:
        state = orjson.loads(base64.urlsafe_b64decode(handle.encode("ascii")))
    except (ValueError, binascii.Error, UnicodeError):
        state = None
    if not isinstance(state, dict) or "sampling_session_id" not in state:
        raise InvalidInputError("This is no sampler handle; pass what get_sampler_handle gave.")
    return state


def revive(
    state: Mapping[str, Any],
    api_key: str | None = None,
    retry_config: RetryConfig | None = None,
) -> SamplingClient:
    """Make a sampling client from its state, sharing one connection per server and session."""
    from tinker_ext.clients.sampling import SamplingClient

    settings = state.get("retry_config")
    if retry_config is None and settings is not None:
        retry_config = RetryConfig(**settings)
    shared = _share(state, api_key)
    return SamplingClient(
        shared.workspace,
        sampling_session_id=state.get("sampling_session_id"),
        shadow=True,
        retry_config=retry_config,
        record_stability_info=bool(state.get("record_stability_info")),
        model_path=state.get("model_path"),
        base_model=state.get("base_model"),
    )


def _share(state: Mapping[str, Any], api_key: str | None) -> _Shared:
    """The workspace of a session's copies; a client keeps it by the owner it reads there."""
    from tinker_ext.clients.opening import open_workspace

    key = (state.get("base_url"), state.get("session_id"), state.get("wire"), api_key)
    with _lock:
        found = _shared.get(key)
        if found is None or found.workspace.closed:
            workspace = open_workspace(
                base_url=state.get("base_url"),
                api_key=api_key,
                wire=state.get("wire"),
                session_id=state.get("session_id"),
            )
            found = _shared[key] = _Shared(workspace)
            workspace.owner = weakref.ref(found)
            weakref.finalize(found, endings.abandon, workspace).atexit = False
        return found
