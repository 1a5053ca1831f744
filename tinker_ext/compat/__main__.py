"""Run a script or a module with `import tinker` meaning this package."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from tinker_ext.compat import directory, install

USAGE = """usage: python -m tinker_ext.compat script.py [args ...]
       python -m tinker_ext.compat -m module [args ...]
       python -m tinker_ext.compat --path

Runs unchanged code that imports `tinker` on tinker-ext. --path prints the directory that does
the same when it comes first on PYTHONPATH."""


def main(argv: list[str]) -> int:
    """Do what the command line asks; returns the exit code of a call that runs nothing."""
    if argv == ["--path"]:
        print(directory())
        return 0
    if argv and argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    if not argv or (argv[0].startswith("-") and argv[0] != "-m") or argv == ["-m"]:
        print(USAGE, file=sys.stderr)
        return 2
    install()
    # Programs the script starts must see the same `tinker`; spawned workers get sys.path anyway.
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(directory()), inherited)))
    if argv[0] == "-m":
        sys.argv = argv[1:]
        sys.path.insert(1, str(Path.cwd()))
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return 0
    script = Path(argv[0])
    if not script.exists():
        print(f"tinker_ext.compat: no such file: {script}", file=sys.stderr)
        return 2
    sys.argv = argv
    sys.path.insert(1, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
