"""`tinker-ext fleet`: who works in a fleet, how fast, what it waits for and what was spent."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click
import orjson

from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Command, screen_of
from tinker_ext.cli.screen import counted, plain

if TYPE_CHECKING:
    from tinker_ext.fleet.store import FleetRecord, Store

EXAMPLES = """
tinker-ext fleet ~/fleet                       # a folder: live until Ctrl-C
tinker-ext fleet redis://host:6379/0 --once    # one look
tinker-ext --format json fleet                 # TINKER_EXT_FLEET, for programs
"""


@click.command(cls=Command, name="fleet", examples=EXAMPLES)
@click.argument("store", required=False)
@click.option("--interval", type=click.FloatRange(0.1), default=1.0, show_default=True,
              metavar="SECONDS", help="Time between updates.")  # fmt: skip
@click.option("--once", is_flag=True, help="Print once and exit.")
@click.pass_context
def command(context: click.Context, store: str | None, interval: float, once: bool) -> None:
    """Show the fleets at STORE: members, rates, waits, limits and spend.

    STORE is the folder or the redis:// URL that ServiceClient(fleet=…) was given; by default
    TINKER_EXT_FLEET. In a terminal the table stays in place and follows the fleet. Looking does
    not make you a member, and changes nothing.
    """
    screen = screen_of(context)
    address = store or os.environ.get("TINKER_EXT_FLEET")
    if not address:
        raise CommandError(
            "there is no store", "Name it: tinker-ext fleet FOLDER, or set TINKER_EXT_FLEET."
        )
    if "://" not in address and not os.path.isdir(os.path.expanduser(address)):
        raise CommandError(
            f"there is no folder {address}", "The first ServiceClient(fleet=FOLDER) makes it."
        )
    from tinker_ext.fleet import open_store
    from tinker_ext.fleet.store import StoreUnreachableError

    opened = open_store(address)
    try:
        opened.open()
        if screen.is_json:
            screen.json({"store": opened.place, "fleets": [described(r) for r in _look(opened)]})
            return
        console = screen.console()
        if once or not console.is_terminal:
            console.print(_page(opened.place, _look(opened)), soft_wrap=True)
            return
        from rich.live import Live

        with Live(console=console, auto_refresh=False, screen=False) as live:
            while True:
                try:
                    page = _page(opened.place, _look(opened))
                except StoreUnreachableError as error:
                    page = f"The store does not answer: {error}"
                live.update(page, refresh=True)
                time.sleep(interval)
    except StoreUnreachableError as error:
        raise CommandError(f"the store does not answer: {error}") from None
    finally:
        opened.close()


def _look(store: Store) -> list[FleetRecord]:
    return [record for name in store.groups() if (record := store.look(name)) is not None]


def described(record: FleetRecord) -> dict[str, Any]:
    """A fleet as JSON values, for programs."""
    members = [
        {
            "id": member["id"],
            "permits": member["lease"],
            "seen_seconds": round(member["age"], 3),
            **{key: value for key, value in member.items() if key not in _INTERNAL},
            # Those that were refused wait for a permit again.
            "in_flight": member["active"],
            "queued": member["queued"] + member["in_flight"] - member["active"],
            "waiting_seconds": round(member["waiting_seconds"] + member["age"], 3),
            "spend": record.spend.get(member["id"]),
        }
        for member in record.members
    ]
    alive = {member["id"] for member in record.members}
    return {
        "fleet": record.group,
        "base_url": record.texts.get("base_url", ""),
        "window": int(record.numbers.get("window", 0)),
        "phase": orjson.loads(record.texts.get("plan", "{}")).get("phase"),
        "pause_seconds": round(record.pause, 3),
        "in_flight": sum(member["in_flight"] for member in members),
        "queued": sum(member["queued"] for member in members),
        "rate": round(sum(member["rate"] for member in members), 3),
        "budget": record.amounts("limit"),
        "spend": _sum(record),
        "spend_of_those_gone": {
            name: dict(each) for name, each in record.spend.items() if name not in alive
        },
        "currency": orjson.loads(record.texts.get("prices", "{}")).get("currency"),
        "members": plain(members),
    }


_INTERNAL = {"id", "lease", "target", "seen", "expires", "age", "round", "refusal", "level", "held"}
_INTERNAL |= {"cap", "most", "demand", "active"}


def _sum(record: FleetRecord) -> dict[str, float]:
    total: dict[str, float] = {}
    for each in record.spend.values():
        for kind, amount in each.items():
            total[kind] = total.get(kind, 0) + amount
    return total


def _page(place: str, records: list[FleetRecord]) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if not records:
        return Text(f"{place} has no fleet yet.")
    parts: list[Any] = []
    for record in records:
        about = described(record)
        table = Table(title=_title(about), title_justify="left", caption=_money(about))
        table.caption_justify = "left"
        for name in ("Member", "Run"):
            table.add_column(name, overflow="fold")
        for name in ("Permits", "In flight", "Queued", "Samples/s", "Refused", "Tokens"):
            table.add_column(name, justify="right")
        table.add_column("Waits for")
        for member in about["members"]:
            waits = f"{member['waiting']}, {member['waiting_seconds']:.0f} s"
            style = "yellow" if member["waiting"] in ("permits", "pause") else ""
            table.add_row(
                Text(member["id"]),
                Text(member["run"]),
                str(member["permits"]),
                str(member["in_flight"]),
                str(member["queued"]),
                f"{member['rate']:.1f}",
                str(member["refused"]),
                f"{(member['spend'] or {}).get('tokens', 0):,.0f}",
                Text(waits, style=style),
            )
        parts.append(table)
    return Group(*parts)


def _title(about: dict[str, Any]) -> str:
    pause = f", paused for {about['pause_seconds']:.1f} s" if about["pause_seconds"] else ""
    return (
        f"{about['base_url']}  {counted(len(about['members']), 'member')}, "
        f"{about['in_flight']} in flight of {about['window']}{pause}, {about['rate']:.1f} samples/s"
    )


def _money(about: dict[str, Any]) -> str:
    spend, budget = about["spend"], about["budget"]
    parts = []
    for kind in ("tokens", "train", "prefill", "sample", "cost"):
        if not spend.get(kind) and kind not in budget:
            continue
        unit = about["currency"] or "cost" if kind == "cost" else kind
        most = f" of {budget[kind]:,.6g}" if kind in budget else ""
        parts.append(f"{unit} {spend.get(kind, 0):,.6g}{most}")
    gone = len(about["spend_of_those_gone"])
    text = "Spent or set aside: " + (", ".join(parts) or "nothing")
    return f"{text}; {counted(gone, 'member')} left" if gone else text
