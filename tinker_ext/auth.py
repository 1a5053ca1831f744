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
import contextlib
import ipaddress
import json
import math
import os
import subprocess
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from tinker_ext.config import Concealed, Secret
from tinker_ext.credentials import HOSTED_ORIGIN, CredentialStore, origin_of
from tinker_ext.errors import TinkerError

HOSTED_PREFIXES = ("tml-", "eyJ")
SHORTEST_SECRET = 16
COMMAND_TIMEOUT_S = 30.0
COMMAND_LIFE_S = 300.0
ON_DEMAND_MARGIN_S = 60.0
EARLY_MARGIN_S = 300.0
RETRY_AFTER_FAILURE_S = 60.0
"""Between two failed renewals while the old value is still good."""
ASK_AFTER_FAILURE_S = 5.0
"""Between two failures when there is no good value: a broken source is not asked by every call."""
REFUSED_AFTER_S = 30.0
"""A younger value that the server refuses is not renewed: the next one would be refused too."""
DEFAULT_LIFE_S = 3600.0
UNKNOWN_LIFE_S = 60.0


class Credentials(Protocol):
    """What a connection needs to know about its credential."""

    @property
    def fingerprint(self) -> str:
        """A short digest that tells credentials apart without showing them."""

    async def header(self) -> str | None:
        """Return the value for ``X-API-Key``, or None to send no such header."""


class StaticKey:
    """One API key (or JWT) given by the user; the same value for every request."""

    constant = True
    """Asked for once: the value does not change."""

    def __init__(self, key: str | None) -> None:
        self._secret = Secret(key) if key else None

    @property
    def fingerprint(self) -> str:
        """A short digest of the key; ``anonymous`` without one."""
        return self._secret.fingerprint if self._secret else "anonymous"

    @property
    def length(self) -> int:
        """Characters of the key; 0 without one."""
        return len(self._secret.reveal()) if self._secret else 0

    async def header(self) -> str | None:
        """Return the key, or None without one."""
        return self._secret.reveal() if self._secret else None

    def __repr__(self) -> str:
        return "StaticKey(***)" if self._secret else "StaticKey(none)"


class CommandKey:
    """A credential printed by a shell command, kept for a while.

    A JWT is kept as long as it says it is good, anything else for `COMMAND_LIFE_S` seconds or until
    the server refuses it.
    """

    def __init__(self, command: str, *, now: Callable[[], float] = time.time) -> None:
        self._command = Secret(command)
        self._now = now
        self._value = _Renewed(self._run, now)

    @property
    def fingerprint(self) -> str:
        """A digest of the command, since its output changes over time."""
        return self._command.fingerprint

    async def header(self) -> str:
        """What the command printed; it runs in a worker thread, for all who ask meanwhile."""
        return await self._value.get()

    def refused(self, value: str) -> None:
        """Run the command again for the next request, since the server did not take this."""
        self._value.refused(value)

    async def _run(self) -> tuple[str, float]:
        value = await asyncio.to_thread(run_credential_command, self._command.reveal())
        try:
            return value, jwt_life(value, self._now())
        except TinkerError:
            return value, COMMAND_LIFE_S

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


class _Renewed:
    """A secret with a life: renewed before it ends, by one request at a time, never in a loop.

    It is renewed when less than a margin of its life is left. The margin is at most a third of the
    life, so that values that live for two seconds are asked for about once per life. After a
    failure nobody asks for a while: those who need a new value get the same error meanwhile.

    Args:
        fetch: Gets a value and the seconds it is good for.
        now: The clock.
    """

    def __init__(
        self, fetch: Callable[[], Awaitable[tuple[str, float]]], now: Callable[[], float]
    ) -> None:
        self._fetch = fetch
        self._now = now
        self._value: Secret | None = None
        self._life = 0.0
        self._got_at = 0.0
        self._expires_at = 0.0
        self._failed_at = float("-inf")
        self._failure: TinkerError | None = None
        self._renewal: asyncio.Task[None] | None = None

    async def get(self) -> Concealed:
        """The value; fetched when the last one is no longer good."""
        left = self._expires_at - self._now()
        third = self._life / 3
        if self._value is None or left <= 0:
            await self._need()
        elif left <= min(ON_DEMAND_MARGIN_S, third) and not self._rests(RETRY_AFTER_FAILURE_S):
            with contextlib.suppress(TinkerError):  # the old one is still good
                await asyncio.shield(self._renew())
        elif left <= min(EARLY_MARGIN_S, third) and not self._rests(RETRY_AFTER_FAILURE_S):
            self._renew()
        assert self._value is not None
        return self._value.reveal()

    def refused(self, value: str) -> None:
        """Note that the server did not take a value; one that is new is kept all the same."""
        old = self._now() - self._got_at >= REFUSED_AFTER_S
        if old and self._value is not None and self._value.reveal() == value:
            self._expires_at = self._now()

    async def _need(self) -> None:
        if self._failure is not None and self._rests(ASK_AFTER_FAILURE_S):
            raise self._failure.with_traceback(None)
        await asyncio.shield(self._renew())

    def _rests(self, seconds: float) -> bool:
        return 0 <= self._now() - self._failed_at < seconds

    def _renew(self) -> asyncio.Task[None]:
        task = self._renewal
        # A task of another loop belongs to the process that forked this one.
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = self._renewal = asyncio.ensure_future(self._get_anew())
            task.add_done_callback(_retrieve_quietly)
        return task

    async def _get_anew(self) -> None:
        try:
            value, life = await self._fetch()
        except TinkerError as error:
            self._failed_at, self._failure = self._now(), error
            raise
        self._value = Secret(value)
        self._life = max(life, 1.0)
        self._got_at = self._now()
        self._expires_at = self._got_at + self._life
        self._failure = None


class ExchangedToken:
    """A JWT that the server gives for a credential, renewed before it ends."""

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
        self._token = _Renewed(self._fetch, now)

    @property
    def fingerprint(self) -> str:
        """The digest of the credential behind the token."""
        return self._source.fingerprint

    async def header(self) -> str:
        """A token that is still good, exchanged or renewed where needed."""
        return await self._token.get()

    def refused(self, value: str) -> None:
        """Exchange anew for the next request, since the server did not take this token."""
        self._token.refused(value)

    async def _fetch(self) -> tuple[str, float]:
        credential = Concealed(await self._source.header() or "")
        if not credential:
            raise TinkerError("this server wants a token exchange, and there is no key to exchange")
        token = Concealed(await self._exchange(credential))
        return token, jwt_life(token, self._now())

    def __repr__(self) -> str:
        return "ExchangedToken(***)"


def _retrieve_quietly(task: asyncio.Task[None]) -> None:
    # An early renewal that fails is tried again later; the old value still works.
    if not task.cancelled():
        task.exception()


def jwt_life(token: str, now: float) -> float:
    """Seconds a JWT that was given just now is good for.

    Clocks differ: where `iat` says when it was made, its life counts from our own now; and a token
    that has ended by our clock alone is used for as long as it was meant to live.

    Raises:
        TinkerError: The text is not a JWT, or its times are not numbers.
    """
    claims = jwt_claims(token)
    ends, made = _time(claims, "exp"), _time(claims, "iat")
    if ends is None:
        return DEFAULT_LIFE_S
    left = ends - now
    if made is not None and ends > made:
        return ends - made if left <= 0 else min(left, ends - made)
    return left if left > 0 else UNKNOWN_LIFE_S


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TinkerError(
            f"the server's token says {name} = {type(value).__name__} where a time in seconds "
            "belongs; tell whoever runs the server"
        )
    return float(value)


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
    return origin_of(base_url) == HOSTED_ORIGIN


def resolve(
    api_key: str | None = None,
    *,
    base_url: str = "",
    command: str | None = None,
    env: Mapping[str, str] | None = None,
    stored: Path | None = None,
) -> Credentials:
    """Find the credential: arguments, TINKER_API_KEY, command, stored key, in this order.

    Args:
        api_key: what the user passed, if anything.
        base_url: where it will be sent; a stored key goes to the origin it was given for alone, and
            the hosted service alone insists on a key of its own shape.
        command: a credential command that the user passed.
        env: environment to read instead of the process's.
        stored: credentials file to read instead of the one of the origin.

    Raises:
        TinkerError: the hosted service is meant and no usable credential was found.
    """
    values = os.environ if env is None else env
    if command and not api_key:
        return CommandKey(command)
    command = command or values.get("TINKER_CREDENTIAL_CMD")
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
    default = default_key(stored, origin=origin_of(base_url))
    if default:
        return StaticKey(default)
    if hosted:
        raise TinkerError(
            "no API key found; set TINKER_API_KEY, pass api_key=…, set TINKER_CREDENTIAL_CMD, or "
            "run `tinker-ext auth login`. To try things out without a key, use base_url='embedded'"
        )
    return StaticKey(None)


def has_credentials(env: Mapping[str, str] | None = None) -> bool:
    """Tell whether there is a credential for the hosted service, without running a command."""
    values = os.environ if env is None else env
    given = values.get("TINKER_API_KEY") or values.get("TINKER_CREDENTIAL_CMD")
    return bool(given) or default_key() is not None


def default_key(path: Path | None = None, *, origin: str = HOSTED_ORIGIN) -> str | None:
    """Return the key that is stored for an origin, or None without one."""
    return CredentialStore(path, origin=origin).default_key() if origin else None


def is_exposed(base_url: str) -> bool:
    """Tell whether what is sent to a base URL leaves this machine unencrypted."""
    origin = origin_of(base_url)
    if not origin.startswith("http://"):
        return False
    host = urlsplit(origin).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost" and not host.endswith(".localhost")


_warned: set[str] = set()


def warn_if_exposed(base_url: str, credentials: Credentials) -> None:
    """Say, once per origin and process, that a key travels where others can read it."""
    origin = origin_of(base_url)
    if origin in _warned or not is_exposed(base_url) or not _is_secret(credentials):
        return
    _warned.add(origin)
    warnings.warn(
        f"The API key goes to {origin} unencrypted, so that everybody on the way can read it. Use "
        "https, or reach the server through a tunnel to 127.0.0.1.",
        UserWarning,
        stacklevel=4,
    )


def _is_secret(credentials: Credentials) -> bool:
    # A short one is a stand-in such as "dummy" or "tml-test", for servers that want any text.
    return not isinstance(credentials, StaticKey) or credentials.length >= SHORTEST_SECRET
