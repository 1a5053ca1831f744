"""M41, M51: the page on changing the contract does what it says, command by command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from codegen import regenerate

PAGE = regenerate.ROOT / "docs" / "changing-the-contract.md"
BLOCK = re.compile(r"^```(diff|console)\n(.*?)^```", re.M | re.S)


def commands(text: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output that the page shows."""
    parts = re.split(r"^\$ ", text, flags=re.M)[1:]
    found = []
    for part in parts:
        end = part.index("\nEOF\n") + 4 if "<<'EOF'" in part else part.index("\n")
        found.append((part[:end], part[end + 1 :]))
    return found


def test_the_page_is_true(tmp_path: Path) -> None:
    """M51: every edit applies, every command prints what is shown, in a copy of the repository."""
    for name in ("tinker_ext", "generated", "codegen", "openapi"):
        shutil.copytree(regenerate.ROOT / name, tmp_path / name)
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith("TINKER_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{tmp_path / 'generated'}",
    }
    seen = 0
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "diff":
            subprocess.run(["git", "apply"], input=text, text=True, check=True, cwd=tmp_path)
            continue
        for command, shown in commands(text):
            done = subprocess.run(
                ["bash", "-c", command],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                cwd=tmp_path,
                env=env,
                timeout=500,
            )
            assert done.stdout == shown, command
            seen += 1
    assert seen >= 10
