"""Writes what is made from the document and the proto file, or checks that it is up to date.

python -m codegen.regenerate            write generated/, the server's contract, codegen/lock.toml
python -m codegen.regenerate --check    compare only; exit 1 and name the command when stale
"""

from __future__ import annotations

import argparse
import contextlib
import filecmp
import gc
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import openapi_python_client as generator
from openapi_python_client.config import Config, ConfigFile, MetaType
from openapi_python_client.parser import GeneratorData
from openapi_python_client.parser.errors import GeneratorError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from codegen.document import load, prepare
from codegen.plan import Plan
from tinker_ext.mock import contract

ROOT = Path(__file__).resolve().parent.parent
CODEGEN = ROOT / "codegen"
DOCUMENT = ROOT / "openapi" / "tinker.yaml"
PROTO = ROOT / "openapi" / "tinker.proto"
OUTPUT = ROOT / "generated"
LOCK = CODEGEN / "lock.toml"
COMMAND = "nox -s regenerate"
EXTRA_TEMPLATES = ("arguments", "base", "codec", "exchange", "operations")
PACKAGES = ("tinker_api", "tinker_proto")
SHOWN = 20
RUFF_STYLE = ("--line-length=100", "--target-version=py311")


class StaleError(Exception):
    """The output is not what the document gives; the message names the command to run."""


def generate_api(document_path: Path, target: Path) -> None:
    """Write the `tinker_api` package for a document into an empty directory.

    Raises:
        SystemExit: The generator reports an error or a warning; each one is printed.
    """
    document = load(document_path)
    config = Config.from_sources(
        ConfigFile.load_from_path(CODEGEN / "config.yaml"),
        MetaType.NONE,
        document_path,
        "utf-8",
        True,
        target,
    )
    data = GeneratorData.from_dict(prepare(document), config=config)
    if isinstance(data, GeneratorError):
        raise SystemExit(f"{data.header}\n{data.detail or ''}")
    project = generator.Project(
        openapi=data, config=config, custom_template_path=CODEGEN / "templates"
    )
    problems = [*project._get_errors()]
    if problems:
        raise SystemExit("\n".join(f"{p.header} {p.detail or ''}".strip() for p in problems))
    plan = Plan(document, data)
    project.env.globals["plan"] = plan
    data.models = [model for model in data.models if str(model.class_info.name) in plan.models]
    with contextlib.redirect_stdout(io.StringIO()):
        problems = [*project.build()]
    if problems:
        raise SystemExit("\n".join(f"{p.header} {p.detail or ''}".strip() for p in problems))
    table = plan.table()
    for name in EXTRA_TEMPLATES:
        text = project.env.get_template(f"{name}.py.jinja").render(table=table)
        (target / f"{name}.py").write_text(text, encoding="utf-8")
    for union in plan.unions:
        text = project.env.get_template("union.py.jinja").render(union=union)
        (target / "models" / f"{union.module}.py").write_text(text, encoding="utf-8")
    (target / "py.typed").write_text("", encoding="utf-8")
    tidy(target)


def tidy(target: Path) -> None:
    """Sort imports, drop unused ones and format, independent of any ruff configuration."""
    ruff = shutil.which(
        "ruff", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    if ruff is None:
        raise SystemExit("ruff is not installed; see codegen/lock.toml for its version")
    common = ["--isolated", "--no-cache", "--quiet"]
    for arguments in (
        [ruff, "check", *common, "--fix", "--select=I,F401", *RUFF_STYLE, str(target)],
        [ruff, "format", *common, *RUFF_STYLE, str(target)],
    ):
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed\n{done.stdout}{done.stderr}")


def generate_proto(proto: Path, target: Path) -> None:
    """Write the `tinker_proto` package for a proto file into an empty directory."""
    with tempfile.TemporaryDirectory() as scratch:
        # The folder becomes the package part of module names, which pickle needs.
        source = Path(scratch, target.name, proto.name)
        source.parent.mkdir()
        shutil.copyfile(proto, source)
        target.mkdir(parents=True, exist_ok=True)
        arguments = [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"--proto_path={scratch}",
            f"--python_out={target.parent}",
            f"--pyi_out={target.parent}",
            str(source),
        ]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"protoc failed\n{done.stdout}{done.stderr}")
    messages = target / f"{proto.stem}_pb2.py"
    messages.write_text(portable(messages.read_text(encoding="utf-8")), encoding="utf-8")
    stub = target / f"{proto.stem}_pb2.pyi"
    stub.write_text(strict(stub.read_text(encoding="utf-8")), encoding="utf-8")
    (target / "__init__.py").write_text(
        '"""Messages of the binary bodies: `tinker_proto.tinker_pb2`.\n\n'
        f'Generated file: run `{COMMAND}` instead of editing it.\n"""\n',
        encoding="utf-8",
    )
    (target / "py.typed").write_text("", encoding="utf-8")


def portable(code: str) -> str:
    """Return protoc's module without its runtime check and outside the shared descriptor pool.

    The check refuses every protobuf older than the one protoc was built with, although the module
    needs nothing newer than 5. In the shared pool the messages would clash with those of another
    client in the same process, which have the same names on the wire.
    """
    check = re.compile(r"_runtime_version\.ValidateProtobufRuntimeVersion\([^)]*\)\n")
    code, checks = check.subn("", code)
    code, imports = re.subn(r"from google\.protobuf import runtime_version.*\n", "", code)
    code, pools = re.subn(
        r"_descriptor_pool\.Default\(\)", "_descriptor_pool.DescriptorPool()", code
    )
    if (checks, imports, pools) != (1, 1, 1):
        raise SystemExit("protoc writes another form of module; adapt portable() in regenerate.py")
    return code


def strict(stub: str) -> str:
    """Return protoc's stub with the bare generic that mypy --strict refuses filled in."""
    stub = stub.replace("_Mapping]", "_Mapping[str, _Any]]")
    return stub.replace("from typing import ClassVar", "from typing import Any as _Any, ClassVar")


def lock_text(document: Path, proto: Path) -> str:
    """Return the lock file for the tools that are installed and the given sources."""
    rows = {
        "document_sha256": hashlib.sha256(document.read_bytes()).hexdigest(),
        "proto_sha256": hashlib.sha256(proto.read_bytes()).hexdigest(),
        "openapi_python_client": version("openapi-python-client"),
        "ruff": version("ruff"),
        "grpcio_tools": version("grpcio-tools"),
        "protoc": protoc_version(),
    }
    lines = [f'{key} = "{value}"' for key, value in rows.items()]
    head = f"# What generated/ was made from and with; written by `{COMMAND}`.\n"
    return head + "\n".join(lines) + "\n"


def protoc_version() -> str:
    """Return the version of the compiler inside grpcio-tools."""
    arguments = [sys.executable, "-m", "grpc_tools.protoc", "--version"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def check_tools() -> None:
    """Refuse to work with other tool versions than the locked ones: the output would differ."""
    if not LOCK.exists():
        return
    locked = tomllib.loads(LOCK.read_text(encoding="utf-8"))
    for key, package in (
        ("openapi_python_client", "openapi-python-client"),
        ("ruff", "ruff"),
        ("grpcio_tools", "grpcio-tools"),
    ):
        if key in locked and locked[key] != version(package):
            raise SystemExit(
                f"{package} {version(package)} is installed, codegen/lock.toml says {locked[key]}; "
                f"install {package}=={locked[key]}, or edit the lock file and run `{COMMAND}`"
            )


def generate(target: Path, document: Path = DOCUMENT, proto: Path = PROTO) -> None:
    """Write both packages below a directory."""
    generate_api(document, target / "tinker_api")
    generate_proto(proto, target / "tinker_proto")


def differences(left: Path, right: Path) -> Iterator[str]:
    """Yield the relative paths of files that differ or exist on one side only."""
    names = {
        path.relative_to(side).as_posix()
        for side in (left, right)
        for package in PACKAGES
        for path in (side / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name in sorted(names):
        pair = (left / name, right / name)
        if not all(path.is_file() for path in pair) or not filecmp.cmp(*pair, shallow=False):
            yield name


def write(output: Path = OUTPUT) -> list[str]:
    """Bring everything up to date, touching only what differs, and return what was not."""
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        generate(fresh)
        stale = list(differences(fresh, output))
        for name in stale:
            if (fresh / name).is_file():
                (output / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(fresh / name, output / name)
            else:
                (output / name).unlink()
    changed = [f"{OUTPUT.name}/{name}" for name in stale]
    texts = {contract.FILE: contract.build(DOCUMENT), LOCK: lock_text(DOCUMENT, PROTO).encode()}
    for path, text in texts.items():
        if not path.is_file() or path.read_bytes() != text:
            path.write_bytes(text)
            changed.append(path.relative_to(ROOT).as_posix())
    return changed


def check(output: Path = OUTPUT, lock: Path = LOCK) -> None:
    """Compare the output directory, the server's contract and the lock file with a fresh run.

    Raises:
        StaleError: Something differs.
    """
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        generate(fresh)
        stale = list(differences(fresh, output))
    if not contract.FILE.is_file() or contract.FILE.read_bytes() != contract.build(DOCUMENT):
        stale.append(contract.FILE.relative_to(ROOT).as_posix())
    if not lock.is_file() or lock.read_text(encoding="utf-8") != lock_text(DOCUMENT, PROTO):
        stale.append("codegen/lock.toml")
    if stale:
        shown = "\n  ".join([*stale[:SHOWN], *(["…"] if len(stale) > SHOWN else [])])
        files = "1 generated file is" if len(stale) == 1 else f"{len(stale)} generated files are"
        raise StaleError(f"{files} stale:\n  {shown}\nrun: {COMMAND}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="directory of both packages")
    options = parser.parse_args(arguments)
    check_tools()
    if not options.check:
        changed = write(options.output)
        print(f"{len(changed)} files changed" if changed else "everything is up to date")
        for name in changed[:SHOWN]:
            print(f"  {name}")
        if len(changed) > SHOWN:
            print("  …")
        return 0
    try:
        check(options.output)
    except StaleError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    gc.disable()  # nearly all that a run makes lives until its end; looking through it takes time
    raise SystemExit(main())
