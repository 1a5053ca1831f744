"""`tinker-ext version`: print the version."""

from __future__ import annotations

import click

from tinker_ext._version import __version__
from tinker_ext.cli import PROGRAM
from tinker_ext.cli.lazy import Command, screen_of


@click.command(cls=Command, name="version")
@click.pass_context
def command(context: click.Context) -> None:
    """Print the version."""
    screen = screen_of(context)
    if screen.is_json:
        screen.json({"name": PROGRAM, "version": __version__})
    else:
        print(f"{PROGRAM} {__version__}")
