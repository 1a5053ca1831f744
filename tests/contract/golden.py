"""Puts recorded traffic through the contract: document, generated models and protobuf messages.

A recording is a JSONL file with one request and its reply per line (method, path, headers as pairs,
body or body_b64, response_status, response_content_type, response_body or response_body_b64,
version). For each line:

* the request line matches an operation that its era knows, and its parameters fit their schemas;
* both bodies fit the schema of their status and media type;
* both bodies, read by the generated code and written again, are the same JSON value, type by type;
* protobuf bodies hold no unknown field and are the same message after a round trip.

``python tests/contract/golden.py FILE…`` (with ``generated`` on the path) prints the outcome.
"""

from __future__ import annotations

import base64
import collections
import importlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import attrs

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from contract import document as doc

# Recorders keep this many characters of a reply, so a longer one is cut off.
RECORDED_CHARACTERS = 600
JSON = "application/json"
PROTOBUF = "application/x-protobuf"
# Headers of these families have a meaning of their own wherever they are sent.
DOCUMENTED_HEADERS = ("x-tinker-", "x-sdk-", "x-idempotency-key", "content-encoding")
#: What `retrieve_future` yields in the end, by the X-Tinker-Request-Type of the poll.
RESULT_OF_REQUEST_TYPE = {
    "CreateModel": "CreateModelResponse",
    "CreateCustomLoss": "CreateCustomLossResponse",
    "Forward": "ForwardBackwardOutput",
    "ForwardBackward": "ForwardBackwardOutput",
    "LoadWeights": "LoadWeightsResponse",
    "OptimStep": "OptimStepResponse",
    "Sample": "SampleResponse",
    "SaveWeights": "SaveWeightsResponse",
    "SaveWeightsExternal": "SaveWeightsExternalResponseInternal",
    "SaveWeightsForSampler": "SaveWeightsForSamplerResponseInternal",
    "UnloadModel": "UnloadModelResponse",
}


@attrs.define
class Outcome:
    """What a recording held and what was wrong with it."""

    counts: collections.Counter[str] = attrs.field(factory=collections.Counter)
    failures: list[str] = attrs.field(factory=list)
    unknown: list[str] = attrs.field(factory=list)
    operations: set[str] = attrs.field(factory=set)

    def add(self, where: str, problems: Iterable[str]) -> None:
        """Note problems under the line they belong to."""
        for problem in problems:  # one by one: a check may crash after its first finding
            self.failures.append(f"{where}: {problem}")


def check_file(path: Path) -> Outcome:
    """Check every line of a recording."""
    with path.open(encoding="utf-8") as lines:
        return check_records(json.loads(line) for line in lines if line.strip())


def check_records(records: Iterable[dict[str, Any]]) -> Outcome:
    """Check recorded requests and replies."""
    outcome = Outcome()
    for number, record in enumerate(records, start=1):
        where = f"record {number}, {record['method']} {record['path']}"
        outcome.counts["records"] += 1
        found = doc.find_operation(record["method"], urlsplit(record["path"]).path)
        if found is None:
            outcome.add(where, ["no such operation in the document"])
            continue
        operation, path_values = found
        outcome.operations.add(operation.id)
        headers = _headers(record)
        if record.get("version", operation.eras[0]) not in operation.eras:
            outcome.add(where, [f"{operation.id} is not marked for era {record['version']}"])
        outcome.add(where, _parameter_problems(operation, record, path_values, headers))
        try:
            outcome.add(where, _request_problems(operation, record, headers, outcome))
            outcome.add(where, _response_problems(operation, record, headers, outcome, where))
        except Exception as error:  # a crash of the code under test is a finding, not the end
            outcome.add(where, [f"{type(error).__name__}: {error}"])
    return outcome


def _headers(record: dict[str, Any]) -> dict[str, str]:
    return {name.lower(): value for name, value in record["headers"]}


def _media_type(value: str | None) -> str:
    return (value or "").partition(";")[0].strip().lower()


# ---- parameters ---------------------------------------------------------------------------------


def _parameter_problems(
    operation: doc.Operation,
    record: dict[str, Any],
    path_values: dict[str, str],
    headers: dict[str, str],
) -> Iterator[str]:
    query = dict(parse_qsl(urlsplit(record["path"]).query, keep_blank_values=True))
    given = {("path", name): value for name, value in path_values.items()}
    given |= {("query", name): value for name, value in query.items()}
    given |= {("header", name): value for name, value in headers.items()}
    for key, value in given.items():
        parameter = operation.parameters.get(key)
        if parameter is None:
            if key[0] != "header" or key[1].startswith(DOCUMENTED_HEADERS):
                yield f"{key[0]} parameter {key[1]!r} is not documented"
            continue
        typed = _from_text(value, parameter["schema"].get("type"))
        for error in doc.validator(parameter["schema"]).iter_errors(typed):
            yield f"{key[0]} parameter {key[1]}: {error.message}"
    for key, parameter in operation.parameters.items():
        if parameter.get("required") and key not in given:
            yield f"required {key[0]} parameter {key[1]!r} is missing"


def _from_text(value: str, kind: Any) -> Any:
    if kind in ("integer", "number", "boolean"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


# ---- bodies -------------------------------------------------------------------------------------


def _request_problems(
    operation: doc.Operation, record: dict[str, Any], headers: dict[str, str], outcome: Outcome
) -> Iterator[str]:
    content = operation.request_content
    text, packed = record.get("body"), record.get("body_b64")
    if not text and not packed:
        outcome.counts["requests without a body"] += 1
        if content:
            yield "the body is missing"
        return
    media = _media_type(headers.get("content-type"))
    if media not in content:
        yield f"a request body of type {media!r} is not documented"
    elif media == PROTOBUF:
        outcome.counts["protobuf requests"] += 1
        data = base64.b64decode(packed) if packed else text.encode("latin-1")
        yield from _protobuf_problems(
            "ForwardBackwardRequest", _unpacked(data, headers), record.get("body_decoded")
        )
    else:
        outcome.counts["JSON requests"] += 1
        value = json.loads(text)
        yield from _schema_problems("request", content[media], value)
        name = doc.schema_name(content[media])
        if name is not None:
            yield from _model_problems("request", name, value)


def _response_problems(
    operation: doc.Operation,
    record: dict[str, Any],
    headers: dict[str, str],
    outcome: Outcome,
    where: str,
) -> Iterator[str]:
    status = record.get("response_status")
    if status is None:
        outcome.counts["requests without a reply"] += 1
        return
    response = operation.response_for(status)
    if response is None:
        yield f"status {status} is not documented"
        return
    media = _media_type(record.get("response_content_type"))
    content = response.get("content", {})
    text = record.get("response_body")
    if not content or not media:
        # Without documented content a body is ignored, and an error may come with none.
        outcome.counts["replies without a body"] += 1
        if content and status < 400 and text:
            yield "the reply has a body but no content type"
        return
    if media not in content:
        yield f"a reply of type {media!r} is not documented for status {status}"
        return
    if media == PROTOBUF and record.get("response_body_b64"):
        outcome.counts["protobuf replies"] += 1
        result = RESULT_OF_REQUEST_TYPE[headers["x-tinker-request-type"]]
        data = base64.b64decode(record["response_body_b64"])
        yield from _protobuf_problems(result, data, record.get("response_body_decoded"))
        return
    if media != JSON or not text:
        outcome.counts["replies whose body is not in the recording"] += 1
        return
    try:
        value = json.loads(text)
    except ValueError:
        if len(text) < RECORDED_CHARACTERS:
            yield "the reply is not JSON"
        else:
            outcome.counts["replies cut off by the recorder"] += 1
        return
    outcome.counts["JSON replies"] += 1
    schema = content[media]["schema"]
    yield from _schema_problems("reply", schema, value)
    parsed = _read_reply(operation, status, text)
    if type(parsed).__name__ == "Unknown":
        outcome.unknown.append(f"{where}: {text}")
    yield from _same("reply read by the generated endpoint", plain(parsed), value)
    name = doc.schema_name(schema)
    if operation.id == "retrieve_future" and status == 200:
        name = _expected_result(value, headers)
    if name is not None and hasattr(_models(), name):
        yield from _model_problems("reply", name, value)


def _expected_result(value: dict[str, Any], headers: dict[str, str]) -> str | None:
    if value.get("type") == "try_again":
        return "TryAgainResponse"
    if value.get("status") == "complete_metadata" or "error" in value:
        return None
    return RESULT_OF_REQUEST_TYPE.get(headers.get("x-tinker-request-type", ""))


def _schema_problems(side: str, schema: dict[str, Any], value: Any) -> Iterator[str]:
    for error in doc.validator(schema).iter_errors(value):
        yield f"{side} does not fit the document at {list(error.instance_path)}: {error.message}"


# ---- generated code -----------------------------------------------------------------------------


def _models() -> Any:
    return importlib.import_module("tinker_api.models")


def _model_problems(side: str, name: str, value: Any) -> Iterator[str]:
    model = getattr(_models(), name).from_dict(value)
    yield from _same(f"{side} read as {name}", plain(model), value)


def _read_reply(operation: doc.Operation, status: int, text: str) -> Any:
    row = importlib.import_module("tinker_api.operations").OPERATIONS[operation.id]
    return row.read(status, {"content-type": JSON}, text.encode())


def plain(value: Any) -> Any:
    """Return the JSON value a generated object stands for, through the generated encoder."""
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    elif hasattr(value, "raw"):
        value = value.raw
    return json.loads(importlib.import_module("tinker_api.types").dumps(value))


def _same(what: str, got: Any, wanted: Any) -> Iterator[str]:
    if not same_json(got, wanted):
        yield f"{what} becomes {json.dumps(got)} instead of {json.dumps(wanted)}"


def same_json(left: Any, right: Any) -> bool:
    """Compare JSON values; unlike ``==``, 1, 1.0 and true are three different values."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_json(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)


def _unpacked(data: bytes, headers: dict[str, str]) -> bytes:
    if headers.get("content-encoding") != "zstd":
        return data
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


def _protobuf_problems(name: str, data: bytes, decoded: str | None) -> Iterator[str]:
    from google.protobuf import text_format
    from google.protobuf.unknown_fields import UnknownFieldSet

    kind = getattr(importlib.import_module("tinker_proto.tinker_pb2"), name)
    message = kind.FromString(data)
    if len(UnknownFieldSet(message)):
        yield "the protobuf body has fields the .proto file does not know"
    if kind.FromString(message.SerializeToString()) != message:
        yield "the protobuf body changes in a round trip"
    if decoded is not None and text_format.Parse(decoded, kind()) != message:
        yield "the protobuf body differs from the recorder's own reading of it"


def main(paths: list[str]) -> int:
    """Check the named recordings and print what was found."""
    failed = False
    for name in paths:
        outcome = check_file(Path(name))
        print(name, dict(outcome.counts), f"{len(outcome.operations)} operations")
        for line in [*outcome.failures, *(f"unknown member: {text}" for text in outcome.unknown)]:
            print("  " + line)
        failed = failed or bool(outcome.failures)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
