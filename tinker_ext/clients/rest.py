"""`RestClient`: training runs, checkpoints, sessions and samplers of an account."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Coroutine
from concurrent.futures import Future
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import orjson

from tinker_ext import auth, paths, types
from tinker_ext._wire.json_codec import check_json
from tinker_ext._wire.operations import operation
from tinker_ext.clients import endings
from tinker_ext.clients.checkpoints import CheckpointMethods
from tinker_ext.clients.opening import open_workspace
from tinker_ext.clients.pages import Pages
from tinker_ext.core.future import APIFuture, AwaitableConcurrentFuture
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import (
    ExperimentalWarning,
    FeatureMissingError,
    InvalidInputError,
    TinkerError,
)

if TYPE_CHECKING:
    from tinker_api.models import (
        AuditLogResponse,
        BillingUsageResponse,
        Checkpoint,
        CurrentCheckpointStorageUsageResponse,
        GetSamplerResponse,
        GetSessionResponse,
        ListSessionsResponse,
        SessionSearchRequest,
        SessionSearchResponse,
        TrainingRun,
        TrainingRunsResponse,
        WhoamiResponse,
    )

    from tinker_ext.clients.admin import AdminClient

T = TypeVar("T")
AccessScope = Literal["owned", "accessible"]
EventType = Literal["all", "checkpoints", "projects", "teams", "organizations"]

TRACE_POLL_SECONDS = 5.0


class RestClient(CheckpointMethods):
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
        if _holder is None:
            endings.watch(self._workspace)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self._workspace.link.base_url!r})"

    def close(self) -> AwaitableConcurrentFuture[None]:
        """Close the connections of a client that has its own."""
        return endings.Closing(self._workspace, "success", None)

    def get_telemetry(self) -> None:
        """Nothing: telemetry is an observer of the connection here."""

    # -- training runs ---------------------------------------------------------------------

    def list_training_runs(
        self,
        limit: int = 20,
        offset: int = 0,
        access_scope: AccessScope = "owned",
        project_id: str | None = None,
    ) -> Future[TrainingRunsResponse]:
        """One page of training runs."""
        return self._submit(
            self._look(
                "list_training_runs",
                query={
                    "limit": limit,
                    "offset": offset,
                    "access_scope": access_scope,
                    "project_id": project_id,
                },
            )
        )

    async def list_training_runs_async(
        self,
        limit: int = 20,
        offset: int = 0,
        access_scope: AccessScope = "owned",
        project_id: str | None = None,
    ) -> TrainingRunsResponse:
        """Async form of `list_training_runs`."""
        return await self._wait(
            self._look(
                "list_training_runs",
                query={
                    "limit": limit,
                    "offset": offset,
                    "access_scope": access_scope,
                    "project_id": project_id,
                },
            )
        )

    def get_training_run(
        self, training_run_id: str, access_scope: AccessScope = "owned"
    ) -> Future[TrainingRun]:
        """One training run."""
        return self._submit(
            self._look(
                "get_training_run",
                query={"access_scope": access_scope},
                parts={"training_run_id": training_run_id},
            )
        )

    async def get_training_run_async(
        self, training_run_id: str, access_scope: AccessScope = "owned"
    ) -> TrainingRun:
        """Async form of `get_training_run`."""
        return await self._wait(
            self._look(
                "get_training_run",
                query={"access_scope": access_scope},
                parts={"training_run_id": training_run_id},
            )
        )

    def get_training_run_by_tinker_path(
        self, tinker_path: str, access_scope: AccessScope = "owned"
    ) -> Future[TrainingRun]:
        """The training run a checkpoint belongs to."""
        return self._submit(
            self._look(
                "get_training_run",
                method="get_training_run_by_tinker_path",
                query={"access_scope": access_scope},
                parts={"training_run_id": paths.parse_checkpoint(tinker_path).run_id},
            )
        )

    async def get_training_run_by_tinker_path_async(
        self, tinker_path: str, access_scope: AccessScope = "owned"
    ) -> TrainingRun:
        """Async form of `get_training_run_by_tinker_path`."""
        return await self._wait(
            self._look(
                "get_training_run",
                method="get_training_run_by_tinker_path",
                query={"access_scope": access_scope},
                parts={"training_run_id": paths.parse_checkpoint(tinker_path).run_id},
            )
        )

    # -- sessions and samplers -------------------------------------------------------------

    def list_sessions(
        self, limit: int = 20, offset: int = 0, access_scope: AccessScope = "owned"
    ) -> Future[ListSessionsResponse]:
        """One page of session ids."""
        return self._submit(
            self._look(
                "list_sessions",
                query={"limit": limit, "offset": offset, "access_scope": access_scope},
            )
        )

    async def list_sessions_async(
        self, limit: int = 20, offset: int = 0, access_scope: AccessScope = "owned"
    ) -> ListSessionsResponse:
        """Async form of `list_sessions`."""
        return await self._wait(
            self._look(
                "list_sessions",
                query={"limit": limit, "offset": offset, "access_scope": access_scope},
            )
        )

    def get_session(
        self, session_id: str, access_scope: AccessScope = "owned"
    ) -> Future[GetSessionResponse]:
        """Runs and samplers of a session."""
        return self._submit(
            self._look(
                "get_session",
                query={"access_scope": access_scope},
                parts={"session_id": session_id},
            )
        )

    async def get_session_async(
        self, session_id: str, access_scope: AccessScope = "owned"
    ) -> GetSessionResponse:
        """Async form of `get_session`."""
        return await self._wait(
            self._look(
                "get_session",
                query={"access_scope": access_scope},
                parts={"session_id": session_id},
            )
        )

    def search_sessions(self, request: SessionSearchRequest) -> Future[SessionSearchResponse]:
        """Sessions that fit a query; experimental."""
        return self._submit(self._search(request))

    async def search_sessions_async(self, request: SessionSearchRequest) -> SessionSearchResponse:
        """Async form of `search_sessions`."""
        return await self._wait(self._search(request))

    def _search(self, request: SessionSearchRequest) -> Coroutine[Any, Any, SessionSearchResponse]:
        warnings.warn("search_sessions is experimental.", ExperimentalWarning, stacklevel=3)
        if isinstance(request, type) or not hasattr(request, "to_dict"):
            raise InvalidInputError(f"request must be a SessionSearchRequest, not {request!r}.")
        body = {"user_metadata": {}, "owner": {"type": "own"}, "limit": 50, **request.to_dict()}
        check_json("request", body)
        return self._look("search_sessions", body=body)

    def assign_session_project(self, session_id: str, project_id: str) -> Future[None]:
        """Move a session to a project."""
        return self._submit(
            self._look(
                "assign_session_project",
                body={"project_id": project_id},
                parts={"session_id": session_id},
            )
        )

    async def assign_session_project_async(self, session_id: str, project_id: str) -> None:
        """Async form of `assign_session_project`."""
        return await self._wait(
            self._look(
                "assign_session_project",
                body={"project_id": project_id},
                parts={"session_id": session_id},
            )
        )

    def export_session_trace(self, session_id: str) -> Future[str]:
        """Have a trace of a session made; gives the URL it can be fetched from."""
        return self._submit(self._trace(session_id))

    async def export_session_trace_async(self, session_id: str) -> str:
        """Async form of `export_session_trace`."""
        return await self._wait(self._trace(session_id))

    async def _trace(self, session_id: str) -> str:
        await self._workspace.link.ready()
        op = operation("get_session_trace_export")
        while True:
            reply = await self._workspace.link.send(op, path=op.url_path(session_id=session_id))
            body = orjson.loads(reply.content)
            if body.get("status") == "ready":
                return str(body["url"])
            if body.get("status") == "failed":
                raise TinkerError(f"The trace could not be made: {body.get('error')}.")
            await asyncio.sleep(TRACE_POLL_SECONDS)

    def get_sampler(self, sampler_id: str) -> APIFuture[GetSamplerResponse]:
        """What a sampler samples from."""
        return AwaitableConcurrentFuture(
            self._workspace.submit(self._look("get_sampler", parts={"sampler_id": sampler_id}))
        )

    async def get_sampler_async(self, sampler_id: str) -> GetSamplerResponse:
        """Async form of `get_sampler`."""
        return await self._wait(self._look("get_sampler", parts={"sampler_id": sampler_id}))

    def whoami(self) -> APIFuture[WhoamiResponse]:
        """User and organisation of the credential, read from the server's token."""
        return AwaitableConcurrentFuture(self._workspace.submit(self._whoami()))

    async def _whoami(self) -> WhoamiResponse:
        await self._workspace.link.ready()
        token = await self._workspace.link.credential()
        if token is None or not token.startswith("eyJ"):
            raise FeatureMissingError("token that names its user", self._workspace.link.base_url)
        claims = auth.jwt_claims(token)
        return types.WhoamiResponse(
            user_urn=str(claims.get("sub", "")),
            org_urn=f"tml:organization:{claims.get('org_id', '')}",
            email=claims.get("email") or None,
        )

    # -- pages -----------------------------------------------------------------------------

    def training_runs(
        self,
        page_size: int = 100,
        access_scope: AccessScope = "owned",
        project_id: str | None = None,
    ) -> Pages[TrainingRun]:
        """Every training run, newest page first; for `for` and `async for`."""
        return Pages(
            self._workspace,
            lambda offset: self._look(
                "list_training_runs",
                query={
                    "limit": page_size,
                    "offset": offset,
                    "access_scope": access_scope,
                    "project_id": project_id,
                },
            ),
            lambda page: page.training_runs,
            page_size,
        )

    def checkpoints(self, page_size: int = 100) -> Pages[Checkpoint]:
        """Every checkpoint of the account; for `for` and `async for`."""
        return Pages(
            self._workspace,
            lambda offset: self._look(
                "list_user_checkpoints", query={"limit": page_size, "offset": offset}
            ),
            lambda page: page.checkpoints,
            page_size,
        )

    def sessions(self, page_size: int = 100, access_scope: AccessScope = "owned") -> Pages[str]:
        """Every session id; for `for` and `async for`."""
        return Pages(
            self._workspace,
            lambda offset: self._look(
                "list_sessions",
                query={"limit": page_size, "offset": offset, "access_scope": access_scope},
            ),
            lambda page: page.sessions,
            page_size,
        )

    # -- moved to AdminClient --------------------------------------------------------------

    def get_audit_log(
        self, event_type: EventType = "all", day: date | None = None
    ) -> Future[AuditLogResponse]:
        """Moved to `AdminClient.get_audit_log`."""
        return self._admin().get_audit_log(event_type, day)

    async def get_audit_log_async(
        self, event_type: EventType = "all", day: date | None = None
    ) -> AuditLogResponse:
        """Moved to `AdminClient.get_audit_log_async`."""
        return await self._admin().get_audit_log_async(event_type, day)

    def get_billing_usage(
        self, starting_on: datetime | str, ending_before: datetime | str
    ) -> Future[BillingUsageResponse]:
        """Moved to `AdminClient.get_billing_usage`."""
        return self._admin().get_billing_usage(starting_on, ending_before)

    async def get_billing_usage_async(
        self, starting_on: datetime | str, ending_before: datetime | str
    ) -> BillingUsageResponse:
        """Moved to `AdminClient.get_billing_usage_async`."""
        return await self._admin().get_billing_usage_async(starting_on, ending_before)

    def get_current_checkpoint_storage_usage(
        self, project_id: str | None = None
    ) -> Future[CurrentCheckpointStorageUsageResponse]:
        """Moved to `AdminClient.get_current_checkpoint_storage_usage`."""
        return self._admin().get_current_checkpoint_storage_usage(project_id)

    async def get_current_checkpoint_storage_usage_async(
        self, project_id: str | None = None
    ) -> CurrentCheckpointStorageUsageResponse:
        """Moved to `AdminClient.get_current_checkpoint_storage_usage_async`."""
        return await self._admin().get_current_checkpoint_storage_usage_async(project_id)

    def _admin(self) -> AdminClient:
        warnings.warn("This method has moved to AdminClient.", DeprecationWarning, stacklevel=3)
        from tinker_ext.clients.admin import AdminClient

        return AdminClient(self._workspace)
