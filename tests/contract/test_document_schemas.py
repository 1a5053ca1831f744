"""The schemas of the document: every wire type is there, explained, with an example that fits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contract.document import component_validator as validator
from contract.document import load_document
from rows import for_each

REPOSITORY = Path(__file__).resolve().parents[2]
TEXT = (REPOSITORY / "openapi" / "tinker.yaml").read_text(encoding="utf-8")
DOCUMENT = load_document()
SCHEMAS: dict[str, dict[str, Any]] = DOCUMENT["components"]["schemas"]
WIRE = json.loads((REPOSITORY / "tests/data/contract/wire_types.json").read_text(encoding="utf-8"))
REF = "#/components/schemas/"

# Strict in requests, but also found in answers, where a new key must not be lost.
OPEN_BECAUSE_ANSWERED = {"AdamOptimizerConfig", "DimuonOptimizerConfig"}

UNIONS = {
    "ModelInputChunk": (
        "type",
        {
            "encoded_text": "EncodedTextChunk",
            "image": "ImageChunk",
            "image_asset_pointer": "ImageAssetPointerChunk",
            "dmel": "DmelChunk",
        },
    ),
    "OptimizerConfig": (
        "type",
        {"adamw": "AdamOptimizerConfig", "dimuon": "DimuonOptimizerConfig"},
    ),
    "OptimParams": ("type", {"dimuon": "DimuonParams"}),
    "FutureCompletion": ("state", {"finished": "FutureFinished", "failed": "FutureFailed"}),
    "FuturesTarget": ("type", {"sampling_session": "SamplingSessionFuturesTarget"}),
    "BillingEventInfo": (
        "type",
        {
            "training": "TrainingBillingEvent",
            "sampling_prefill": "SamplingPrefillBillingEvent",
            "sampling_sample": "SamplingSampleBillingEvent",
            "checkpoint": "CheckpointBillingEvent",
            "storage": "StorageBillingEvent",
        },
    ),
    "SessionStatus": (
        "type",
        {
            "failed": "SessionFailed",
            "cancelled": "SessionCancelled",
            "client_finished": "ClientSessionFinished",
            "active": "SessionActive",
        },
    ),
    "SessionFailedReason": (
        "type",
        {
            "request": "SessionFailedRequestReason",
            "training_run": "SessionFailedTrainingRunReason",
            "sampling_session": "SessionFailedSamplingSessionReason",
        },
    ),
    "ClientSessionFinishReason": (
        "type",
        {
            "success": "ClientSessionFinishSuccess",
            "errored": "ClientSessionFinishErrored",
            "interrupted": "ClientSessionFinishInterrupted",
        },
    ),
    "SearchOwner": (
        "type",
        {
            "own": "OwnSearchOwner",
            "accessible": "AccessibleSearchOwner",
            "user": "UserSearchOwner",
        },
    ),
    "SessionStatusQuery": (
        "type",
        {
            "active": "ActiveSessionStatusQuery",
            "cancelled": "CancelledSessionStatusQuery",
            "failed": "FailedSessionStatusQuery",
            "client_finished": "ClientFinishedSessionStatusQuery",
        },
    ),
    "TelemetryEvent": (
        "event",
        {
            "SESSION_START": "SessionStartEvent",
            "SESSION_END": "SessionEndEvent",
            "UNHANDLED_EXCEPTION": "UnhandledExceptionEvent",
            "GENERIC_EVENT": "GenericEvent",
        },
    ),
    "FutureRetrieveResponse": (
        "type",
        {
            "try_again": "TryAgainResponse",
            "create_model": "CreateModelResponse",
            "unload_model": "UnloadModelResponse",
            "sample": "SampleResponse",
            "save_weights": "SaveWeightsResponse",
            "load_weights": "LoadWeightsResponse",
            "save_weights_for_sampler": "SaveWeightsForSamplerResponseInternal",
            "save_weights_external": "SaveWeightsExternalResponseInternal",
            "create_custom_loss": "CreateCustomLossResponse",
        },
    ),
}


def names_referred_to(node: object) -> Iterator[str]:
    """Yield the component schemas that a piece of the document refers to."""
    yield from re.findall(REF + r"(\w+)", json.dumps(node))


def schemas_reached_from(node: object) -> set[str]:
    """Return the component schemas reachable from a piece of the document."""
    seen: set[str] = set()
    waiting = list(names_referred_to(node))
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(names_referred_to(SCHEMAS[name]))
    return seen


def closed_enums(node: object) -> Iterator[list[object]]:
    """Yield the value lists that are marked as closed anywhere in a piece of the document."""
    if isinstance(node, dict):
        if node.get("x-closed-enum"):
            yield node["enum"]
        for child in node.values():
            yield from closed_enums(child)
    elif isinstance(node, list):
        for child in node:
            yield from closed_enums(child)


@for_each(WIRE["names"])
def test_wire_type_is_described(name: str) -> None:
    """M1: the document has every type of the wire reference."""
    assert name in SCHEMAS


@for_each(sorted(SCHEMAS))
def test_schema_has_one_example_that_fits(name: str) -> None:
    """M1: each schema has an example, and the schema accepts it."""
    (example,) = SCHEMAS[name]["examples"]
    assert [error.message for error in validator(name).iter_errors(example)] == []


@for_each(sorted(SCHEMAS))
def test_schema_and_fields_are_explained(name: str) -> None:
    """M1: each schema and each of its fields says what it is."""
    schema = SCHEMAS[name]
    parts = {name: schema, **schema.get("properties", {})}
    silent = [part for part, node in parts.items() if len(node.get("description", "")) < 5]
    assert silent == []


@for_each((row["schema"], row["field"], row["era"]) for row in WIRE["era_fields"])
def test_field_says_which_era(name: str, field: str, era: str) -> None:
    """M1: a field on which the eras differ names the era that sends or accepts it."""
    text = SCHEMAS[name]["properties"][field]["description"].lower()
    if era == "both":
        assert re.search(r"era 0\.(4\.1|36\.0)", text)
    else:
        assert f"era {era} only" in text


@for_each(sorted(WIRE["era_only_types"].items()))
def test_type_of_one_era_says_so(name: str, era: str) -> None:
    """M1: a type that only one era knows says which."""
    assert f"Era {era} only" in SCHEMAS[name]["description"]


@for_each(WIRE["strict"])
def test_strict_requests_refuse_unknown_keys(name: str) -> None:
    """M4: a request type that servers read strictly refuses a key it does not know."""
    if name in OPEN_BECAUSE_ANSWERED:
        assert "additionalProperties" not in SCHEMAS[name]
        return
    stranger = {**SCHEMAS[name]["examples"][0], "key_nobody_knows": 1}
    assert not validator(name).is_valid(stranger)


@for_each(sorted(UNIONS))
def test_union_is_tagged(name: str) -> None:
    """M2: each union maps every tag to the member whose tag it is."""
    tag, members = UNIONS[name]
    schema = SCHEMAS[name]
    assert schema["discriminator"] == {
        "propertyName": tag,
        "mapping": {value: REF + member for value, member in members.items()},
    }
    listed = {entry["$ref"] for entry in schema.get("oneOf", schema.get("anyOf", []))}
    assert listed >= {REF + member for member in members.values()}
    for value, member in members.items():
        node = SCHEMAS[member]["properties"][tag]
        assert {"type": "string", "const": value}.items() <= (
            node | node.get("oneOf", [{}])[0]
        ).items()


@for_each(
    [
        ({"tokens": [1, 2]}, True),
        ({"data": "iVBORw==", "format": "png", "height": 4, "tokens": 7, "width": 5}, True),
        ({"format": "png", "height": 4, "location": "s3://x", "tokens": 7, "width": 5}, True),
        ({"type": "dmel", "dmel": "AAIDBAk="}, True),
        ({"type": "image", "tokens": [1]}, False),
        ({"tokens": "oops"}, False),
        ({}, False),
    ]
)
def test_chunks_with_and_without_tags(chunk: dict[str, Any], fits: bool) -> None:
    """M10: chunks of the era without tags are told apart by their keys; nonsense fits nothing."""
    assert validator("ModelInputChunk").is_valid(chunk) is fits


@for_each(
    [
        ({"type": "adamw"}, True),
        ({}, True),
        ({"type": "dimuon", "version": 1}, True),
        ({"type": "sophia", "rho": 0.04}, True),
        ({"type": 3}, False),
    ]
)
def test_optimizer_families(config: dict[str, Any], fits: bool) -> None:
    """M14: known families, a missing tag and unknown families pass; a tag that is no text fails."""
    assert validator("OptimizerConfig").is_valid(config) is fits


@for_each(
    [
        ({"adam_params": {}}, True),
        ({"optimizer_params": {"type": "dimuon", "learning_rate": 0.1}}, True),
        ({}, False),
        ({"adam_params": {}, "optimizer_params": {"type": "x"}}, False),
    ]
)
def test_optim_step_takes_exactly_one_kind_of_settings(keys: dict[str, Any], fits: bool) -> None:
    """M14: a step has AdamW settings or settings of another family, never both or none."""
    assert validator("OptimStepRequest").is_valid({"model_id": "m", **keys}) is fits


def test_meaningful_nulls_are_required() -> None:
    """M4: where null says something, the key must be present and may be null."""
    marked = {
        (name, field)
        for name, schema in SCHEMAS.items()
        for field, node in schema.get("properties", {}).items()
        if node.get("x-null-meaningful")
    }
    assert marked == {
        ("SetCheckpointTtlRequest", "ttl_seconds"),
        ("FinishSessionRequest", "detail"),
    }
    for name, field in marked:
        assert field in SCHEMAS[name]["required"]
        assert "null" in SCHEMAS[name]["properties"][field]["type"]


def test_optional_nullable_fields_default_to_null() -> None:
    """M4: null and absent mean the same, but where null stands for a number that was not finite."""
    wrong = []
    for name, schema in SCHEMAS.items():
        if name == "AdamParams":
            continue
        for field, node in schema.get("properties", {}).items():
            kinds = [entry.get("type") for entry in node.get("oneOf", node.get("anyOf", []))]
            nullable = "null" in [
                *kinds,
                *(node["type"] if isinstance(node.get("type"), list) else []),
            ]
            if (
                nullable
                and field not in schema.get("required", [])
                and node.get("default", 0) is not None
            ):
                wrong.append((name, field))
    assert wrong == []


def test_enums_are_open_on_answers_and_closed_on_requests() -> None:
    """M3: nothing an answer can hold is a closed list, and LossFnType is one."""
    responses = [
        operation["responses"]
        for item in DOCUMENT["paths"].values()
        for operation in item.values()
        if isinstance(operation, dict) and "responses" in operation
    ]
    reached = schemas_reached_from([responses, DOCUMENT["components"]["responses"]])
    assert "TrainingRun" in reached
    closed = {name: list(closed_enums(SCHEMAS[name])) for name in reached}
    assert {name: lists for name, lists in closed.items() if lists} == {}
    assert not validator("LossFnType").is_valid("cross_entrophy")
    assert validator("CheckpointType").is_valid("some_new_type")
    assert validator("RequestErrorCategory").is_valid("some_new_category")


def test_schemas_are_sorted_and_readable() -> None:
    """M1: schemas stand in order, lines are short, and nothing hides behind YAML anchors."""
    assert list(SCHEMAS) == sorted(SCHEMAS)
    section = TEXT[TEXT.index("\n  schemas:\n") :].splitlines()
    assert [line for line in section if len(line) > 120 or "\t" in line] == []
    assert [line for line in section if re.search(r"(:|-) [&*]\w", line)] == []


def test_types_that_never_travel_are_marked() -> None:
    """M1: a type that no operation uses is marked as client-built, unless it is a value list."""
    parts = [DOCUMENT["paths"], {k: v for k, v in DOCUMENT["components"].items() if k != "schemas"}]
    reached = schemas_reached_from(parts)
    marked = {name for name, schema in SCHEMAS.items() if schema.get("x-client-only")}
    idle = {name for name in SCHEMAS if name not in reached and "enum" not in SCHEMAS[name]}
    assert marked == idle
