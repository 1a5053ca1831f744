"""Counters behind billing and the entries of the audit log."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from tinker_ext.mock.clock import Clock, rfc3339

HOUR = 3600
# Invented prices: enough to make the arithmetic of a bill visible.
USD_PER_MILLION_TOKENS = 0.1
USD_PER_GIGABYTE_MONTH = 0.02


class Ledger:
    """Usage per hour, kind, session and model; audit entries in order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.usage: Counter[tuple[int, str, str, str, str]] = Counter()
        self.audit: list[dict[str, Any]] = []

    def count(self, kind: str, amount: int, *, session: str, project: str, model: str) -> None:
        """Add usage: `training`, `sampling_prefill`, `sampling_sample` or `checkpoint`."""
        hour = int(self._clock.unix() // HOUR) * HOUR
        self.usage[hour, kind, session, project, model] += amount

    def note(self, resource: str, action: str, details: dict[str, Any]) -> None:
        """Write an audit entry `<resource>_<action>`."""
        self.audit.append(
            {
                "timestamp": rfc3339(self._clock.unix()),
                "event": f"{resource}_{action}",
                "event_details": details,
            }
        )

    def events(self, start: float, end: float) -> list[dict[str, Any]]:
        """Return the billing events of the hours in [start, end)."""
        return [
            _event(*key, amount)
            for key, amount in sorted(self.usage.items())
            if start <= key[0] < end
        ]

    def entries(self, event_type: str, day: str | None) -> list[dict[str, Any]]:
        """Return the audit entries of a resource (or `all`) and a day (or any)."""
        prefix = "" if event_type == "all" else event_type.rstrip("s") + "_"
        return [
            entry
            for entry in self.audit
            if entry["event"].startswith(prefix) and (day or "") in entry["timestamp"]
        ]

    def to_record(self) -> dict[str, Any]:
        """Return what a snapshot keeps."""
        return {"usage": [[*key, n] for key, n in self.usage.items()], "audit": self.audit}

    def restore(self, record: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.usage = Counter({tuple(row[:5]): row[5] for row in record["usage"]})
        self.audit = record["audit"]


def _event(
    hour: int, kind: str, session: str, project: str, model: str, amount: int
) -> dict[str, Any]:
    info: dict[str, Any] = {"type": kind}
    cost: float | None = amount * USD_PER_MILLION_TOKENS / 1e6
    if kind == "checkpoint":
        info["count"], cost = amount, None
    else:
        info["token_count"] = amount
        if kind == "sampling_prefill":
            info["cached"] = False
    event: dict[str, Any] = {
        "bucket_start": _stamp(hour),
        "bucket_end": _stamp(hour + HOUR),
        "base_model": model,
        "session_id": session,
        "project_id": project,
        "event_info": info,
    }
    if cost is not None:
        event["estimated_cost_usd"] = cost
        event["effective_rate_usd_per_million_tokens"] = USD_PER_MILLION_TOKENS
    return event


def _stamp(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
