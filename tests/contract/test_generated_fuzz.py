"""Damaged and foreign bodies against every generated reader: typed errors or a faithful record."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from contract.document import load_document
from tinker_api import models
from tinker_api.base import Model
from tinker_api.errors import ApiError
from tinker_api.operations import OPERATIONS

EXAMPLES = [
    example
    for schema in load_document()["components"]["schemas"].values()
    for example in schema.get("examples", [])
]
CALLS = [*OPERATIONS.values()]
EVERY = [getattr(models, name) for name in models.__all__]
READERS = [item.from_dict for item in EVERY if isinstance(item, type) and issubclass(item, Model)]
READERS += [getattr(models, name) for name in models.__all__ if name.startswith("parse_")]
JUNK: list[Any] = [None, True, 0, -1, 1.5, "", "x", [], {}, [None], {"a": None}, [[]], 10**30, "é"]
TYPES = ["application/json"] * 4 + ["text/html", "application/x-protobuf", ""]


def damaged(value: Any, rng: random.Random) -> Any:
    """Return a copy with keys lost, renamed or exchanged for something else."""
    if rng.random() < 0.15:
        return copy.deepcopy(rng.choice(JUNK + EXAMPLES[:20]))
    if isinstance(value, list):
        return [damaged(item, rng) for item in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for key, item in value.items():
        chance = rng.random()
        if chance < 0.1:
            continue
        if chance < 0.15:
            key = rng.choice(["type", "error", "status", "kind", "brand_new"])
        out[key] = damaged(item, rng)
    return out


def test_every_operation_has_a_reader() -> None:
    """M1: the walk below really covers the document."""
    assert len(CALLS) >= 45
    assert len(READERS) > 130


@pytest.mark.parametrize("seed", range(4))
def test_records_are_faithful_or_refused(seed: int) -> None:
    """M2, M4: any JSON value gives back itself, or a typed error; never another exception."""
    rng = random.Random(seed)
    read = 0
    refusals: list[str] = []
    for _ in range(1500):
        body = damaged(rng.choice(EXAMPLES), rng)
        try:
            record = rng.choice(READERS)(body)
        except ApiError as error:
            refusals.append(str(error))
            continue
        read += 1
        assert json.dumps(record.to_dict(), sort_keys=True) == json.dumps(body, sort_keys=True)
    assert read > 100
    assert len(refusals) > 100
    assert all(refusals)


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_read_or_typed_errors(seed: int) -> None:
    """M2, M38: whole, cut and mislabelled answers of every operation."""
    rng = random.Random(seed)
    read = 0
    refusals: list[str] = []
    for _ in range(1500):
        content = json.dumps(damaged(rng.choice(EXAMPLES), rng)).encode()
        if rng.random() < 0.2:
            content = content[: rng.randrange(len(content) + 1)]
        try:
            rng.choice(CALLS).read(
                rng.choice([200, 200, 204, 302, 400, 408, 500, 524]),
                {"content-type": rng.choice(TYPES)},
                content,
            )
        except ApiError as error:
            refusals.append(str(error))
        else:
            read += 1
    assert read > 100
    assert len(refusals) > 100
    assert all(refusals)
