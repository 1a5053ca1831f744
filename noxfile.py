"""Every command of the project: `nox` runs what CI runs, `nox -l` lists the rest."""

import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.stop_on_first_error = True
nox.options.sessions = ["drift", "lint", "types", "tests"]

HERE = Path(__file__).parent
RUFF = "ruff==0.17.4"
GENERATOR = ["openapi-python-client==0.29.1", RUFF, "grpcio-tools==1.85.1", "pyyaml"]
TORCH = "torch==2.13.0"
REDOCLY = "@redocly/cli@2.73.0"
REDOCLY_ARGS = ["--config", "openapi/redocly.yaml", "openapi/tinker.yaml"]


def install(session: nox.Session, *extra: str) -> None:
    """Install the package in editable form with all light extras."""
    session.install("--quiet", "-e", ".[all]", *extra)


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
    """Format and lint the hand-written code."""
    session.install("--quiet", RUFF)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Type-check hand-written and generated code with mypy --strict."""
    install(session, "mypy==2.4.1", "types-PyYAML", "types-protobuf")
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Unit, contract and fault tests on the embedded server; the README's test command."""
    install(session)
    session.run("pytest", *session.posargs)
