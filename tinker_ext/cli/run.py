"""One run of the program: the root command, and every error turned into a line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from tinker_ext._version import __version__
from tinker_ext.cli import PROGRAM
from tinker_ext.cli.failures import EXIT_INTERRUPTED, report
from tinker_ext.cli.lazy import NAMES, Root, shared_options
from tinker_ext.cli.screen import Screen


@click.command(cls=Root, name=PROGRAM, context_settings=NAMES, params=shared_options())
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
def root() -> None:
    """One client for every Tinker server."""


def run(words: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    screen = Screen()
    try:
        result: Any = root.main(
            args=list(words), prog_name=PROGRAM, standalone_mode=False, obj=screen
        )
        sys.stdout.flush()
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        # The reader of a pipe left early, as `| head` does. Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (KeyboardInterrupt, click.Abort):
        print("\nInterrupted.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        return report(error, debug=screen.debug)
    return result if isinstance(result, int) else 0
