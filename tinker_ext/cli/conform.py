"""`tinker-ext conform`: run the conformance suite against a server and print its report."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Command, screen_of

EXAMPLES = """
tinker-ext conform http://127.0.0.1:8000
tinker-ext conform http://127.0.0.1:8000 --only seq --only sample.seed
tinker-ext conform http://127.0.0.1:8000 --json > report.json
tinker-ext conform http://127.0.0.1:8000 --junit report.xml      # for a CI system
tinker-ext conform http://127.0.0.1:8000 --remember dialect.json # for clients of this server
tinker-ext conform embedded                                   # ours, in this process
tinker-ext conform --matrix "mine 1.2=report.json" --matrix other=other.json > servers.md
"""


def _names(context: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from tinker_ext.conform import names

    for name in names():
        click.echo(name)
    context.exit()


def _matrix(context: click.Context, _: click.Parameter, value: tuple[str, ...]) -> None:
    if not value or context.resilient_parsing:
        return
    import json

    from tinker_ext.conform import Report, matrix

    reports = []
    for pair in value:
        name, equals, file = pair.rpartition("=")
        try:
            reports.append(
                (name if equals else file, Report.from_dict(json.loads(Path(file).read_text())))
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CommandError(
                f"{file} is no report: {error}", "Make one with `tinker-ext conform URL --json`."
            ) from None
    click.echo(matrix(reports), nl=False)
    context.exit()


@click.command(cls=Command, name="conform", examples=EXAMPLES)
@click.argument("url", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the report as JUnit XML too.")  # fmt: skip
@click.option("--remember", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write what clients need to know about this server: its wire, what a repeated "
              "seq_id means, what it lacks.")  # fmt: skip
@click.option("--only", multiple=True, metavar="NAME",
              help="Run this check or group of checks only. May be repeated.")  # fmt: skip
@click.option("--model", metavar="NAME", help="Base model to train; by default the first listed.")
@click.option("--wire", type=click.Choice(["json", "proto"]),
              help="Bodies to send; by default what the server asks for.")  # fmt: skip
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_names,
              help="Show the names of the checks and exit.")  # fmt: skip
@click.option("--matrix", multiple=True, is_eager=True, expose_value=False, callback=_matrix,
              metavar="NAME=FILE",
              help="Print JSON reports side by side as a Markdown table and exit.")  # fmt: skip
@click.pass_context
def command(
    context: click.Context,
    url: str | None,
    as_json: bool,
    junit: Path | None,
    remember: Path | None,
    only: tuple[str, ...],
    model: str | None,
    wire: str | None,
) -> int:
    """Test the server at URL, or of --base-url, against the API: numbers, not only shapes.

    Trains small models and samples from them. Each check passes, fails with its evidence and what
    clients do about it, or is absent where the server does not offer the feature.

    The exit code is 0 when nothing failed, 1 when a check failed, and 3 when the server could not
    be judged: it is down, too slow, not a Tinker server, or its model is a stand-in.
    """
    from tinker_ext.conform import CannotJudge, Report, names, run, to_junit
    from tinker_ext.conform.dialect_file import write
    from tinker_ext.errors import UnknownKeyError

    screen = screen_of(context)
    screen.format = "json" if as_json else screen.format
    url = url or screen.base_url or os.environ.get("TINKER_BASE_URL")
    if url is None:
        raise click.UsageError("Missing argument 'URL': the server to test.", context)
    total = None if only else len(names())
    done = 0
    with screen.progress("Checking") as advance:

        def on_result(_: object) -> None:
            nonlocal done
            done += 1
            advance(done, total)

        try:
            report = run(url, only or None, base_model=model, wire=wire, on_result=on_result)
        except UnknownKeyError as error:
            # 1 would say that the server failed.
            raise click.UsageError(
                f"{error} `tinker-ext conform --list` shows the checks."
            ) from None
        except CannotJudge as reason:
            click.echo(f"Cannot judge: {reason}", err=True)
            report = Report.without_judgement(url, str(reason))
            remember = None
    if junit is not None:
        junit.write_text(to_junit(report), encoding="utf-8")
    if remember is not None:
        write(report, remember)
    if screen.is_json:
        screen.json(report.to_dict())
    elif report.facts:
        print(report.to_text())
    return report.exit_code
