"""The clients a command works with: made for the server the user meant, closed when it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tinker_ext.cli.screen import Screen

if TYPE_CHECKING:
    import httpx

    from tinker_ext.clients.rest import AdminClient, RestClient
    from tinker_ext.clients.service import ServiceClient
    from tinker_ext.config import Config
    from tinker_ext.core.workspace import Workspace

RETRY_SECONDS = 5.0


def server(screen: Screen) -> str | None:
    """Return the base URL to use; None means the hosted service.

    Without a key and a URL it is the embedded server, as everywhere, and stderr says so.
    """
    url = screen.base_url or os.environ.get("TINKER_BASE_URL")
    if url:
        return url
    from tinker_ext.auth import has_credentials

    if has_credentials():
        return None
    from tinker_ext.mock import embedded

    # Without the file and line that a warning of Python has; also when stdout is JSON.
    print(f"Note: {embedded.NOTICE}", file=sys.stderr)
    return embedded.NAMES[0]


def downloads(screen: Screen) -> httpx.Client | None:
    """Return what reaches the files of the embedded server; None where they have a real address."""
    from tinker_ext.mock import embedded

    url = screen.base_url or os.environ.get("TINKER_BASE_URL")
    if url is None or not embedded.is_embedded(url):
        return None
    import httpx

    from tinker_ext.mock.in_process import Downloads

    return httpx.Client(transport=Downloads(embedded.application(url)))


def patience(base_url: str | None) -> Config:
    """Return settings for somebody who waits at a terminal: no minutes of retries.

    Variables of the environment win, so a script can have more patience.
    """
    from tinker_ext.config import HOSTED_BASE_URL, Config

    url = base_url or HOSTED_BASE_URL
    given = os.environ.get("TINKER_EXT_RETRY_WINDOW")
    return Config.from_env(base_url=url, retry_window=None if given else RETRY_SECONDS)


@contextmanager
def workspace(screen: Screen) -> Iterator[Workspace]:
    """Yield a connection without a session, closed after the block."""
    from tinker_ext.clients.opening import open_workspace

    url = server(screen)
    opened = open_workspace(base_url=url, config=patience(url))
    try:
        yield opened
    finally:
        from tinker_ext.clients.rest import RestClient

        RestClient(opened).close().result()


@contextmanager
def rest(screen: Screen) -> Iterator[RestClient]:
    """Yield a client for look-ups; it opens no session."""
    from tinker_ext import RestClient

    with workspace(screen) as opened:
        yield RestClient(opened)


@contextmanager
def admin(screen: Screen) -> Iterator[AdminClient]:
    """Yield a client for billing."""
    from tinker_ext import AdminClient

    with workspace(screen) as opened:
        yield AdminClient(opened)


@contextmanager
def service(screen: Screen) -> Iterator[ServiceClient]:
    """Yield a client that can train; its session ends with the block."""
    from tinker_ext import ServiceClient

    url = server(screen)
    with ServiceClient(base_url=url, config=patience(url)) as client:
        yield client
