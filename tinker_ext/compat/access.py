"""`tinker.auth`: which credential is configured, and whether the server accepts it."""

from __future__ import annotations

import os

import attrs

from tinker_ext import auth
from tinker_ext.auth import origin_of
from tinker_ext.config import HOSTED_BASE_URL
from tinker_ext.errors import TinkerError


def get_tinker_token() -> str | None:
    """The configured key, or None; runs no credential command and asks no server."""
    try:
        here = origin_of(os.environ.get("TINKER_BASE_URL") or HOSTED_BASE_URL)
        return os.environ.get("TINKER_API_KEY") or auth.default_key(origin=here)
    except (OSError, TinkerError, ValueError):
        return None


def tinker_has_credentials() -> bool:
    """Whether a credential is configured; a credential command counts without being run."""
    try:
        return auth.has_credentials()
    except (OSError, TinkerError, ValueError):
        return False


def raise_if_tinker_not_accessible() -> None:
    """Ask the server for its capabilities once.

    Raises:
        TinkerError: No credential is configured, the server refuses it, the account is not set
            up, or the server cannot be reached; the class says which.
    """
    from tinker_ext.clients.service import ServiceClient

    try:
        with ServiceClient() as client:
            # One request, so that a refusal is an error and not a wait.
            server = client.holder.server
            server.config = attrs.evolve(server.config, retry_attempts=1)
            client.get_server_capabilities()
    except TinkerError:
        raise
    except (OSError, ValueError) as error:
        raise TinkerError(str(error)) from error
