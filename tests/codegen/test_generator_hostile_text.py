"""M6: hostile text in a document never becomes code."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from codegen import regenerate

Document = dict[str, Any]
HOSTILE = [
    '"""; import os; os.system("id") #',
    "'''; import os #",
    'ends with a quote"',
    "ends with a backslash\\",
    'quote and backslash \\"',
    "line one\n\nimport os\nos.abort()",
    "carriage\rreturn and\ttab",
    "{{ 7 * 7 }} {% raw %} {# gone #} {%- set x = 1 -%}",
    "{x.__class__} %s %(a)s ${HOME} `id`",
    "\\x41 \\u0041 \\N{BULLET} \\",
    "]]></script><!-- \u2028 \u2029 \u202e \ufeff",
    '")\nraise SystemExit(1)\n("',
    "x" * 300 + '"""' + "\\" * 301,
]


def texts(document: Document, values: Iterator[str]) -> Document:
    """Put a text into every place of the document that holds free text."""
    schemas = document["components"]["schemas"]
    operation = document["paths"]["/things/{thing_id}"]["post"]
    document["info"].update(title=next(values), description=next(values))
    for schema in schemas.values():
        schema.update(title=next(values), description=next(values))
        for node in schema.get("properties", {}).values():
            if "$ref" not in node:
                node.update(description=next(values), title=next(values))
    schemas["Color"]["enum"] = [next(values) + "1", next(values) + "2"]
    schemas["Request"]["properties"]["color"]["default"] = schemas["Color"]["enum"][0]
    schemas["Dog"]["properties"]["name"]["default"] = next(values)
    tag = next(values) + "tag"
    schemas["Cat"]["properties"]["kind"].update(const=tag, default=tag)
    schemas["Pet"]["discriminator"]["mapping"] = {}
    schemas["Reply"]["properties"]["marks"]["x-default"] = {next(values): next(values)}
    operation.update(summary=next(values), description=next(values))
    for parameter in operation["parameters"]:
        parameter["description"] = next(values)
    operation["parameters"][1]["schema"]["enum"] = [next(values) + "1", next(values) + "2"]
    operation["responses"]["200"]["description"] = next(values)
    return document


def cycle(values: list[str], start: int) -> Iterator[str]:
    """Yield the values for ever, from a place of our choice."""
    while True:
        yield values[start % len(values)]
        start += 1


def generate(document: Document, target: Path) -> dict[str, str]:
    """Run the generator and return the code by relative path."""
    source = target.with_suffix(".yaml")
    source.write_text(yaml.safe_dump(document), encoding="utf-8")
    regenerate.generate_api(source, target)
    return {
        path.relative_to(target).as_posix(): path.read_text("utf-8")
        for path in target.rglob("*.py")
    }


class Blank(ast.NodeTransformer):
    """Replaces literals, and names on request, so that only the shape of code is left."""

    def __init__(self, names: bool) -> None:
        self.names = names

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("text") if isinstance(node.value, str) else node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name("name", node.ctx) if self.names else node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        self.generic_visit(node)
        node.arg = "name" if self.names else node.arg
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        self.generic_visit(node)
        node.arg = "name" if self.names else node.arg
        return node


def shape(code: str, *, names: bool = False) -> str:
    """Return the syntax tree of a module without its literals."""
    return ast.dump(Blank(names).visit(ast.parse(code)))


@pytest.fixture(scope="module")
def plain() -> dict[str, str]:
    """Filled by the first test: the code for harmless text."""
    return {}


@pytest.mark.parametrize("start", [0, 5, 9])
def test_hostile_text_changes_literals_only(
    document: Document, tmp_path: Path, plain: dict[str, str], start: int
) -> None:
    """M6: titles, descriptions, enum values, constants and defaults are literals, nothing else."""
    if not plain:
        harmless = texts(yaml.safe_load(yaml.safe_dump(document)), cycle(["word"], 0))
        plain.update(generate(harmless, tmp_path / "plain"))
    hostile = texts(document, cycle(HOSTILE, start))
    code = generate(hostile, tmp_path / f"hostile{start}")
    assert code.keys() == plain.keys()
    for name, text in code.items():
        assert shape(text) == shape(plain[name]), name


def test_hostile_values_survive(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M6: the generated package runs, and values are exactly those of the document."""
    schemas = texts(document, cycle(HOSTILE, 3))["components"]["schemas"]
    generate(document, tmp_path / "hostile_values")
    monkeypatch.syspath_prepend(str(tmp_path))
    models = importlib.import_module("hostile_values.models")
    assert list(models.COLOR_VALUES) == schemas["Color"]["enum"]
    assert models.Dog().name == schemas["Dog"]["properties"]["name"]["default"]
    assert models.Cat().to_dict() == {"kind": schemas["Cat"]["properties"]["kind"]["const"]}
    assert models.Request(numbers=[]).color == schemas["Color"]["enum"][0]
    assert (
        models.Reply(pet=models.Cat()).marks == schemas["Reply"]["properties"]["marks"]["x-default"]
    )
    with pytest.raises(ValueError, match="use one of"):
        models.Request(numbers=[], color="blue")
    call = importlib.import_module("hostile_values.api.things.make_thing")
    with pytest.raises(ValueError, match="use one of"):
        call.OPERATION.build(thing_id="a", body=models.Request(numbers=[]), x_mode="red")
    for name in [name for name in sys.modules if name.startswith("hostile_values")]:
        monkeypatch.delitem(sys.modules, name)


NAMES = [
    'a"; import os',
    "{{ x }}",
    "b\nimport os",
    "class",
    "from_dict",
    "to_dict",
    "models",
    "additional_properties",
    "self",
    "cls",
    "type",
    "__init__",
    "1st",
    "d'''",
    "$ref-like",
]


def renamed(document: Document, name: Callable[[int], str]) -> Document:
    """Give a schema properties of chosen names."""
    schema = {
        "type": "object",
        "properties": {name(i): {"type": "string"} for i in range(len(NAMES))},
    }
    document["components"]["schemas"]["Names"] = schema
    return document


def test_hostile_property_names_become_safe_attributes(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M6: a name turns into an identifier and a key literal; nothing else changes."""
    harmless = renamed(yaml.safe_load(yaml.safe_dump(document)), lambda i: f"name_{i}")
    before = generate(harmless, tmp_path / "plain_names")
    after = generate(renamed(document, lambda i: NAMES[i]), tmp_path / "hostile_names")
    assert before.keys() == after.keys()
    for name, text in after.items():
        assert shape(text, names=True) == shape(before[name], names=True), name
    monkeypatch.syspath_prepend(str(tmp_path))
    names = importlib.import_module("hostile_names.models").Names
    raw = dict.fromkeys(NAMES, "x")
    assert names.from_dict(raw).to_dict() == raw
    assert names.from_dict(raw).additional_properties == {}
