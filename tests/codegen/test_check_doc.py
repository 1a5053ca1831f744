"""M5: check_doc finds everything that generated code would silently leave out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from codegen import check_doc

Document = dict[str, Any]


def schemas(document: Document) -> Document:
    return document["components"]["schemas"]


def operation(document: Document) -> Document:
    return document["paths"]["/things/{thing_id}"]["post"]


def put(target: Document, **values: Any) -> None:
    target.update({key.replace("__", "-"): value for key, value in values.items()})


def call(document: Document, **values: Any) -> None:
    put(operation(document)["x-tinker-call"], **values)


def ticket(document: Document, **values: Any) -> None:
    """Let the operation answer with a ticket; values say what it stands for."""
    schemas(document)["UntypedAPIFuture"] = {"type": "object", "properties": {"request_id": {}}}
    schemas(document)["FutureRetrieveResponse"] = {"oneOf": [{"$ref": "#/components/schemas/Cat"}]}
    content = operation(document)["responses"]["200"]["content"]
    content["application/json"]["schema"] = {"$ref": "#/components/schemas/UntypedAPIFuture"}
    kind = {"type": "string", "enum": ["Thing"]}
    operation(document)["parameters"].append(
        {"name": "X-Tinker-Request-Type", "in": "header", "schema": kind}
    )
    if values:
        call(document, **values, request__type="Make")


PLANTED: list[tuple[str, Callable[[Document], Any]]] = [
    ("OpenAPI 3.0 and 3.1 only", lambda d: put(d, openapi="3.2.0")),
    ("beside $ref is ignored", lambda d: put(schemas(d)["Reply"]["properties"]["pet"], default={})),
    (
        "description beside $ref",
        lambda d: put(schemas(d)["Reply"]["properties"]["pet"], description="x"),
    ),
    (
        "not below #/components",
        lambda d: put(schemas(d)["Reply"]["properties"], pet={"$ref": "https://x/y.json"}),
    ),
    (
        "points nowhere",
        lambda d: put(schemas(d)["Reply"]["properties"], pet={"$ref": "#/components/schemas/No"}),
    ),
    (
        "oneOf or anyOf inside allOf",
        lambda d: put(schemas(d)["Reply"], allOf=[{"oneOf": [{"type": "object"}]}]),
    ),
    (
        "beside allOf is dropped",
        lambda d: put(schemas(d)["Pet"], allOf=[{"$ref": "#/components/schemas/Cat"}]),
    ),
    (
        "over an inherited property",
        lambda d: put(
            schemas(d),
            Kitten={
                "allOf": [{"$ref": "#/components/schemas/Dog"}],
                "properties": {"name": {"type": "string", "const": "Tom"}},
            },
        ),
    ),
    (
        "array or object is dropped",
        lambda d: put(schemas(d)["Request"]["properties"]["numbers"], default=[1]),
    ),
    ("const null", lambda d: put(schemas(d)["Request"]["properties"], none={"const": None})),
    (
        "must be the const",
        lambda d: put(schemas(d)["Cat"]["properties"]["kind"], default="dog"),
    ),
    ("is not in the enum", lambda d: put(schemas(d)["Color"], default="blue")),
    ("only strings or only integers", lambda d: put(schemas(d)["Color"], enum=["red", 1])),
    ("only strings or only integers", lambda d: put(schemas(d)["Color"], enum=[True, False])),
    ("only strings or only integers", lambda d: put(schemas(d)["Color"], enum=[0.5])),
    ("nullable is OpenAPI 3.0", lambda d: put(schemas(d)["Color"], nullable=True)),
    (
        "prefixItems has no effect",
        lambda d: put(schemas(d)["Request"]["properties"]["numbers"], prefixItems=[{}]),
    ),
    ("patternProperties has no", lambda d: put(schemas(d)["Reply"], patternProperties={"a": {}})),
    ("$defs has no effect", lambda d: schemas(d)["Reply"].update({"$defs": {"A": {}}})),
    (
        "if has no effect",
        lambda d: schemas(d)["Reply"].update({"if": {"properties": {"a": {"type": "string"}}}}),
    ),
    (
        "an array needs items",
        lambda d: put(schemas(d)["Request"]["properties"], numbers={"type": "array"}),
    ),
    (
        "an array needs items",
        lambda d: put(schemas(d)["Request"]["properties"]["numbers"], items=False),
    ),
    ("which is not a property", lambda d: put(schemas(d)["Reply"], required=["pet", "ghost"])),
    (
        "which is not a member",
        lambda d: schemas(d)["Pet"]["discriminator"]["mapping"].update(
            red="#/components/schemas/Color"
        ),
    ),
    (
        "must be const 'cat'",
        lambda d: put(schemas(d)["Cat"]["properties"], kind={"type": "string"}),
    ),
    ("cannot be read", lambda d: put(schemas(d)["Pet"], x__decision__order=["maybe: Cat"])),
    (
        "x-decision-order names Fox",
        lambda d: put(schemas(d)["Pet"], x__decision__order=["kind is cat: Fox"]),
    ),
    ("x-secrte is not an extension", lambda d: put(schemas(d)["Reply"], x__secrte=True)),
    (
        "$ref of a path is ignored",
        lambda d: d["paths"].update({"/other": {"$ref": "#/components/pathItems/x"}}),
    ),
    ("servers of a path", lambda d: put(d["paths"]["/things/{thing_id}"], servers=[])),
    ("callbacks of an operation", lambda d: put(operation(d), callbacks={})),
    ("exactly one tag", lambda d: put(operation(d), tags=["things", "more"])),
    ("exactly one tag", lambda d: operation(d).pop("tags")),
    ("needs an operationId", lambda d: operation(d).pop("operationId")),
    ("overwrites", lambda d: d["paths"].update({"/x": {"get": dict(operation(d))}})),
    ("links are ignored", lambda d: put(operation(d)["responses"]["200"], links={})),
    ("the response is dropped", lambda d: put(operation(d)["responses"], **{"20X": {}})),
    ("webhooks are ignored", lambda d: put(d, webhooks={})),
    (
        "only one JSON media type",
        lambda d: operation(d)["responses"]["200"]["content"].update({"application/x+json": {}}),
    ),
    (
        "have no template",
        lambda d: operation(d)["requestBody"]["content"].update({"multipart/form-data": {}}),
    ),
    (
        "one block of text",
        lambda d: operation(d)["responses"]["200"]["content"].update({"text/event-stream": {}}),
    ),
    (
        "only one binary media type",
        lambda d: operation(d)["requestBody"]["content"].update({"a/b": {}, "c/d": {}}),
    ),
    ("without schema is skipped", lambda d: operation(d)["parameters"][2].pop("schema")),
    (
        "must be one value",
        lambda d: put(operation(d)["parameters"][1], schema={"type": "array", "items": {}}),
    ),
    ("usual parameter style", lambda d: put(operation(d)["parameters"][2], style="deepObject")),
    ("allowReserved", lambda d: put(operation(d)["parameters"][2], allowReserved=True)),
    (
        "explode: false",
        lambda d: put(
            operation(d)["parameters"][2], explode=False, schema={"type": "array", "items": {}}
        ),
    ),
    (
        "credentials in a header",
        lambda d: put(
            d["components"], securitySchemes={"q": {"type": "apiKey", "in": "query", "name": "k"}}
        ),
    ),
    ("needs x-tinker-call", lambda d: operation(d).pop("x-tinker-call")),
    ("lane is 'slow'; use one of session", lambda d: call(d, lane="slow")),
    ("retry is None; use one of read", lambda d: call(d, retry=None)),
    ("seconds is 0; use a number", lambda d: call(d, seconds=0)),
    ("seconds is True; use a number", lambda d: call(d, seconds=True)),
    ("seconds is 'ten'; use a number", lambda d: call(d, seconds="ten")),
    ("feature must say", lambda d: call(d, feature=" ")),
    ("has no key 'lanes'", lambda d: call(d, lanes="rest")),
    ("has yields or request-type, the reply is not a ticket", lambda d: call(d, yields="Cat")),
    ("needs yields and request-type, the reply is a ticket", lambda d: ticket(d)),
    ("yields is 'Dog'; use one of Cat", lambda d: ticket(d, yields="Dog")),
    ("request-type is 'Make'; use one of Thing", lambda d: ticket(d, yields="Cat")),
    ("x-tinker-eras must name", lambda d: operation(d).pop("x-tinker-eras")),
    ("name of the table itself", lambda d: put(operation(d), operationId="operations")),
    (
        "is that of",
        lambda d: put(d["paths"], **{"/again": {"get": dict(operation(d), tags=["x"])}}),
    ),
    (
        "'thing_id' is an argument twice",
        lambda d: put(schemas(d)["Request"]["properties"], thing_id={"type": "string"}),
    ),
    (
        "must be a reference to an object",
        lambda d: put(
            operation(d)["requestBody"]["content"]["application/json"],
            schema={"$ref": "#/components/schemas/Pet"},
        ),
    ),
]


def test_a_clean_document_has_no_findings(document: Document) -> None:
    """M5: no false alarm on the features that work."""
    assert check_doc.findings(document) == []


def test_the_contract_is_clean() -> None:
    """M1: the document of this project passes."""
    assert check_doc.main([]) == 0


@pytest.mark.parametrize(("message", "plant"), PLANTED)
def test_each_planted_loss_is_found(
    document: Document, message: str, plant: Callable[[Document], Any]
) -> None:
    """M5: each feature the generator drops is named with its place."""
    plant(document)
    found = check_doc.findings(document)
    assert any(message in problem for _, problem in found), found
    assert all(place.startswith("#") for place, _ in found)


def test_conditions_that_only_ask_for_keys_are_fine(document: Document) -> None:
    """M5: such a condition is for validators and changes no type."""
    schemas(document)["Request"].update(
        {"if": {"required": ["color"]}, "then": {"not": {"required": ["limit"]}}}
    )
    assert check_doc.findings(document) == []


def test_command_line(
    document: Document, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M5: one line for each finding and exit code 1."""
    operation(document).pop("operationId")
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(document))
    assert check_doc.main([str(path)]) == 1
    assert "#/paths//things/{thing_id}/post: an operation needs" in capsys.readouterr().err
