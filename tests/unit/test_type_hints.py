"""The annotations of what the package offers can be read while a program runs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest

import tinker_ext
from tinker_ext._later import Later


def offered() -> list[Any]:
    """Every public class and function once, those of public modules included."""
    modules = [getattr(tinker_ext, name) for name in tinker_ext.__all__]
    found = {
        f"{item.__module__}.{item.__qualname__}": item
        for module in (tinker_ext, *filter(inspect.ismodule, modules))
        for name in getattr(module, "__all__", vars(module))
        if inspect.isroutine(item := getattr(module, name)) or inspect.isclass(item)
        if not name.startswith("_") and item.__module__.startswith(("tinker_ext", "tinker_api"))
    }
    return [found[name] for name in sorted(found)]


def methods(cls: type[Any]) -> Iterator[Any]:
    """The constructor and the public methods and properties of a class that are ours."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        member = getattr(member, "fget", getattr(member, "__func__", member))
        if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            yield member


@pytest.mark.parametrize("item", offered(), ids=lambda item: item.__qualname__)
def test_public_annotations_resolve(item: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """M16 M41: what cattrs, typeguard and notebooks ask for, of a class and of each method."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=memoryview))
    for each in [item, *methods(item)] if inspect.isclass(item) else [item]:
        get_type_hints(each)


def test_what_stands_for_a_module_loads_it_for_its_own_names_only() -> None:
    """M39: tools ask everything for `__wrapped__`; that must not load, or miss, a package."""
    absent = Later("no_such_package")
    assert not hasattr(absent, "__wrapped__")
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        _ = absent.Tensor
    assert Later("fractions").Fraction(1, 2) == 0.5
