"""Every command of the project: `nox` runs what CI runs, `nox -l` lists the rest."""

import os
import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
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

RUFF = "ruff==0.17.4"
MYPY = ["mypy==2.4.1", "types-PyYAML", "types-protobuf"]
GENERATOR = ["openapi-python-client==0.29.1", RUFF, "grpcio-tools==1.85.1", "pyyaml"]
REDOCLY = "@redocly/cli@2.73.0"
REDOCLY_ARGS = ["--config", "openapi/redocly.yaml", "openapi/tinker.yaml"]

# A range would let pip choose a build with several gigabytes of CUDA.
TORCH = "torch==2.13.0"
OFFICIAL = {"0.36.0": "tinker==0.36.0", "0.4.1": "tinker==0.4.1"}
COOKBOOK = "tinker-cookbook[math-rl]==0.5.8"


def install(session: nox.Session, *extra: str) -> None:
    """Install the package in editable form with all light extras."""
    session.install("--quiet", "-e", ".[all]", *extra)


def official(session: nox.Session) -> dict[str, Path]:
    """Make one environment per official SDK beside the session's own; return their interpreters."""
    pythons = {}
    for version, requirement in OFFICIAL.items():
        place = Path(session.virtualenv.location) / f"official-{version}"
        python = place / "bin" / "python"
        if not (place / "ready").exists():
            session.run("python", "-m", "venv", str(place))
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            # torch first: the SDKs accept any version and would fetch the largest.
            session.run(*pip, TORCH, "numpy", external=True)
            session.run(*pip, requirement, "transformers", "psutil", external=True)
            (place / "ready").touch()
        pythons[version] = python
    return pythons


@nox.session
def regenerate(session: nox.Session) -> None:
    """Rebuild generated/ and the server's contract from openapi/, byte for byte."""
    install(session, *GENERATOR)
    session.run("python", "codegen/regenerate.py", *session.posargs)
    session.run("python", "-m", "tinker_ext.mock.contract", "openapi/tinker.yaml")


@nox.session
def drift(session: nox.Session) -> None:
    """Fail on stale generated code, a faulty document or an unannounced breaking change."""
    install(session, *GENERATOR, "openapi-spec-validator==0.9.0")
    session.run("python", "codegen/check_doc.py")
    session.run("openapi-spec-validator", "openapi/tinker.yaml")
    if shutil.which("npx"):
        session.run("npx", "--yes", REDOCLY, "lint", *REDOCLY_ARGS, external=True)
    else:
        session.warn("redocly not run: npx is not installed")
    session.run("python", "codegen/regenerate.py", "--check")
    session.run("python", "codegen/spec_diff.py")
    session.run("pytest", "tests/codegen")


@nox.session
def lint(session: nox.Session) -> None:
    """Check the form of the hand-written code; `-- --fix` mends it."""
    session.install("--quiet", RUFF)
    fix = "--fix" in session.posargs
    session.run("ruff", "check", *(["--fix"] if fix else []), ".")
    session.run("ruff", "format", *([] if fix else ["--check"]), ".")


@nox.session
def types(session: nox.Session) -> None:
    """Type-check hand-written and generated code with mypy --strict."""
    install(session, *MYPY)
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Unit, contract and fault tests on the embedded server."""
    install(session)
    session.run("pytest", *session.posargs)


@nox.session
def tests_torch(session: nox.Session) -> None:
    """What needs PyTorch: tensors, custom losses, the engine's gradients."""
    session.install("--quiet", TORCH, "numpy")
    install(session)
    session.run("pytest", "tests/torch", *session.posargs)


@nox.session
def simulate(session: nox.Session) -> None:
    """Exactly-once on a virtual clock: 300 seeds; `-- --seeds 10000` for the long form."""
    install(session)
    session.run("python", "tests/simulation/run.py", *(session.posargs or ["--seeds", "300"]))


@nox.session
def fuzz(session: nox.Session) -> None:
    """Mutated replies of a hostile server; `-- --cases 50000` for the long form."""
    install(session)
    session.run("python", "tests/faults/fuzz.py", *(session.posargs or ["--cases", "2000"]))


@nox.session
def soak(session: nox.Session) -> None:
    """100,000 queued samples for a while; `-- --minutes 30` for the long form."""
    install(session)
    session.run("python", "tests/load/soak.py", *(session.posargs or ["--minutes", "3"]))


@nox.session
def examples(session: nox.Session) -> None:
    """Run every example as a script and as a notebook."""
    install(session)
    session.run("python", "examples/notebooks.py", "check")
    session.run("python", "examples/notebooks.py", "run")
    for script in ("quickstart", "rl_toy", "custom_loss", "async_pipeline"):
        session.run("python", f"examples/{script}.py", silent=True)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site and run every snippet of it."""
    install(session, "mkdocs-material==9.*")
    session.run("pytest", "tests/docs")
    session.run("mkdocs", "build", "--strict", "--quiet")


@nox.session
def wheel(session: nox.Session) -> None:
    """Install the wheel in a clean environment: what it pulls, how large, that it works."""
    install(session, "build")
    session.run("python", "tests/wheel.py")


@nox.session
def parity(session: nox.Session) -> None:
    """The official SDKs, unmodified, on the embedded server; our client gives the same losses."""
    session.install("--quiet", TORCH, "numpy")
    install(session)
    pythons = ":".join(map(str, official(session).values()))
    env = {"TINKER_PARITY_PYTHONS": pythons}
    session.run("pytest", "tests/parity", *session.posargs, env=env)


@nox.session
def bench(session: nox.Session) -> None:
    """Side by side with the official SDKs, as ratios; `-- --full` for the long form."""
    install(session)
    pythons = official(session)
    env = {f"TINKER_BENCH_{v.replace('.', '_')}": str(python) for v, python in pythons.items()}
    session.run("python", "tests/bench/run.py", *(session.posargs or ["--quick"]), env=env)


@nox.session
def cookbook(session: nox.Session) -> None:
    """tinker-cookbook, unmodified, on us: its unit tests and recipes; `-- --long` for all."""
    session.install("--quiet", TORCH, "numpy")
    session.install("--quiet", COOKBOOK, "pytest-asyncio")
    install(session)
    session.run("python", "tests/cookbook/run.py", *session.posargs)


@nox.session
def interop(session: nox.Session) -> None:
    """Train and sample on a real SkyRL server (JAX, CPU); installs about 2.3 GB."""
    session.install("--quiet", TORCH, "numpy")
    session.install("--quiet", "-r", "tests/interop/requirements.txt")
    session.install("--quiet", "--no-deps", "skyrl==0.3.0")
    install(session)
    session.run("python", "tests/interop/run.py", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build sdist and wheel into dist/."""
    session.install("--quiet", "build")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build", env={"SOURCE_DATE_EPOCH": os.environ.get("EPOCH", "0")})
