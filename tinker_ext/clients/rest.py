"""`RestClient` and `AdminClient`: what an account and an organisation have on a server."""

from __future__ import annotations

import functools
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

import attrs
from tinker_api import operations as api
from tinker_api.operations import Operation, Prepared

import tinker_ext._statuses as statuses
from tinker_ext import auth, forks, paths, types
from tinker_ext.clients import endings
from tinker_ext.clients.arguments import awaited, check_access_token, check_ttl, warn
from tinker_ext.clients.opening import open_workspace
from tinker_ext.core.future import APIFuture, AwaitableConcurrentFuture, LightFuture
from tinker_ext.core.server import prepare
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import (
    APIResponseValidationError,
    APIStatusError,
    ConflictError,
    ExperimentalWarning,
    FeatureMissingError,
    InvalidInputError,
    ReplyParts,
    TraceExportError,
    WhoamiError,
)
from tinker_ext.types.enums import AccessScope, AuditEventType
from tinker_ext.types.records import check_type

P = ParamSpec("P")
T = TypeVar("T")


class Pages(Generic[T]):
    """All items of a listing; pages are fetched as they are needed."""

    def __init__(
        self,
        fetch: Callable[[int], Future[Any]],
        items: Callable[[Any], Sequence[T]],
        size: int,
    ) -> None:
        self._fetch = fetch
        self._items = items
        self._size = size

    def __iter__(self) -> Iterator[T]:
        found: Sequence[T] = ()
        offset: int | None = 0
        while offset is not None:
            found, offset = self._read(self._fetch(offset).result(), offset, found)
            yield from found

    async def __aiter__(self) -> AsyncIterator[T]:
        found: Sequence[T] = ()
        offset: int | None = 0
        while offset is not None:
            fetched: Any = self._fetch(offset)
            found, offset = self._read(await fetched, offset, found)
            for item in found:
                yield item

    def _read(self, page: Any, offset: int, before: Sequence[T]) -> tuple[Sequence[T], int | None]:
        """The new items of a page, and the offset of the next page; None after the last."""
        found = self._items(page)
        if not found or found == before:
            return (), None  # a server that does not know offsets gives the same page forever
        seen = offset + len(found)
        total = getattr(getattr(page, "cursor", None), "total_count", None)
        is_last = seen >= total if isinstance(total, int) else len(found) < self._size
        return found, None if is_last else seen


TRACE_POLL_SECONDS = 5.0
ARCHIVE_LIFETIME = timedelta(minutes=15)
TTL_SECONDS = (3600, 10 * 365 * 86400)


class LookUps(forks.OfThisProcess):
    """What clients without a session of their own share: a workspace, and one way to ask."""

    def __init__(
        self,
        _holder: Workspace | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        if _holder is not None and (base_url is not None or api_key is not None):
            raise InvalidInputError("Pass a holder, or base_url and api_key, not both.")
        self._workspace = _holder or open_workspace(base_url=base_url, api_key=api_key)
        self._owner = self._workspace.owner()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self._workspace.server.base_url!r})"

    def _repr_html_(self) -> str:
        from tinker_ext import displays

        return displays.card(type(self).__name__, [("server", self._workspace.server.base_url)])

    def close(self) -> AwaitableConcurrentFuture[None]:
        """Close the connections of a client that has its own."""
        return endings.Closing(self._workspace, "success", None)

    def get_telemetry(self) -> None:
        """Nothing: telemetry is an observer of the connection here."""

    def _ask(self, op: Operation[Any, Any], /, **arguments: Any) -> LightFuture[Any]:
        """Send the operation of the public method that calls this; the server is told its name."""
        prepare(op, arguments)  # what is wrong fails here, before a byte is sent
        method = sys._getframe(1).f_code.co_name
        return self._workspace.submit(self._workspace.call(op, arguments, method=method))


class AdminClient(LookUps):
    """Reads what administrators of an organisation may see.

    Args:
        base_url: The server; as in `ServiceClient`.
        api_key: The credential; as in `ServiceClient`.
    """

    def get_audit_log(
        self, event_type: AuditEventType = "all", day: date | None = None
    ) -> Future[types.AuditLogResponse]:
        """Entries of the audit log of one day (today by default)."""
        check_type("day", day, date | None, "a datetime.date")
        told = None if day is None else day.isoformat()
        return self._ask(api.LIST_AUDIT_LOG, event_type=event_type, day=told)

    get_audit_log_async = awaited(get_audit_log)

    def get_billing_usage(
        self, starting_on: datetime | date | str, ending_before: datetime | date | str
    ) -> Future[types.BillingUsageResponse]:
        """What was used and what it cost in a span of time; a date is its midnight in UTC."""
        return self._ask(
            api.LIST_BILLING_USAGE_EVENTS,
            starting_on=_instant(starting_on),
            ending_before=_instant(ending_before),
        )

    get_billing_usage_async = awaited(get_billing_usage)

    def get_current_checkpoint_storage_usage(
        self, project_id: str | None = None
    ) -> Future[types.CurrentCheckpointStorageUsageResponse]:
        """What stored checkpoints cost now."""
        return self._ask(api.GET_CURRENT_CHECKPOINT_STORAGE, project_id=project_id)

    get_current_checkpoint_storage_usage_async = awaited(get_current_checkpoint_storage_usage)


def _moved(
    method: Callable[Concatenate[AdminClient, P], T],
) -> Callable[Concatenate[RestClient, P], T]:
    """A method that `RestClient` had before there was an `AdminClient`."""

    @functools.wraps(method)
    def old(self: RestClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        warn("This method has moved to AdminClient.", DeprecationWarning)
        return method(AdminClient(self._workspace), *args, **kwargs)

    old.__doc__ = f"Moved to `AdminClient.{method.__name__}`."
    return cast("Callable[Concatenate[RestClient, P], T]", old)


class RestClient(LookUps):
    """Looks at and manages what an account has on a server.

    Plain methods return a `concurrent.futures.Future`, their `_async` forms the value. The
    iterators `training_runs`, `checkpoints` and `sessions` read page after page.

    Args:
        base_url: The server; as in `ServiceClient`.
        api_key: The credential; as in `ServiceClient`.

    Example:
        >>> from tinker_ext import ServiceClient
        >>> with ServiceClient(base_url="embedded") as service:
        ...     runs = list(service.create_rest_client().training_runs())
    """

    # -- training runs ---------------------------------------------------------------------

    def list_training_runs(
        self,
        limit: int = 20,
        offset: int = 0,
        access_scope: AccessScope = "owned",
        project_id: str | None = None,
    ) -> Future[types.TrainingRunsResponse]:
        """One page of training runs."""
        return self._ask(
            api.LIST_TRAINING_RUNS,
            limit=limit,
            offset=offset,
            access_scope=access_scope,
            project_id=project_id,
        )

    list_training_runs_async = awaited(list_training_runs)

    def get_training_run(
        self, training_run_id: str, access_scope: AccessScope = "owned"
    ) -> Future[types.TrainingRun]:
        """One training run."""
        return self._ask(
            api.GET_TRAINING_RUN, training_run_id=training_run_id, access_scope=access_scope
        )

    get_training_run_async = awaited(get_training_run)

    def get_training_run_by_tinker_path(
        self, tinker_path: str, access_scope: AccessScope = "owned"
    ) -> Future[types.TrainingRun]:
        """The training run a checkpoint belongs to."""
        return self._ask(
            api.GET_TRAINING_RUN,
            training_run_id=paths.parse_checkpoint(tinker_path).training_run_id,
            access_scope=access_scope,
        )

    get_training_run_by_tinker_path_async = awaited(get_training_run_by_tinker_path)

    # -- sessions and samplers -------------------------------------------------------------

    def list_sessions(
        self, limit: int = 20, offset: int = 0, access_scope: AccessScope = "owned"
    ) -> Future[types.ListSessionsResponse]:
        """One page of session ids."""
        return self._ask(api.LIST_SESSIONS, limit=limit, offset=offset, access_scope=access_scope)

    list_sessions_async = awaited(list_sessions)

    def get_session(
        self, session_id: str, access_scope: AccessScope = "owned"
    ) -> Future[types.GetSessionResponse]:
        """Runs and samplers of a session."""
        return self._ask(api.GET_SESSION, session_id=session_id, access_scope=access_scope)

    get_session_async = awaited(get_session)

    def search_sessions(
        self, request: types.SessionSearchRequest
    ) -> Future[types.SessionSearchResponse]:
        """Sessions that fit a query; experimental."""
        warn("search_sessions is experimental.", ExperimentalWarning)
        if isinstance(request, type) or not hasattr(request, "to_dict"):
            raise InvalidInputError(f"request must be a SessionSearchRequest, not {request!r}.")
        return self._ask(api.SEARCH_SESSIONS, **request.to_dict())

    search_sessions_async = awaited(search_sessions)

    def assign_session_project(self, session_id: str, project_id: str) -> Future[None]:
        """Move a session to a project."""
        return self._ask(api.SET_SESSION_PROJECT, session_id=session_id, project_id=project_id)

    assign_session_project_async = awaited(assign_session_project)

    def export_session_trace(self, session_id: str) -> Future[str]:
        """Have a trace of a session made; gives the URL it can be fetched from."""
        return self._workspace.submit(self._trace(session_id))

    export_session_trace_async = awaited(export_session_trace)

    async def _trace(self, session_id: str) -> str:
        seconds = self._workspace.seconds()
        reply = await self._workspace.call(
            api.GET_SESSION_TRACE_EXPORT,
            {"session_id": session_id},
            seconds,
            method="export_session_trace",
            pending=lambda said: TRACE_POLL_SECONDS if said.status == "pending" else None,
        )
        body = reply.to_dict()
        status, url = body.get("status"), body.get("url")
        if status == "ready" and isinstance(url, str):
            return url
        why = body.get("error") or f"the server answered {status!r} without a URL"
        if status == "pending":
            why = f"it was not ready within {seconds:g} s"
        raise TraceExportError(f"The trace could not be made: {why}.")

    def get_sampler(self, sampler_id: str) -> APIFuture[types.GetSamplerResponse]:
        """What a sampler samples from."""
        return AwaitableConcurrentFuture(self._ask(api.GET_SAMPLER, sampler_id=sampler_id))

    get_sampler_async = awaited(get_sampler)

    def whoami(self) -> APIFuture[types.WhoamiResponse]:
        """User and organisation of the credential, read from the server's token."""
        return AwaitableConcurrentFuture(self._workspace.submit(self._whoami()))

    async def _whoami(self) -> types.WhoamiResponse:
        server = self._workspace.server
        await server.ready()
        token = await server.credential()
        if token is None or not token.startswith("eyJ"):
            raise WhoamiError("token that names its user", server.base_url)
        claims = auth.jwt_claims(token)
        return types.WhoamiResponse(
            user_urn=str(claims.get("sub", "")),
            org_urn=f"tml:organization:{claims.get('org_id', '')}",
            email=claims.get("email") or None,
        )

    # -- checkpoints -----------------------------------------------------------------------

    def list_checkpoints(self, training_run_id: str) -> Future[types.CheckpointsListResponse]:
        """All checkpoints of a training run."""
        return self._ask(api.LIST_TRAINING_RUN_CHECKPOINTS, training_run_id=training_run_id)

    list_checkpoints_async = awaited(list_checkpoints)

    def list_user_checkpoints(
        self, limit: int = 100, offset: int = 0
    ) -> Future[types.CheckpointsListResponse]:
        """One page of all checkpoints of the account."""
        return self._ask(api.LIST_CHECKPOINTS, limit=limit, offset=offset)

    list_user_checkpoints_async = awaited(list_user_checkpoints)

    def delete_checkpoint(self, training_run_id: str, checkpoint_id: str) -> Future[None]:
        """Delete a checkpoint, such as `weights/0001`."""
        return self._ask(api.DELETE_CHECKPOINT, **checkpoint_parts(training_run_id, checkpoint_id))

    delete_checkpoint_async = awaited(delete_checkpoint)

    def delete_checkpoint_from_tinker_path(self, tinker_path: str) -> Future[None]:
        """Delete the checkpoint at a path."""
        return self._ask(api.DELETE_CHECKPOINT, **path_parts(tinker_path))

    delete_checkpoint_from_tinker_path_async = awaited(delete_checkpoint_from_tinker_path)

    def publish_checkpoint_from_tinker_path(self, tinker_path: str) -> Future[None]:
        """Let everybody read a checkpoint; one that is public already is fine."""
        return self._set_public(api.PUBLISH_CHECKPOINT, tinker_path)

    publish_checkpoint_from_tinker_path_async = awaited(publish_checkpoint_from_tinker_path)

    def unpublish_checkpoint_from_tinker_path(self, tinker_path: str) -> Future[None]:
        """Make a checkpoint private; one that is private already is fine."""
        return self._set_public(api.UNPUBLISH_CHECKPOINT, tinker_path)

    unpublish_checkpoint_from_tinker_path_async = awaited(unpublish_checkpoint_from_tinker_path)

    def _set_public(self, op: Operation[Any, Any], tinker_path: str) -> LightFuture[None]:
        parts = path_parts(tinker_path)

        async def change() -> None:
            try:
                await self._workspace.call(op, parts, method=f"{op.name}_from_tinker_path")
            except ConflictError:
                return
            except APIStatusError as error:
                private = op is api.UNPUBLISH_CHECKPOINT and "public" in str(error.body)
                if not (private and error.status_code in statuses.NOTHING_TO_UNDO):
                    raise

        return self._workspace.submit(change())

    def set_checkpoint_ttl_from_tinker_path(
        self, tinker_path: str, ttl_seconds: int | None
    ) -> Future[None]:
        """Set the lifetime of a checkpoint in seconds; None keeps it."""
        check_ttl(ttl_seconds)
        low, high = TTL_SECONDS
        if ttl_seconds is not None and not low <= ttl_seconds <= high:
            raise InvalidInputError(f"ttl_seconds must lie in {low} … {high}, got {ttl_seconds}.")
        return self._ask(api.SET_CHECKPOINT_TTL, **path_parts(tinker_path), ttl_seconds=ttl_seconds)

    set_checkpoint_ttl_from_tinker_path_async = awaited(set_checkpoint_ttl_from_tinker_path)

    def get_external_weights_urls(
        self, tinker_path: str
    ) -> Future[types.ExternalWeightsUrlsResponse]:
        """Where the files of exported weights can be fetched."""
        if paths.parse_checkpoint(tinker_path).checkpoint_type != "external":
            raise InvalidInputError(
                f"{tinker_path!r} was not exported; only external_weights have files."
            )
        return self._ask(api.GET_EXTERNAL_WEIGHTS_URLS, **path_parts(tinker_path))

    get_external_weights_urls_async = awaited(get_external_weights_urls)

    def get_weights_info_by_tinker_path(
        self, tinker_path: str
    ) -> APIFuture[types.WeightsInfoResponse]:
        """Base model and adapter shape of saved weights."""
        return AwaitableConcurrentFuture(self._ask(api.GET_WEIGHTS_INFO, tinker_path=tinker_path))

    def copy_weights(
        self,
        path: str,
        destination_project_id: str | None = None,
        *,
        ttl_seconds: int | None = None,
        weights_access_token: str | None = None,
    ) -> AwaitableConcurrentFuture[str]:
        """Copy weights into a project; gives the new path.

        Raises:
            InvalidInputError: The path or the lifetime of the copy is wrong, or no project is
                given; nothing was sent.
        """
        if not paths.looks_like_weights(path):
            raise InvalidInputError(
                f"path {path!r} is not a checkpoint path such as tinker://<run>/weights/<name>."
            )
        check_ttl(ttl_seconds)
        check_access_token(weights_access_token)
        server, token = self._workspace.server, weights_access_token
        project = destination_project_id or server.config.project_id
        if project is None:
            raise InvalidInputError(
                "Weights are copied into a project: pass its id, or set TINKER_PROJECT_ID."
            )
        arguments = {"source_path": path, "destination_project_id": project}
        lifetime = {} if ttl_seconds is None else {"ttl_seconds": ttl_seconds}
        key = str(uuid.UUID(int=server.rng.getrandbits(128), version=4))

        async def copy() -> str:
            reply = await self._workspace.call(
                api.COPY_WEIGHTS,
                {**arguments, **lifetime},
                headers=() if token is None else (("X-Tinker-Weights-Access-Token", token),),
                idempotency_key=key,
            )
            return str(reply.tinker_path)

        return AwaitableConcurrentFuture(self._workspace.submit(copy()))

    copy_weights_async = awaited(copy_weights)

    # -- archives (first era) --------------------------------------------------------------

    def get_checkpoint_archive_url(
        self, training_run_id: str, checkpoint_id: str
    ) -> Future[types.CheckpointArchiveUrlResponse]:
        """A link to an archive of a checkpoint, where the server makes such archives."""
        return self._archive(training_run_id, checkpoint_id)

    get_checkpoint_archive_url_async = awaited(get_checkpoint_archive_url)

    def get_checkpoint_archive_url_from_tinker_path(
        self, tinker_path: str
    ) -> Future[types.CheckpointArchiveUrlResponse]:
        """A link to an archive of the checkpoint at a path."""
        return self._archive(*_run_and_checkpoint(tinker_path))

    get_checkpoint_archive_url_from_tinker_path_async = awaited(
        get_checkpoint_archive_url_from_tinker_path
    )

    def _archive(
        self, run_id: str, checkpoint_id: str
    ) -> LightFuture[types.CheckpointArchiveUrlResponse]:
        """Ask where a server may have the archive: by kind and name, or by the name alone."""
        bare = isinstance(checkpoint_id, str) and "/" not in checkpoint_id
        named = f"sampler_weights/{checkpoint_id}" if bare else checkpoint_id
        parts = checkpoint_parts(run_id, named)
        full = prepare(api.GET_CHECKPOINT_ARCHIVE, parts)
        kind = f"/checkpoints/{parts['checkpoint_kind']}/"
        short = attrs.evolve(full, path=full.path.replace(kind, "/checkpoints/"))
        return self._workspace.submit(self._ask_archive([short] if bare else [full, short]))

    async def _ask_archive(self, places: list[Prepared]) -> types.CheckpointArchiveUrlResponse:
        await self._workspace.server.ready()
        for place in places:
            try:
                reply = await self._workspace.server.send(
                    api.GET_CHECKPOINT_ARCHIVE,
                    place,
                    headers=(("Accept", "application/gzip"),),
                    redirect_is_answer=True,
                )
                break
            except FeatureMissingError:
                if place is places[-1]:
                    raise
        url = reply.headers.get("location")
        if not 300 <= reply.status < 400 or not url:
            raise APIResponseValidationError(
                ReplyParts.of(reply.status, reply.headers, reply.content[:2000], None),
                None,
                "The server did not answer with a link to the archive.",
            )
        try:
            expires = parsedate_to_datetime(reply.headers["expires"])
        except (KeyError, TypeError, ValueError, OverflowError, IndexError):
            expires = datetime.now(UTC) + ARCHIVE_LIFETIME
        return types.CheckpointArchiveUrlResponse(url=url, expires=expires)

    # -- pages -----------------------------------------------------------------------------

    def training_runs(
        self,
        page_size: int = 100,
        access_scope: AccessScope = "owned",
        project_id: str | None = None,
    ) -> Pages[types.TrainingRun]:
        """Every training run, newest page first; for `for` and `async for`."""
        return Pages(
            lambda offset: self.list_training_runs(page_size, offset, access_scope, project_id),
            lambda page: page.training_runs,
            page_size,
        )

    def checkpoints(self, page_size: int = 100) -> Pages[types.Checkpoint]:
        """Every checkpoint of the account; for `for` and `async for`."""
        return Pages(
            lambda offset: self.list_user_checkpoints(page_size, offset),
            lambda page: page.checkpoints,
            page_size,
        )

    def sessions(self, page_size: int = 100, access_scope: AccessScope = "owned") -> Pages[str]:
        """Every session id; for `for` and `async for`."""
        return Pages(
            lambda offset: self.list_sessions(page_size, offset, access_scope),
            lambda page: page.sessions,
            page_size,
        )

    # -- moved to AdminClient --------------------------------------------------------------

    get_audit_log = _moved(AdminClient.get_audit_log)
    get_audit_log_async = awaited(get_audit_log)
    get_billing_usage = _moved(AdminClient.get_billing_usage)
    get_billing_usage_async = awaited(get_billing_usage)
    get_current_checkpoint_storage_usage = _moved(AdminClient.get_current_checkpoint_storage_usage)
    get_current_checkpoint_storage_usage_async = awaited(get_current_checkpoint_storage_usage)


def checkpoint_parts(training_run_id: str, checkpoint_id: str) -> dict[str, str]:
    """Path parameters of a checkpoint id such as `weights/0001`."""
    kind, _, name = checkpoint_id.partition("/") if isinstance(checkpoint_id, str) else ("",) * 3
    if not name or "/" in name:
        raise InvalidInputError(
            f"{checkpoint_id!r} is not a checkpoint id; it looks like weights/<name>."
        )
    return {
        "training_run_id": training_run_id,
        "checkpoint_kind": kind,
        "checkpoint_name": name,
    }


def path_parts(tinker_path: str) -> dict[str, str]:
    """Path parameters of a checkpoint path."""
    parsed = paths.parse_checkpoint(tinker_path)
    return checkpoint_parts(parsed.training_run_id, parsed.checkpoint_id)


def _run_and_checkpoint(tinker_path: str) -> tuple[str, str]:
    """Run and checkpoint id of a path; some servers have no kind in front of the name."""
    if isinstance(tinker_path, str) and tinker_path.startswith(paths.SCHEME):
        run_id, _, rest = tinker_path.removeprefix(paths.SCHEME).partition("/")
        if run_id and rest and "/" not in rest:
            return run_id, rest
    parsed = paths.parse_checkpoint(tinker_path)
    return parsed.training_run_id, parsed.checkpoint_id


def _instant(value: datetime | date | str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, date):
        raise InvalidInputError(f"Give a datetime, a date or a text in ISO form, not {value!r}.")
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if value.tzinfo is None:
        raise InvalidInputError(f"{value!r} has no time zone; use datetime.now(timezone.utc).")
    try:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        raise InvalidInputError(f"{value!r} is outside of the calendar in UTC.") from None
