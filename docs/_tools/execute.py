"""Run the code blocks of pages in order and write, as JSON, what each of them printed.

Blocks of Python share one namespace, as cells of a notebook do; blocks of shell run between them
in the same folder, and a block with a title becomes a file there. A picture that a block leaves
(`*.svg`) is part of its output.

The program reads one order a line. Each page has a process of its own, forked from this one,
which has loaded what nearly all of them load: that took longer than most of them run.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import inspect
import io
import json
import linecache
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

EXAMPLE_URL = "http://127.0.0.1:8000"
"""What the pages call a server; a live one takes its place when they are run."""

LOADED = (
    *("tinker_ext.clients.service", "tinker_ext.mock.server", "tinker_ext._wire.proto_codec"),
    *("jsonschema_rs", "numpy.random"),
)
"""Nothing of it reads the environment or starts a thread when it is loaded."""

PATIENCE = 1800
"""Seconds that a page may take."""


def execute(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run blocks of `language` and `text`; return `printed`, `pictures` and `error` of each."""
    space: dict[str, Any] = {"__name__": "__main__"}
    sys.modules["__main__"].__dict__.update(space)
    space = sys.modules["__main__"].__dict__
    needed = any(EXAMPLE_URL in block["text"] for block in blocks)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(_server()) if needed else EXAMPLE_URL
        results = []
        for block in blocks:
            seen = _pictures()
            text = block["text"].replace(EXAMPLE_URL, url)
            if block["file"]:
                Path(block["file"]).write_text(text, encoding="utf-8")
                printed, error = "", None
            else:
                run = _python if block["language"] == "python" else _shell
                printed, error = run(text, block["name"], space)
            new = [name for name, made in _pictures().items() if seen.get(name) != made]
            results.append(
                {
                    "printed": printed.replace(url, EXAMPLE_URL),
                    "pictures": [Path(name).read_text(encoding="utf-8") for name in new],
                    "error": error,
                }
            )
            if error:
                break
        return results


@contextlib.contextmanager
def _server() -> Any:
    from tinker_ext.mock import Server

    with Server() as server:
        yield server.url


def _pictures() -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(Path.cwd().glob("*.svg"))}


def _python(text: str, name: str, space: dict[str, Any]) -> tuple[str, str | None]:
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            code = compile(text, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            value = eval(code, space)
            if inspect.iscoroutine(value):
                asyncio.run(value)
    except BaseException:
        return printed.getvalue(), traceback.format_exc()
    return printed.getvalue(), None


def _shell(text: str, name: str, space: dict[str, Any]) -> tuple[str, str | None]:
    done = subprocess.run(
        ["bash", "-euc", text],
        capture_output=True,
        text=True,
        timeout=900,
        stdin=subprocess.DEVNULL,
    )
    if not done.returncode:
        return done.stdout, None
    # Both streams: pytest reports failures on the first, most programs on the second.
    return done.stdout, f"{text}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"


def page(order: dict[str, str]) -> None:
    """Run the blocks of `given` in the folder `place`; results go to `results` and nothing else."""
    signal.alarm(PATIENCE)
    os.chdir(order["place"])
    os.environ["HOME"] = order["place"]  # no key or setting of whoever builds the pages
    nothing = os.open(os.devnull, os.O_RDONLY)
    told = os.open(order["told"], os.O_WRONLY | os.O_CREAT)
    # What other programs print must not come between the orders and their answers.
    for stream, now in ((0, nothing), (1, told), (2, told)):
        os.dup2(now, stream)
    blocks = json.loads(Path(order["given"]).read_text(encoding="utf-8"))
    Path(order["results"]).write_text(json.dumps(execute(blocks)), encoding="utf-8")


def main() -> None:
    """Read orders from stdin, write how each page ended to stdout."""
    sys.path.insert(0, "")  # files that a page wrote can be imported by it
    for name in LOADED:
        importlib.import_module(name)
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            page(json.loads(line))
            return  # the interpreter ends as it does after any program
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
