"""The public surface of the official releases, compared with ours name by name."""

from __future__ import annotations

import importlib
import inspect
import warnings
from pathlib import Path
from typing import Any

import pytest
from compat_surface import (
    alias_unlike,
    class_unlike,
    member_unlike,
    names,
    objects,
    recorded,
    unlike,
)
from rows import for_each

MIGRATION = Path(__file__).parents[3] / "docs" / "migration.md"

# Names of the official SDK that we do not stand in for; docs/migration.md explains each.
ABSENT = {
    "tinker:APIResponse",
    "tinker:AsyncAPIResponse",
    "tinker:proto",
    "tinker:resources",
    "tinker._client:AsyncTinker",
    "tinker.lib.internal_client_holder:InternalClientHolder",
    "tinker.lib.telemetry:Telemetry",
    "tinker.resources.futures:AsyncFuturesResource",
    "tinker.resources.models:AsyncModelsResource",
    "tinker.resources.sampling:AsyncSamplingResource",
    "tinker.resources.service:AsyncServiceResource",
    "tinker.resources.telemetry:AsyncTelemetryResource",
    "tinker.resources.training:AsyncTrainingResource",
    "tinker.resources.weights:AsyncWeightsResource",
}

# What 0.4.1 had beyond 0.36.0 and we leave out, and why.
LEFT_BEHIND = {
    "Datum.convert_tensors": "a pydantic validator; the constructor converts",
    "OptimStepRequest.adam_params": "a request body that the client builds itself",
}


pytestmark = pytest.mark.usefixtures("stand_in")


def found(key: str) -> Any:
    module, _, name = key.partition(":")
    return getattr(importlib.import_module(module), name)


NEW = {key: record for key, record in objects("0.36.0").items() if key not in ABSENT}
CLASSES = sorted(
    k for k, r in NEW.items() if r["kind"] in ("class", "pydantic", "dataclass", "enum")
)
ALIASES = sorted(k for k, r in NEW.items() if r["kind"] == "alias")


@pytest.mark.parametrize("module", ["tinker", "tinker.types"])
def test_every_public_name_is_there(module: str):
    """M30: the names of 0.36.0, no more and no fewer, and each can be read."""
    ours = importlib.import_module(module)
    assert set(names("0.36.0", module)) <= set(dir(ours)) | {"auth"}
    for name in names("0.36.0", module):
        assert getattr(ours, name) is not None
    if module == "tinker":
        assert set(ours.__all__) == set(names("0.36.0", "tinker"))


@for_each(CLASSES)
def test_class(key: str):
    """M30: every recorded call of a class of 0.36.0 means the same here."""
    assert sorted(f"{a}: {why}" for a, why in class_unlike(found(key), NEW[key])) == []


@for_each(ALIASES)
def test_alias(key: str):
    """M30: literal values and members of unions are those of 0.36.0."""
    assert list(alias_unlike(found(key), NEW[key]["value"])) == []


@pytest.mark.parametrize("key", sorted(ABSENT))
def test_absent_names_are_explained(key: str):
    """M30: what we leave out is absent, the error and the migration page say what to use."""
    with pytest.raises((AttributeError, ModuleNotFoundError), match=r"migration\.md"):
        found(key)
    name = key.partition(":")[2]
    text = MIGRATION.read_text()
    assert f"`{name}`" in text or "`tinker.resources`" in text


@pytest.mark.parametrize(
    "module",
    [
        "tinker._models",
        "tinker._response",
        "tinker.types._pydantic_types.datum",
        "tinker.lib.sync_only",
    ],
)
def test_absent_modules_are_explained(module: str):
    """M30: so is the machinery of the official SDK, with the page that lists the differences."""
    with pytest.raises(ModuleNotFoundError, match=r"tinker-ext has no tinker.*migration\.md"):
        importlib.import_module(module)


@pytest.mark.parametrize("module", ["tinker._constants", "tinker.lib.retry_handler"])
def test_pauses_of_the_retry_handler(module: str):
    """M30: the values of 0.36.0, where its callers read them."""
    found = importlib.import_module(module)
    assert (found.INITIAL_RETRY_DELAY, found.MAX_RETRY_DELAY) == (0.5, 10.0)


def test_what_the_newer_release_dropped_still_works_and_warns():
    """M30: names of 0.4.1 that 0.36.0 dropped are kept, with a DeprecationWarning."""
    old, new = objects("0.4.1"), objects("0.36.0")
    dropped = sorted(set(old) - set(new))
    assert dropped
    for key in dropped:
        with pytest.warns(DeprecationWarning, match="0.4.1"):
            assert found(key) is not None


def test_members_of_the_older_release():
    """M16: members and keywords of 0.4.1 that 0.36.0 dropped are still accepted."""
    missing = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key, record in objects("0.4.1").items():
            if key in ABSENT or record["kind"] not in ("class", "pydantic", "dataclass"):
                continue
            cls = found(key)
            if not cls.__module__.startswith("tinker_"):
                continue
            for name, member in record["members"].items():
                if "absent" in list(member_unlike(cls, name, member)):
                    missing.add(f"{cls.__name__}.{name}")
            if record.get("init") and not issubclass(cls, Exception):
                have = set(inspect.signature(cls).parameters)
                lost = {p.name for p in recorded(record["init"]) if p.kind != "**"} - have
                missing |= {f"{cls.__name__}.{name}" for name in lost}
    assert missing - {"RestClient.holder"} == set(LEFT_BEHIND)
    for name in LEFT_BEHIND:
        assert f"`{name}`" in MIGRATION.read_text()


def test_the_comparison_finds_differences():
    """The comparison itself: a lost parameter, a changed default and a changed order are seen."""
    official = recorded("(self, a: 'int', b: 'str' = 'x', *, c: 'int | None' = None) -> 'None'")
    assert list(unlike(official, recorded("(a, b='x', *, c=None, d=1)"))) == []
    assert list(unlike(official, recorded("(a, b='x')"))) == ["no parameter c"]
    assert list(unlike(official, recorded("(a, b='y', *, c=None)"))) == ["default of b is y, not x"]
    assert list(unlike(official, recorded("(b='x', a=1, *, c=None)"))) != []
    assert list(unlike(official, recorded("(a, b='x', *, c=None, d)"))) == ["d is required here"]
