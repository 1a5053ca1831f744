"""Packages that import `tinker`, unmodified, on ours: each runs its smallest path under compat.

`python tests/parity/downstream.py PYTHON` takes an interpreter that has them (`nox -s parity --
--downstream` makes one), prints a line each, and leaves `docs/conformance/downstream.json`, of
which `tests/interop/publish.py` makes a table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tinker_ext.mock import Server, Settings

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TARGET = ROOT / "docs" / "conformance" / "downstream.json"
MODEL = "tinker-ext/tiny"
CASES = {
    "openpipe-art": "openpipe_art",
    "trinity-rft": "trinity_rft",
    "tinker-cookbook, litellm adapter": "cookbook_litellm",
    "tinker-cookbook, inspect adapter": "cookbook_inspect",
}


def version(python: str, package: str) -> str:
    """Return the installed version of a package."""
    program = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "not installed"


def run(python: str, script: str, url: str) -> tuple[bool, str]:
    """Run one script under compat; returns whether it worked and its last line."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "generated")]),
        "TINKER_BASE_URL": url,
        "TINKER_API_KEY": "tml-downstream",
        "TINKER_MODEL": MODEL,
        "HF_HUB_OFFLINE": "1",
        "WEAVE_DISABLED": "true",
        "WANDB_MODE": "disabled",
    }
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, "-m", "tinker_ext.compat", str(HERE / "downstream" / f"{script}.py")],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1][:300] if lines else ""


def main(python: str) -> int:
    """Run all cases, write the report, and return the exit code."""
    rows = []
    for name, script in CASES.items():
        with Server(Settings()) as server:
            ok, note = run(python, script, server.url)
        package = name.partition(",")[0]
        rows.append({"package": name, "version": version(python, package), "ok": ok, "note": note})
        print(f"{'ok  ' if ok else 'FAIL'} {name:<34} {note}", flush=True)
    value = {"date": datetime.now(UTC).date().isoformat(), "packages": rows}
    TARGET.write_text(json.dumps(value, indent=2) + "\n")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
