"""Every snippet of the pages runs, and the tables say what the code says."""

import re
import sys

import attrs
import pytest
from docs.snippets import PAGES, ROOT, RUNNABLE, blocks, program, run

from tinker_ext import config
from tinker_ext.mock import Server

WITH_PYTHON = [page for page in PAGES if program(page)]
WITH_BASH = [page for page in PAGES if any(language == "bash" for language, _ in blocks(page))]


@pytest.fixture(scope="module")
def url():
    with Server() as server:
        yield server.url


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.stem)
def test_python_runs(page, url, tmp_path):
    """The Python of a page, top to bottom, ends without an error."""
    done = run([sys.executable, "-W", "error::ResourceWarning", "-c"], program(page), url, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr


def test_runs_prints_what_it_says(url, tmp_path):
    """M20: each print of the page on runs is followed by what it prints."""
    text = program(ROOT / "docs" / "runs.md")
    done = run([sys.executable, "-c"], text, url, tmp_path)
    said = re.findall(r"^print\(.*\)  # (\[[^\]]*\])", text, re.M)
    assert done.stdout.splitlines() == said == ["[0, 1, 2]", "[3, 4]"]


@pytest.mark.parametrize("page", WITH_BASH, ids=lambda page: page.stem)
def test_shell_runs(page, url, tmp_path):
    """Each shell block of a page ends with success."""
    for language, text in blocks(page):
        if language == "bash":
            done = run(["bash", "-euc"], text, url, tmp_path)
            assert done.returncode == 0, (text, done.stdout[-1000:], done.stderr[-3000:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_say_what_they_are(page):
    """A block is run, typed by a person, or no program: nothing in between."""
    kinds = {language for language, _ in blocks(page)}
    assert kinds <= RUNNABLE | {"console", "text", "diff", "yaml", "json", "toml"}, kinds


def test_configuration_lists_every_variable():
    """M33: each setting stands in the table, with its variable."""
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    for field in attrs.fields(config.Config):
        assert f"| `{field.metadata['env']}` | `{field.name}` |" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    """A relative link names a file that exists."""
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link


def test_no_sentence_names_a_missing_command():
    """A `nox -s NAME` in the pages is a session of the noxfile."""
    sessions = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.M))
    for page in PAGES:
        named = set(re.findall(r"nox -s (\w+)", page.read_text(encoding="utf-8")))
        assert named <= sessions, (page.name, named - sessions)
