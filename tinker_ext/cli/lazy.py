"""Groups and commands of click that import their code when they run, not when they are listed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from tinker_ext.cli.catalog import COMMANDS, help_text
from tinker_ext.cli.screen import FORMATS, Screen

NAMES = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def screen_of(context: click.Context) -> Screen:
    """Return the screen of this run; a command started on its own gets a plain one."""
    return context.ensure_object(Screen)


def _note(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value:  # not given here is not taken back: it may stand before the command
        setattr(screen_of(context), option.name or "", value)


SERVER = "The server; by default TINKER_BASE_URL."


def shared_options(server: str = SERVER) -> list[click.Parameter]:
    """Return the options that stand before the name of a command or a group, or behind it.

    Args:
        server: Help of `--base-url`.
    """
    options: dict[str, Any] = {"callback": _note, "expose_value": False, "is_eager": True}
    return [
        click.Option(
            ["-f", "--format"],
            type=click.Choice(FORMATS),
            help="How results are printed.",
            **options,
        ),
        click.Option(
            ["--base-url"],
            metavar="URL",
            help=server,
            **options,
        ),
        click.Option(["--debug"], is_flag=True, help="Show the traceback of an error.", **options),
    ]


class Command(click.Command):
    """A command that the shared options may follow, and whose help keeps its examples' lines."""

    def __init__(
        self, *args: Any, examples: str = "", server: str = SERVER, **options: Any
    ) -> None:
        options.setdefault("context_settings", NAMES)
        super().__init__(*args, **options)
        self.params.extend(shared_options(server))
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, one line each."""
        if self.examples:
            formatter.write("\nExamples:\n")
            for line in self.examples.strip().splitlines():
                formatter.write(f"  {line.strip()}\n")


class Group(click.Group):
    """A group of our commands; the shared options may follow its name, too."""

    command_class = Command

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("context_settings", NAMES)
        super().__init__(*args, **options)
        self.params.extend(shared_options())


class Root(click.Group):
    """The program: its commands come from the catalog and are imported one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the one command that is asked for."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = import_module(f"tinker_ext.cli.{entry.module}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a name that nearly fits is suggested."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"There is no command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        """Return the static page."""
        return help_text()
