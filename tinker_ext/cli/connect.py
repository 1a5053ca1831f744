"""The clients a command works with: made for the server the user meant, closed when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.screen import Screen

if TYPE_CHECKING:
    from tinker_ext.clients.admin import AdminClient
    from tinker_ext.clients.rest import RestClient
    from tinker_ext.clients.service import ServiceClient


def server(screen: Screen) -> str | None:
    """Return the base URL to use; None means the hosted service.

    Raises:
        CommandError: Nothing says which server is meant, so there is nothing to look at.
    """
    url = screen.base_url or os.environ.get("TINKER_BASE_URL")
    if url:
        return url
    from tinker_ext.auth import has_credentials

    if not has_credentials():
        raise CommandError(
            "no server is configured: there is neither an API key nor a base URL",
            "Set TINKER_API_KEY for the hosted service or run `tinker-ext auth login`; set\n"
            "TINKER_BASE_URL (or pass --base-url) for another server, for example one started by\n"
            "`tinker-ext serve`. To try things out with neither: `tinker-ext quickstart`.",
        )
    return None


@contextmanager
def rest(screen: Screen) -> Iterator[RestClient]:
    """Yield a client for look-ups; it opens no session."""
    from tinker_ext import RestClient

    client = RestClient(base_url=server(screen))
    try:
        yield client
    finally:
        client.close().result()


@contextmanager
def admin(screen: Screen) -> Iterator[AdminClient]:
    """Yield a client for billing, next to a look-up client that owns the connection."""
    from tinker_ext import AdminClient

    with rest(screen) as client:
        yield AdminClient(client._workspace)


@contextmanager
def service(screen: Screen) -> Iterator[ServiceClient]:
    """Yield a client that can train; its session ends with the block."""
    from tinker_ext import ServiceClient

    with ServiceClient(base_url=server(screen)) as client:
        yield client
