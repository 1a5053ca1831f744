"""The code blocks of a page: which there are, and the page with what they print under them."""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)

# `console` shows what a person types on another machine, `py` needs what is not on this one, `text`
# is not a program.
RUNNABLE = {"python", "bash"}
SHOWN = {"console", "py", "diff", "text", "yaml", "json", "toml"}

COLUMNS = re.compile(r"\S {3}|[\u2500-\u28ff]")
"""What shows that a line belongs to a table or a chart."""

LONGEST = 60
"""Lines of output that a page shows of one block."""


class SnippetError(Exception):
    """A block of a page failed; the message says which and how."""


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the language and the text of each code block."""
    return [(match[1], match[3]) for match in FENCE.finditer(text)]


def program(text: str) -> str:
    """Return the Python of a page as one program, since later blocks go on from earlier ones."""
    return "\n\n".join(code for language, code in blocks(text) if language == "python")


def found(name: str, text: str) -> list[dict[str, Any]]:
    """Return the blocks of a page that are run, each with the place it stands at."""
    return [
        {
            "language": match[1],
            "file": _file(match[2]),
            "text": match[3],
            "name": f"{name}:{_line(text, match.start())}",
        }
        for match in FENCE.finditer(text)
        if match[1] in RUNNABLE
    ]


def outputs(name: str, text: str) -> list[dict[str, Any]]:
    """Run the blocks of a page in a process and a folder of their own.

    Args:
        name: The page, for tracebacks.
        text: Its Markdown.

    Returns:
        What each runnable block printed, in order.

    Raises:
        SnippetError: A block ended with an error.
    """
    given = found(name, text)
    if not given:
        return []
    with tempfile.TemporaryDirectory(prefix="tinker-ext-page-") as folder:
        names = ("place", "given", "results", "told")
        order = {name: f"{folder}/{name}" for name in names}
        os.mkdir(order["place"])
        Path(order["given"]).write_text(json.dumps(given), encoding="utf-8")
        code = _ended(order)
        told = Path(order["told"]).read_text(encoding="utf-8", errors="replace")
        if code or not Path(order["results"]).exists():
            raise SnippetError(f"{name}: exit code {code}: {told[-3000:]}")
        results: list[dict[str, Any]] = json.loads(Path(order["results"]).read_text("utf-8"))
    for block, result in zip(given, results, strict=False):
        if result["error"]:
            raise SnippetError(f"{block['name']}: {result['error'][-3000:]}")
    if "Traceback (most recent call last)" in told:
        raise SnippetError(f"{name}: at its end: {told[-3000:]}")
    return results


_idle: list[subprocess.Popen[str]] = []
"""Processes that wait for a page; there are as many as pages are run at once."""


def _ended(order: dict[str, str]) -> int:
    """Let a process run a page; return the exit code of the child that it forked for it."""
    try:
        process = _idle.pop()
    except IndexError:
        process = _started()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise SnippetError(f"execute.py ended: {process.wait()}")
    _idle.append(process)
    return int(answer)


def _started() -> subprocess.Popen[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("TINKER_")}
    env |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}",
        "COLUMNS": "88",
        "NO_COLOR": "1",
        # Of the tests of this project; who tests a training loop does not wait for them to load.
        "PYTEST_ADDOPTS": "-p no:schemathesis -p no:hypothesispytest",
    }
    command = [sys.executable, str(HERE / "execute.py")]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True)
    atexit.register(_stop, process)
    return process


def _stop(process: subprocess.Popen[str]) -> None:
    with process:
        process.communicate()  # without further orders it ends


def shown(text: str, results: list[dict[str, Any]]) -> str:
    """Return a page with the output of each block under it."""
    left = iter(results)

    def with_output(match: re.Match[str]) -> str:
        if match[1] not in RUNNABLE:
            return match[0]
        result = next(left)
        return match[0] + _output(result["printed"]) + "".join(map(_figure, result["pictures"]))

    return FENCE.sub(with_output, text)


def _output(printed: str) -> str:
    lines = printed.rstrip().splitlines()
    if not lines:
        return ""
    if len(lines) > LONGEST:
        lines = [*lines[: LONGEST - 1], f"… {len(lines) - LONGEST + 1} more lines"]
    # Columns would not stand under each other when they are wrapped.
    kind = "" if any(COLUMNS.search(line) for line in lines) else " .sentences"
    # More backticks than any line of it has.
    return f"\n\n````{{ .text .output{kind} }}\n" + "\n".join(lines) + "\n````\n"


def _figure(svg: str) -> str:
    flat = " ".join(line.strip() for line in svg.splitlines())
    return f'\n\n<figure class="output" markdown="0">{flat}</figure>\n'


def _file(options: str) -> str | None:
    """Return the name of a block that is a file: `python title="test_loop.py"`."""
    named = re.search(r'title="([\w.]+)"', options)
    return named[1] if named else None


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 2
