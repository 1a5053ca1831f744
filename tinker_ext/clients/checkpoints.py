"""What a REST client does with checkpoints: list, publish, expire, copy, export, delete."""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

from tinker_ext import paths, types
from tinker_ext._reply_parts import ReplyParts
from tinker_ext._transport import Reply
from tinker_ext._wire.operations import operation
from tinker_ext.clients.arguments import check_ttl
from tinker_ext.clients.lookups import (
    checkpoint_parts,
    copy_weights,
    look_up,
    path_parts,
    set_public,
)
from tinker_ext.core.future import APIFuture, AwaitableConcurrentFuture
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import (
    APIResponseValidationError,
    FeatureMissingError,
    InvalidInputError,
)

if TYPE_CHECKING:
    from tinker_api.models import (
        CheckpointArchiveUrlResponse,
        CheckpointsListResponse,
        ExternalWeightsUrlsResponse,
        WeightsInfoResponse,
    )

T = TypeVar("T")

ARCHIVE_LIFE = timedelta(minutes=15)
TTL_SECONDS = (3600, 10 * 365 * 86400)


class CheckpointMethods:
    """The methods of `RestClient` that are about checkpoints."""

    _workspace: Workspace

    def _submit(self, coro: Coroutine[Any, Any, T]) -> Future[T]:
        return self._workspace.submit(coro)

    async def _wait(self, coro: Coroutine[Any, Any, T]) -> T:
        return await self._workspace.submit(coro)

    def _look(self, name: str, **options: Any) -> Coroutine[Any, Any, Any]:
        return look_up(self._workspace, name, **options)

    # -- checkpoints -----------------------------------------------------------------------

    def list_checkpoints(self, training_run_id: str) -> Future[CheckpointsListResponse]:
        """All checkpoints of a training run."""
        return self._submit(
            self._look("list_checkpoints", parts={"training_run_id": training_run_id})
        )

    async def list_checkpoints_async(self, training_run_id: str) -> CheckpointsListResponse:
        """Async form of `list_checkpoints`."""
        return await self._wait(
            self._look("list_checkpoints", parts={"training_run_id": training_run_id})
        )

    def list_user_checkpoints(
        self, limit: int = 100, offset: int = 0
    ) -> Future[CheckpointsListResponse]:
        """One page of all checkpoints of the account."""
        return self._submit(
            self._look("list_user_checkpoints", query={"limit": limit, "offset": offset})
        )

    async def list_user_checkpoints_async(
        self, limit: int = 100, offset: int = 0
    ) -> CheckpointsListResponse:
        """Async form of `list_user_checkpoints`."""
        return await self._wait(
            self._look("list_user_checkpoints", query={"limit": limit, "offset": offset})
        )

    def delete_checkpoint(self, training_run_id: str, checkpoint_id: str) -> Future[None]:
        """Delete a checkpoint, such as `weights/0001`."""
        return self._submit(
            self._look("delete_checkpoint", parts=checkpoint_parts(training_run_id, checkpoint_id))
        )

    async def delete_checkpoint_async(self, training_run_id: str, checkpoint_id: str) -> None:
        """Async form of `delete_checkpoint`."""
        return await self._wait(
            self._look("delete_checkpoint", parts=checkpoint_parts(training_run_id, checkpoint_id))
        )

    def delete_checkpoint_from_tinker_path(self, tinker_path: str) -> Future[None]:
        """Delete the checkpoint at a path."""
        return self._submit(
            self._look(
                "delete_checkpoint",
                method="delete_checkpoint_from_tinker_path",
                parts=path_parts(tinker_path),
            )
        )

    async def delete_checkpoint_from_tinker_path_async(self, tinker_path: str) -> None:
        """Async form of `delete_checkpoint_from_tinker_path`."""
        return await self._wait(
            self._look(
                "delete_checkpoint",
                method="delete_checkpoint_from_tinker_path",
                parts=path_parts(tinker_path),
            )
        )

    def publish_checkpoint_from_tinker_path(self, tinker_path: str) -> Future[None]:
        """Let everybody read a checkpoint; one that is public already is fine."""
        return self._submit(set_public(self._workspace, tinker_path, True))

    async def publish_checkpoint_from_tinker_path_async(self, tinker_path: str) -> None:
        """Async form of `publish_checkpoint_from_tinker_path`."""
        return await self._wait(set_public(self._workspace, tinker_path, True))

    def unpublish_checkpoint_from_tinker_path(self, tinker_path: str) -> Future[None]:
        """Make a checkpoint private; one that is private already is fine."""
        return self._submit(set_public(self._workspace, tinker_path, False))

    async def unpublish_checkpoint_from_tinker_path_async(self, tinker_path: str) -> None:
        """Async form of `unpublish_checkpoint_from_tinker_path`."""
        return await self._wait(set_public(self._workspace, tinker_path, False))

    def set_checkpoint_ttl_from_tinker_path(
        self, tinker_path: str, ttl_seconds: int | None
    ) -> Future[None]:
        """Set the life of a checkpoint in seconds; None keeps it for good."""
        return self._submit(self._set_ttl(tinker_path, ttl_seconds))

    async def set_checkpoint_ttl_from_tinker_path_async(
        self, tinker_path: str, ttl_seconds: int | None
    ) -> None:
        """Async form of `set_checkpoint_ttl_from_tinker_path`."""
        return await self._wait(self._set_ttl(tinker_path, ttl_seconds))

    def _set_ttl(self, tinker_path: str, ttl_seconds: int | None) -> Coroutine[Any, Any, None]:
        check_ttl(ttl_seconds)
        low, high = TTL_SECONDS
        if ttl_seconds is not None and not low <= ttl_seconds <= high:
            raise InvalidInputError(f"ttl_seconds must lie in {low} … {high}, got {ttl_seconds}.")
        return self._look(
            "set_checkpoint_ttl", body={"ttl_seconds": ttl_seconds}, parts=path_parts(tinker_path)
        )

    def get_external_weights_urls(self, tinker_path: str) -> Future[ExternalWeightsUrlsResponse]:
        """Where the files of exported weights can be fetched."""
        return self._submit(self._external_urls(tinker_path))

    async def get_external_weights_urls_async(
        self, tinker_path: str
    ) -> ExternalWeightsUrlsResponse:
        """Async form of `get_external_weights_urls`."""
        return await self._wait(self._external_urls(tinker_path))

    def _external_urls(self, tinker_path: str) -> Coroutine[Any, Any, ExternalWeightsUrlsResponse]:
        if paths.parse_checkpoint(tinker_path).type != "external":
            raise InvalidInputError(
                f"{tinker_path!r} was not exported; only external_weights have files."
            )
        return self._look("get_external_weights_urls", parts=path_parts(tinker_path))

    def get_weights_info_by_tinker_path(self, tinker_path: str) -> APIFuture[WeightsInfoResponse]:
        """Base model and adapter shape of saved weights."""
        return AwaitableConcurrentFuture(
            self._workspace.submit(
                self._look(
                    "weights_info",
                    method="get_weights_info_by_tinker_path",
                    body={"tinker_path": tinker_path},
                )
            )
        )

    def copy_weights(
        self,
        path: str,
        destination_project_id: str | None = None,
        *,
        ttl_seconds: int | None = None,
        weights_access_token: str | None = None,
    ) -> AwaitableConcurrentFuture[str]:
        """Copy weights into a project; gives the new path."""
        return AwaitableConcurrentFuture(
            self._workspace.submit(
                copy_weights(
                    self._workspace,
                    path,
                    destination_project_id=destination_project_id,
                    ttl_seconds=ttl_seconds,
                    weights_access_token=weights_access_token,
                )
            )
        )

    async def copy_weights_async(
        self,
        path: str,
        destination_project_id: str | None = None,
        *,
        ttl_seconds: int | None = None,
        weights_access_token: str | None = None,
    ) -> str:
        """Async form of `copy_weights`."""
        return await self._wait(
            copy_weights(
                self._workspace,
                path,
                destination_project_id=destination_project_id,
                ttl_seconds=ttl_seconds,
                weights_access_token=weights_access_token,
            )
        )

    # -- archives (first era) --------------------------------------------------------------

    def get_checkpoint_archive_url(
        self, training_run_id: str, checkpoint_id: str
    ) -> Future[CheckpointArchiveUrlResponse]:
        """A link to an archive of a checkpoint, where the server makes such archives."""
        return self._submit(self._archive(_archived(training_run_id, checkpoint_id)))

    async def get_checkpoint_archive_url_async(
        self, training_run_id: str, checkpoint_id: str
    ) -> CheckpointArchiveUrlResponse:
        """Async form of `get_checkpoint_archive_url`."""
        return await self._wait(self._archive(_archived(training_run_id, checkpoint_id)))

    def get_checkpoint_archive_url_from_tinker_path(
        self, tinker_path: str
    ) -> Future[CheckpointArchiveUrlResponse]:
        """A link to an archive of the checkpoint at a path."""
        return self._submit(self._archive(_archived(*_run_and_checkpoint(tinker_path))))

    async def get_checkpoint_archive_url_from_tinker_path_async(
        self, tinker_path: str
    ) -> CheckpointArchiveUrlResponse:
        """Async form of `get_checkpoint_archive_url_from_tinker_path`."""
        return await self._wait(self._archive(_archived(*_run_and_checkpoint(tinker_path))))

    async def _archive(self, places: list[str]) -> CheckpointArchiveUrlResponse:
        await self._workspace.link.ready()
        reply = await self._archive_reply(places)
        url = reply.headers.get("location")
        if not 300 <= reply.status < 400 or not url:
            raise APIResponseValidationError(
                ReplyParts.of(reply.status, reply.headers, reply.content[:2000], None),
                None,
                "The server did not answer with a link to the archive.",
            )
        try:
            expires = parsedate_to_datetime(reply.headers["expires"])
        except (KeyError, TypeError, ValueError):
            expires = datetime.now(UTC) + ARCHIVE_LIFE
        return types.CheckpointArchiveUrlResponse(url=url, expires=expires)

    async def _archive_reply(self, places: list[str]) -> Reply:
        """Ask at each place the endpoint may have; the last one's error counts."""
        op = operation("get_checkpoint_archive_url")
        for place in places:
            try:
                return await self._workspace.link.send(
                    op,
                    path=place,
                    headers=(("Accept", "application/gzip"),),
                    redirect_is_answer=True,
                )
            except FeatureMissingError:
                if place == places[-1]:
                    raise
        raise AssertionError("there is always a place to ask at")


def _run_and_checkpoint(tinker_path: str) -> tuple[str, str]:
    """Run and checkpoint id of a path; some servers have no kind in front of the name."""
    if isinstance(tinker_path, str) and tinker_path.startswith(paths.SCHEME):
        run_id, _, rest = tinker_path.removeprefix(paths.SCHEME).partition("/")
        if run_id and rest and "/" not in rest:
            return run_id, rest
    parsed = paths.parse_checkpoint(tinker_path)
    return parsed.run_id, parsed.checkpoint_id


def _archived(training_run_id: str, checkpoint_id: str) -> list[str]:
    """Where a server may have the archive: by kind and name, or by the name alone.

    Raises:
        InvalidInputError: The id has another form.
    """
    op = operation("get_checkpoint_archive_url")
    bare = isinstance(checkpoint_id, str) and "/" not in checkpoint_id
    named = f"sampler_weights/{checkpoint_id}" if bare else checkpoint_id
    parts = checkpoint_parts(training_run_id, named)
    full = op.url_path(**parts)
    short = full.replace(f"/checkpoints/{parts['checkpoint_kind']}/", "/checkpoints/")
    return [short] if bare else [full, short]
