"""`tinker-ext watch`: follow a run, from its run log or by asking the server."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from tinker_ext.cli.connect import rest
from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Command, screen_of
from tinker_ext.cli.screen import Screen, age, plain, size
from tinker_ext.cli.snapshot import Snapshot

EXAMPLES = """
tinker-ext watch metrics.jsonl                 # the run log of ServiceClient(run_log=…)
tinker-ext watch tinker-ext-quickstart         # the directory that holds one
tinker-ext watch 5f2c9a70-…:train:0            # a run id: asks the server
tinker-ext --format json watch metrics.jsonl   # one look, for programs
"""


ROWS = 8
"""Pending calls shown; the oldest come first."""


@click.command(cls=Command, name="watch", examples=EXAMPLES)
@click.argument("run")
@click.option("--interval", type=click.FloatRange(0.05), metavar="SECONDS",
              help="Time between updates: 0.5 for a log, 5 for a server.")  # fmt: skip
@click.option("--once", is_flag=True, help="Print once and exit.")
@click.pass_context
def command(context: click.Context, run: str, interval: float | None, once: bool) -> None:
    """Follow RUN: pending work, queue state and metrics, while it trains.

    RUN is a run log (metrics.jsonl), a directory that holds one, or the id of a training run. In
    a terminal the table stays in place; elsewhere every step is a line. A log is followed until
    its session ends, a run id until Ctrl-C.
    """
    screen = screen_of(context)
    once = once or screen.is_json
    place = Path(run)
    if place.exists():
        _watch_log(screen, place, interval or 0.5, once)
    elif place.suffix == ".jsonl" or "/" in run:
        raise CommandError(
            f"there is no file {run}",
            "A run writes one when it is started with ServiceClient(run_log='metrics.jsonl').",
        )
    else:
        _watch_server(screen, run, interval or 5.0, once)


def _watch_log(screen: Screen, place: Path, interval: float, once: bool) -> None:
    path = place / "metrics.jsonl" if place.is_dir() else place
    if not path.exists():
        raise CommandError(f"{place} holds no metrics.jsonl", "Name the run log itself.")
    shot = Snapshot()
    tail = _tail(path)
    shot.add(next(tail))
    if screen.is_json:
        screen.json(shot.to_dict())
        return
    console = screen.console()
    if once:
        console.print(_page(shot, path), soft_wrap=True)
        return
    if not console.is_terminal:
        _print_steps(shot, tail, interval)
        return
    from rich.live import Live

    with Live(_page(shot, path), console=console, refresh_per_second=4) as live:
        while shot.ended is None:
            time.sleep(interval)
            shot.add(next(tail))
            live.update(_page(shot, path))


def _tail(path: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the new whole lines of a file at each call; starts again when it was replaced."""
    import json

    offset = number = 0
    while True:
        found = []
        # Between two files of a rotation the log has no file.
        with suppress(FileNotFoundError), path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_ino != number or status.st_size < offset:
                offset, number = 0, status.st_ino
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                offset += len(line)
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(record, dict):
                    found.append(record)
        yield found


def _print_steps(shot: Snapshot, tail: Iterator[list[dict[str, Any]]], interval: float) -> None:
    print(_line(shot), flush=True)
    while shot.ended is None:
        time.sleep(interval)
        if shot.add(next(tail)) or shot.held_back:
            print(_line(shot), flush=True)
    print(f"session ended: {shot.ended}")


def _line(shot: Snapshot) -> str:
    loss = f"{shot.losses[-1]:.4g}" if shot.losses else "–"
    parts = [
        f"step {shot.step}",
        f"{_named(shot).lower()} {loss}",
        f"{_amount(shot.tokens_per_second)} tokens/s",
    ]
    parts += [
        f"{item.operation} {item.state} for {max((shot.updated or 0) - item.since, 0):.0f} s"
        for item in shot.held_back
    ]
    return "  ".join(parts)


def _named(shot: Snapshot) -> str:
    return "Loss per token" if shot.per_token else "Loss (sum)"


def _page(shot: Snapshot, path: Path) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from tinker_ext.quickstart.chart import chart

    head = _grid()
    state = shot.ended or "running"
    head.add_row("Run", Text(f"{shot.target or '–'}"), "Log", Text(str(path)))
    head.add_row(
        "Model", Text(shot.model or "–"), "Session", Text(f"{shot.session or '–'} {state}")
    )
    loss = f"{shot.losses[-1]:.5g}" if shot.losses else "–"
    pace = f"{shot.seconds_per_step:.2f} s a step" if shot.seconds_per_step is not None else "–"
    head.add_row("Step", str(shot.step), _named(shot), loss)
    head.add_row(
        "Speed", f"{_amount(shot.tokens_per_second)} tokens/s, {pace}", "Tokens", _used(shot)
    )
    parts: list[Any] = [head]
    if len(shot.losses) > 1:
        label = _named(shot).lower()
        curve = chart(shot.losses, width=56, height=6, first=shot.first_loss, label=label)
        parts.append(Text(curve, style="cyan"))
    parts.append(_pending_table(shot))
    numbers = {
        name: value for name, value in shot.metrics.items() if isinstance(value, int | float)
    }
    if numbers:
        table = Table(title="Metrics of the last step", title_justify="left")
        table.add_column("Metric")
        table.add_column("Value", justify="right")
        for name, value in sorted(numbers.items()):
            table.add_row(Text(name), f"{value:.6g}")
        parts.append(table)
    if shot.errors:
        text = ", ".join(f"{name} × {count}" for name, count in shot.errors.items())
        parts.append(Text(f"Errors: {text}", style="red"))
    return Group(*parts)


def _grid() -> Any:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for style in ("dim", "", "dim", ""):
        grid.add_column(style=style, overflow="fold")
    return grid


def _pending_table(shot: Snapshot) -> Any:
    from rich.table import Table
    from rich.text import Text

    items = list(shot.pending.values())
    if not items:
        return Text("Pending: nothing.", style="dim")
    held = f", {len(shot.held_back)} held back" if shot.held_back else ""
    table = Table(title=f"Pending: {len(items)}{held}", title_justify="left")
    for name in ("Operation", "Target", "Queue state", "For", "Reason"):
        table.add_column(name, overflow="fold")
    now = time.time()
    for item in items[:ROWS]:
        table.add_row(
            Text(item.operation),
            Text(item.target),
            Text(item.state, style="" if item.state == "active" else "yellow"),
            f"{max(now - item.since, 0):.0f} s",
            Text(item.reason or ""),
        )
    if len(items) > ROWS:
        table.add_row(f"… and {len(items) - ROWS} more")
    return table


def _used(shot: Snapshot) -> str:
    text = ", ".join(f"{name} {_amount(value)}" for name, value in shot.tokens.items()) or "–"
    return f"{text}, cost {shot.cost:.4g}" if shot.cost is not None else text


def _amount(value: Any) -> str:
    return f"{value:,.0f}" if isinstance(value, int | float) else "–"


def _watch_server(screen: Screen, run_id: str, interval: float, once: bool) -> None:
    """Show what the server tells about a run: its last use, its checkpoints, its health."""
    with rest(screen) as client:

        def look() -> tuple[Any, list[Any]]:
            run = client.get_training_run(run_id).result()
            return run, list(client.list_checkpoints(run_id).result().checkpoints)

        run, saved = look()
        if screen.is_json:
            screen.json({"run": run, "checkpoints": [plain(item) for item in saved]})
            return
        console = screen.console()
        if once:
            console.print(_server_page(run, saved))
            return
        if not console.is_terminal:
            last = ""
            while True:
                line = f"last used {run.last_request_time}, {len(saved)} checkpoints"
                if line != last:
                    print(line, flush=True)
                last = line
                time.sleep(interval)
                run, saved = look()
        from rich.live import Live

        with Live(_server_page(run, saved), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                live.update(_server_page(*look()), refresh=True)


def _server_page(run: Any, saved: list[Any]) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    head = _grid()
    head.add_row("Run", Text(run.training_run_id), "Model", Text(run.base_model))
    health = Text("corrupted", style="red") if run.corrupted else Text("ok", style="green")
    head.add_row("Last used", age(run.last_request_time), "Status", health)
    table = Table(title=f"Checkpoints: {len(saved)}", title_justify="left")
    for name in ("Checkpoint", "Type", "Size", "Saved"):
        table.add_column(name, overflow="fold")
    for item in sorted(saved, key=lambda item: item.time, reverse=True)[:10]:
        table.add_row(
            Text(item.checkpoint_id), item.checkpoint_type, size(item.size_bytes), age(item.time)
        )
    note = "Steps and queue states are in the run log: ServiceClient(run_log='metrics.jsonl')."
    return Group(head, table, Text(note, style="dim"))
