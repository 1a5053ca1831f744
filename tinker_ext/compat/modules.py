"""The modules of the stand-in `tinker`: made from the tables, filled when a name is read."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tinker_ext.compat.sdk_paths import ABSENT, ALIASES, DROPPED, PUBLIC, SDK_PATHS
from tinker_ext.compat.type_paths import TYPE_PATHS

_HERE = "tinker_ext.compat"


def _home(name: str) -> str:
    return ALIASES.get(name, f"tinker_ext.types:{name}")


def _types() -> dict[str, str]:
    """Names of `tinker.types` itself: all that its modules show and the official list has."""
    names = {name for shown in TYPE_PATHS.values() for name in shown.split()}
    return {name: _home(name) for name in names if name not in DROPPED["tinker.types"]}


def tables() -> dict[str, dict[str, str]]:
    """For every module path of the stand-in, its names and where each is found."""
    made = {f"tinker.types.{path}": shown for path, shown in TYPE_PATHS.items()} | SDK_PATHS
    tables = {path: {name: _home(name) for name in shown.split()} for path, shown in made.items()}
    tables["tinker.types"] = _types()
    return tables


_TABLES = tables()
_PACKAGES = {path.rpartition(".")[0] for path in _TABLES} | {"tinker", "tinker.lib"}


def resolve(home: str) -> Any:
    """The object that `module:name` (or a bare module) stands for."""
    module, _, name = home.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


def fill_module(module: ModuleType) -> None:
    """Give `module` the names of its table, each loaded when it is first read."""
    path = module.__name__
    names = _TABLES.get(path, {})
    dropped: Mapping[str, str] = DROPPED.get(path, {})
    below = {p.removeprefix(f"{path}.") for p in _TABLES if p.startswith(f"{path}.")}
    children = {p.partition(".")[0] for p in below}
    public = PUBLIC.get(path, sorted(names))

    def __getattr__(name: str) -> Any:
        if name in names:
            value = resolve(names[name])
        elif name in children:
            return importlib.import_module(f"{path}.{name}")
        elif name in dropped:
            warnings.warn(
                f"{path}.{name} was removed from the official SDK after 0.4.1; it is kept here "
                "for old code only.",
                DeprecationWarning,
                stacklevel=2,
            )
            return resolve(dropped[name])
        else:
            advice = ABSENT.get(f"{path}.{name}")
            hint = f"; {advice} (docs/migration.md)" if advice else ""
            raise AttributeError(f"module {path!r} has no attribute {name!r}{hint}")
        setattr(module, name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(module), *names, *children})

    vars(module).update(
        __getattr__=__getattr__, __dir__=__dir__, __all__=list(public), __emulated_by__="tinker_ext"
    )


class _AliasLoader(Loader):
    """Makes one module of the stand-in."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = f"Names of `{module.__name__}`, as tinker-ext has them."
        fill_module(module)


class AliasFinder(MetaPathFinder):
    """Finds the modules below `tinker` that exist only as tables."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module in the tables; None for every other name."""
        known = fullname in _TABLES or fullname in _PACKAGES or fullname in ABSENT
        if fullname == "tinker" or not known:
            return None
        root = sys.modules.get("tinker")
        if getattr(root, "__emulated_by__", None) != "tinker_ext":
            return None
        if fullname in ABSENT:
            raise ModuleNotFoundError(
                f"tinker-ext has no {fullname}; {ABSENT[fullname]} (docs/migration.md)",
                name=fullname,
            )
        return ModuleSpec(fullname, _AliasLoader(), origin=_HERE, is_package=fullname in _PACKAGES)


def become_tinker(module: ModuleType) -> None:
    """Turn `module`, just imported as `tinker`, into the root of the stand-in."""
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
    fill_module(module)
