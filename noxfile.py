"""Every command of the project: `nox` runs what CI runs, `nox -l` lists the rest."""

import json
import os
import shutil
import sys
from pathlib import Path

import nox

# Sessions share environments, see `environment`; each makes the one it needs.
nox.options.default_venv_backend = "none"
nox.options.stop_on_first_error = True
nox.options.sessions = [
    "drift",
    "lint",
    "types",
    "tests",
    "simulate",
    "fuzz",
    "examples",
    "docs",
    "wheel",
    "tests_torch",
    "parity",
    "cookbook",
    "bench",
    "soak",
]

HERE = Path(__file__).parent
PIP = ["--quiet", "--disable-pip-version-check"]
GENERATOR = ["openapi-python-client==0.29.1", "ruff==0.17.4", "grpcio-tools==1.85.1", "pyyaml"]
TYPES = ["mypy==2.4.1", "types-PyYAML", "types-protobuf"]
TOOLS = [*GENERATOR, *TYPES, "openapi-spec-validator==0.9.0", "mkdocs-material==9.*", "build"]
REDOCLY = "@redocly/cli@2.73.0"
REDOCLY_ARGS = ["--config", "openapi/redocly.yaml", "openapi/tinker.yaml"]

# A range would let pip choose a build with several gigabytes of CUDA.
TORCH = "torch==2.13.0"
OFFICIAL = ["0.36.0", "0.4.1"]
OLDER_SKYRL = ["--no-deps", "skyrl-tx==0.3.0", "transformers==4.57.6", "huggingface-hub==0.36.0"]
COOKBOOK = "tinker-cookbook[math-rl]==0.5.8"


def environment(session: nox.Session, name: str, *steps: list[str]) -> str:
    """Make an environment that several sessions share, once; return its interpreter.

    Args:
        name: folder under ``.nox``.
        steps: what to install, one pip call each, in this order.
    """
    place = HERE / ".nox" / name
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    made_from = json.dumps([steps, (HERE / "pyproject.toml").read_text()])
    note = place / "made-from.json"
    if not note.exists() or note.read_text() != made_from:
        shutil.rmtree(place, ignore_errors=True)
        session.run(sys.executable, "-m", "venv", str(place))
        for step in steps:
            session.run(str(python), "-m", "pip", "install", *PIP, *step)
        note.write_text(made_from)
    return str(python)


def workshop(session: nox.Session) -> str:
    """Return the interpreter with the package, its light extras and every tool but torch."""
    return environment(session, "workshop", ["-e", ".[all]", *TOOLS])


def torch_workshop(session: nox.Session) -> str:
    """Return the interpreter with the package, torch and the cookbook."""
    # torch first: the cookbook accepts any version and would fetch the largest.
    steps = [TORCH, "numpy"], [COOKBOOK, "pytest-asyncio"], ["-e", ".[all]"]
    return environment(session, "torch", *steps)


def official(session: nox.Session) -> dict[str, str]:
    """Return one interpreter per official SDK, each in an environment of its own."""
    return {
        version: environment(
            session,
            f"official-{version}",
            [TORCH, "numpy"],
            [f"tinker=={version}", "transformers", "psutil"],
        )
        for version in OFFICIAL
    }


@nox.session
def regenerate(session: nox.Session) -> None:
    """Rebuild generated/ and the server's contract from openapi/, byte for byte."""
    python = workshop(session)
    session.run(python, "codegen/regenerate.py", *session.posargs)
    session.run(python, "-m", "tinker_ext.mock.contract", "openapi/tinker.yaml")


@nox.session
def drift(session: nox.Session) -> None:
    """Fail on stale generated code, a faulty document or an unannounced breaking change."""
    python = workshop(session)
    session.run(python, "codegen/check_doc.py")
    session.run(python, "-m", "openapi_spec_validator", "openapi/tinker.yaml")
    if shutil.which("npx"):
        session.run("npx", "--yes", REDOCLY, "lint", *REDOCLY_ARGS)
    else:
        session.warn("redocly not run: npx is not installed")
    session.run(python, "codegen/regenerate.py", "--check")
    session.run(python, "codegen/spec_diff.py")


@nox.session
def lint(session: nox.Session) -> None:
    """Check the form of the hand-written code; `-- --fix` mends it."""
    python = workshop(session)
    fix = "--fix" in session.posargs
    session.run(python, "-m", "ruff", "check", *(["--fix"] if fix else []), ".")
    session.run(python, "-m", "ruff", "format", *([] if fix else ["--check"]), ".")


@nox.session
def types(session: nox.Session) -> None:
    """Type-check hand-written and generated code with mypy --strict."""
    session.run(workshop(session), "-m", "mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Unit, contract, fault and generator tests on the embedded server."""
    session.run(workshop(session), "-m", "pytest", *session.posargs)


@nox.session
def tests_torch(session: nox.Session) -> None:
    """What needs PyTorch: tensors, custom losses, the engine's gradients."""
    session.run(torch_workshop(session), "-m", "pytest", "tests/torch", *session.posargs)


@nox.session
def simulate(session: nox.Session) -> None:
    """Exactly-once on a virtual clock: 300 seeds; `-- --seeds 10000` for the long form."""
    options = session.posargs or ["--seeds", "300"]
    session.run(workshop(session), "tests/simulation/run.py", *options)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Mutated replies of a hostile server; `-- --cases 50000` for the long form."""
    options = session.posargs or ["--cases", "2000"]
    session.run(workshop(session), "tests/faults/fuzz.py", *options)


@nox.session
def soak(session: nox.Session) -> None:
    """100,000 queued samples for a while; `-- --minutes 30` for the long form."""
    options = session.posargs or ["--minutes", "3"]
    session.run(workshop(session), "tests/load/soak.py", *options)


@nox.session
def examples(session: nox.Session) -> None:
    """Run every example as a script and as a notebook."""
    python = workshop(session)
    session.run(python, "examples/notebooks.py", "check")
    session.run(python, "examples/notebooks.py", "run")
    for script in ("quickstart", "rl_toy", "custom_loss", "async_pipeline"):
        session.run(python, f"examples/{script}.py", silent=True)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site and run every snippet of it."""
    python = workshop(session)
    session.run(python, "-m", "mkdocs", "build", "--strict", "--quiet")
    session.run(python, "-m", "pytest", "tests/docs", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Install the wheel in a clean environment: what it pulls, how large, that it works."""
    session.run(workshop(session), "tests/wheel.py")


@nox.session
def parity(session: nox.Session) -> None:
    """The official SDKs, unmodified, on the embedded server; our client gives the same losses."""
    env = {"TINKER_PARITY_PYTHONS": ":".join(official(session).values())}
    session.run(torch_workshop(session), "-m", "pytest", "tests/parity", *session.posargs, env=env)


@nox.session
def bench(session: nox.Session) -> None:
    """Side by side with the official SDKs, as ratios; `-- --full` for the long form."""
    env = {
        f"TINKER_BENCH_{version.replace('.', '_')}": python
        for version, python in official(session).items()
    }
    session.run(workshop(session), "tests/bench/run.py", *session.posargs, env=env)


@nox.session
def cookbook(session: nox.Session) -> None:
    """tinker-cookbook, unmodified, on us: its unit tests and recipes; `-- --long` for all."""
    session.run(torch_workshop(session), "tests/cookbook/run.py", *session.posargs)


@nox.session
def interop(session: nox.Session) -> None:
    """Train and sample on a real SkyRL server (JAX, CPU); installs about 2.3 GB.

    `-- --older` takes skyrl-tx instead, `-- --docs` also examines the server and writes
    docs/servers.md.
    """
    steps = [TORCH, "numpy"], ["-r", "tests/interop/requirements.txt"], ["-e", ".[all]"]
    python = environment(session, "interop", *steps, ["--no-deps", "skyrl==0.3.0"])
    options = list(session.posargs)
    if "--older" in options:
        options.remove("--older")
        older = HERE / ".nox" / "skyrl-tx"
        session.run(python, "-m", "pip", "install", *PIP, "--target", older, *OLDER_SKYRL)
        options += ["--older", str(older)]
    session.run(python, "tests/interop/run.py", *options)
    if "--docs" in options:
        session.run(python, "tests/interop/publish.py", "--embedded")
