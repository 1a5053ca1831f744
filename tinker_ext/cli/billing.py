"""`tinker-ext billing`: usage and checkpoint storage, as table, JSON or CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from tinker_ext.cli.connect import admin
from tinker_ext.cli.lazy import Group, screen_of
from tinker_ext.cli.screen import number, plain


@click.command(cls=Group, name="billing")
def command() -> None:
    """Usage and checkpoint storage, as table, JSON or CSV."""


USAGE_EXAMPLES = """
tinker-ext billing usage 2026-01-01T00:00:00Z 2026-01-02T00:00:00Z
tinker-ext billing usage 2026-01-01 2026-01-08 --csv usage.csv
tinker-ext billing usage 2026-01-01 2026-01-02 --csv - | head
"""


@command.command(name="usage", examples=USAGE_EXAMPLES)
@click.argument("start")
@click.argument("end")
@click.option("--csv", "csv_path", metavar="PATH|-", help="Write the rows as CSV; - is stdout.")
@click.option("--sessions-csv", metavar="PATH|-", help="Write the sessions as CSV; - is stdout.")
@click.pass_context
def usage(
    context: click.Context, start: str, end: str, csv_path: str | None, sessions_csv: str | None
) -> None:
    """Show hourly usage from START up to END.

    Both are full hours in ISO 8601; without a zone they are UTC. A report covers at most 14 days.
    """
    screen = screen_of(context)
    with admin(screen) as client:
        reply = client.get_billing_usage(_hour(start), _hour(end)).result()
    rows = [_dated(plain(row)) for row in reply.data]
    sessions = {key: _dated(plain(value)) for key, value in reply.sessions.items()}
    flat = [_flat(row) for row in rows]
    if csv_path:
        _write_csv(csv_path, flat)
    if sessions_csv:
        _write_csv(sessions_csv, [{"session_id": key, **value} for key, value in sessions.items()])
    if csv_path or sessions_csv:
        return
    if screen.is_json:
        through = _rfc3339(reply.cost_data_through)
        screen.json({"data": rows, "sessions": sessions, "cost_data_through": through})
    elif not flat:
        screen.say("No usage in this time.")
    else:
        names = _names(flat)
        screen.table(f"{len(flat)} rows of usage", names, [_shown(row, names) for row in flat])


STORAGE_EXAMPLES = """
tinker-ext billing checkpoint-storage
tinker-ext billing checkpoint-storage --project-id PROJECT --csv storage.csv
"""


@command.command(name="checkpoint-storage", examples=STORAGE_EXAMPLES)
@click.option("--project-id", help="Only this project.")
@click.option("--csv", "csv_path", metavar="PATH|-", help="Write the rows as CSV; - is stdout.")
@click.pass_context
def checkpoint_storage(
    context: click.Context, project_id: str | None, csv_path: str | None
) -> None:
    """Show how much storage checkpoints use now."""
    screen = screen_of(context)
    with admin(screen) as client:
        reply = client.get_current_checkpoint_storage_usage(project_id).result()
    rows = [_dated(plain(row)) for row in reply.data]
    rate = reply.effective_rate_usd_per_gigabyte_month
    if csv_path:
        _write_csv(csv_path, rows)
    elif screen.is_json:
        screen.json({"effective_rate_usd_per_gigabyte_month": rate, "data": rows})
    elif not rows:
        screen.say("No checkpoints are stored.")
    else:
        names = _names(rows)
        title = "Checkpoint storage" + (f", {rate} USD per GB and month" if rate else "")
        screen.table(title, names, [_shown(row, names) for row in rows])


def _hour(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no time; write it as 2026-01-31 or 2026-01-31T08:00:00Z"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment.minute or moment.second or moment.microsecond:
        raise click.BadParameter(f"{text!r} is not a full hour; usage is counted by the hour")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:00:00Z")


def _rfc3339(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    return moment.isoformat().replace("+00:00", "Z")


def _dated(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _dated(value) if isinstance(value, dict) else _rfc3339(value)
        for key, value in row.items()
    }


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the fields of its event beside its own."""
    info = row.get("event_info")
    rest = {key: value for key, value in row.items() if key != "event_info"}
    return rest | (
        {f"event_{key}": value for key, value in info.items()} if isinstance(info, dict) else {}
    )


def _names(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the columns that hold anything, in the order they appear."""
    return [
        name
        for name in dict.fromkeys(key for row in rows for key in row)
        if any(row.get(name) is not None for row in rows)
    ]


def _cells(row: dict[str, Any], names: Sequence[str]) -> list[str]:
    return ["" if row.get(name) is None else str(row[name]) for name in names]


def _shown(row: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Return cells for people: fractions rounded; CSV and JSON keep every digit."""
    cells = _cells(row, names)
    for place, name in enumerate(names):
        if isinstance(row.get(name), float):
            cells[place] = number(row[name])
    return cells


def _write_csv(place: str, rows: Sequence[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(key for row in rows for key in row))
    if place == "-":
        _csv_rows(sys.stdout, names, rows)
        return
    with Path(place).open("w", newline="", encoding="utf-8") as file:
        _csv_rows(file, names, rows)


def _csv_rows(file: Any, names: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(_cells(row, names) for row in rows)
