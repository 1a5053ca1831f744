"""`tinker.lib.console_urls`: pages of the web console, by the parameters of the official SDK."""

from __future__ import annotations

from urllib.parse import urlencode

from tinker_ext import paths


def new_api_key_console_url(key_name: str) -> str:
    """Page that creates an API key called `key_name`."""
    return f"{paths.CONSOLE_URL}/keys?{urlencode({'new_key': 'true', 'key_name': key_name})}"


def api_key_console_url(key_id: str) -> str:
    """Page of an API key."""
    return paths.key_url(key_id)


def sessions_console_url() -> str:
    """Page with all sessions."""
    return paths.sessions_url()


def session_console_url(session_id: str) -> str:
    """Page of a session."""
    return paths.session_url(session_id)


def training_run_console_url(training_run_id: str) -> str:
    """Page of a training run, whose id has colons that stay as they are."""
    return f"{paths.CONSOLE_URL}/training_runs/{training_run_id}"


def checkpoint_console_url(training_run_id: str, checkpoint_id: str) -> str:
    """Page of a checkpoint."""
    return paths.checkpoint_url(paths.checkpoint_path(training_run_id, checkpoint_id))


def checkpoint_playground_url(tinker_path: str) -> str:
    """Page to chat with a sampler checkpoint."""
    return paths.playground_url(tinker_path)
