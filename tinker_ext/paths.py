"""Checkpoint paths and the console links made from them.

A checkpoint path of the hosted service is `tinker://<run>/<kind>/<name>`. Other servers use
other schemes; their paths are passed on untouched and only `parse_checkpoint` refuses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self
from urllib.parse import quote

import attrs

from tinker_ext.errors import InvalidInputError

SCHEME = "tinker://"
CONSOLE_URL = "https://tinker.thinkingmachines.ai"
# The address of a page or of a server, pasted where a path belongs.
_WEB = frozenset({"http", "https"})

CHECKPOINT_KINDS: Mapping[str, Literal["training", "sampler", "external"]] = {
    "weights": "training",
    "sampler_weights": "sampler",
    "external_weights": "external",
}
"""Middle segment of a checkpoint path → type of the checkpoint."""


@attrs.frozen(kw_only=True)
class ParsedCheckpointTinkerPath:
    """The parts of a checkpoint path.

    Example:
        >>> ParsedCheckpointTinkerPath.from_tinker_path("tinker://r/weights/1").checkpoint_type
        'training'
    """

    tinker_path: str
    training_run_id: str
    checkpoint_type: Literal["training", "sampler", "external"]
    checkpoint_id: str

    @classmethod
    def from_tinker_path(cls, tinker_path: str) -> Self:
        """Parse `tinker://<run>/<weights|sampler_weights|external_weights>/<name>`.

        Raises:
            InvalidInputError: The path does not have this form.
        """
        parts: list[str] = []
        if isinstance(tinker_path, str) and tinker_path.startswith(SCHEME):
            parts = tinker_path.removeprefix(SCHEME).split("/")
        if len(parts) != 3 or parts[1] not in CHECKPOINT_KINDS:
            kinds = "|".join(CHECKPOINT_KINDS)
            raise InvalidInputError(
                f"Invalid tinker path: {tinker_path!r}. Expected {SCHEME}<run>/<{kinds}>/<name>."
            )
        run_id, kind, name = parts
        return cls(
            tinker_path=tinker_path,
            training_run_id=run_id,
            checkpoint_type=CHECKPOINT_KINDS[kind],
            checkpoint_id=f"{kind}/{name}",
        )


parse_checkpoint = ParsedCheckpointTinkerPath.from_tinker_path
"""The short name for callers inside the package."""


def checkpoint_path(run_id: str, checkpoint_id: str) -> str:
    """The path of a checkpoint, from the run and an id such as `weights/0001`."""
    return f"{SCHEME}{run_id}/{checkpoint_id}"


def looks_like_weights(path: object) -> bool:
    """Whether `path` names stored weights of some server rather than a bare model name.

    Any `scheme://` counts but the web's: other servers store checkpoints under schemes of their
    own. After `tinker://` there must be a run and a name; some servers put no kind between them.

    Example:
        >>> [looks_like_weights(path) for path in ("tinker://run/final", "tinker://run", "model")]
        [True, False, False]
    """
    if not isinstance(path, str):
        return False
    scheme, separator, rest = path.partition("://")
    if not (separator and scheme and rest) or scheme.lower() in _WEB:
        return False
    _, slash, name = rest.rpartition("/")
    return f"{scheme}://" != SCHEME or bool(slash and name)


def checkpoint_url(path: str) -> str:
    """Console page of a checkpoint."""
    parsed = parse_checkpoint(path)
    run, checkpoint = quote(parsed.training_run_id, safe=""), quote(parsed.checkpoint_id, safe="")
    return f"{CONSOLE_URL}/checkpoints/{run}/{checkpoint}"


def playground_url(path: str) -> str:
    """Console page to chat with a sampler checkpoint."""
    return f"{CONSOLE_URL}/playground?mode=checkpoint&checkpoint={quote(path, safe='')}"


def sessions_url() -> str:
    """Console page with all sessions."""
    return f"{CONSOLE_URL}/sessions"


def session_url(session_id: str) -> str:
    """Console page of a session."""
    return f"{CONSOLE_URL}/sessions/{quote(session_id, safe='')}"


def training_run_url(run_id: str) -> str:
    """Console page of a training run."""
    return f"{CONSOLE_URL}/training_runs/{quote(run_id, safe='')}"


def new_key_url(name: str) -> str:
    """Console page that creates an API key called `name`."""
    return f"{CONSOLE_URL}/keys?new_key=true&key_name={quote(name, safe='')}"


def key_url(key_id: str) -> str:
    """Console page of an API key."""
    return f"{CONSOLE_URL}/keys/{quote(key_id, safe='')}"
