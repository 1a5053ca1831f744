"""The pages say what the code says; their snippets are run by the build of the site."""

import re
import tomllib

import attrs
import pytest

from docs._tools import snippets
from tinker_ext import config

ROOT = snippets.HERE.parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}


def named(page):
    return str(page.relative_to(ROOT))


def test_the_readme_runs():
    """M51: every snippet of the first page people see, top to bottom."""
    assert snippets.outputs("README.md", TEXTS[ROOT / "README.md"])


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_blocks_say_what_they_are(page):
    """A block is run, typed by a person, or not a program: nothing in between."""
    kinds = {language for language, _ in snippets.blocks(TEXTS[page])}
    assert kinds <= snippets.RUNNABLE | snippets.SHOWN, kinds


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_python_is_shown_as_python(page):
    """M51: what cannot run where the site is built has the colours of a program all the same."""
    starts = re.compile(r"(from \w+ import|import|def)\b|(result|service) = |\$ python - <<")
    for language, text in snippets.blocks(TEXTS[page]):
        assert language not in ("text", "console") or not starts.match(text), text


def test_a_block_that_fails_is_named_with_its_line():
    """M51: the build stops at the first wrong snippet and says where it stands."""
    page = "# Page\n\n```python\nx = 1\n```\n\n```python\nprint(x)\nraise ValueError(x)\n```\n"
    with pytest.raises(snippets.SnippetError, match=r"page\.md:8: (.|\n)*ValueError: 1"):
        snippets.outputs("page.md", page)


def test_what_a_block_prints_stands_under_it():
    """M51: Python and shell share a folder, and a picture is part of the output."""
    page = (
        "```python\nfrom pathlib import Path\nPath('a.svg').write_text('<svg></svg>')\n"
        "print('one')\n```\n\nthen\n\n```bash\nls\n```\n"
    )
    shown = snippets.shown(page, snippets.outputs("page.md", page))
    first, _, second = shown.partition("then")
    assert "````{ .text .output .sentences }\none\n````" in first
    assert "<svg></svg>" in first
    assert "````{ .text .output .sentences }\na.svg\n````" in second


def test_configuration_lists_every_variable():
    """M33: each setting stands in the table, with its variable."""
    page = TEXTS[ROOT / "docs" / "configuration.md"]
    for field in attrs.fields(config.Config):
        assert f"| `{field.metadata['env']}` | `{field.name}` |" in page


def test_no_sentence_names_a_missing_command():
    """A `nox -s NAME` in the pages is a session of the noxfile."""
    sessions = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.M))
    for page, text in TEXTS.items():
        named = set(re.findall(r"nox -s (\w+)", text))
        assert named <= sessions | {"tests-3"}, (page.name, named - sessions)


def test_links_of_the_readme_lead_somewhere_from_anywhere():
    """M51: package indexes show the text too, so its links are absolute, and to our files."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    code, site = urls["Homepage"], urls["Documentation"]
    for link in re.findall(r"\]\(([^)]+)\)", TEXTS[ROOT / "README.md"]):
        assert link.startswith(("https://", "#")), link
        if link.startswith(f"{code}/blob/main/"):
            assert (ROOT / link.removeprefix(f"{code}/blob/main/")).exists(), link
        elif link.startswith(site):
            page = link.removeprefix(site).strip("/") or "index"
            assert (
                page.partition("/")[0] in ("tutorial", "reference")
                or (ROOT / "docs" / f"{page}.md").exists()
            ), link
