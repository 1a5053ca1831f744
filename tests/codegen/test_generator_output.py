"""M5: generated code is what the document gives, byte for byte, and drift is named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from codegen import regenerate

Document = dict[str, Any]


def test_a_changed_file_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M5 M41: drift fails, lists these files and no other, and says what to run.

    The server's contract is one of them; test_generator_page.py sees one command write all of it.
    """
    output = tmp_path / "generated"
    target = regenerate.ROOT / "tinker_ext" / "mock" / "contract.json"
    assert target == regenerate.contract.FILE
    monkeypatch.setattr(regenerate, "ROOT", tmp_path)
    monkeypatch.setattr(regenerate.contract, "FILE", tmp_path / "contract.json")
    (tmp_path / "contract.json").write_bytes(target.read_bytes().replace(b"healthz", b"health"))
    shutil.copytree(regenerate.OUTPUT, output, ignore=shutil.ignore_patterns("__pycache__"))
    with (output / "tinker_api" / "errors.py").open("a") as file:
        file.write("# edited\n")
    (output / "tinker_api" / "models" / "datum.py").unlink()
    (output / "tinker_proto" / "extra.py").touch()
    with pytest.raises(regenerate.StaleError) as caught:
        regenerate.check(output)
    report = str(caught.value)
    for name in ("tinker_api/errors.py", "tinker_api/models/datum.py", "tinker_proto/extra.py"):
        assert name in report
    assert "contract.json" in report
    assert report.startswith("4 generated files are stale")
    assert report.endswith("run: nox -s regenerate")


def test_other_tools_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M5: another generator or formatter would give other bytes."""
    lock = tmp_path / "lock.toml"
    lock.write_text('openapi_python_client = "0.29.0"\n')
    monkeypatch.setattr(regenerate, "LOCK", lock)
    with pytest.raises(SystemExit, match=r"install openapi-python-client==0\.29\.0"):
        regenerate.check_tools()


def test_the_lock_names_tools_and_sources() -> None:
    """M5, M6: pinned to a generator without the known advisory."""
    locked = tomllib.loads(regenerate.LOCK.read_text())
    assert locked["openapi_python_client"] == "0.29.1"
    assert {"document_sha256", "proto_sha256", "ruff", "grpcio_tools", "protoc"} <= locked.keys()


def test_output_does_not_depend_on_hashing_or_place(document: Document, tmp_path: Path) -> None:
    """M5: other hash seeds and directories give the same bytes, and no cache is left behind."""
    source = tmp_path / "small.yaml"
    source.write_text(yaml.safe_dump(document))
    code = (
        "import sys; from pathlib import Path; from codegen import regenerate;"
        "regenerate.generate_api(Path(sys.argv[1]), Path(sys.argv[2], 'tinker_api'));"
        "regenerate.generate_proto(regenerate.PROTO, Path(sys.argv[2], 'tinker_proto'))"
    )
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", code, str(source), str(tmp_path / seed)],
            check=True,
            cwd=regenerate.ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"},
        )
    assert list(regenerate.differences(tmp_path / "1", tmp_path / "2")) == []
    assert not [path for path in tmp_path.rglob("*") if "cache" in path.name]
    names = {path.name for path in (tmp_path / "1" / "tinker_api").iterdir()}
    assert {"py.typed", "client.py", "errors.py", "types.py", "models", "api"} <= names


def test_what_the_generator_refuses_stops_the_run(document: Document, tmp_path: Path) -> None:
    """M5: a warning is a failure; nothing is left out quietly."""
    document["components"]["schemas"]["Bad"] = {"type": "array"}
    document["components"]["schemas"]["Reply"]["properties"]["bad"] = {
        "$ref": "#/components/schemas/Bad"
    }
    source = tmp_path / "bad.yaml"
    source.write_text(yaml.safe_dump(document))
    with pytest.raises(SystemExit):
        regenerate.generate_api(source, tmp_path / "out")


def test_generated_files_say_so() -> None:
    """M5: every module names the command instead of inviting an edit."""
    for path in regenerate.OUTPUT.rglob("*.py"):
        if path.name != "tinker_pb2.py":
            assert "nox -s regenerate" in path.read_text("utf-8")[:4000], path


def test_messages_need_no_particular_protobuf() -> None:
    """M39: no runtime check, and no clash with another client's messages of the same names."""
    code = (regenerate.OUTPUT / "tinker_proto" / "tinker_pb2.py").read_text()
    assert "runtime_version" not in code
    assert re.search(r"DescriptorPool\(\)\.AddSerializedFile", code)
