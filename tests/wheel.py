"""Build the wheel, install it in a clean environment, and say what that pulls and weighs.

Run by `nox -s wheel`; `tests/process/test_light_core.py` checks the same facts without installing.
`--uv PATH` lets uv do the work of pip: in a fraction of the time, and without the bytecode that pip
adds to what is weighed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

HEAVY = ("torch", "transformers", "pydantic", "protobuf", "starlette", "rich", "opentelemetry-api")
"""What a plain `pip install tinker-ext` must not bring."""

NOT_BY_IMPORT = ("numpy", "httpx", "orjson", "attrs", "tokenizers", "google")
NOT_BY_CLIENT = ("tokenizers", "google", "tinker_proto", "torch", "transformers", "pydantic")

PACKAGES = {"tinker_ext", "tinker_api", "tinker_proto"}

LARGEST_MB = 150.0
"""numpy and tokenizers are most of it; a new heavy dependency would pass this."""

_LOOK = """
import json, os, sys
from importlib import metadata
sizes = {}
for dist in metadata.distributions():
    files = dist.files or []
    size = sum(p.stat().st_size for f in files if (p := dist.locate_file(f)).is_file())
    sizes[dist.metadata["Name"].lower()] = size
import tinker_ext
after_import = sorted({name.split(".")[0] for name in sys.modules})
from tinker_ext import AdamParams, Config, Datum, ModelInput, ServiceClient, TensorData, errors
ServiceClient(base_url="http://127.0.0.1:9", api_key="tml-x").close().result()
after_client = sorted({name.split(".")[0] for name in sys.modules})
print(json.dumps({"sizes": sizes, "import": after_import, "client": after_client,
                  "home": os.path.dirname(tinker_ext.__file__)}))
"""


def build(into: Path, uv: str | None) -> Path:
    """Build the wheel into a directory and return its path."""
    tool = (
        [uv, "build", "--quiet", "--out-dir"] if uv else [sys.executable, "-m", "build", "--outdir"]
    )
    command = [*tool, str(into), "--wheel", str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = into.glob("*.whl")
    return wheel


def names(requirements: Iterable[str]) -> set[str]:
    """The names of requirements, without versions."""
    return {re.split(r"[^\w.-]", line, maxsplit=1)[0].lower() for line in requirements}


def check_wheel(wheel: Path) -> list[str]:
    """The rules that a wheel file breaks."""
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
        metadata = next(name for name in files if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    required = re.findall(r"^Requires-Dist: (.+)$", text, re.M)
    core = names(line for line in required if "extra ==" not in line)
    tops = {name.split("/")[0] for name in files if ".dist-info/" not in name}
    problems = [f"the wheel requires {name}" for name in HEAVY if name in core]
    problems += [f"the wheel installs {name}" for name in sorted(tops - PACKAGES)]
    problems += [f"the wheel lacks {name}" for name in sorted(PACKAGES - tops)]
    if "tinker_ext/py.typed" not in files:
        problems.append("the wheel has no py.typed")
    return problems


def look(wheel: Path, into: Path, uv: str | None) -> dict[str, Any]:
    """Install a wheel into a new environment and return what is there and what imports load."""
    venv.create(into, with_pip=uv is None)
    python = into / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    install = [uv, "pip", "install", "--python", str(python)] if uv else pip
    subprocess.run([*install, "--quiet", str(wheel)], check=True)
    done = subprocess.run(
        [str(python), "-I", "-c", _LOOK], check=True, capture_output=True, text=True, cwd=into
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any]) -> list[str]:
    """The rules that an installation breaks; empty when it is light."""
    sizes: dict[str, int] = found["sizes"]
    problems = [f"{name} was installed" for name in HEAVY if name in sizes]
    total = sum(size for name, size in sizes.items() if name not in ("pip", "setuptools")) / 1e6
    if total > LARGEST_MB:
        problems.append(f"{total:.0f} MB were installed, more than {LARGEST_MB:.0f}")
    problems += [f"`import tinker_ext` loads {n}" for n in NOT_BY_IMPORT if n in found["import"]]
    problems += [f"a ServiceClient loads {n}" for n in NOT_BY_CLIENT if n in found["client"]]
    return problems


def main() -> int:
    """Print the packages with their sizes and what is wrong with them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uv", help="path of uv")
    uv = parser.parse_args().uv
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder) / "dist", uv)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
        problems = check_wheel(wheel)
        found = look(wheel, Path(folder) / "env", uv)
    for name, size in sorted(found["sizes"].items(), key=lambda item: -item[1]):
        print(f"{size / 1e6:8.2f} MB  {name}")
    problems += check(found)
    print("\n".join(problems) or "The core install is light.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
