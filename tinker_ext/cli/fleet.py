"""`tinker-ext fleet`: who works in a fleet, how fast, what it waits for and what was spent."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click

from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Command, screen_of
from tinker_ext.cli.screen import counted, plain
from tinker_ext.errors import ConfigurationError

if TYPE_CHECKING:
    from tinker_ext.fleet.state import Fleet
    from tinker_ext.fleet.store import Store

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
    from tinker_ext.fleet import open_store

    opened = open_store(address)
    if "://" not in address and not os.path.isdir(opened.place):
        raise CommandError(
            f"there is no folder {address}", "The first ServiceClient(fleet=FOLDER) makes it."
        )
    try:
        fleets = _look(opened)
        if screen.is_json:
            screen.json({"store": opened.place, "fleets": fleets})
            return
        console, page = screen.console(), _page(opened.place, fleets)
        if once or not console.is_terminal:
            console.print(page, soft_wrap=True)
            return
        from rich.live import Live

        with Live(console=console, auto_refresh=False, screen=False) as live:
            while True:
                live.update(page, refresh=True)
                time.sleep(interval)
                try:
                    page = _page(opened.place, _look(opened))
                except ConfigurationError as error:
                    page = str(error)
    finally:
        opened.close()


def _look(store: Store) -> list[dict[str, Any]]:
    with store.reading():
        return [{"fleet": name, **described(fleet)} for name, fleet in store.look().items()]


def described(fleet: Fleet) -> dict[str, Any]:
    """A fleet as JSON values, for programs."""
    plan, spend = fleet.plan, fleet.spend
    members = [
        {
            "id": member["id"],
            "permits": max(plan.shares.get(member["id"], 0), member["active"]),
            "in_flight": member["active"],
            **{name: member[name] for name in _SHOWN},
            "rate": round(member["rate"], 3),
            "waiting_seconds": round(fleet.now - member["since"], 3),
            "seen_seconds": round(fleet.now - member["seen"], 3),
            "spend": spend.get(member["id"]),
        }
        for member in fleet.members
    ]
    alive = {member["id"] for member in members}
    return {
        "base_url": fleet.base_url,
        "window": int(plan.size),
        "phase": plan.phase,
        "pause_seconds": round(max(0.0, plan.pause - fleet.now), 3),
        "in_flight": sum(member["in_flight"] for member in members),
        "queued": sum(member["queued"] for member in members),
        "rate": round(sum(member["rate"] for member in members), 3),
        "budget": fleet.limits,
        "spend": fleet.taken(),
        "spend_of_those_gone": {name: each for name, each in spend.items() if name not in alive},
        "currency": fleet.prices.get("currency"),
        "members": plain(members),
    }


_SHOWN = ["queued", "host", "process", "run", "version", "accepted", "refused", "waiting"]


def _page(place: str, fleets: list[dict[str, Any]]) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if not fleets:
        return Text(f"{place} has no fleet yet.")
    parts: list[Any] = []
    for about in fleets:
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
    from tinker_ext.fleet.state import EARLIER

    spend, budget = about["spend"], about["budget"]
    parts = []
    for kind in ("tokens", "train", "prefill", "sample", "cost"):
        if not spend.get(kind) and kind not in budget:
            continue
        unit = about["currency"] or "cost" if kind == "cost" else kind
        most = f" of {budget[kind]:,.6g}" if kind in budget else ""
        parts.append(f"{unit} {spend.get(kind, 0):,.6g}{most}")
    gone = [name for name in about["spend_of_those_gone"] if name != EARLIER]
    more = "more than " if len(gone) < len(about["spend_of_those_gone"]) else ""
    text = "Spent or set aside: " + (", ".join(parts) or "nothing")
    return f"{text}; {more}{counted(len(gone), 'member')} left" if gone else text
