"""Run the page on the cookbook as it stands: its files, its Python and what a person types."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cookbook.md"
FENCE = re.compile(r'^```(\w+)(?: title="([\w.]+)")?\n(.*?)^```$', re.M | re.S)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def script(page: str, port: int) -> str:
    """Return the page as one shell script; the line that installs the cookbook is left out."""
    parts = ["set -e", "set -m"]
    for language, title, text in FENCE.findall(page):
        if title:
            parts.append(f"cat > {title} <<'END_OF_FILE'\n{text}END_OF_FILE")
        elif language == "python":
            parts.append(f"python - <<'END_OF_FILE'\n{text}END_OF_FILE")
        elif language == "bash":
            parts.append(text)
        else:
            typed = re.findall(r"^\$ (.+)$", text, re.M)
            parts += [line for line in typed if not line.startswith("pip ")]
    return "\n".join(parts).replace("8000", str(port))


def problem(place: Path) -> str:
    """Run the page in a folder; return what is wrong with the result, or nothing."""
    place.mkdir(parents=True, exist_ok=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TINKER_", "HF_"))}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script(PAGE.read_text(encoding="utf-8"), free_port())],
        cwd=place,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr[-3000:]}"
    rows = [json.loads(line) for line in (place / "log" / "metrics.jsonl").open()]
    losses = [row["train_mean_nll"] for row in rows if "train_mean_nll" in row]
    if not losses or losses[-1] > losses[0] / 2:
        return f"it did not learn: {losses}"
    return ""
