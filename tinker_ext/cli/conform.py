"""`tinker-ext conform`: run the conformance suite against a server and print its report."""

from __future__ import annotations

from typing import Any

import click

from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Command, screen_of

EXAMPLES = """
tinker-ext conform http://127.0.0.1:8000
tinker-ext conform http://127.0.0.1:8000 --only seq --only sampling.seed
tinker-ext conform http://127.0.0.1:8000 --json > report.json
tinker-ext conform embedded                                   # ours, in this process
"""


def _names(context: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from tinker_ext.conform import names

    for name in names():
        click.echo(name)
    context.exit()


@click.command(cls=Command, name="conform", examples=EXAMPLES)
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--only", multiple=True, metavar="NAME",
              help="Run this check or group of checks only. May be repeated.")  # fmt: skip
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_names,
              help="Show the names of the checks and exit.")  # fmt: skip
@click.pass_context
def command(context: click.Context, url: str, as_json: bool, only: tuple[str, ...]) -> int:
    """Test the server at URL against the API: numbers, not only shapes.

    Trains small models and samples from them. Each check passes, fails with its evidence, or is
    absent where the server does not offer the feature. The exit code is 1 when a check fails.
    """
    from tinker_ext.conform import run

    screen = screen_of(context)
    screen.format = "json" if as_json else screen.format
    try:
        report: Any = run(url, only=list(only) or None)
    except ValueError as error:
        raise CommandError(str(error), "`tinker-ext conform --list` shows the checks.") from None
    if screen.is_json:
        screen.json(report.to_dict())
    else:
        print(report.to_text())
    return 0 if report.ok else 1
