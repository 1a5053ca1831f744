"""`tinker-ext run`: list training runs and look at one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tinker_ext.cli.connect import rest
from tinker_ext.cli.lazy import Group, screen_of
from tinker_ext.cli.paging import collect
from tinker_ext.cli.screen import age, counted, moment, size, yes_no

if TYPE_CHECKING:
    from tinker_ext.types import TrainingRun

PAGE = 100


def _lora(run: TrainingRun) -> str:
    if run.is_lora and run.lora_rank:
        return f"rank {run.lora_rank}"
    return yes_no(run.is_lora)


def _status(run: TrainingRun) -> str:
    return "corrupted" if run.corrupted else "ok"


def _last(run: TrainingRun, show: Callable[[Any], str]) -> str:
    return show(run.last_checkpoint) if run.last_checkpoint else "–"


COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "id": ("Run", lambda run: run.training_run_id),
    "model": ("Base model", lambda run: run.base_model),
    "owner": ("Owner", lambda run: run.model_owner),
    "lora": ("LoRA", _lora),
    "updated": ("Last used", lambda run: age(run.last_request_time)),
    "status": ("Status", _status),
    "checkpoint": ("Last checkpoint", lambda run: _last(run, lambda item: item.checkpoint_id)),
    "checkpoint_time": ("Saved", lambda run: _last(run, lambda item: age(item.time))),
}
DEFAULT_COLUMNS = "id,model,lora,updated,status"


def _columns(_: click.Context, __: click.Parameter, value: str) -> list[str]:
    names = [name.strip() for name in value.split(",") if name.strip()]
    wrong = [name for name in names if name not in COLUMNS]
    if wrong or not names:
        raise click.BadParameter(
            f"{', '.join(wrong) or 'nothing'} is no column; there are {', '.join(COLUMNS)}"
        )
    return names


@click.command(cls=Group, name="run")
def command() -> None:
    """List training runs and look at one."""


LIST_EXAMPLES = """
tinker-ext run list --limit 0                       # all of them
tinker-ext run list -c id,owner,checkpoint          # other columns
tinker-ext --format json run list | jq '.runs[].training_run_id'
"""


@command.command(name="list", examples=LIST_EXAMPLES)
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True,
              help="How many runs; 0 shows all.")  # fmt: skip
@click.option("-c", "--columns", default=DEFAULT_COLUMNS, show_default=True, callback=_columns,
              help=f"Columns, separated by commas: {', '.join(COLUMNS)}.")  # fmt: skip
@click.pass_context
def list_runs(context: click.Context, limit: int, columns: list[str]) -> None:
    """List training runs, newest first."""
    screen = screen_of(context)
    with rest(screen) as client:
        runs, total = collect(
            screen,
            "training runs",
            limit,
            PAGE,
            lambda count, offset: client.list_training_runs(count, offset).result(),
            lambda page: page.training_runs,
        )
    if screen.is_json:
        screen.json({"runs": runs})
        return
    if not runs:
        screen.say("No training runs.")
        return
    screen.table(
        f"{len(runs)} of {total} runs" if total > len(runs) else counted(len(runs), "run"),
        [COLUMNS[name][0] for name in columns],
        [[COLUMNS[name][1](run) for name in columns] for run in runs],
    )
    if total > len(runs):
        screen.note(f"{total - len(runs)} more: --limit 0 shows all.")


INFO_EXAMPLES = """
tinker-ext run info 5f2c9a70-…:train:0
tinker-ext --format json run info RUN_ID | jq .last_checkpoint.tinker_path
"""


@command.command(name="info", examples=INFO_EXAMPLES)
@click.argument("run_id")
@click.pass_context
def info(context: click.Context, run_id: str) -> None:
    """Show one training run."""
    screen = screen_of(context)
    with rest(screen) as client:
        run = client.get_training_run(run_id).result()
    if screen.is_json:
        screen.json(run)
        return
    pairs = [
        ("Run", run.training_run_id),
        ("Base model", run.base_model),
        ("Owner", run.model_owner),
        ("LoRA", _lora(run)),
        ("Last used", moment(run.last_request_time)),
        ("Status", _status(run)),
    ]
    for name, saved in (
        ("Last checkpoint", run.last_checkpoint),
        ("Last sampler", run.last_sampler_checkpoint),
    ):
        if saved is not None:
            text = f"{saved.tinker_path}, {size(saved.size_bytes)}, {age(saved.time)}"
            pairs.append((name, text))
    pairs += [(f"Metadata {key}", value) for key, value in (run.user_metadata or {}).items()]
    screen.properties(f"Training run {run.training_run_id}", pairs)
