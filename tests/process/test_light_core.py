"""M39: the core install stays light, and programs load what they use.

`nox -s wheel` also installs it, see tests/wheel.py.
"""

import json
import runpy
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# By path: `wheel` is also the name of a package that build tools bring along.
_facts = runpy.run_path(str(ROOT / "tests" / "wheel.py"))
HEAVY, check, check_wheel, names = (
    _facts[name] for name in ("HEAVY", "check", "check_wheel", "names")
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def loaded(code):
    """Top-level modules that a program has loaded, without site-packages hooks."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    path = [str(ROOT), str(ROOT / "generated"), *(p for p in sys.path if "site-packages" in p)]
    lines = f"import sys\nsys.path[:0] = {path!r}\n{script}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", lines], check=True, capture_output=True, text=True
    )
    return {name.split(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def test_the_core_requires_nothing_heavy():
    """M39: no torch, transformers, pydantic, protobuf, server or terminal libraries."""
    assert not names(PROJECT["dependencies"]) & set(HEAVY)
    assert names(PROJECT["dependencies"]) <= {
        "attrs",
        "httptools",
        "httpx",
        "numpy",
        "orjson",
        "sniffio",
        "tenacity",
        "tokenizers",
    }


def test_everything_else_is_an_extra():
    """M39: extras for torch, cli, server, proto, otel and test."""
    extras = PROJECT["optional-dependencies"]
    assert set(extras) >= {"torch", "cli", "server", "proto", "otel", "test"}
    assert names(extras["proto"]) == {"protobuf", "zstandard"}
    assert "torch" not in names(line for name in extras if name != "torch" for line in extras[name])


def wheel_file(path, **contents):
    required = contents.pop("required", "httpx>=0.27")
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("tinker_ext/py.typed", "tinker_api/__init__.py", "tinker_proto/__init__.py"):
            archive.writestr(name, "")
        archive.writestr("x-1.dist-info/METADATA", f"Requires-Dist: {required}\n")
        for name in contents.get("more", ()):
            archive.writestr(name, "")
    return path


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ({}, []),
        ({"required": "torch>=2; extra == 'torch'"}, []),
        ({"required": "torch>=2"}, ["the wheel requires torch"]),
        ({"more": ["tests/x.py"]}, ["the wheel installs tests"]),
    ],
)
def test_the_check_of_a_wheel_finds_each_fault(tmp_path, contents, said):
    """M39: what `nox -s wheel` checks of the file is checked itself."""
    assert check_wheel(wheel_file(tmp_path / "x.whl", **contents)) == said


def test_importing_the_package_loads_no_third_party_module():
    """M39: neither tokenizers nor protobuf nor numpy nor generated code, also with its types."""
    before = loaded("")
    after = loaded("import tinker_ext, tinker_ext.types")
    assert after - before <= {*sys.stdlib_module_names, "tinker_ext"}


def test_a_client_loads_neither_httpx_nor_tokenizers_nor_protobuf_nor_torch():
    """M39: using the client costs what it uses."""
    after = loaded(
        "import tinker_ext\n"
        "tinker_ext.ServiceClient(base_url='http://127.0.0.1:9', api_key='x').close().result()"
    )
    assert "httptools" in after
    assert not after & {
        "httpx",
        "tokenizers",
        "google",
        "tinker_proto",
        "torch",
        "transformers",
        "pydantic",
        "starlette",
        "uvicorn",
        "opentelemetry",
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"sizes": {"torch": 1}}, ["torch was installed"]),
        ({"sizes": {"numpy": 10**9}}, ["1000 MB were installed, more than 150"]),
        ({"import": ["numpy"]}, ["`import tinker_ext` loads numpy"]),
        ({"client": ["tokenizers"]}, ["a ServiceClient loads tokenizers"]),
    ],
)
def test_the_check_of_an_installation_finds_each_fault(change, said):
    """M39: what `nox -s wheel` checks is checked itself."""
    good = {"sizes": {"numpy": 5 * 10**7}, "import": ["tinker_ext"], "client": ["httpx"]}
    assert check({**good, **change}) == said


LOADED = (
    "import sys; from tinker_ext.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
)


def test_the_top_page_loads_neither_click_nor_anything_heavy():
    """M36: --help costs next to nothing, because it imports next to nothing."""
    code = f"{LOADED}\nprint('LOADED', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    page, _, modules = done.stdout.partition("LOADED")
    heavy = {"click", "rich", "numpy", "httpx", "attrs", "attr", "orjson", "tokenizers", "asyncio"}
    assert page.startswith("Usage: tinker-ext")
    assert not heavy & set(modules.split())


def test_without_the_extra_there_is_no_observer():
    """M34 M39: a no-op without OpenTelemetry, which nothing else imports."""
    code = """
import sys
sys.modules["opentelemetry"] = None
import tinker_ext.clients.service
from tinker_ext.telemetry import is_installed, opentelemetry_observer
assert not is_installed()
assert opentelemetry_observer() is None
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
