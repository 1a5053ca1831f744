"""Where the credential of a connection comes from, and how it stays out of sight.

A connection asks its :class:`Credentials` for the value of ``X-API-Key`` before each request. The
value is an API key, or a short-lived JWT that the server exchanged for one. Keys live inside
:class:`~tinker_ext.config.Secret`, which prints as ``***`` and refuses to be pickled.

Stored keys have one file for each origin. ``~/.tinker/credentials.json`` holds those of the hosted
service, in the layout other Tinker tools use (version 1, a default key id, a map of keys), so that
a key stored by one is found by the other. Those tools send its default key to whatever server they
are pointed at, and drop fields they do not know. So the key of another server is not in that file
but in one that is named by its origin, below ``~/.tinker/servers``.

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
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

from tinker_ext.config import Concealed, Secret
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
FILE_VERSION = 1
KINDS = ("manual", "generated")
HOSTED_ORIGIN = "https://tinker.thinkingmachines.dev"
_PORTS = {"http": 80, "https": 443}


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
    def is_secret(self) -> bool:
        """Whether somebody could misuse it; a short one is a stand-in, such as "dummy"."""
        return self._secret is not None and len(self._secret.reveal()) >= SHORTEST_SECRET

    async def header(self) -> str | None:
        """Return the key, or None without one."""
        return self._secret.reveal() if self._secret else None

    def __repr__(self) -> str:
        return "StaticKey(***)" if self._secret else "StaticKey(none)"


class _Renewed:
    """A credential that expires: renewed before that, by one request at a time, never in a loop.

    It is renewed when less than a margin of its life is left. The margin is at most a third of the
    life, so that values that live for two seconds are asked for about once per life. After a
    failure nobody asks for a while: those who need a new value get the same error meanwhile.

    Args:
        now: The clock.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._value: Secret | None = None
        self._life = 0.0
        self._got_at = 0.0
        self._expires_at = 0.0
        self._failed_at = float("-inf")
        self._failure: TinkerError | None = None
        self._renewal: asyncio.Task[None] | None = None

    async def _fetch(self) -> tuple[str, float]:
        """Get a value, and the seconds it is good for."""
        raise NotImplementedError

    async def header(self) -> str:
        """The value; fetched when the last one is no longer good."""
        left = self._expires_at - self._now()
        third = self._life / 3
        if self._value is None or left <= 0:
            if self._failure is not None and self._rests(ASK_AFTER_FAILURE_S):
                raise self._failure.with_traceback(None)
            await asyncio.shield(self._renew())
        elif left <= min(EARLY_MARGIN_S, third) and not self._rests(RETRY_AFTER_FAILURE_S):
            renewal = self._renew()
            if left <= min(ON_DEMAND_MARGIN_S, third):
                with contextlib.suppress(TinkerError):  # the old one is still good
                    await asyncio.shield(renewal)
        assert self._value is not None
        return self._value.reveal()

    def refused(self, value: str) -> None:
        """Note that the server did not take a value; one that is new is kept nevertheless."""
        old = self._now() - self._got_at >= REFUSED_AFTER_S
        if old and self._value is not None and self._value.reveal() == value:
            self._expires_at = self._now()

    def _rests(self, seconds: float) -> bool:
        return 0 <= self._now() - self._failed_at < seconds

    def _renew(self) -> asyncio.Task[None]:
        task = self._renewal
        # A task of another loop belongs to the process that forked this one.
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = self._renewal = asyncio.ensure_future(self._get_anew())
            # An early renewal that fails is tried again later; the old value still works.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class CommandKey(_Renewed):
    """A credential printed by a shell command, kept for a while.

    A JWT is kept as long as it says it is good, anything else for `COMMAND_LIFE_S` seconds or until
    the server refuses it. The command runs in a worker thread, for all who ask meanwhile.
    """

    def __init__(self, command: str, *, now: Callable[[], float] = time.time) -> None:
        self._command = Secret(command)
        super().__init__(now)

    @property
    def fingerprint(self) -> str:
        """A digest of the command, since its output changes over time."""
        return self._command.fingerprint

    async def _fetch(self) -> tuple[str, float]:
        value = await asyncio.to_thread(run_credential_command, self._command.reveal())
        try:
            return value, jwt_life(value, self._now())
        except TinkerError:
            return value, COMMAND_LIFE_S


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
        code, value = done.returncode, Concealed(done.stdout.strip())
        del done  # its repr shows the output
        if code == 0 and value:
            return value
        wrong = "printed nothing; it must print a key or a JWT"
        if code:
            wrong = f"ended with exit code {code}; run it in a shell to see why"
    except subprocess.TimeoutExpired:
        wrong = (
            f"did not finish within {COMMAND_TIMEOUT_S:.0f} s; run it in a shell to see what it "
            "waits for"
        )
    raise TinkerError(f"TINKER_CREDENTIAL_CMD {wrong}")


class ExchangedToken(_Renewed):
    """A JWT that the server gives for a credential, renewed before it ends."""

    def __init__(
        self,
        source: Credentials,
        exchange: Callable[[str], Awaitable[str]],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._exchange = exchange
        super().__init__(now)

    @property
    def fingerprint(self) -> str:
        """The digest of the credential behind the token."""
        return self._source.fingerprint

    async def _fetch(self) -> tuple[str, float]:
        credential = Concealed(await self._source.header() or "")
        if not credential:
            raise TinkerError("this server wants a token exchange, and there is no key to exchange")
        token = Concealed(await self._exchange(credential))
        return token, jwt_life(token, self._now())


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


def origin_of(base_url: str) -> str:
    """Scheme, host and port of a URL, in one spelling; empty for what lacks them.

    Example:
        >>> origin_of("HTTPS://Example.org:443/services/prod")
        'https://example.org'
    """
    try:
        parts = urlsplit(base_url.strip())
        scheme, host, port = parts.scheme.lower(), (parts.hostname or "").lower(), parts.port
    except ValueError:
        return ""
    if not scheme or not host:
        return ""
    place = f"{scheme}://[{host}]" if ":" in host else f"{scheme}://{host}"
    return place if port in (None, _PORTS.get(scheme)) else f"{place}:{port}"


def default_path(origin: str = HOSTED_ORIGIN) -> Path:
    """Return where this user's keys of an origin are stored."""
    folder = Path.home() / ".tinker"
    if origin == HOSTED_ORIGIN:
        return folder / "credentials.json"
    return folder / "servers" / f"{quote(origin, safe='[]')}.json"


def stored_origins() -> list[str]:
    """Return the origins that this user has stored a key for, the hosted service first."""
    others = default_path("x").parent.glob("*.json")
    origins = [HOSTED_ORIGIN, *sorted(unquote(path.stem) for path in others)]
    return [each for each in origins if CredentialStore(origin=each).default_key() is not None]


class CredentialStore:
    """Keys of this user for one origin.

    Args:
        path: The file; by default the one of the origin.
        origin: Where the keys are sent, and nowhere else; by default the hosted service.

    Example:
        >>> import tempfile, pathlib
        >>> store = CredentialStore(pathlib.Path(tempfile.mkdtemp()) / "credentials.json")
        >>> store.add("tml-example", key_id="7", name="laptop")
        >>> store.default_key()
        'tml-example'
    """

    def __init__(self, path: Path | None = None, *, origin: str = HOSTED_ORIGIN) -> None:
        self.path = path or default_path(origin)

    def _read(self) -> dict[str, Any]:
        try:
            data: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
            wrong = _damage(data)
        except FileNotFoundError:
            return {"version": FILE_VERSION, "keys": {}}
        except OSError as error:
            raise TinkerError(f"cannot read {self.path}: {error.strerror}") from None
        except (ValueError, RecursionError):
            wrong = "is not valid JSON"
        if wrong:
            raise TinkerError(
                f"{self.path} {wrong}; move it away and run `tinker-ext auth login`"
            ) from None
        return data

    def _write(self, data: dict[str, Any]) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp makes the file private from the start; replace makes the change all or nothing.
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".credentials-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(data, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o600)
            os.replace(temporary, self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def keys(self) -> dict[str, dict[str, Any]]:
        """Return the stored records by id, with the key text removed."""
        records = self._read()["keys"]
        return {
            key_id: {field: value for field, value in record.items() if field != "key"}
            for key_id, record in records.items()
        }

    def default_id(self) -> str | None:
        """Return the id of the default key."""
        default = self._read().get("default")
        return str(default) if default is not None else None

    def default_key(self) -> str | None:
        """Return the text of the default key, or None when nothing is stored."""
        data = self._read()
        record = data["keys"].get(str(data.get("default")))
        key = None if record is None else record.get("key")
        return key if isinstance(key, str) else None

    def add(
        self,
        key: str,
        *,
        key_id: str,
        name: str,
        note: str | None = None,
        details: dict[str, Any] | None = None,
        kind: str = "manual",
    ) -> None:
        """Store a key and make it the default one."""
        data = self._read()
        record = {"type": kind, "key": key, "name": name, "note": note, "details": details}
        data["keys"][key_id] = {k: value for k, value in record.items() if value is not None}
        data["default"] = key_id
        self._write(data)

    def remove(self, key_id: str) -> bool:
        """Forget a key; return whether it was stored."""
        data = self._read()
        if key_id not in data["keys"]:
            return False
        del data["keys"][key_id]
        if data.get("default") == key_id:
            data.pop("default")
            if data["keys"]:
                data["default"] = next(iter(data["keys"]))
        self._write(data)
        return True


def _damage(data: Any) -> str | None:
    """What keeps a file of keys from being used, in words."""
    if not isinstance(data, dict) or data.get("version") != FILE_VERSION:
        return "has a layout this version does not know"
    keys = data.setdefault("keys", {})
    for key_id, record in keys.items() if isinstance(keys, dict) else [("keys", None)]:
        if not isinstance(record, dict) or record.get("type") not in KINDS:
            return f"has a record this version does not know ({key_id!r})"
    return None


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
    secret = not isinstance(credentials, StaticKey) or credentials.is_secret
    if origin in _warned or not secret or not is_exposed(base_url):
        return
    _warned.add(origin)
    warnings.warn(
        f"The API key goes to {origin} unencrypted, so that everybody on the way can read it. Use "
        "https, or reach the server through a tunnel to 127.0.0.1.",
        UserWarning,
        stacklevel=4,
    )
