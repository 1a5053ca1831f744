"""Make the notebooks from the scripts, check that they are fresh, and run them without Jupyter.

    python examples/notebooks.py write            # scripts → notebooks, outputs included
    python examples/notebooks.py check            # fail when a script changed since
    python examples/notebooks.py run [NAME…] [--set STEPS=3]

A script is cut into cells at `# %%`; a cell that starts with `# %% [markdown]` is text, and so is
the script's docstring. Inside Jupyter a loop is running already, so `asyncio.run(x)` becomes
`await x`.
"""

import argparse
import ast
import asyncio
import contextlib
import inspect
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NAMES = (
    *("quickstart", "rl_toy", "custom_loss", "async_pipeline", "see_it"),
    *sorted(path.stem for path in HERE.glob("tutorial_*.py")),
)
SITE = "https://tinker-ext.github.io/tinker-ext"


def cells(script: str, *, notebook: bool = True) -> Iterator[tuple[str, str]]:
    """Yield the kind (`markdown` or `code`) and the text of each cell of a script.

    Args:
        script: Its text.
        notebook: Whether the code is for a notebook, where a loop is running already.
    """
    text = inspect.cleandoc(ast.get_docstring(ast.parse(script)) or "")
    yield "markdown", _to_the_site(text) if notebook else text
    for part in re.split(r"^# %%", script, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        if "[markdown]" in head:
            lines = (re.sub(r"^# ?", "", line) for line in body.strip().splitlines())
            text = "\n".join(lines)
            yield "markdown", _to_the_site(text) if notebook else text
        else:
            code = body.strip()
            if notebook:
                code = re.sub(r"\basyncio\.run\((\w+\(\))\)", r"await \1", code)
            yield "code", code


def _to_the_site(text: str) -> str:
    """Return a text whose links to pages of the site work outside of it."""

    def absolute(link: re.Match[str]) -> str:
        folder = SITE if link[1] else f"{SITE}/tutorial"
        return f"]({folder}/{link[2]}/{link[3] or ''})"

    return re.sub(r"\]\((\.\./)?([\w/-]+)\.md(#[\w-]+)?\)", absolute, text)


def notebook(script: str) -> dict[str, Any]:
    """Return a script as a notebook of format 4.5, without outputs."""
    made = []
    for number, (kind, text) in enumerate(cells(script)):
        lines = text.splitlines(keepends=True)
        cell: dict[str, Any] = {
            "cell_type": kind,
            "id": f"cell-{number}",
            "metadata": {},
            "source": lines,
        }
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        made.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def execute(
    book: dict[str, Any], changes: dict[str, str] | None = None, *, echo: bool = False
) -> None:
    """Run the code cells in one namespace and put what they print into the notebook.

    Args:
        book: The notebook; its outputs are replaced.
        changes: Constants to set to other values, `{"STEPS": "3"}`.
        echo: Print as well.

    The files they leave are in a folder that is gone afterwards; pictures stay in the notebook.
    """
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        asyncio.run(_execute(book, changes or {}, echo))


async def _execute(book: dict[str, Any], changes: dict[str, str], echo: bool) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    seen: set[str] = set()
    count = 0
    for cell in book["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        source = "".join(cell["source"])
        for name, value in changes.items():
            source = re.sub(rf"^{name} = .*$", f"{name} = {value}", source, flags=re.MULTILINE)
        tree, last = ast.parse(source), None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        shown = None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for part, mode in ((tree, "exec"), (last, "eval")):
                if part is not None:
                    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
                    shown = eval(compile(part, f"<cell {count}>", mode, flags=flags), space)
                    if inspect.iscoroutine(shown):
                        shown = await shown
        text = printed.getvalue()
        pictures = [path.read_text("utf-8") for path in sorted(Path.cwd().glob("*.svg"))]
        if echo:
            print(text, end="", flush=True)
        stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(True)}
        cell["outputs"] = [stream] if text else []
        cell["outputs"] += [
            {
                "output_type": "display_data",
                "metadata": {},
                "data": {"image/svg+xml": picture.splitlines(True)},
            }
            for picture in pictures
            if picture not in seen
        ]
        seen.update(pictures)
        cell["execution_count"] = count
        if last is not None and hasattr(shown, "_repr_html_"):
            forms = {"text/html": shown._repr_html_(), "text/plain": repr(shown)}
            kind = {"output_type": "execute_result", "metadata": {}, "execution_count": count}
            cell["outputs"].append({**kind, "data": forms})


def sources(book: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the kinds and texts of a notebook's cells."""
    return [(cell["cell_type"], "".join(cell["source"])) for cell in book["cells"]]


def stale() -> list[str]:
    """Return the notebooks that differ from their script."""
    wrong = []
    for name in NAMES:
        path = HERE / f"{name}.ipynb"
        fresh = notebook((HERE / f"{name}.py").read_text(encoding="utf-8"))
        if not path.exists() or sources(json.loads(path.read_text("utf-8"))) != sources(fresh):
            wrong.append(path.name)
    return wrong


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["write", "check", "run"])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    if options.action == "check":
        wrong = stale()
        if wrong:
            print(f"stale: {', '.join(wrong)}; run `python examples/notebooks.py write`")
        return 1 if wrong else 0
    changes = dict(item.split("=", 1) for item in options.changes)
    for name in options.names:
        path = HERE / f"{name}.ipynb"
        if options.action == "write":
            book = notebook((HERE / f"{name}.py").read_text(encoding="utf-8"))
            execute(book)
            path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", "utf-8")
            print(f"wrote {path.name}")
        else:
            print(f"== {path.name}", flush=True)
            execute(json.loads(path.read_text("utf-8")), changes, echo=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
