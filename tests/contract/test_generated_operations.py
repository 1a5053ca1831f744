"""M41: the table of operations: what it says, what it refuses, what it sends and reads."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from contract import document as doc
from tinker_api import operations
from tinker_api.errors import ApiError, ArgumentError, StatusError, UnexpectedBody, UnexpectedStatus
from tinker_api.models import AdamParams, CreateModelResponse, OptimStepResponse, UntypedAPIFuture
from tinker_api.operations import OPERATIONS, Operation, Prepared
from tinker_api.types import Unknown

JSON = {"content-type": "application/json"}
ROOT = Path(__file__).resolve().parents[2]
RUN = {"training_run_id": "s:train:0", "checkpoint_kind": "weights", "checkpoint_name": "last"}
INTERVAL = {"starting_on": "2026-01-02T00:00:00Z", "ending_before": "2026-01-03T00:00:00Z"}


def test_every_operation_is_a_row_named_by_its_id() -> None:
    """M41: method, path, class of body and how to call it come from the document."""
    by_id = {operation.id: operation for operation in doc.operations()}
    assert OPERATIONS.keys() == by_id.keys()
    assert len(OPERATIONS) >= 49
    for name, row in OPERATIONS.items():
        raw = by_id[name].raw
        how = raw["x-tinker-call"]
        assert getattr(operations, name.upper()) is row
        assert (row.name, row.method, row.path) == (name, by_id[name].method, by_id[name].template)
        assert (row.lane, row.retry, row.seconds) == (how["lane"], how["retry"], how["seconds"])
        assert (row.feature, row.since) == (how["feature"], raw["x-tinker-eras"][0])
        assert (row.result, row.request_type) == (how.get("yields"), how.get("request-type", ""))
        assert ("UntypedAPIFuture" in row.reply) == (row.result is not None)
        assert set(row.media_types) == set(raw.get("requestBody", {}).get("content", {}))
        assert len(set(row.arguments)) == len(row.arguments)


def test_low_level_functions_stand_on_the_table() -> None:
    """M41: the functions of `api` have no method, path or reply of their own."""
    for row in OPERATIONS.values():
        path = ROOT / "generated" / "tinker_api" / "api" / row.tag / f"{row.name}.py"
        text = path.read_text("utf-8")
        assert f"import {row.name.upper()} as OPERATION" in text.replace("(\n    ", "")
        assert "/api/v1" not in text.split('"""', 2)[2]


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_examples_of_the_document_are_prepared_as_they_stand(name: str) -> None:
    """M4, M41: what the document shows as a request is accepted and loses nothing it must keep."""
    row = OPERATIONS[name]
    model = row.request_model
    schemas = doc.load_document()["components"]["schemas"]
    for example in schemas[row.request]["examples"] if row.request else [{}]:
        given = {**path_values(row), **example}
        prepared = row.prepare(**given)
        assert "{" not in prepared.path
        if model is None:
            assert prepared.body is None
            continue
        sent = prepared.body
        assert sent is not None
        layout = model._layout()
        for item in layout.fields:
            if item.key in layout.tags or item.required:
                assert item.key in sent
            elif item.key in sent:
                assert item.key in example
            elif example.get(item.key) is not None:
                assert not item.always
                assert item.is_default(example[item.key])
        assert model.from_dict(json.loads(json.dumps(sent))).to_dict() == sent


def path_values(row: Operation[Any, Any]) -> dict[str, Any]:
    """Return values for what an operation requires in path and query."""
    every = {**RUN, **INTERVAL, "session_id": "sess-1", "sampler_id": "sess-1:sample:0"}
    fields = (*row.path_fields, *row.query_fields)
    return {item.name: every[item.name] for item in fields if item.required}


def test_path_query_and_body_come_from_one_list_of_names() -> None:
    """M41: a caller does not say where an argument goes."""
    sent = operations.SET_CHECKPOINT_TTL.prepare(**RUN, ttl_seconds=60)
    assert sent == Prepared(
        "PUT",
        "/api/v1/training_runs/s:train:0/checkpoints/weights/last/ttl",
        (),
        {"ttl_seconds": 60},
    )
    listed = operations.LIST_TRAINING_RUNS.prepare(limit=5, offset=0, access_scope="owned")
    assert listed.query == (("limit", "5"), ("offset", "0"), ("access_scope", "owned"))
    assert listed.body is None
    quoted = operations.GET_SESSION.prepare(session_id="a..b?x:1 ")
    assert quoted.path == "/api/v1/sessions/a..b%3Fx:1%20"


def test_omission_follows_the_document() -> None:
    """M4: absent and None are absent, null stays where it means something, tags are sent."""
    step = operations.OPTIM_STEP.prepare(model_id="m", adam_params=AdamParams(), seq_id=None).body
    assert step == {
        "model_id": "m",
        "adam_params": {"learning_rate": 0.0001, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12},
        "type": "optim_step",
    }
    cleared = operations.SET_CHECKPOINT_TTL.prepare(**RUN, ttl_seconds=None).body
    assert cleared == {"ttl_seconds": None}
    save = operations.SAVE_WEIGHTS.prepare(
        model_id="m", path="p", overwrite=False, ttl_seconds=None
    )
    assert save.body == {"model_id": "m", "path": "p", "type": "save_weights"}
    prompt = {"chunks": [{"tokens": [1, 2]}]}
    for wish, there in ((None, False), (False, True), (True, True)):
        sent = operations.SAMPLE.prepare(
            prompt=prompt, sampling_params={}, num_samples=1, prompt_logprobs=wish
        ).body
        assert sent is not None
        assert ("prompt_logprobs" in sent) is there
        assert sent["num_samples"] == 1
        assert sent["prompt"] == {"chunks": [{"tokens": [1, 2], "type": "encoded_text"}]}


class Kind(Enum):
    """An enumeration of another package that is not text."""

    WEIGHTS = "weights"


@attrs.frozen
class Settings:
    """A record of another package."""

    learning_rate: float

    def to_dict(self) -> dict[str, Any]:
        return {"learning_rate": self.learning_rate, "momentum": None}


def test_values_may_be_records_plain_json_or_numpy() -> None:
    """M41: one form of argument is as good as another."""
    plain = {"learning_rate": 0.5}
    for params in (AdamParams.from_dict(plain), plain, {"learning_rate": np.float64(0.5)}):
        sent = operations.OPTIM_STEP.prepare(model_id="m", adam_params=params, seq_id=np.int64(3))
        assert sent.body is not None
        assert (sent.body["adam_params"], sent.body["seq_id"]) == (plain, 3)
        assert type(sent.body["seq_id"]) is int
    sent = operations.OPTIM_STEP.prepare(model_id="m", adam_params=Settings(0.5))
    assert sent.body is not None
    assert sent.body["adam_params"] == {"learning_rate": 0.5, "momentum": None}
    sent = operations.DELETE_CHECKPOINT.prepare(**{**RUN, "checkpoint_kind": Kind.WEIGHTS})
    assert sent.path.endswith("/checkpoints/weights/last")
    newer = {"type": "video", "frames": 3}
    sent = operations.SAMPLE.prepare(prompt={"chunks": [Unknown(newer)]}, sampling_params={})
    assert sent.body is not None
    assert sent.body["prompt"] == {"chunks": [newer]}
    lion = {"type": "lion", "learning_rate": 1.0, "rho": 2}
    sent = operations.OPTIM_STEP.prepare(model_id="m", optimizer_params=lion)
    assert sent.body is not None
    assert sent.body["optimizer_params"] == lion


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("optim_step", {"model_id": "m", "adam_parms": {}}, "adam_parms", "did you mean 'adam_params'"),
    ("optim_step", {"adam_params": {}}, "model_id", "model_id is required"),
    ("optim_step", {"model_id": None}, "model_id", "model_id is required"),
    ("optim_step", {"model_id": 3}, "model_id", "expected a string, found int"),
    ("optim_step", {"model_id": "m", "seq_id": "1"}, "seq_id", "expected an integer, found str"),
    ("optim_step", {"model_id": "m", "seq_id": True}, "seq_id", "expected an integer, found bool"),
    ("optim_step", {"model_id": "m", "type": "sample"}, "type", "expected the tag 'optim_step'"),
    (
        "optim_step",
        {"model_id": "m", "adam_params": {"beta3": 1}},
        "adam_params",
        "has no key 'beta3'; did you mean 'beta2'",
    ),
    (
        "optim_step",
        {"model_id": "m", "adam_params": {"eps": float("nan")}},
        "adam_params.eps",
        "NaN or infinite",
    ),
    (
        "optim_step",
        {"model_id": "m", "optimizer_params": {"type": "dimuon"}},
        "optimizer_params",
        "needs the key 'learning_rate'",
    ),
    ("optim_step", {"model_id": "m", "adam_params": 5}, "adam_params", "expected an object"),
    ("list_training_runs", {"access_scope": "ownd"}, "access_scope", "use one of 'owned'"),
    ("list_checkpoints", {"limit": "many"}, "limit", "expected an integer"),
    ("delete_checkpoint", {**RUN, "checkpoint_kind": "oops"}, "checkpoint_kind", "'weights'"),
    ("delete_checkpoint", {**RUN, "checkpoint_name": ".."}, "checkpoint_name", "part of a path"),
    ("delete_checkpoint", {"training_run_id": "r"}, "checkpoint_kind", "is required"),
    ("set_checkpoint_ttl", RUN, "ttl_seconds", "is required"),
    ("delete_checkpoint", {**RUN, "force": True}, "force", "there is no argument 'force'"),
    ("health_check", {"deep": True}, "deep", "it takes no arguments"),
    ("list_billing_usage_events", {**INTERVAL, "starting_on": "soon"}, "starting_on", "ISO 8601"),
    (
        "forward_backward",
        {"model_id": "m", "forward_backward_input": {"data": [], "loss_fn": "cross_entrpy"}},
        "forward_backward_input.loss_fn",
        "use one of 'cross_entropy'",
    ),
    (
        "forward_backward",
        {
            "model_id": "m",
            "forward_backward_input": {
                "data": [{"model_input": {"chunks": [{"tokens": ["a"]}]}, "loss_fn_inputs": {}}],
                "loss_fn": "ppo",
            },
        },
        "forward_backward_input.data[0].model_input.chunks[0].tokens[0]",
        "expected an integer",
    ),
    (
        "sample",
        {"prompt": {"chunks": [{"type": "txt"}]}, "sampling_params": {}},
        "prompt.chunks[0]",
        "is not one of EncodedTextChunk",
    ),
    (
        "sample",
        {"prompt": {"chunks": []}, "sampling_params": {"temprature": 1.0}},
        "sampling_params",
        "did you mean 'temperature'",
    ),
    (
        "sample",
        {"prompt": {"chunks": []}, "sampling_params": {"stop": [{}]}},
        "sampling_params.stop",
        "expected a string",
    ),
]


@pytest.mark.parametrize(("name", "arguments", "where", "said"), WRONG)
def test_a_wrong_argument_fails_at_the_call_and_says_what_is_allowed(
    name: str, arguments: dict[str, Any], where: str, said: str
) -> None:
    """M3, M41: unknown, missing, mistyped or outside a closed list; nothing is dropped silently."""
    with pytest.raises(ArgumentError) as caught:
        OPERATIONS[name].prepare(**arguments)
    error = caught.value
    assert (error.operation, error.argument) == (name, where)
    assert said in str(error)
    assert str(error).startswith(f"{name}: ")
    if "use one of" in said or "did you mean" in said:
        assert error.allowed
    assert isinstance(error, ApiError)
    assert isinstance(error, ValueError)
    twin = pickle.loads(pickle.dumps(error))
    assert (str(twin), twin.allowed) == (str(error), error.allowed)


def test_a_secret_value_is_not_in_the_error() -> None:
    """M33: an argument of the wrong type is named, not shown."""
    with pytest.raises(ArgumentError) as caught:
        operations.LOAD_WEIGHTS.prepare(path="p", weights_access_token=b"tml-secret")
    assert "tml-secret" not in f"{caught.value!r} {caught.value}"


def test_a_reply_is_parsed_or_a_typed_error() -> None:
    """M38, M41: the same reading as the low-level functions."""
    row = operations.OPTIM_STEP
    for status in (200, 201, 202):
        reply: UntypedAPIFuture = row.parse(status, JSON, b'{"request_id":"r"}')
        assert reply == UntypedAPIFuture(request_id="r")
    with pytest.raises(StatusError) as caught:
        row.parse(422, JSON, b'{"detail":"no"}')
    assert caught.value.parsed.detail == "no"
    for content in (b"", b"[]", b"{}", b'{"request_id": 5}', b"<html>"):
        with pytest.raises(UnexpectedBody):
            row.parse(200, JSON, content)
    with pytest.raises(UnexpectedStatus):
        row.parse(418, JSON, b"{}")
    assert operations.DELETE_CHECKPOINT.parse(204, {}, b"") is None


def test_a_result_is_what_the_future_yields() -> None:
    """M2, M41: the row knows the member of the union."""
    assert operations.OPTIM_STEP.parse_result(b'{"metrics":{"a":1.0}}') == OptimStepResponse(
        metrics={"a": 1.0}
    )
    made = operations.CREATE_MODEL.parse_result({"model_id": "m", "type": "create_model"})
    assert isinstance(made, CreateModelResponse)
    with pytest.raises(TypeError, match="no future"):
        operations.HEALTH_CHECK.parse_result({})


def test_rows_survive_copying_and_pickling() -> None:
    """M41: a row is one object wherever it goes."""
    for row in OPERATIONS.values():
        assert pickle.loads(pickle.dumps(row)) is row
        assert copy.deepcopy(row) is row
        assert re.match(r"Operation\(name='\w+', method='[A-Z]+', path='/api/v1/", repr(row))


def test_the_table_loads_no_records_and_no_httpx() -> None:
    """M39, M41: importing it costs little, and `import tinker_ext` does not import it."""
    code = (
        "import sys\n"
        "import tinker_ext\n"
        "assert 'tinker_api' not in sys.modules\n"
        "from tinker_api.operations import OPTIM_STEP\n"
        "heavy = {'httpx', 'numpy', 'orjson', 'difflib'} & set(sys.modules)\n"
        "records = [name for name in sys.modules if name.startswith('tinker_api.models.')]\n"
        "assert not heavy and not records, (heavy, records)\n"
    )
    path = f"{ROOT}:{ROOT / 'generated'}"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": path})
