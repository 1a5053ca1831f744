"""The three ways to stand in for `tinker`, each in a fresh interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tinker_ext import ServiceClient, compat
from tinker_ext.mock import Server, Settings

ROOT = Path(__file__).parents[2]
PROBE = """
import importlib.metadata, sys
import tinker, tinker_ext
assert importlib.metadata.version("tinker") == tinker.__version__ == "0.36.0"
assert tinker.TensorData is tinker_ext.TensorData
from tinker.types.tensor_data import TensorData
from tinker.lib.public_interfaces import APIFuture
from tinker.lib.public_interfaces.rest_client import RestClient
from tinker.lib.retry_handler import RetryConfig
assert TensorData is tinker.types.TensorData is tinker.types.datum.TensorData
assert RestClient is tinker.RestClient is tinker_ext.RestClient
assert APIFuture[int]
print("ours", *sys.argv[1:])
"""


def run(*args: str, paths: tuple[str, ...] = (), cwd: Path | None = None) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("TINKER_")}
    env["HOME"] = str(ROOT / "nobody")  # no stored credentials
    env["PYTHONPATH"] = os.pathsep.join((*paths, str(ROOT), str(ROOT / "generated")))
    done = subprocess.run(
        [sys.executable, *args], env=env, cwd=cwd, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "probe.py"
    path.write_text(PROBE)
    return path


def test_run_a_script(script: Path):
    """M30: `python -m tinker_ext.compat script.py args` runs unchanged code on us."""
    assert run("-m", "tinker_ext.compat", str(script), "a", "--b") == "ours a --b"


def test_run_a_module(script: Path):
    """M30: so does `-m module args`."""
    assert run("-m", "tinker_ext.compat", "-m", "probe", "x", cwd=script.parent) == "ours x"


def test_path_on_pythonpath(script: Path):
    """M30: the printed directory does the same when it comes first on PYTHONPATH."""
    place = run("-m", "tinker_ext.compat", "--path")
    assert run(str(script), paths=(place,)) == "ours"


def test_install(tmp_path: Path):
    """M30: `install()` does the same from inside, and twice is once."""
    text = "import tinker_ext.compat as c\nc.install(); c.install()\n" + PROBE
    path = tmp_path / "inside.py"
    path.write_text(text)
    assert run(str(path)) == "ours"


def test_exit_code_and_usage(tmp_path: Path):
    """M30: the script's exit code is ours; nonsense gives the usage and 2."""
    path = tmp_path / "fails.py"
    path.write_text("import sys; sys.exit(7)")
    env = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'generated'}"}
    runner = [sys.executable, "-m", "tinker_ext.compat"]
    codes = [
        subprocess.run([*runner, *args], env=env, capture_output=True).returncode
        for args in ([str(path)], [], ["-x"], [str(tmp_path / "none.py")])
    ]
    assert codes == [7, 2, 2, 2]


def test_import_is_lazy():
    """M39: `import tinker` loads no third-party module before a name is read."""
    code = """
        import sys
        import tinker_ext.compat; tinker_ext.compat.install()
        import tinker, tinker.types, tinker.lib.retry_handler
        heavy = {"numpy", "httpx", "attrs", "attr", "orjson", "tokenizers", "google.protobuf"}
        print(sorted(heavy & set(sys.modules)))
    """
    assert run("-c", textwrap.dedent(code)) == "[]"


def test_spawned_workers_and_child_processes_see_us(tmp_path: Path):
    """M30: process pools (spawn) and programs that the script starts import the same `tinker`."""
    path = tmp_path / "pool.py"
    path.write_text(
        textwrap.dedent("""
        import subprocess, sys
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context
        import tinker

        def work(prompt):
            return tinker.__emulated_by__, prompt.append_int(3).to_ints()

        if __name__ == "__main__":
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                print(pool.submit(work, tinker.ModelInput.from_ints([1, 2])).result())
            code = "import tinker; print(tinker.__emulated_by__)"
            print(subprocess.run([sys.executable, "-c", code], capture_output=True).stdout)
        """)
    )
    out = run("-m", "tinker_ext.compat", str(path)).splitlines()
    assert out == ["('tinker_ext', [1, 2, 3])", "b'tinker_ext\\n'"]


def test_installing_late_warns(tmp_path: Path):
    """M30: a `tinker` that was imported before is replaced, with a warning."""
    fake = tmp_path / "tinker"
    fake.mkdir()
    (fake / "__init__.py").write_text("")
    code = """
        import tinker, warnings, tinker_ext.compat
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            tinker_ext.compat.install()
        import tinker
        print([w.category.__name__ for w in seen], tinker.__title__)
    """
    out = run("-c", textwrap.dedent(code), paths=(str(tmp_path),))
    assert out == "['RuntimeWarning'] tinker"


def test_star_import():
    """M30: `from tinker import *` gives the official list."""
    code = """
        import tinker_ext.compat; tinker_ext.compat.install()
        from tinker import *
        from tinker.types import *
        print(ServiceClient.__name__, LossFnType is not None, types.__name__, auth.__name__)
    """
    assert run("-c", textwrap.dedent(code)) == "ServiceClient True tinker.types tinker.auth"


def test_without_key_and_url_the_embedded_server_answers():
    """M40: the drop-in uses the same default as the library, and one warning says so."""
    code = """
        import tinker_ext.compat; tinker_ext.compat.install()
        import tinker, warnings
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            names = tinker.ServiceClient().get_server_capabilities()
            tinker.auth.raise_if_tinker_not_accessible()
        print(["TINKER_API_KEY" in str(w.message) for w in seen] == [True])
        print(len(names.supported_models) > 0)
    """
    assert run("-c", textwrap.dedent(code), paths=()).split() == ["True", "True"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["version"], 0, "tinker 0.36.0\n"),
        (["-f", "json", "version"], 0, "tinker 0.36.0\n"),
        (["auth", "status"], 1, "Credentials available: no\n"),
        (["checkpoint", "delete", "--run-id", "r", "--type", "nonsense"], 1, ""),
    ],
)
def test_the_official_command(tmp_path, words, code, said):
    """F57: what scripts read from `tinker`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TINKER_")}
    path = os.pathsep.join([str(compat.directory()), str(ROOT), str(ROOT / "generated")])
    done = subprocess.run(
        [sys.executable, "-m", "tinker.cli", *words],
        env={**kept, "PYTHONPATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, said)
    assert "Traceback" not in done.stderr


def test_the_official_command_writes_times_as_it_does(tmp_path):
    """F57: scripts that read JSON of `tinker` find a space between date and time."""
    with Server(Settings(epoch=1767322800.0)) as server:
        with ServiceClient(base_url=server.url, api_key="tml-x") as service:
            training = service.create_lora_training_client("tinker-ext/tiny", rank=1)
            training.save_state("a").result()
        path = os.pathsep.join([str(compat.directory()), str(ROOT), str(ROOT / "generated")])
        done = subprocess.run(
            [sys.executable, "-m", "tinker.cli", "-f", "json", "checkpoint", "list"],
            env={
                **os.environ, "PYTHONPATH": path, "HOME": str(tmp_path),
                "TINKER_BASE_URL": server.url, "TINKER_API_KEY": "tml-x",
            },
            capture_output=True,
            text=True,
            timeout=500,
            check=True,
        )  # fmt: skip
    (saved,) = json.loads(done.stdout)["checkpoints"]
    assert saved["time"].startswith("2026-01-02 03:00:")
    assert saved["time"].endswith("+00:00")
