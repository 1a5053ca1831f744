"""M41: what is added to the document is usable after one command, with no line by hand."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codegen import check_doc, regenerate
from codegen.document import load

RECORDS = (
    "AdamParams",
    "DimuonParams",
    "AdamOptimizerConfig",
    "DimuonOptimizerConfig",
    "LoraConfig",
    "SamplingParams",
)
FIELD = {"type": ["number", "null"], "default": None, "description": "New."}
CLOSED = {"type": "string", "enum": ["slow", "fast"], "default": "slow", "description": "New."}

SCRIPT = """
import json, pickle
from tinker_api.operations import CREATE_MODEL, FORWARD_BACKWARD, OPERATIONS, OPTIM_STEP, SAMPLE
from tinker_ext import types
from tinker_ext.batch.checks import check_batch
from tinker_ext.errors import InvalidInputError

LEAST = {"DimuonParams": {"learning_rate": 0.1}, "LoraConfig": {"rank": 4}}
out = {}
for name in NAMES:
    record = getattr(types, name)
    plain = record(**LEAST.get(name, {}))
    made = record(**LEAST.get(name, {}), brand_new=0.5, pace="fast")
    assert pickle.loads(pickle.dumps(made)) == made != plain
    assert "brand_new=0.5, pace='fast')" in repr(made), repr(made)
    refused = []
    for wrong in ({"brand_new": "x"}, {"brand_new": True}, {"pace": "fats"}):
        try:
            record(**LEAST.get(name, {}), **wrong)
        except InvalidInputError as error:
            refused.append(str(error))
    out[name] = [plain.to_dict(), made.to_dict(), refused]

common = {"session_id": "s", "model_seq_id": 0, "base_model": "b"}
new = {"brand_new": 0.5}
out["sent"] = [
    OPTIM_STEP.prepare(model_id="m", adam_params=types.AdamParams(**new)).body["adam_params"],
    OPTIM_STEP.prepare(
        model_id="m", optimizer_params=types.DimuonParams(learning_rate=1, **new)
    ).body["optimizer_params"],
    CREATE_MODEL.prepare(**common, lora_config=types.LoraConfig(rank=4, **new)).body["lora_config"],
    CREATE_MODEL.prepare(**common, optimizer_config=types.AdamOptimizerConfig(**new)).body[
        "optimizer_config"
    ],
    SAMPLE.prepare(prompt={"chunks": []}, sampling_params=types.SamplingParams(**new)).body[
        "sampling_params"
    ],
]
from tinker_ext.types import Datum, ModelInput
datum = Datum(model_input=ModelInput.from_ints([1]), loss_fn_inputs={})
check_batch([datum], "brand_new_loss")
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the package for a document with new fields, a new loss and a new operation."""
    document = load(regenerate.DOCUMENT)
    schemas = document["components"]["schemas"]
    for name in RECORDS:
        schemas[name]["properties"].update(brand_new=dict(FIELD), pace=dict(CLOSED))
    schemas["LossFnType"]["enum"].append("brand_new_loss")
    add_operation(document)
    assert check_doc.findings(document) == []
    folder = tmp_path_factory.mktemp("following")
    source = folder / "document.yaml"
    source.write_text(json.dumps(document), encoding="utf-8")  # which is YAML, and quick
    regenerate.generate_api(source, folder / "generated" / "tinker_api")
    return folder / "generated"


def add_operation(document: dict[str, Any]) -> None:
    """Add one that no code knows: a checkpoint can be renamed."""
    path = next(path for path in document["paths"] if path.endswith("/ttl"))
    shared = dict(document["paths"][path])
    operation = copy.deepcopy(shared.pop("put"))
    operation.update(operationId="rename_checkpoint", summary="Rename a checkpoint")
    labels = {"type": "array", "items": {"type": "string"}}
    operation["parameters"] = [
        *operation.get("parameters", []),
        {"name": "labels", "in": "query", "description": "New.", "schema": labels},
    ]
    content = operation["requestBody"]["content"]["application/json"]
    content["schema"] = {"$ref": "#/components/schemas/RenameCheckpointRequest"}
    document["paths"][path.replace("/ttl", "/name")] = {**shared, "put": operation}
    document["components"]["schemas"]["RenameCheckpointRequest"] = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "overwrite": {"type": "boolean", "default": False},
        },
        "required": ["name"],
        "additionalProperties": False,
        "examples": [{"name": "last"}],
    }


def run(generated: Path, code: str) -> Any:
    """Run a program with the generated package; returns what it printed last."""
    path = os.pathsep.join([str(generated), str(regenerate.ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_new_field_is_accepted_checked_and_sent(generated: Path) -> None:
    """M41: for every plain record, and a loss that only the document knows is taken."""
    out = run(generated, SCRIPT.replace("NAMES", repr(RECORDS)))
    for name in RECORDS:
        plain, made, refused = out[name]
        assert not {"brand_new", "pace"} & plain.keys()
        assert made == {**plain, "brand_new": 0.5, "pace": "fast"}
        assert refused[:2] == [
            f"brand_new must be a number, not {given!r}." for given in ("x", True)
        ]
        assert refused[2].startswith(f"{name}: pace ")
        assert "use one of 'slow', 'fast'" in refused[2]
    assert all(sent["brand_new"] == 0.5 for sent in out["sent"])


def test_a_new_operation_can_be_called(generated: Path) -> None:
    """M41: its row checks, sends and reads; its function exists; the rest is as it was."""
    code = """
import json
import httpx
from tinker_api import Client
from tinker_api.api.checkpoints import rename_checkpoint
from tinker_api.errors import ArgumentError
from tinker_api.models import RenameCheckpointRequest
from tinker_api.operations import OPERATIONS, RENAME_CHECKPOINT

row = OPERATIONS["rename_checkpoint"]
assert row is RENAME_CHECKPOINT
run = {"training_run_id": "s:train:0", "checkpoint_kind": "weights", "checkpoint_name": "a"}
sent = row.prepare(**run, name="b", overwrite=True, labels=("x", "y"))
assert sent.query == (("labels", "x"), ("labels", "y")), sent.query
try:
    row.prepare(**run, nam="b")
except ArgumentError as error:
    said = str(error)
assert row.parse(204, {}, b"") is None
seen = []
def answer(request):
    seen.append([request.method, request.url.path, json.loads(request.content)])
    return httpx.Response(204)
client = Client("http://x", httpx_args={"transport": httpx.MockTransport(answer)})
rename_checkpoint.sync(
    "s:train:0", "weights", "a", client=client, body=RenameCheckpointRequest(name="b")
)
print(json.dumps([sent.method, sent.path, sent.body, said, seen]))
"""
    method, where, body, said, seen = run(generated, code)
    filled = "/api/v1/training_runs/s:train:0/checkpoints/weights/a/name"
    assert (method, where, body) == ("PUT", filled, {"name": "b", "overwrite": True})
    assert "there is no argument 'nam'; did you mean 'name'?" in said
    assert seen == [["PUT", filled, {"name": "b"}]]
