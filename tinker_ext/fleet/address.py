"""Which store an address means, and what of it may be shown."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet.redis import RedisStore
from tinker_ext.fleet.sqlite import SqliteStore

SCHEMES = ("redis", "rediss", "unix")
SHOWN = ("db", "ssl_ca_certs", "ssl_cert_reqs", "ssl_check_hostname")
"""Options of a URL that others may see and need; any other may be a secret, or a misspelt one."""


def open_store(address: str) -> SqliteStore | RedisStore:
    """The store that an address means: a folder, or a URL of Redis. Nothing is connected yet.

    Raises:
        ConfigurationError: The address is neither, or a package is missing.
    """
    scheme, colon, _ = address.partition("://")
    if not colon:
        if address.partition(":")[0].lower() in SCHEMES:
            raise ConfigurationError(
                "The address of the fleet is neither a folder nor a URL: after redis: comes //, as "
                "in redis://HOST:PORT/DB."
            )
        try:
            os.fsencode(place := without_password(address))
        except (RuntimeError, UnicodeError) as error:
            raise ConfigurationError(
                f"The fleet's folder {address!r} cannot be used: {error}"
            ) from None
        return SqliteStore(Path(place))
    if scheme not in SCHEMES:
        raise ConfigurationError(
            f"A fleet cannot live at {scheme}://…; give a folder, or redis://HOST:PORT/DB."
        )
    place = without_password(address)
    if "…" in place:
        raise ConfigurationError(
            f"The address of the fleet, {place}, is not a URL of Redis. In a password, write # as "
            "%23, / as %2F, ? as %3F, @ as %40, [ as %5B and ] as %5D."
        )
    return RedisStore(_with_password(address), place)


def without_password(address: str) -> str:
    """The address as it may travel to other processes and be shown.

    Example:
        >>> without_password("redis://user:secret@host:6379/0")
        'redis://user@host:6379/0'
    """
    if "://" not in address:
        return str(Path(address).expanduser().absolute())
    try:
        parts = urlsplit(address)
        rest = parts.path + parts.query + parts.fragment
    except ValueError:
        rest = "@"
    if "@" in rest:  # a part of the password, which ended the host where it should not
        return address.partition("://")[0] + "://…"
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
