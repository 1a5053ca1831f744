"""M3 M41: the annotations of generated code can be read while a program runs, and load no more."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import attrs
import pytest
from tinker_api import models
from tinker_api.operations import Operation

GENERATED = Path(__file__).resolve().parents[2] / "generated"
PUBLIC = [getattr(models, name) for name in models.__all__]
RECORDS = [item for item in PUBLIC if inspect.isclass(item)]
READERS = [item for item in PUBLIC if inspect.isfunction(item)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_the_annotations_of_a_record_resolve(record: type[Any]) -> None:
    """M41: what cattrs, typeguard and editors ask of a class has an answer for each field."""
    hints = get_type_hints(record)
    attrs.resolve_types(record)
    assert [field.type for field in attrs.fields(record)] == [
        hints[field.name] for field in attrs.fields(record)
    ]
    assert get_type_hints(record.__init__).keys() >= {
        field.alias for field in attrs.fields(record) if field.init
    }


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_the_annotations_of_a_reader_resolve(reader: Any) -> None:
    """M41: a union is named by the function that reads it."""
    assert get_type_hints(reader)["return"]


@pytest.mark.parametrize("name", ["request_model", "result_model", "parse_result", "prepare"])
def test_the_annotations_of_an_operation_resolve(name: str) -> None:
    """M41: those of the table of operations too."""
    member = inspect.getattr_static(Operation, name)
    assert get_type_hints(getattr(member, "fget", member))["return"]


def test_a_record_loads_no_other_before_its_annotations_are_read() -> None:
    """M39: a model that refers to others costs one module until somebody asks for them."""
    code = (
        "import sys, typing\n"
        "from tinker_api.models import CreateModelRequest\n"
        "loaded = lambda: sorted(n for n in sys.modules if n.startswith('tinker_api.models.'))\n"
        "assert loaded() == ['tinker_api.models.create_model_request'], loaded()\n"
        "typing.get_type_hints(CreateModelRequest)\n"
        "assert 'tinker_api.models.lora_config' in loaded()\n"
    )
    environment = {"PYTHONPATH": str(GENERATED)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_generated_code_has_no_empty_block() -> None:
    """M5: what a template had nothing to fill with is not printed."""
    empty = [
        path.name
        for path in sorted((GENERATED / "tinker_api").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.If) and isinstance(node.body[0], ast.Pass)
    ]
    assert not empty
