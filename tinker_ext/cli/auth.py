"""`tinker-ext auth`: log in, log out, and see who you are."""

from __future__ import annotations

import socket
import sys
from typing import Any

import click

from tinker_ext.auth import CredentialStore, origin_of
from tinker_ext.cli.connect import rest, service
from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Group, screen_of
from tinker_ext.cli.screen import Screen

SECONDS = 30.0


@click.command(cls=Group, name="auth")
def command() -> None:
    """Log in, log out, and see who you are."""


LOGIN_EXAMPLES = """
tinker-ext auth login                    # asks for the key without showing it
pass show tinker | tinker-ext auth login # takes it from a pipe
"""


@command.command(name="login", examples=LOGIN_EXAMPLES)
@click.pass_context
def login(context: click.Context) -> None:
    """Store an API key on this machine, after checking it with the server.

    The key is kept below ~/.tinker, in a file that only you can read, and goes to no other server
    than the one it is checked with: the hosted service, or the one of --base-url.
    """
    from tinker_ext.auth import StaticKey, is_exposed, is_hosted
    from tinker_ext.errors import NotFoundError
    from tinker_ext.paths import new_key_url

    screen = screen_of(context)
    url, store = _server(screen)
    if store.default_key() is not None:
        raise CommandError(
            f"you are logged in to {origin_of(url)} already", "Run `tinker-ext auth logout` first."
        )
    if is_hosted(url):
        screen.note(f"Create a key at {new_key_url(f'tinker-ext-{socket.gethostname()}')}")
    if is_exposed(url):
        screen.note(f"The key goes to {origin_of(url)} unencrypted; others can read it on the way.")
    key = _ask_key()
    try:
        found = _call_with(screen, key, "GET")
        details = found["details"]
        key_id, name, note = str(found["key_id"]), found["name"], found.get("note")
        who = f"{details['user_details']['email']} ({details['org_details']['name']})"
    except NotFoundError:
        # Servers other than the hosted one need not know their keys by name.
        details = note = None
        key_id, name, who = StaticKey(key).fingerprint, "unnamed", "somebody the server cannot name"
    except (KeyError, TypeError, ValueError):
        raise CommandError(
            "the server's answer about the key makes no sense", "Check the base URL."
        ) from None
    store.add(key, key_id=key_id, name=name, note=note, details=details)
    if screen.is_json:
        screen.json({"key_id": key_id, "name": name})
    else:
        screen.say(f"Logged in as {who}; key {name!r} is stored in {store.path}.")
        screen.say(f"It is sent to {origin_of(url)} and nowhere else.")


def _server(screen: Screen) -> tuple[str, CredentialStore]:
    """The server that is meant, and the keys that are stored for it."""
    from tinker_ext.config import Config

    url = Config.from_env(base_url=screen.base_url).base_url
    return url, CredentialStore(origin=origin_of(url))


def _ask_key() -> str:
    if sys.stdin.isatty():
        key = click.prompt("API key", hide_input=True, err=True)
    else:
        key = sys.stdin.readline()
    key = str(key).strip()
    if not key:
        raise CommandError("the key is empty", "Paste the key, or pipe it into the command.")
    return key


def _call_with(screen: Screen, key: str, method: str) -> Any:
    """Ask the server about a key, or to revoke it, with the key itself.

    A client would exchange the key for a token first where the server wants that; this must not.
    """
    import httpx
    from tinker_api import operations as api

    from tinker_ext._transport.bridge import client_context
    from tinker_ext._transport.headers import blank, written_forms
    from tinker_ext.config import Config
    from tinker_ext.errors import APIConnectionError, error_for_status

    config = Config.from_env(base_url=screen.base_url)
    url = f"{config.base_url}{api.GET_API_KEY.path}"
    headers = {"X-API-Key": key, **config.extra_headers()}
    try:
        # A redirect would take the key elsewhere, so it counts as a refusal.
        reply = httpx.request(
            method,
            url,
            headers=headers,
            timeout=SECONDS,
            follow_redirects=False,
            verify=client_context(),
        )
    except httpx.HTTPError as error:
        raise APIConnectionError(message=f"cannot reach {config.base_url}: {error}") from None
    if not reply.is_success:
        secrets = written_forms(value for value in headers.values() if value)
        status, fields, content = blank(
            secrets, (reply.status_code, dict(reply.headers), reply.content)
        )
        raise error_for_status(status, content, fields, method=method, url=url)
    return reply.json() if reply.content else None


@command.command(name="logout", examples="tinker-ext auth logout")
@click.pass_context
def logout(context: click.Context) -> None:
    """Delete the stored key.

    A key that was made by a login program is also revoked on the server; one you pasted stays
    valid until you delete it in the console.
    """
    from tinker_ext.auth import is_hosted
    from tinker_ext.paths import key_url

    screen = screen_of(context)
    url, store = _server(screen)
    key_id, key = store.default_id(), store.default_key()
    if key_id is None or key is None:
        raise CommandError(
            f"no key is stored for {origin_of(url)}", "`tinker-ext auth login` stores one."
        )
    record = store.keys()[key_id]
    generated = record.get("type") == "generated"
    problem = _revoke(screen, key) if generated else None
    store.remove(key_id)
    if screen.is_json:
        screen.json({"key_id": key_id, "revoked": generated and problem is None})
    elif generated and problem is None:
        screen.say(f"Forgot key {record.get('name')!r}; the server has revoked it.")
    elif is_hosted(url):
        screen.say(f"Forgot key {record.get('name')!r}. It is still valid; delete it at")
        screen.say(key_url(key_id))
    else:
        screen.say(f"Forgot key {record.get('name')!r}. It is still valid on {origin_of(url)}.")
    if problem is not None:
        raise CommandError(f"the server did not revoke the key: {problem}", "Delete it by hand.")


def _revoke(screen: Screen, key: str) -> str | None:
    from tinker_ext.errors import TinkerError

    try:
        _call_with(screen, key, "DELETE")
    except TinkerError as error:
        return str(error)
    return None


@command.command(name="status", examples="tinker-ext auth status && echo ready")
@click.pass_context
def status(context: click.Context) -> None:
    """Show whether a credential is set and whether the server accepts it."""
    import os

    screen = screen_of(context)
    _, store = _server(screen)
    given = os.environ.get("TINKER_API_KEY") or os.environ.get("TINKER_CREDENTIAL_CMD")
    there = bool(given) or store.default_key() is not None
    if not there and not (screen.base_url or os.environ.get("TINKER_BASE_URL")):
        _status(screen, False, None)
        raise CommandError(
            "there is no credential", "Set TINKER_API_KEY or run `tinker-ext auth login`."
        )
    try:
        with service(screen) as client:
            client.get_server_capabilities()
    except Exception:
        _status(screen, there, False)
        raise
    _status(screen, there, True)


def _status(screen: Screen, there: bool, accessible: bool | None) -> None:
    if screen.is_json:
        screen.json({"credentials": there, "accessible": bool(accessible)})
        return
    screen.say(f"Credentials: {'yes' if there else 'no'}")
    if accessible is not None:
        screen.say(f"Accessible: {'yes' if accessible else 'no'}")


@command.command(name="whoami", examples="tinker-ext --format json auth whoami | jq -r .email")
@click.pass_context
def whoami(context: click.Context) -> None:
    """Show the user and organization of the credential in use."""
    screen = screen_of(context)
    with rest(screen) as client:
        found = client.whoami().result()
    if screen.is_json:
        screen.json({"user_urn": found.user_urn, "org_urn": found.org_urn, "email": found.email})
    else:
        screen.properties(
            "You are",
            [
                ("Email", found.email or "–"),
                ("User", found.user_urn),
                ("Organization", found.org_urn),
            ],
        )
