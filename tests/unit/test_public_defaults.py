"""Defaults of public calls are part of them: what is sent when a caller leaves an argument out.

`python tests/unit/test_public_defaults.py` writes the list anew, for a default that was changed on
purpose.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import attrs

import tinker_ext
from tinker_ext import downloads

PLACE = Path(__file__).parents[1] / "data" / "public_defaults.json"
PLAIN = (bool, int, float, str)


def _defaults(function: object) -> dict[str, object]:
    try:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return {}
    return {
        each.name: each.default
        for each in parameters
        if not each.name.startswith("_")
        and each.default is not each.empty
        and isinstance(each.default, PLAIN)
    }


def _public() -> Iterator[tuple[str, dict[str, object]]]:
    names = set(tinker_ext.__all__) - {"Config"}  # the page on configuration lists its own
    named = {name: getattr(tinker_ext, name) for name in names}
    named |= {f"downloads.{name}": getattr(downloads, name) for name in downloads.__all__}
    for name, value in sorted(named.items()):
        if inspect.isclass(value):
            if attrs.has(value) or value.__init__ is not object.__init__:
                yield name, _defaults(value)
            for inner, member in sorted(vars(value).items()):
                if not inner.startswith("_") and inspect.isfunction(member):
                    yield f"{name}.{inner}", _defaults(member)
            for base in value.__mro__[1:]:
                if base.__module__.startswith("tinker_ext"):
                    for inner, member in sorted(vars(base).items()):
                        if not inner.startswith("_") and inspect.isfunction(member):
                            yield f"{name}.{inner}", _defaults(member)
        elif inspect.isfunction(value):
            yield name, _defaults(value)


def listed() -> dict[str, dict[str, object]]:
    """Every public call with a default that is a plain value."""
    found: dict[str, dict[str, object]] = {}
    for name, defaults in _public():
        if defaults:
            found.setdefault(name, defaults)
    return found


def test_what_is_sent_when_an_argument_is_left_out():
    """M33: a default that changes, changes programs that never named it."""
    wanted = json.loads(PLACE.read_text())
    found = json.loads(json.dumps(listed()))
    assert found.keys() == wanted.keys()
    for name, defaults in found.items():
        assert defaults == wanted[name], name


if __name__ == "__main__":
    PLACE.write_text(json.dumps(listed(), indent=1, sort_keys=True) + "\n")
