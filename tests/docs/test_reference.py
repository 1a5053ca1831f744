"""M51: the reference has every public name and every command."""

import sys
from importlib import import_module

import pytest

from docs._tools import snippets

sys.path.insert(0, str(snippets.HERE.parents[1] / "examples"))

from docs._tools import made_pages

PARTS = ("types", "mock", "runs", "runlog", "telemetry", "downloads", "conform", "compat")
PUBLIC = ("tinker_ext", *(f"tinker_ext.{part}" for part in PARTS), "tinker_api")


@pytest.fixture(scope="module")
def pages():
    return made_pages.pages()


@pytest.mark.parametrize("module", PUBLIC)
def test_no_public_name_is_missing(module, pages):
    """M51: whatever `__all__` promises has an entry, modules by their members."""
    entries = {
        line.removeprefix("::: ").rpartition(".")[2]
        for text in pages.values()
        for line in text.splitlines()
        if line.startswith("::: ")
    }
    documented_as_pages = {"auth", "compat", "errors", "mock", "types"}
    missing = set(import_module(module).__all__) - entries - documented_as_pages
    assert missing == set()


def test_no_error_is_missing(pages):
    """M38 M51: every class of the tree."""
    errors = import_module("tinker_ext.errors")
    for name, value in vars(errors).items():
        if isinstance(value, type) and value.__module__ == errors.__name__ and name[0] != "_":
            assert f"::: tinker_ext.errors.{name}\n" in pages["reference/errors.md"]


def test_no_command_is_missing(pages):
    """M36 M51: every command, those in groups too, with its help."""
    from click.testing import CliRunner

    from tinker_ext.cli.catalog import COMMANDS
    from tinker_ext.cli.lazy import Root

    page = pages["reference/command-line.md"]
    for name in COMMANDS:
        assert f"\n## {name}\n" in page
    assert "\n### checkpoint download\n" in page
    shown = CliRunner().invoke(Root(), ["checkpoint", "download", "--help"]).output
    assert next(line.strip() for line in shown.splitlines() if "--force" in line) in page
    assert page.count("\n  -h, --help ") == page.count("\nUsage: ")
