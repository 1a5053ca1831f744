"""M5: spec_diff tells breaking from compatible changes and asks for a version."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from codegen import spec_diff
from codegen.spec_diff import Kind

Document = dict[str, Any]
BREAKING, COMPATIBLE = Kind.BREAKING, Kind.COMPATIBLE


def schemas(document: Document) -> Document:
    return document["components"]["schemas"]


def operation(document: Document) -> Document:
    return document["paths"]["/things/{thing_id}"]["post"]


def parameter(name: str, *, required: bool) -> Document:
    return {"name": name, "in": "query", "required": required, "schema": {"type": "string"}}


CHANGES: list[tuple[Kind, str, Callable[[Document], Any]]] = [
    (BREAKING, "operation POST /things/{thing_id} removed", lambda d: d["paths"].clear()),
    (
        COMPATIBLE,
        "operation GET /x added",
        lambda d: d["paths"].update({"/x": {"get": {"responses": {}}}}),
    ),
    (BREAKING, "operationId make_thing became", lambda d: operation(d).update(operationId="make")),
    (BREAKING, "tags ['things'] became", lambda d: operation(d).update(tags=["other"])),
    (
        BREAKING,
        "its future yields Dog, not None",
        lambda d: operation(d)["x-tinker-call"].update({"yields": "Dog", "request-type": "X"}),
    ),
    (BREAKING, "parameter query page removed", lambda d: operation(d)["parameters"].pop(2)),
    (
        BREAKING,
        "required parameter query new added",
        lambda d: operation(d)["parameters"].append(parameter("new", required=True)),
    ),
    (
        COMPATIBLE,
        "optional parameter query new added",
        lambda d: operation(d)["parameters"].append(parameter("new", required=False)),
    ),
    (
        BREAKING,
        "parameter query page became required",
        lambda d: operation(d)["parameters"][2].update(required=True),
    ),
    (
        BREAKING,
        "value 'slow' removed",
        lambda d: operation(d)["parameters"][1]["schema"].update(enum=["fast"]),
    ),
    (
        COMPATIBLE,
        "body became optional",
        lambda d: operation(d)["requestBody"].update(required=False),
    ),
    (BREAKING, "response 200 removed", lambda d: operation(d)["responses"].pop("200")),
    (COMPATIBLE, "response 404 added", lambda d: operation(d)["responses"].update({"404": {}})),
    (
        BREAKING,
        "media type application/json removed",
        lambda d: operation(d)["responses"]["200"]["content"].clear(),
    ),
    (
        BREAKING,
        "Reply became Request",
        lambda d: operation(d)["responses"]["200"]["content"].update(
            {"application/json": {"schema": {"$ref": "#/components/schemas/Request"}}}
        ),
    ),
    (BREAKING, "schema Dog removed", lambda d: schemas(d).pop("Dog")),
    (COMPATIBLE, "schema Fox added", lambda d: schemas(d).update(Fox={"type": "object"})),
    (
        BREAKING,
        "property limit removed",
        lambda d: schemas(d)["Request"]["properties"].pop("limit"),
    ),
    (
        COMPATIBLE,
        "optional property new added",
        lambda d: schemas(d)["Request"]["properties"].update(new={"type": "string"}),
    ),
    (
        BREAKING,
        "property limit became required",
        lambda d: schemas(d)["Request"].update(required=["numbers", "limit"]),
    ),
    (
        COMPATIBLE,
        "property numbers became optional",
        lambda d: schemas(d)["Request"].update(required=[]),
    ),
    (BREAKING, "property pet became optional", lambda d: schemas(d)["Reply"].update(required=[])),
    (
        BREAKING,
        "required property age added",
        lambda d: schemas(d)["Reply"].update(
            required=["pet", "age"],
            properties={**schemas(d)["Reply"]["properties"], "age": {"type": "integer"}},
        ),
    ),
    (
        BREAKING,
        "property pets became required",
        lambda d: schemas(d)["Reply"].update(required=["pet", "pets"]),
    ),
    (
        BREAKING,
        "type null removed",
        lambda d: schemas(d)["Request"]["properties"]["limit"].update(type="integer"),
    ),
    (
        COMPATIBLE,
        "type string added",
        lambda d: schemas(d)["Request"]["properties"]["limit"].update(
            type=["integer", "null", "string"]
        ),
    ),
    (
        BREAKING,
        "type null added",
        lambda d: schemas(d)["Cat"]["properties"]["lives"].update(type=["integer", "null"]),
    ),
    (
        BREAKING,
        "minimum 1 became 5",
        lambda d: schemas(d)["Request"]["properties"]["limit"].update(minimum=5),
    ),
    (
        COMPATIBLE,
        "minimum 1 became 0",
        lambda d: schemas(d)["Request"]["properties"]["limit"].update(minimum=0),
    ),
    (BREAKING, "value 'green' removed", lambda d: schemas(d)["Color"].update(enum=["red"])),
    (COMPATIBLE, "value 'blue' added", lambda d: schemas(d)["Color"]["enum"].append("blue")),
    (
        BREAKING,
        "default 9 became 7",
        lambda d: schemas(d)["Cat"]["properties"]["lives"].update(default=7),
    ),
    (
        BREAKING,
        "default 'red' became 'green'",
        lambda d: schemas(d)["Request"]["properties"]["color"].update(default="green"),
    ),
    (
        BREAKING,
        "const 'cat' became 'lion'",
        lambda d: schemas(d)["Cat"]["properties"]["kind"].update(const="lion", default="lion"),
    ),
    (BREAKING, "member Dog removed", lambda d: schemas(d)["Pet"]["oneOf"].pop()),
    (
        COMPATIBLE,
        "member Color added",
        lambda d: schemas(d)["Pet"]["oneOf"].append({"$ref": "#/components/schemas/Color"}),
    ),
    (
        BREAKING,
        "additionalProperties changed",
        lambda d: schemas(d)["Request"].update(additionalProperties=False),
    ),
]


def test_an_identical_document_has_no_changes(document: Document) -> None:
    """M5: silence when nothing changed, whatever the words say."""
    other = copy.deepcopy(document)
    schemas(other)["Cat"]["description"] = "Meows."
    schemas(other)["Cat"]["properties"]["lives"]["description"] = "Many."
    operation(other)["x-tinker-call"]["lane"] = "train"
    assert spec_diff.compare(document, other) == []


@pytest.mark.parametrize(("kind", "what", "change"), CHANGES)
def test_each_planted_change_is_found(
    document: Document, kind: Kind, what: str, change: Callable[[Document], Any]
) -> None:
    """M5: found, placed and judged."""
    new = copy.deepcopy(document)
    change(new)
    found = [c for c in spec_diff.compare(document, new) if what in c.what]
    assert found
    assert {c.kind for c in found} == {kind}


@pytest.mark.parametrize(
    ("version", "breaking", "code"),
    [
        ("0.1.0", False, 0),
        ("0.1.0", True, 1),
        ("0.1.9", True, 1),
        ("0.2.0", True, 0),
        ("1.0.0", True, 0),
    ],
)
def test_breaking_needs_a_version(
    document: Document,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    version: str,
    breaking: bool,
    code: int,
) -> None:
    """M5: a breaking change without a version bump fails; the report says what to do."""
    new = copy.deepcopy(document)
    new["info"]["version"] = version
    if breaking:
        schemas(new)["Reply"]["properties"].pop("pets")
    else:
        schemas(new)["Reply"]["properties"]["more"] = {"type": "string"}
    paths = [tmp_path / "old.yaml", tmp_path / "new.yaml"]
    for path, content in zip(paths, (document, new), strict=True):
        path.write_text(yaml.safe_dump(content))
    assert spec_diff.main([str(path) for path in paths]) == code
    report = capsys.readouterr().out
    assert ("Reply: property pets removed" in report) is breaking
    assert ("need a new minor version" in report) is (code == 1)


@pytest.mark.parametrize(("version", "code"), [("0.1.0", 1), ("0.2.0", 0)])
def test_mixed_changes_keep_their_verdict(
    document: Document,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    version: str,
    code: int,
) -> None:
    """M5, F43: one breaking change among compatible ones fails the whole, in whatever order."""
    new = copy.deepcopy(document)
    new["info"]["version"] = version
    schemas(new)["Aardvark"] = {"type": "object"}
    schemas(new)["Reply"]["properties"]["age"] = {"type": "integer"}
    schemas(new)["Reply"]["required"].append("age")
    schemas(new)["Zebra"] = {"type": "object"}
    changes = spec_diff.compare(document, new)
    assert [change.kind for change in changes] == [BREAKING, COMPATIBLE, COMPATIBLE]
    paths = [tmp_path / "old.yaml", tmp_path / "new.yaml"]
    for path, content in zip(paths, (document, new), strict=True):
        path.write_text(yaml.safe_dump(content))
    assert spec_diff.main([str(path) for path in paths]) == code
    report = capsys.readouterr().out
    assert "1 breaking change:\n  Reply: required property age added\n" in report
    assert "2 compatible changes:" in report
    assert ("need a new minor version" in report) is bool(code)
    assert ("the version allows breaking changes: 0.1.0 -> 0.2.0" in report) is not code


@pytest.mark.parametrize("way", ["sent", "received", "both"])
def test_the_direction_of_a_schema_decides(document: Document, way: str) -> None:
    """M5, F43: requests may take more; readers of responses refuse other types, not extra keys."""
    schema = {"type": "object", "properties": {"size": {"type": ["integer", "string"]}}}
    schemas(document)["Box"] = schema
    if way != "received":
        schemas(document)["Request"]["properties"]["box"] = {"$ref": "#/components/schemas/Box"}
    if way != "sent":
        schemas(document)["Reply"]["properties"]["box"] = {"$ref": "#/components/schemas/Box"}
    assert spec_diff.directions(document)["Box"] == way
    verdicts = []
    for kinds in (["integer", "string", "null"], ["integer"]):
        new = copy.deepcopy(document)
        schemas(new)["Box"]["properties"]["size"]["type"] = kinds
        verdicts += [change.kind for change in spec_diff.compare(document, new)]
    new = copy.deepcopy(document)
    schemas(new)["Box"]["additionalProperties"] = False
    verdicts += [change.kind for change in spec_diff.compare(document, new)]
    expected = {
        "sent": [COMPATIBLE, BREAKING, BREAKING],
        "received": [BREAKING, BREAKING, COMPATIBLE],
        "both": [BREAKING, BREAKING, BREAKING],
    }
    assert verdicts == expected[way]


def test_from_one_on_the_major_counts(document: Document) -> None:
    """M5: SemVer."""
    old, new = copy.deepcopy(document), copy.deepcopy(document)
    old["info"]["version"] = "1.2.0"
    for version, allowed in (("1.3.0", False), ("2.0.0", True)):
        new["info"]["version"] = version
        assert spec_diff.allows_breaking(old, new) is allowed


def test_wrong_usage_is_exit_code_two(tmp_path: Path) -> None:
    """M5: a missing or broken file is not a verdict."""
    broken = tmp_path / "broken.yaml"
    broken.write_text("[1, 2]")
    for arguments in ([str(tmp_path / "none.yaml")], [str(broken)], ["a", "b", "c"]):
        with pytest.raises(SystemExit) as caught:
            spec_diff.main(arguments)
        assert caught.value.code == 2


def test_the_contract_keeps_its_promises() -> None:
    """M5: the current document against the released copy."""
    assert spec_diff.main([]) == 0
