"""Stand in for the official package: make `import tinker` mean this package.

Three ways, the same result:

* `python -m tinker_ext.compat script.py args…` (or `-m module args…`) runs unchanged code;
* `tinker_ext.compat.install()` at the top of a program;
* `PYTHONPATH="$(python -m tinker_ext.compat --path)"` for programs that are started elsewhere.

The directory holds a package `tinker` whose modules are tables of aliases: nothing is loaded
before a name is read, and each class is one object under every path.

Example:
    >>> from tinker_ext import compat
    >>> compat.install()
    >>> from importlib.metadata import version
    >>> import tinker, tinker_ext
    >>> tinker.types.tensor_data.TensorData is tinker_ext.TensorData
    True
    >>> version("tinker")
    '0.36.0'
"""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path

__all__ = ["EMULATED_VERSION", "directory", "install"]

EMULATED_TITLE = "tinker"
EMULATED_VERSION = "0.36.0"
"""The release of the official SDK whose names, signatures and defaults are offered."""


def directory() -> Path:
    """The directory to put first on `PYTHONPATH`."""
    return Path(__file__).parent / "path"


def install() -> None:
    """Make `import tinker` mean this package, in this process and in processes it spawns.

    Calling it again changes nothing. Call it before anything imports `tinker`: modules that
    already hold names of the official package keep them, and a warning says so.

    Example:
        >>> import tinker_ext.compat
        >>> tinker_ext.compat.install()
        >>> import tinker
        >>> tinker.__title__
        'tinker'
    """
    place = str(directory())
    if place in sys.path:
        sys.path.remove(place)
    sys.path.insert(0, place)
    found = sys.modules.get("tinker")
    if found is not None and getattr(found, "__emulated_by__", None) != "tinker_ext":
        warnings.warn(
            "The official `tinker` was imported before tinker_ext.compat.install(); modules that "
            "hold its names keep them. Install first, then import.",
            RuntimeWarning,
            stacklevel=2,
        )
        for name in [n for n in sys.modules if n == "tinker" or n.startswith("tinker.")]:
            del sys.modules[name]
    importlib.invalidate_caches()
