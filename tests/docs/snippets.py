"""The code blocks of the pages: which there are, and how each kind is run."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.M | re.S)
EXAMPLE_URL = "http://127.0.0.1:8000"
# `console` shows what a person types on another machine, `text` is no program.
RUNNABLE = {"python", "bash"}


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the language and the text of each code block of a page."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def program(page: Path) -> str:
    """Return the Python of a page as one program, since later blocks go on from earlier ones."""
    return "\n\n".join(text for language, text in blocks(page) if language == "python")


def run(arguments: list[str], text: str, url: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a program with the example's address replaced by a live server's."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("TINKER_")}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    return subprocess.run(
        [*arguments, text.replace(EXAMPLE_URL, url)],
        cwd=place,
        env=env,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
