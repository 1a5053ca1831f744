"""`Store`: the place at an address where fleets are kept, and what it says about all members."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import orjson

from tinker_ext._version import __version__
from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet.engines import Database, Redis, StoreUnreachableError
from tinker_ext.fleet.state import FleetRecord, kept_in, record_of, report

LAYOUT = 5  # of what is written into a store; another when another version could misread it
SCHEMES = ("redis", "rediss", "unix")
# Options of a URL that others may see and need; any other may be a secret, or a misspelt one.
SHOWN = ("db", "ssl_ca_certs", "ssl_cert_reqs", "ssl_check_hostname")
_ONE_VERSION = "Run one version in all processes, or give this run a place of its own."


class Store:
    """A place that all members of a fleet reach; `place` is its address without a password."""

    def __init__(self, place: str, engine: Database | Redis) -> None:
        self.place, self._engine = place, engine
        self.salt = ""

    def open(self, *, make: bool = True) -> None:
        """Check the layout and learn the salt; only `make` writes them into an empty store.

        Raises:
            ConfigurationError: The store cannot be used; says why.
        """
        mine = {"layout": str(LAYOUT), "salt": self.salt or secrets.token_hex(16)}
        found = self._engine.open(mine if make else {})
        layout, self.salt = found.get("layout") or mine["layout"], found.get("salt") or ""
        if layout != mine["layout"]:
            age = "an older" if layout.isdecimal() and int(layout) < LAYOUT else "a newer"
            raise ConfigurationError(
                f"The fleet at {self.place} was written by {age} version of tinker-ext: its layout "
                f"is {layout}, and version {__version__} uses {LAYOUT}. {_ONE_VERSION}"
            )

    def enter(self, base_url: str, fingerprint: str) -> str:
        """Open the store, and return the name of the fleet of a server and a credential.

        Raises:
            ConfigurationError: It cannot be used, or is in use by members of another version,
                which plan by other rules.
        """
        self.open()
        group = self.group_of(base_url, fingerprint)
        for member in self.look(group).members:
            theirs = str(member.get("version"))
            if theirs.split(".")[:2] != __version__.split(".")[:2]:
                raise ConfigurationError(
                    f"The fleet at {self.place} is in use by tinker-ext {theirs} "
                    f"({member['id']}) and this is {__version__}. {_ONE_VERSION}"
                )
        return group

    def group_of(self, base_url: str, fingerprint: str) -> str:
        """The name of a server and a credential (its one-way mark) here; reveals neither."""
        text = f"{base_url}\0{fingerprint}".encode()
        return hmac.new(self.salt.encode(), text, hashlib.sha256).hexdigest()[:24]

    def groups(self) -> list[str]:
        """The names of all fleets here."""
        return self._engine.groups(self.salt)

    def report(self, group: str, given: Mapping[str, Any]) -> tuple[int, FleetRecord]:
        """Take the step of a member (`state.report`); what was granted, and what applies now.

        Raises:
            StoreUnreachableError: The store did not answer, or is another one.
        """

        def change(now: float, text: str | None) -> tuple[tuple[int, FleetRecord], str]:
            kept = kept_in(text)
            granted = report(kept, now, given)
            return (granted, record_of(kept, now)), orjson.dumps(kept).decode()

        with self.reading():
            granted, found = self._engine.step(group, self.salt, change)
            return granted, found

    def look(self, group: str) -> FleetRecord:
        """Read everything about a fleet."""
        with self.reading():
            now, text = self._engine.read(group, self.salt)[:2]
            return record_of(kept_in(text), now)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Make what another program wrote into the store a `StoreUnreachableError`."""
        try:
            yield
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise StoreUnreachableError(
                f"{self.place}: what it holds is damaged ({error!r}); delete it when no fleet "
                "uses it, or give another place"
            ) from error

    def close(self) -> None:
        """End the connections."""
        self._engine.close()


def open_store(address: str) -> Store:
    """The store that an address means: a folder, or a URL of Redis. Nothing is connected yet.

    Raises:
        ConfigurationError: The address is neither, or a package is missing.
    """
    place = without_password(address)
    if "://" not in place:
        return Store(place, Database(Path(place)))
    if "…" in place or place.partition("://")[0] not in SCHEMES:
        raise ConfigurationError(
            f"A fleet cannot live at {place}; give a folder, or redis://HOST:PORT/DB. In a "
            "password, write # as %23, / as %2F, ? as %3F, @ as %40, [ as %5B and ] as %5D."
        )
    return Store(place, Redis(_with_password(address), place))


def without_password(address: str) -> str:
    """The address as it may travel to other processes and be shown.

    Raises:
        ConfigurationError: It is a folder that cannot be named.

    Example:
        >>> without_password("redis://user:secret@host:6379/0")
        'redis://user@host:6379/0'
    """
    scheme, is_url = address.partition(":")[0], "://" in address
    if not is_url and scheme.lower() not in SCHEMES:
        try:
            os.fsencode(folder := str(Path(address).expanduser().absolute()))
        except (RuntimeError, UnicodeError) as error:
            problem = f"The fleet's folder {address!r} cannot be used: {error}"
            raise ConfigurationError(problem) from None
        return folder
    try:
        parts = urlsplit(address)
        _ = parts.port  # where the host was forgotten it is the password, and not a number
        rest = parts.path + parts.query + parts.fragment
    except ValueError:
        rest = "@"
    if "@" in rest or not is_url:  # a part of the password may be where it should not
        return f"{scheme}://…"
    user = f"{parts.username}@" if parts.username else ""
    query = urlencode([pair for pair in parse_qsl(parts.query) if pair[0] in SHOWN], safe="/")
    shown = f"{parts.scheme}://{user}{parts.netloc.rpartition('@')[2]}{parts.path}"
    return f"{shown}?{query}" if query else shown


def _with_password(address: str) -> str:
    """The address with the password this process knows, for one that came without it."""
    own, password = os.environ.get("TINKER_EXT_FLEET", ""), os.environ.get("REDISCLI_AUTH")
    parts = urlsplit(address)
    if parts.password is None and "://" in own and without_password(own) == address:
        return own
    if parts.password is not None or not password:
        return address
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))
