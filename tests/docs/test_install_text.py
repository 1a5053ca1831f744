"""M51: what we tell people to type works today, and changes in one place when that does."""

import re
import tomllib

import pytest

from docs._tools import snippets
from tinker_ext._extras import APART, NEEDS
from tinker_ext._version import __version__

ROOT = snippets.HERE.parents[1]
TEXTS = [
    *[ROOT / name for name in ("README.md", "CONTRIBUTING.md", "docs/llms.txt")],
    *sorted((ROOT / "docs").glob("**/*.md")),
    *sorted((ROOT / "tinker_ext").glob("**/*.py")),
]


def test_nobody_is_sent_to_an_index_that_has_no_package():
    """M51: README says how the package is got, once; `pip install tinker-ext` waits for that."""
    says = {path.name for path in TEXTS if "package index" in path.read_text(encoding="utf-8")}
    assert says == {"README.md"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    paragraph = re.search(r"\[start:install\] -->\n(.+?)\n<!--", readme, re.S)[1]
    assert (ROOT / "docs/install.md").read_text().count('--8<-- "README.md:install"') == 1
    if "not on a package index" in paragraph:
        by_name = re.compile(r"pip install (-\S+ )*['\"]?tinker-ext(?!\[[\w,]+\] @ )")
        assert [path for path in TEXTS if by_name.search(path.read_text(encoding="utf-8"))] == []


def test_the_file_for_language_models_links_to_pages_of_the_site():
    """M51: it is read on its own, so its links are whole, and each leads to a page there is."""
    site = "https://tinker-ext.github.io/tinker-ext/"
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "docs/llms.txt").read_text(encoding="utf-8"))
    pages = {f"{link.removeprefix(site).rstrip('/') or 'index'}.md" for link in links}
    assert all(link.startswith(site) for link in links)
    assert (
        pages - set(re.findall(r"[\w/-]+\.md$", (ROOT / "mkdocs.yml").read_text(), re.M)) == set()
    )


def test_the_extras_are_what_the_hints_name():
    """M39: packages in hints and in the table of extras are those of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        name: tuple(re.split(r"[><=]", line)[0] for line in lines)
        for name, lines in project["optional-dependencies"].items()
    }
    assert {name: sorted(extras[name]) for name in NEEDS} == {
        name: sorted(packages) for name, packages in NEEDS.items()
    }
    (everything,) = project["optional-dependencies"]["all"]
    named = set(re.search(r"\[(.+)\]", everything)[1].split(","))
    assert named == set(extras) - {*APART, "test", "all"}


@pytest.mark.parametrize("extra", [*NEEDS, "all", "test"])
def test_the_page_lists_every_extra(extra):
    """M39: what can be chosen, and what it is for."""
    assert f"`{extra}`" in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def test_the_wheel_is_the_one_that_is_built():
    """M51: the name that people copy is that of this version."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert f"tinker_ext-{__version__}-py3-none-any.whl" in page
