"""How look-ups without a session are sent: one row of the operations table each."""

from __future__ import annotations

import uuid
from collections.abc import Coroutine, Mapping
from typing import Any

from tinker_ext import paths
from tinker_ext._version import __version__
from tinker_ext._wire.json_codec import dumps
from tinker_ext._wire.operations import operation
from tinker_ext.clients.arguments import check_ttl
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import APIStatusError, ConflictError, InvalidInputError


async def look_up(
    workspace: Workspace,
    name: str,
    *,
    method: str | None = None,
    body: Mapping[str, Any] | None = None,
    query: Mapping[str, object] | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    idempotency_key: str | None = None,
    parts: Mapping[str, str] | None = None,
) -> Any:
    """Send one operation and return its decoded reply.

    Args:
        workspace: Where to send it.
        name: Row of the operations table.
        method: Public method the user called, for the server's statistics.
        body: JSON body.
        query: Query parameters; None values are left out, and so are parameters that servers of
            the first era do not know.
        headers: Extra headers.
        idempotency_key: Kept over all retries.
        parts: Path parameters.
    """
    dialect = await workspace.link.ready()
    if dialect.era == "0.4.1" and query is not None:
        query = {k: v for k, v in query.items() if k not in ("access_scope", "project_id")}
    op = operation(name)
    marks = (("x-sdk-version", __version__), ("x-sdk-method", method or name))
    reply = await workspace.link.send(
        op,
        None if body is None else dumps(body),
        path=op.url_path(**(parts or {})),
        query=query,
        headers=(*marks, *headers),
        idempotency_key=idempotency_key,
    )
    return None if op.reply is None else workspace.link.decode(op.reply, reply)


def checkpoint_parts(training_run_id: str, checkpoint_id: str) -> dict[str, str]:
    """Path parameters of a checkpoint id such as `weights/0001`.

    Raises:
        InvalidInputError: The id has another form.
    """
    kind, _, name = checkpoint_id.partition("/") if isinstance(checkpoint_id, str) else ("",) * 3
    if not name or "/" in name:
        raise InvalidInputError(
            f"{checkpoint_id!r} is no checkpoint id; it looks like weights/<name>."
        )
    return {
        "training_run_id": training_run_id,
        "checkpoint_kind": kind,
        "checkpoint_name": name,
    }


def path_parts(tinker_path: str) -> dict[str, str]:
    """Path parameters of a checkpoint path."""
    parsed = paths.parse_checkpoint(tinker_path)
    return checkpoint_parts(parsed.run_id, parsed.checkpoint_id)


async def set_public(workspace: Workspace, tinker_path: str, public: bool) -> None:
    """Publish or unpublish; a checkpoint already in that state is fine."""
    name = "publish_checkpoint" if public else "unpublish_checkpoint"
    try:
        await look_up(
            workspace, name, method=f"{name}_from_tinker_path", parts=path_parts(tinker_path)
        )
    except ConflictError:
        return
    except APIStatusError as error:
        if public or error.status_code not in (400, 404) or "public" not in str(error.body):
            raise


def copy_weights(
    workspace: Workspace,
    path: str,
    *,
    destination_project_id: str | None = None,
    ttl_seconds: int | None = None,
    weights_access_token: str | None = None,
    into_session: bool = False,
) -> Coroutine[Any, Any, str]:
    """Copy weights into a project, or into the run of a session; returns the new path.

    Raises:
        InvalidInputError: The path or the life of the copy is none; nothing was sent.
    """
    if not paths.looks_like_weights(path):
        raise InvalidInputError(
            f"path {path!r} is no checkpoint path such as tinker://<run>/weights/<name>."
        )
    check_ttl(ttl_seconds)
    return _copy(
        workspace, path, destination_project_id, ttl_seconds, weights_access_token, into_session
    )


async def _copy(
    workspace: Workspace,
    path: str,
    destination_project_id: str | None,
    ttl_seconds: int | None,
    weights_access_token: str | None,
    into_session: bool,
) -> str:
    body: dict[str, Any] = {"source_path": path}
    if into_session:
        body["session_id"] = await workspace.session.ensure()
        body["model_seq_id"] = workspace.session.next_model_seq_id()
    else:
        project = destination_project_id or workspace.link.config.project_id
        if project is not None:
            body["destination_project_id"] = project
    if ttl_seconds is not None:
        body["ttl_seconds"] = ttl_seconds
    token = weights_access_token
    reply = await look_up(
        workspace,
        "copy_weights",
        body=body,
        headers=(("X-Tinker-Weights-Access-Token", token),) if token is not None else (),
        idempotency_key=str(uuid.UUID(int=workspace.link.rng.getrandbits(128), version=4)),
    )
    return str(reply.tinker_path)
