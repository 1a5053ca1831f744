"""Packages that import `tinker`, unmodified, on ours: each runs its smallest path under compat.

`python tests/parity/downstream.py PYTHON` takes an interpreter that has them (`nox -s parity --
--downstream` makes one), prints a line each, and leaves `docs/conformance/downstream.json`, of
which `tests/interop/publish.py` makes a table.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "cookbook"))

import workshop

from tinker_ext.mock import Server, Settings

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TARGET = ROOT / "docs" / "conformance" / "downstream.json"
MODEL = workshop.MODELS[0]
"""A name whose tokenizer lies in the working directory, where transformers looks first."""
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


def run(python: str, script: str, url: str, folder: Path) -> tuple[bool, str]:
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
    folder = Path(tempfile.mkdtemp(prefix="downstream-"))
    workshop.build(folder)
    settings = Settings(models={MODEL: str(folder / MODEL)})
    for name, script in CASES.items():
        with Server(settings) as server:
            ok, note = run(python, script, server.url, folder)
        package = name.partition(",")[0]
        rows.append({"package": name, "version": version(python, package), "ok": ok, "note": note})
        print(f"{'ok  ' if ok else 'FAIL'} {name:<34} {note}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    value = {"date": datetime.now(UTC).date().isoformat(), "packages": rows}
    TARGET.write_text(json.dumps(value, indent=2) + "\n")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
