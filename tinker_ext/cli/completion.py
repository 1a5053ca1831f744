"""`tinker-ext completion`: print the script that teaches a shell our commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tinker_ext.cli import PROGRAM
from tinker_ext.cli.lazy import Command

VARIABLE = "_TINKER_EXT_COMPLETE"

EXAMPLES = """
eval "$(tinker-ext completion bash)"                              # now, or in ~/.bashrc
eval "$(tinker-ext completion zsh)"                               # in ~/.zshrc
tinker-ext completion fish > ~/.config/fish/completions/tinker-ext.fish
"""


@click.command(cls=Command, name="completion", examples=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    The same text comes from `_TINKER_EXT_COMPLETE=bash_source tinker-ext`.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    print(kind(context.find_root().command, {}, PROGRAM, VARIABLE).source())
