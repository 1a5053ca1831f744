"""The help pages: instant, complete, and the same whoever prints them."""

import click
import pytest
from click.testing import CliRunner

from tinker_ext.cli import catalog, main
from tinker_ext.cli.lazy import Command
from tinker_ext.cli.run import root, run

WIRE_COMMANDS = {
    "run": {"list", "info"},
    "checkpoint": {
        "list", "info", "publish", "unpublish", "delete", "set-ttl", "download", "push-hf",
    },
    "model": {"list"},
    "session": {"export-trace"},
    "billing": {"usage", "checkpoint-storage"},
    "auth": {"login", "logout", "status", "whoami"},
}  # fmt: skip


def leaves(command: click.Command, path: tuple[str, ...] = ()):
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from leaves(command.get_command(context, name), (*path, name))
    else:
        yield path, command


LEAVES = list(leaves(root))


def test_click_prints_the_same_page(capsys):
    """M36: `tinker-ext -f json --help`, which click parses, shows the static page too."""
    assert run(["--format", "json", "--help"]) == 0
    assert capsys.readouterr().out == catalog.help_text() + "\n"


def test_no_arguments_show_the_page(capsys):
    """M36: a bare `tinker-ext` helps instead of failing."""
    with pytest.raises(SystemExit) as leave:
        main([])
    assert leave.value.code == 0
    assert "quickstart" in capsys.readouterr().out


def test_every_command_of_the_catalog_exists_and_is_on_the_page():
    """M36: the static list and the code agree, summaries included."""
    context = click.Context(root)
    for name, entry in catalog.COMMANDS.items():
        command = root.get_command(context, name)
        assert command.name == name
        assert entry.summary in catalog.help_text(100)


@pytest.mark.parametrize(("group", "names"), WIRE_COMMANDS.items())
def test_the_commands_of_the_known_tools_are_there(group, names):
    """M36: the commands of the official CLI, by name."""
    context = click.Context(root)
    found = root.get_command(context, group)
    assert set(found.list_commands(context)) == names


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_page_teaches(path, command):
    """M36: each command has a summary, help for each option, and examples that name it."""
    assert isinstance(command, Command)
    assert command.help
    assert [p.name for p in command.params if isinstance(p, click.Option) and not p.help] == []
    page = CliRunner().invoke(root, [*path, "--help"]).output
    assert "-f, --format" in page
    if path != ("version",):
        assert f"tinker-ext {' '.join(path)}" in page.partition("Examples:")[2].replace(
            "--format json ", ""
        ).replace("--base-url http://127.0.0.1:8000 ", "")


def test_the_quickstart_says_which_server_it_uses():
    """M36: the one command that stays here with TINKER_BASE_URL set does not say otherwise."""
    page = CliRunner().invoke(root, ["quickstart", "--help"]).output
    assert "by default TINKER_BASE_URL" not in page
    assert "by default the embedded one" in page


@pytest.mark.parametrize(
    "words",
    [
        ["--base-url", "ftp://x", "doctor"],
        ["doctor", "--base-url", "ftp://x"],
        ["run", "--base-url", "ftp://x", "list"],
    ],
)
def test_the_server_is_named_before_or_after_a_command(words, capsys):
    """M36: who names a server behind the command gets the same as who names it in front."""
    assert run(words) == 1
    shown = capsys.readouterr()
    assert "ftp://" in shown.out + shown.err


def test_what_stands_before_a_command_holds_behind_it(capsys):
    """M36: an option that is not repeated behind the command is not taken back by it."""
    assert run(["--format", "json", "version", "--debug"]) == 0
    assert '"version"' in capsys.readouterr().out


def test_a_typing_error_gets_a_suggestion(capsys):
    """M36: a wrong command name is wrong usage (exit code 2), with the likely right one."""
    assert run(["quikstart"]) == 2
    shown = capsys.readouterr()
    assert "quickstart" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell, capsys):
    """M36: the completion script asks through the documented variable."""
    assert run(["completion", shell]) == 0
    assert "_TINKER_EXT_COMPLETE" in capsys.readouterr().out


def test_completion_knows_the_commands():
    """M36: completing `ch` gives checkpoint, completing `checkpoint l` gives list."""
    from click.shell_completion import ShellComplete

    complete = ShellComplete(root, {}, "tinker-ext", "_TINKER_EXT_COMPLETE")
    assert [item.value for item in complete.get_completions([], "ch")] == ["checkpoint"]
    assert [item.value for item in complete.get_completions(["checkpoint"], "l")] == ["list"]


def test_version(capsys):
    """M36: `version`, `--version` and JSON tell the same."""
    from tinker_ext import __version__

    assert run(["version"]) == 0
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"tinker-ext {__version__}\n" * 2
    assert run(["version", "--format", "json"]) == 0
    assert f'"version": "{__version__}"' in capsys.readouterr().out
