"""The command line: `main` shows the top page at once and loads the rest only when asked to work.

Example:
    $ tinker-ext quickstart
    $ tinker-ext --format json run list
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

PROGRAM = "tinker-ext"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and leave the process with its exit code.

    Args:
        arguments: What follows the program's name; by default that of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in ([], ["-h"], ["--help"]) and not _completing():
        # The page is static, so it does not wait for click.
        from tinker_ext.cli.catalog import help_text

        print(help_text())
        sys.exit(0)
    try:
        import click  # noqa: F401
    except ImportError:
        from tinker_ext._extras import how_to_install

        print(
            "Error: the command line needs click and rich.\n"
            f"Install them with: {how_to_install('cli')}",
            file=sys.stderr,
        )
        sys.exit(1)
    from tinker_ext.cli.run import run

    sys.exit(run(words))


def _completing() -> bool:
    import os

    return "_TINKER_EXT_COMPLETE" in os.environ
