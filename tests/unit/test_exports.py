"""The public list of the package: every name resolves, nothing heavy loads on import."""

import json
import subprocess
import sys

import pytest

import tinker_ext

PROBE = """
import json, sys
before = set(sys.modules)
import tinker_ext
loaded = sorted({m.split('.')[0] for m in set(sys.modules) - before})
print(json.dumps(loaded))
"""


def test_every_public_name_resolves():
    """M16: each name in `__all__` is really there."""
    for name in tinker_ext.__all__:
        assert getattr(tinker_ext, name) is not None, name


def test_the_list_is_sorted_and_free_of_repeats():
    assert tinker_ext.__all__ == sorted(set(tinker_ext.__all__))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="ServiceCleint"):
        _ = tinker_ext.ServiceCleint


def test_import_loads_nothing_heavy():
    """M39: `import tinker_ext` touches no third-party module at all."""
    out = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    third_party = {"numpy", "httpx", "attr", "attrs", "orjson", "tokenizers", "google", "torch"}
    assert not third_party & set(json.loads(out.stdout))
