"""The list of commands and the top help page, as plain data that costs nothing to show."""

from __future__ import annotations

import shutil
import textwrap
from typing import NamedTuple


class Entry(NamedTuple):
    """One command: where it lives and what it is for."""

    name: str
    module: str
    summary: str


SECTIONS: dict[str, tuple[Entry, ...]] = {
    "Start here": (
        Entry("quickstart", "quickstart", "Fine-tune a tiny model on this machine, in a minute."),
        Entry("serve", "serve", "Run the embedded server on a port."),
        Entry("doctor", "doctor", "Check key, URL, network and versions; say what to fix."),
    ),
    "Your work on a server": (
        Entry("run", "runs", "List training runs and look at one."),
        Entry("checkpoint", "checkpoints", "List, publish, expire, delete, download checkpoints."),
        Entry("ui", "ui", "Live page of your runs: curves, waits, retries, cost, samples."),
        Entry("watch", "watch", "Follow a run while it trains, in the terminal."),
        Entry("fleet", "fleet", "Show the processes that share one limit, and what they wait for."),
        Entry("session", "sessions", "Export the timeline of a session."),
        Entry("sample", "sample", "Sample from a checkpoint or a base model."),
        Entry("model", "models", "List the models the server offers."),
        Entry("estimate", "estimate", "Tokens and cost of a run, before it is started."),
        Entry("billing", "billing", "Usage and checkpoint storage, as table, JSON or CSV."),
        Entry("auth", "auth", "Log in, log out, and see who you are."),
    ),
    "Tools": (
        Entry("conform", "conform", "Test any server against the API, numbers included."),
        Entry("completion", "completion", "Print the completion script of your shell."),
        Entry("version", "version", "Print the version."),
    ),
}

COMMANDS = {entry.name: entry for entries in SECTIONS.values() for entry in entries}

USAGE = "Usage: tinker-ext [OPTIONS] COMMAND [ARGS]..."
PURPOSE = (
    "One client for every Tinker server: fine-tune language models from a Python loop, "
    "offline or remote."
)
OPTIONS = (
    ("-f, --format [table|json]", "How results are printed."),
    ("--base-url URL", "The server; by default TINKER_BASE_URL."),
    ("--debug", "Show the traceback of an error."),
    ("--version", "Print the version and exit."),
    ("-h, --help", "Show this page, or the page of a command, and exit."),
)
EXAMPLES = """\
Examples:
  tinker-ext quickstart                        train, sample, save and restore, offline
  tinker-ext serve --port 8000                 a server for your own scripts
  tinker-ext run list --limit 5                the newest training runs
  tinker-ext --format json checkpoint list     the same data for programs
  tinker-ext checkpoint download tinker://RUN/weights/final

Completion: eval "$(tinker-ext completion bash)"   (or zsh, fish)
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""


def help_text(width: int | None = None) -> str:
    """Return the page that `tinker-ext --help` prints.

    Args:
        width: Columns to fill; by default those of the terminal, up to 100.
    """
    columns = min(width or shutil.get_terminal_size().columns, 100)
    parts = [USAGE, _wrapped(PURPOSE, columns)]
    for title, entries in SECTIONS.items():
        rows = [(entry.name, entry.summary) for entry in entries]
        parts.append(f"{title}:\n{_rows(rows, 12, columns)}")
    parts.append(f"Options, before or after a command:\n{_rows(OPTIONS, 27, columns)}")
    parts.append(EXAMPLES)
    return "\n\n".join(parts)


def _wrapped(text: str, columns: int) -> str:
    return textwrap.fill(text, columns, initial_indent="  ", subsequent_indent="  ")


def _rows(
    rows: tuple[tuple[str, str], ...] | list[tuple[str, str]], left: int, columns: int
) -> str:
    indent = " " * (left + 4)
    room = max(columns, left + 24)
    return "\n".join(
        textwrap.fill(text, room, initial_indent=f"  {name:<{left}}  ", subsequent_indent=indent)
        for name, text in rows
    )
