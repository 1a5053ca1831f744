"""`AdminClient`: audit log, billing and storage of an organisation."""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tinker_ext.clients import endings
from tinker_ext.clients.lookups import look_up
from tinker_ext.clients.opening import open_workspace
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import InvalidInputError

if TYPE_CHECKING:
    from tinker_api.models import (
        AuditLogResponse,
        BillingUsageResponse,
        CurrentCheckpointStorageUsageResponse,
    )

T = TypeVar("T")
EventType = Literal["all", "checkpoints", "projects", "teams", "organizations"]
EVENT_TYPES = ("all", "checkpoints", "projects", "teams", "organizations")


class AdminClient:
    """Reads what administrators of an organisation may see.

    Args:
        base_url: The server; as in `ServiceClient`.
        api_key: The credential; as in `ServiceClient`.
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
        return f"AdminClient(base_url={self._workspace.link.base_url!r})"

    def _submit(self, coro: Coroutine[Any, Any, T]) -> Future[T]:
        return self._workspace.submit(coro)

    async def _wait(self, coro: Coroutine[Any, Any, T]) -> T:
        return await self._workspace.submit(coro)

    def get_telemetry(self) -> None:
        """Nothing: telemetry is an observer of the connection here."""

    def get_audit_log(
        self, event_type: EventType = "all", day: date | None = None
    ) -> Future[AuditLogResponse]:
        """Entries of the audit log of one day (today by default)."""
        return self._submit(self._audit(event_type, day))

    async def get_audit_log_async(
        self, event_type: EventType = "all", day: date | None = None
    ) -> AuditLogResponse:
        """Async form of `get_audit_log`."""
        return await self._wait(self._audit(event_type, day))

    def get_billing_usage(
        self, starting_on: datetime | str, ending_before: datetime | str
    ) -> Future[BillingUsageResponse]:
        """What was used and what it cost in a span of time."""
        return self._submit(self._usage(starting_on, ending_before))

    async def get_billing_usage_async(
        self, starting_on: datetime | str, ending_before: datetime | str
    ) -> BillingUsageResponse:
        """Async form of `get_billing_usage`."""
        return await self._wait(self._usage(starting_on, ending_before))

    def get_current_checkpoint_storage_usage(
        self, project_id: str | None = None
    ) -> Future[CurrentCheckpointStorageUsageResponse]:
        """What stored checkpoints cost now."""
        return self._submit(
            look_up(
                self._workspace,
                "get_current_checkpoint_storage_usage",
                query={"project_id": project_id},
            )
        )

    async def get_current_checkpoint_storage_usage_async(
        self, project_id: str | None = None
    ) -> CurrentCheckpointStorageUsageResponse:
        """Async form of `get_current_checkpoint_storage_usage`."""
        return await self._wait(
            look_up(
                self._workspace,
                "get_current_checkpoint_storage_usage",
                query={"project_id": project_id},
            )
        )

    def _audit(self, event_type: str, day: date | None) -> Coroutine[Any, Any, AuditLogResponse]:
        if event_type not in EVENT_TYPES:
            raise InvalidInputError(
                f"event_type must be one of {', '.join(EVENT_TYPES)}, not {event_type!r}."
            )
        query = {"event_type": event_type, "day": None if day is None else day.isoformat()}
        return look_up(self._workspace, "get_audit_log", query=query)

    def _usage(
        self, starting_on: datetime | str, ending_before: datetime | str
    ) -> Coroutine[Any, Any, BillingUsageResponse]:
        query = {"starting_on": _instant(starting_on), "ending_before": _instant(ending_before)}
        return look_up(self._workspace, "get_billing_usage", query=query)


def _instant(value: datetime | str) -> str:
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        raise InvalidInputError(f"{value!r} has no time zone; use datetime.now(timezone.utc).")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
