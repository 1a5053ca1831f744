"""Where the credential of a connection comes from, and how it stays out of sight.

A connection asks its :class:`Credentials` for the value of ``X-API-Key`` before each request. The
value is an API key, or a short-lived JWT that the server exchanged for one. Keys live inside
:class:`~tinker_ext.config.Secret`, which prints as ``***`` and refuses to be pickled.

Example:
    >>> StaticKey("tml-example")
    StaticKey(***)
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tinker_ext.config import Concealed, Secret
from tinker_ext.errors import TinkerError

if TYPE_CHECKING:
    from pathlib import Path

HOSTED_HOST = "tinker.thinkingmachines.dev"
HOSTED_PREFIXES = ("tml-", "eyJ")
COMMAND_TIMEOUT_S = 30.0
JWT_ON_DEMAND_MARGIN_S = 60.0
JWT_EARLY_MARGIN_S = 300.0
JWT_RETRY_AFTER_FAILURE_S = 60.0


class Credentials(Protocol):
    """What a connection needs to know about its credential."""

    @property
    def fingerprint(self) -> str:
        """A short digest that tells credentials apart without showing them."""

    async def header(self) -> str | None:
        """Return the value for ``X-API-Key``, or None to send no such header."""


class StaticKey:
    """One API key (or JWT) given by the user; the same value for every request."""

    def __init__(self, key: str | None) -> None:
        self._secret = Secret(key) if key else None

    @property
    def fingerprint(self) -> str:
        """A short digest of the key; ``anonymous`` without one."""
        return self._secret.fingerprint if self._secret else "anonymous"

    async def header(self) -> str | None:
        """Return the key, or None when there is none."""
        return self._secret.reveal() if self._secret else None

    def __repr__(self) -> str:
        return "StaticKey(***)" if self._secret else "StaticKey(none)"


class CommandKey:
    """A credential printed by a shell command, asked for on each use."""

    def __init__(self, command: str) -> None:
        self._command = Secret(command)

    @property
    def fingerprint(self) -> str:
        """A digest of the command, since its output changes over time."""
        return self._command.fingerprint

    async def header(self) -> str:
        """Run the command in a worker thread and return what it printed."""
        return await asyncio.to_thread(run_credential_command, self._command.reveal())

    def __repr__(self) -> str:
        return "CommandKey(***)"


def run_credential_command(command: str) -> str:
    """Run a credential command and return its trimmed output.

    Raises:
        TinkerError: the command failed, took too long or printed nothing. Its output is not shown.
    """
    command = Concealed(command)
    try:
        done = subprocess.run(
            command,
            shell=True,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TinkerError(
            f"TINKER_CREDENTIAL_CMD did not finish within {COMMAND_TIMEOUT_S:.0f} s; "
            "run it in a shell to see what it waits for"
        ) from None
    code, value = done.returncode, Concealed(done.stdout.strip())
    del done  # its repr shows the output
    if code != 0:
        raise TinkerError(
            f"TINKER_CREDENTIAL_CMD ended with exit code {code}; run it in a shell to see why"
        )
    if not value:
        raise TinkerError("TINKER_CREDENTIAL_CMD printed nothing; it must print a key or a JWT")
    return value


Exchange = Callable[[str], Awaitable[str]]


class ExchangedToken:
    """A JWT that the server gives for a credential, renewed before it ends.

    Renewal never spins: a token is renewed when less than a margin of its life is left, and the
    margin is at most a third of the lifetime, so that a server handing out tokens of two seconds is
    asked about once per lifetime and not in a tight loop.
    """

    def __init__(
        self,
        source: Credentials,
        exchange: Exchange,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._exchange = exchange
        self._now = now
        self._token: Secret | None = None
        self._expires_at = 0.0
        self._lifetime = 0.0
        self._not_before = 0.0
        self._renewal: asyncio.Task[None] | None = None

    @property
    def fingerprint(self) -> str:
        """The digest of the credential behind the token."""
        return self._source.fingerprint

    async def header(self) -> str | None:
        """Return a token that is still good, exchanging or renewing it where needed."""
        left = self._expires_at - self._now()
        third = self._lifetime / 3
        if self._token is None or left <= min(JWT_ON_DEMAND_MARGIN_S, third):
            await self._renew(must=self._token is None or left <= 0)
        elif left <= min(JWT_EARLY_MARGIN_S, third) and self._now() >= self._not_before:
            self._start_renewal()
        return self._token.reveal() if self._token else None

    async def _renew(self, *, must: bool) -> None:
        if not must and self._now() < self._not_before:
            return
        task = self._start_renewal()
        try:
            await asyncio.shield(task)
        except TinkerError:
            if must:
                raise

    def _start_renewal(self) -> asyncio.Task[None]:
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.ensure_future(self._fetch())
            self._renewal.add_done_callback(_retrieve_quietly)
        return self._renewal

    async def _fetch(self) -> None:
        credential = Concealed(await self._source.header() or "")
        if not credential:
            raise TinkerError("this server wants a token exchange, and there is no key to exchange")
        try:
            token = Concealed(await self._exchange(credential))
        except TinkerError:
            self._not_before = self._now() + JWT_RETRY_AFTER_FAILURE_S
            raise
        claims = jwt_claims(token)
        self._token = Secret(token)
        self._expires_at = float(claims.get("exp", self._now() + 3600))
        self._lifetime = max(self._expires_at - self._now(), 1.0)
        self._not_before = self._now() + self._lifetime / 3

    def __repr__(self) -> str:
        return "ExchangedToken(***)"


def _retrieve_quietly(task: asyncio.Task[None]) -> None:
    # An early renewal that fails is tried again later; the old token still works.
    if not task.cancelled():
        task.exception()


def jwt_claims(token: str) -> dict[str, Any]:
    """Read the claims of a JWT without verifying it (the server does that).

    Raises:
        TinkerError: the text is not a JWT.
    """
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError):
        raise TinkerError("the server's token is not a JWT; its claims cannot be read") from None
    if not isinstance(claims, dict):
        raise TinkerError("the server's token carries no claims object")
    return claims


def is_hosted(base_url: str) -> bool:
    """Tell whether a base URL is the hosted service, the only server that checks key prefixes."""
    return HOSTED_HOST in base_url


def resolve(
    api_key: str | None = None,
    *,
    base_url: str = "",
    env: Mapping[str, str] | None = None,
    stored: Path | None = None,
) -> Credentials:
    """Find the credential: argument, TINKER_API_KEY, command, stored key, in this order.

    Args:
        api_key: what the user passed, if anything.
        base_url: where it will be sent; the hosted service alone insists on a key of its own shape.
        env: environment to read instead of the process's.
        stored: credentials file to read instead of ``~/.tinker/credentials.json``.

    Raises:
        TinkerError: the hosted service is meant and no usable credential was found.
    """
    values = os.environ if env is None else env
    command = values.get("TINKER_CREDENTIAL_CMD")
    key = Concealed(api_key or values.get("TINKER_API_KEY") or "")
    api_key = None
    hosted = is_hosted(base_url)
    if key and (not hosted or key.startswith(HOSTED_PREFIXES)):
        return StaticKey(key)
    if command:
        return CommandKey(command)
    if key:
        raise TinkerError(
            "the API key does not look like one of the hosted service (they start with 'tml-'); "
            "check TINKER_API_KEY, or set TINKER_BASE_URL if it belongs to another server"
        )
    default = default_key(stored)
    if default:
        return StaticKey(default)
    if hosted:
        raise TinkerError(
            "no API key found; set TINKER_API_KEY, pass api_key=…, set TINKER_CREDENTIAL_CMD, or "
            "run `tinker-ext auth login`. To try things out without a key, use base_url='embedded'"
        )
    return StaticKey(None)


def has_credentials(env: Mapping[str, str] | None = None) -> bool:
    """Tell whether any credential is configured, without running a credential command."""
    values = os.environ if env is None else env
    given = values.get("TINKER_API_KEY") or values.get("TINKER_CREDENTIAL_CMD")
    return bool(given) or default_key() is not None


def default_key(path: Path | None = None) -> str | None:
    """Return the stored default key, or None when nothing is stored."""
    from tinker_ext.credentials import CredentialStore

    return CredentialStore(path).default_key()
