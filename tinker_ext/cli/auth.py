"""`tinker-ext auth`: log in, log out, and see who you are."""

from __future__ import annotations

import socket
import sys
from typing import Any

import click

from tinker_ext.cli.connect import rest, service
from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Group, screen_of
from tinker_ext.cli.screen import Screen


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

    The key is kept in ~/.tinker/credentials.json, which only you can read.
    """
    from tinker_ext.auth import StaticKey
    from tinker_ext.credentials import CredentialStore
    from tinker_ext.errors import FeatureMissingError
    from tinker_ext.paths import new_key_url

    screen = screen_of(context)
    store = CredentialStore()
    if store.default_key() is not None:
        raise CommandError("you are logged in already", "Run `tinker-ext auth logout` first.")
    screen.note(f"Create a key at {new_key_url(f'tinker-ext-{socket.gethostname()}')}")
    key = _ask_key()
    try:
        found = _call_with(screen, key, "get_api_key")
    except FeatureMissingError:
        # Servers other than the hosted one need not know their keys by name.
        found = None
    if found is None:
        key_id, name, note, details, who = (
            StaticKey(key).fingerprint,
            "unnamed",
            None,
            None,
            "an unnamed user",
        )
    else:
        from tinker_ext.cli.screen import plain

        details = plain(found.details)
        key_id, name, note = str(found.key_id), found.name, found.note
        who = f"{found.details.user_details.email} ({found.details.org_details.name})"
    store.add(key, key_id=key_id, name=name, note=note, details=details)
    if screen.is_json:
        screen.json({"key_id": key_id, "name": name})
    else:
        screen.say(f"Logged in as {who}; key {name!r} is stored in {store.path}.")


def _ask_key() -> str:
    if sys.stdin.isatty():
        key = click.prompt("API key", hide_input=True, err=True)
    else:
        key = sys.stdin.readline()
    key = str(key).strip()
    if not key:
        raise CommandError("the key is empty", "Paste the key, or pipe it into the command.")
    return key


def _call_with(screen: Screen, key: str, operation: str) -> Any:
    """Call an operation about a key with that key, which need not be the stored one."""
    from tinker_ext.clients.lookups import look_up
    from tinker_ext.clients.rest import RestClient
    from tinker_ext.config import Config

    client = RestClient(base_url=screen.base_url or Config.from_env().base_url, api_key=key)
    workspace = client._workspace
    try:
        return workspace.submit(look_up(workspace, operation)).result()
    finally:
        client.close().result()


@command.command(name="logout", examples="tinker-ext auth logout")
@click.pass_context
def logout(context: click.Context) -> None:
    """Forget the stored key.

    A key that was made by a login program is also revoked on the server; one you pasted stays
    valid until you delete it in the console.
    """
    from tinker_ext.credentials import CredentialStore
    from tinker_ext.paths import key_url

    screen = screen_of(context)
    store = CredentialStore()
    key_id, key = store.default_id(), store.default_key()
    if key_id is None or key is None:
        raise CommandError("no key is stored", "`tinker-ext auth login` stores one.")
    record = store.keys()[key_id]
    generated = record.get("type") == "generated"
    problem = _revoke(screen, key) if generated else None
    store.remove(key_id)
    if screen.is_json:
        screen.json({"key_id": key_id, "revoked": generated and problem is None})
    elif generated and problem is None:
        screen.say(f"Forgot key {record.get('name')!r}; the server has revoked it.")
    else:
        screen.say(f"Forgot key {record.get('name')!r}. It is still valid; delete it at")
        screen.say(key_url(key_id))
    if problem is not None:
        raise CommandError(f"the server did not revoke the key: {problem}", "Delete it by hand.")


def _revoke(screen: Screen, key: str) -> str | None:
    from tinker_ext.errors import TinkerError

    try:
        _call_with(screen, key, "delete_api_key")
    except TinkerError as error:
        return str(error)
    return None


@command.command(name="status", examples="tinker-ext auth status && echo ready")
@click.pass_context
def status(context: click.Context) -> None:
    """Tell whether a credential is there and whether the server lets you in."""
    import os

    from tinker_ext.auth import has_credentials

    screen = screen_of(context)
    there = has_credentials()
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
    """Show user and organization of the credential in use."""
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
