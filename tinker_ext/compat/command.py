"""`python -m tinker.cli`: our commands, where scripts read the official command's words as it has.

They differ from `tinker-ext` in a few places: `version` and `auth status` print the official text
in every format, an unknown `--type` is an error of the command (exit code 1), not of its usage (2),
and JSON has a space between a date and its time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from tinker_ext.cli import main as our_main
from tinker_ext.compat import EMULATED_TITLE, EMULATED_VERSION

TYPES = ("weights", "sampler_weights", "external_weights")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and leave the process with its exit code.

    Args:
        arguments: What follows the program's name; by default that of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = _without_format(words)
    if command == ["version"]:
        print(f"{EMULATED_TITLE} {EMULATED_VERSION}")
        sys.exit(0)
    if command == ["auth", "status"]:
        sys.exit(_status())
    if command[:2] == ["checkpoint", "delete"] and "--type" in command[:-1]:
        given = command[command.index("--type") + 1]
        if given not in TYPES:
            print(f"Error: Invalid checkpoint type: {given}", file=sys.stderr)
            print(f"Valid types: {', '.join(TYPES)}", file=sys.stderr)
            sys.exit(1)
    from tinker_ext.cli.screen import Screen

    Screen.text = staticmethod(str)  # type: ignore[assignment]
    our_main(words)


def _without_format(words: list[str]) -> list[str]:
    if words[:1] in (["-f"], ["--format"]) and words[1:2] in (["table"], ["json"]):
        return words[2:]
    return words[1:] if words[:1] in (["--format=table"], ["--format=json"]) else words


def _status() -> int:
    from tinker_ext.compat.access import raise_if_tinker_not_accessible, tinker_has_credentials
    from tinker_ext.errors import TinkerError

    known = tinker_has_credentials()
    print(f"Credentials available: {'yes' if known else 'no'}")
    if not known:
        print("Error: No Tinker credentials are available", file=sys.stderr)
        print("Run 'tinker auth login' or configure a Tinker credential.", file=sys.stderr)
        return 1
    try:
        raise_if_tinker_not_accessible()
    except TinkerError as error:
        print("Tinker accessible: no")
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print("Tinker accessible: yes")
    return 0
