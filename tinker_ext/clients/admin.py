"""`AdminClient`: audit log, billing and storage of an organisation."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from tinker_api import operations as api

from tinker_ext.clients.arguments import awaited
from tinker_ext.clients.rest import EventType, LookUps
from tinker_ext.errors import InvalidInputError

if TYPE_CHECKING:
    from tinker_api.models import (
        AuditLogResponse,
        BillingUsageResponse,
        CurrentCheckpointStorageUsageResponse,
    )


class AdminClient(LookUps):
    """Reads what administrators of an organisation may see.

    Args:
        base_url: The server; as in `ServiceClient`.
        api_key: The credential; as in `ServiceClient`.
    """

    def get_audit_log(
        self, event_type: EventType = "all", day: date | None = None
    ) -> Future[AuditLogResponse]:
        """Entries of the audit log of one day (today by default)."""
        return self._ask(
            api.LIST_AUDIT_LOG,
            method="get_audit_log",
            event_type=event_type,
            day=None if day is None else _day(day),
        )

    get_audit_log_async = awaited(get_audit_log)

    def get_billing_usage(
        self, starting_on: datetime | date | str, ending_before: datetime | date | str
    ) -> Future[BillingUsageResponse]:
        """What was used and what it cost in a span of time; a date is its midnight in UTC."""
        return self._ask(
            api.LIST_BILLING_USAGE_EVENTS,
            method="get_billing_usage",
            starting_on=_instant(starting_on),
            ending_before=_instant(ending_before),
        )

    get_billing_usage_async = awaited(get_billing_usage)

    def get_current_checkpoint_storage_usage(
        self, project_id: str | None = None
    ) -> Future[CurrentCheckpointStorageUsageResponse]:
        """What stored checkpoints cost now."""
        return self._ask(
            api.GET_CURRENT_CHECKPOINT_STORAGE,
            method="get_current_checkpoint_storage_usage",
            project_id=project_id,
        )

    get_current_checkpoint_storage_usage_async = awaited(get_current_checkpoint_storage_usage)


def _day(value: date) -> str:
    if not isinstance(value, date):
        raise InvalidInputError(f"day must be a datetime.date, not {value!r}.")
    return value.isoformat()


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
