"""The public list of the package: every name resolves, nothing heavy loads on import."""

import pytest

import tinker_ext


def test_every_public_name_resolves():
    """M16: each name in `__all__` is really there."""
    for name in tinker_ext.__all__:
        assert getattr(tinker_ext, name) is not None, name


def test_the_list_is_sorted_and_free_of_repeats():
    assert tinker_ext.__all__ == sorted(set(tinker_ext.__all__))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="ServiceCleint"):
        _ = tinker_ext.ServiceCleint
