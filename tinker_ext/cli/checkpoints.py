"""`tinker-ext checkpoint`: list, look at, publish, expire and delete checkpoints."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from tinker_ext.cli.connect import rest
from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Group, screen_of
from tinker_ext.cli.paging import collect
from tinker_ext.cli.screen import Screen, age, counted, moment, plain, size, yes_no

if TYPE_CHECKING:
    from tinker_ext.clients.rest import RestClient
    from tinker_ext.types import Checkpoint

PAGE = 1000
DELETIONS = 32
KINDS = {
    "weights": "training",
    "sampler_weights": "sampler",
    "external_weights": "external",
    "training": "training",
    "sampler": "sampler",
    "external": "external",
}
LATER = {"download": "weights_files", "push-hf": "hub"}


class Checkpoints(Group):
    """The group; commands that move files live in modules of their own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *LATER]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command that lives elsewhere when it is asked for."""
        if cmd_name in LATER:
            found: click.Command = import_module(f"tinker_ext.cli.{LATER[cmd_name]}").command
            return found
        return super().get_command(ctx, cmd_name)


@click.command(cls=Checkpoints, name="checkpoint")
def command() -> None:
    """List, publish, expire, delete and download checkpoints.

    A checkpoint is named by its path, for example tinker://RUN_ID/weights/0001.
    """


def _parsed(_: click.Context, __: click.Parameter, value: Any) -> Any:
    """Refuse what is no checkpoint path before anything is sent."""
    from tinker_ext.errors import InvalidInputError
    from tinker_ext.paths import parse_checkpoint

    for path in (value,) if isinstance(value, str) else value:
        try:
            parse_checkpoint(path)
        except InvalidInputError:
            raise CommandError(
                f"Invalid checkpoint path: {path}",
                "A path looks like tinker://RUN_ID/weights/0001; "
                "`tinker-ext checkpoint list` shows yours.",
            ) from None
    return value


path_argument = click.argument("path", callback=_parsed)

LIST_EXAMPLES = """
tinker-ext checkpoint list
tinker-ext checkpoint list --run-id RUN_ID
tinker-ext --format json checkpoint list --limit 0 | jq '[.checkpoints[].size_bytes] | add'
"""


@command.command(name="list", examples=LIST_EXAMPLES)
@click.option("--run-id", help="Only the checkpoints of this run.")
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True,
              help="How many when listing all runs; 0 shows all.")  # fmt: skip
@click.pass_context
def list_checkpoints(context: click.Context, run_id: str | None, limit: int) -> None:
    """List checkpoints of one run, or of all."""
    screen = screen_of(context)
    with rest(screen) as client:
        if run_id:
            found = list(client.list_checkpoints(run_id).result().checkpoints)
            total = len(found)
        else:
            found, total = collect(
                screen,
                "checkpoints",
                limit,
                PAGE,
                lambda count, offset: client.list_user_checkpoints(count, offset).result(),
                lambda page: page.checkpoints,
            )
    if screen.is_json:
        screen.json(({"run_id": run_id} if run_id else {}) | {"checkpoints": found})
        return
    if not found:
        screen.say(f"No checkpoints{f' of run {run_id}' if run_id else ''}.")
        return
    of_all = f"{len(found)} of " if total > len(found) else ""
    screen.table(
        f"{of_all}{counted(total, 'checkpoint')}{f' of run {run_id}' if run_id else ''}",
        ("Checkpoint", "Type", "Size", "Public", "Created", "Expires", "Path"),
        [
            (
                item.checkpoint_id,
                item.checkpoint_type,
                size(item.size_bytes),
                yes_no(item.public),
                age(item.time),
                age(item.expires_at),
                item.tinker_path,
            )
            for item in found
        ],
    )
    if total > len(found):
        screen.note(f"{total - len(found)} more: --limit 0 shows all.")


@command.command(name="info", examples="tinker-ext checkpoint info tinker://RUN_ID/weights/0001")
@path_argument
@click.pass_context
def info(context: click.Context, path: str) -> None:
    """Show one checkpoint."""
    from tinker_ext.paths import parse_checkpoint

    screen = screen_of(context)
    run_id = parse_checkpoint(path).training_run_id
    with rest(screen) as client:
        found = client.list_checkpoints(run_id).result().checkpoints
        saved = next((item for item in found if item.tinker_path == path), None)
        if saved is None:
            raise CommandError(
                f"run {run_id} has no checkpoint {path}",
                f"See what it has: tinker-ext checkpoint list --run-id {run_id}",
                title="Resource not found",
            )
        run = client.get_training_run(run_id).result()
    record = plain(saved) | {"is_lora": run.is_lora, "lora_rank": run.lora_rank}
    if screen.is_json:
        screen.json(record)
        return
    pairs = [
        ("Checkpoint", saved.checkpoint_id),
        ("Type", saved.checkpoint_type),
        ("Path", saved.tinker_path),
        ("Size", size(saved.size_bytes)),
        ("Public", yes_no(saved.public)),
        ("Created", moment(saved.time)),
        (
            "Expires",
            moment(saved.expires_at) if saved.expires_at else "never",
        ),
        ("Base model", run.base_model),
        ("LoRA", f"rank {run.lora_rank}" if run.lora_rank else yes_no(run.is_lora)),
    ]
    pairs += [(f"Metadata {key}", value) for key, value in (saved.user_metadata or {}).items()]
    screen.properties(f"Checkpoint {saved.checkpoint_id}", pairs)


@command.command(
    name="publish", examples="tinker-ext checkpoint publish tinker://RUN/weights/final"
)
@path_argument
@click.pass_context
def publish(context: click.Context, path: str) -> None:
    """Make a checkpoint public; prints nothing on success."""
    with rest(screen_of(context)) as client:
        client.publish_checkpoint_from_tinker_path(path).result()


@command.command(
    name="unpublish", examples="tinker-ext checkpoint unpublish tinker://RUN/weights/final"
)
@path_argument
@click.pass_context
def unpublish(context: click.Context, path: str) -> None:
    """Make a checkpoint private again; prints nothing on success."""
    with rest(screen_of(context)) as client:
        client.unpublish_checkpoint_from_tinker_path(path).result()


TTL_EXAMPLES = """
tinker-ext checkpoint set-ttl tinker://RUN/weights/0001 --ttl 86400     # one day from now
tinker-ext checkpoint set-ttl tinker://RUN/weights/0001 --remove        # keep it
"""


@command.command(name="set-ttl", examples=TTL_EXAMPLES)
@path_argument
@click.option("--ttl", type=int, metavar="SECONDS", help="Seconds from now: 1 hour to 10 years.")
@click.option("--remove", is_flag=True, help="Keep the checkpoint forever.")
@click.pass_context
def set_ttl(context: click.Context, path: str, ttl: int | None, remove: bool) -> None:
    """Set when a checkpoint expires, or keep it; prints nothing on success."""
    if (ttl is not None) == remove:
        raise CommandError(
            "give either --ttl SECONDS or --remove",
            "--ttl lets the checkpoint expire, --remove keeps it.",
        )
    with rest(screen_of(context)) as client:
        client.set_checkpoint_ttl_from_tinker_path(path, ttl).result()


DELETE_EXAMPLES = """
tinker-ext checkpoint delete tinker://RUN/weights/0001 tinker://RUN/weights/0002
tinker-ext checkpoint delete --run-id RUN --type sampler_weights -y
tinker-ext checkpoint delete --run-id RUN --after 2026-01-01 --before 2026-02-01T08:00:00Z
"""


def _moment(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        raise CommandError(
            f"Invalid date: {value}", "Write it as 2026-01-31 or 2026-01-31T08:00:00Z (UTC)."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@command.command(name="delete", examples=DELETE_EXAMPLES)
@click.argument("paths", nargs=-1, callback=_parsed)
@click.option("--run-id", help="Delete the checkpoints of this run.")
@click.option("--type", "kind", type=click.Choice(list(KINDS)), help="Only those of this type.")
@click.option(
    "--before", callback=_moment, metavar="TIME", help="Only those older than this (ISO 8601, UTC)."
)
@click.option(
    "--after", callback=_moment, metavar="TIME", help="Only those newer than this (ISO 8601, UTC)."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def delete(
    context: click.Context,
    paths: tuple[str, ...],
    run_id: str | None,
    kind: str | None,
    before: datetime | None,
    after: datetime | None,
    yes: bool,
) -> None:
    """Delete checkpoints permanently: those named by PATHS, or those of a run.

    --type, --before and --after narrow --run-id down.
    """
    screen = screen_of(context)
    if bool(paths) == bool(run_id):
        raise CommandError(
            "name checkpoints by their paths or give --run-id, one of the two",
            "`tinker-ext checkpoint delete --help` has examples.",
        )
    if (kind or before or after) and not run_id:
        raise CommandError("--type, --before and --after need --run-id")
    with rest(screen) as client:
        chosen: list[Checkpoint] = []
        if run_id:
            listed = client.list_checkpoints(run_id).result().checkpoints
            chosen = _filtered(list(listed), kind, before, after)
            paths = tuple(item.tinker_path for item in chosen)
        if not paths and not screen.is_json:
            screen.say(f"No checkpoint of run {run_id} fits.")
            return
        if paths and not yes and not _confirmed(paths, chosen):
            click.echo("Nothing was deleted.", err=True)
            return
        _delete_all(screen, client, paths)


def _filtered(
    items: list[Checkpoint], kind: str | None, before: datetime | None, after: datetime | None
) -> list[Checkpoint]:
    return [
        item
        for item in items
        if (kind is None or item.checkpoint_type == KINDS[kind])
        and (before is None or item.time < before)
        and (after is None or item.time > after)
    ]


def _confirmed(paths: tuple[str, ...], chosen: list[Checkpoint]) -> bool:
    sizes = {item.tinker_path: item for item in chosen}
    click.echo(f"To be deleted for good, {len(paths)} in all:", err=True)
    for path in paths:
        item = sizes.get(path)
        note = f" ({size(item.size_bytes)}, {age(item.time)})" if item else ""
        click.echo(f"  {path}{note}", err=True)
    if chosen:
        total = sum(item.size_bytes or 0 for item in chosen)
        click.echo(f"Together {size(total)}.", err=True)
    try:
        return click.confirm("Delete?", err=True)
    except (click.Abort, RuntimeError):  # the second, of Python, if there is no stdin at all
        if sys.stdin and sys.stdin.isatty():
            raise
        raise CommandError(
            "nobody is there to confirm it; nothing was deleted", "Add --yes to delete them."
        ) from None


def _delete_all(screen: Screen, client: RestClient, paths: tuple[str, ...]) -> None:
    """Delete in parallel; a failure is reported and does not stop the others."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    from tinker_ext.errors import TinkerError

    def one(path: str) -> str | None:
        try:
            client.delete_checkpoint_from_tinker_path(path).result()
        except TinkerError as error:
            return str(error)
        return None

    failed: dict[str, str] = {}
    with (
        screen.progress("Deleting") as advance,
        ThreadPoolExecutor(max_workers=DELETIONS) as pool,
    ):
        pending = {pool.submit(one, path): path for path in paths}
        for done, future in enumerate(as_completed(pending), 1):
            problem = future.result()
            if problem is not None:
                failed[pending[future]] = problem
            advance(done, len(paths))
    deleted = len(paths) - len(failed)
    if screen.is_json:
        rows = [{"tinker_path": path, "error": failed[path]} for path in paths if path in failed]
        screen.json({"deleted_count": deleted, "failed": rows})
        return
    screen.say(f"Deleted {deleted} of {counted(len(paths), 'checkpoint')}.")
    for path in paths:
        if path in failed:
            click.echo(f"Not deleted: {path}: {failed[path]}", err=True)
