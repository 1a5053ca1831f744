"""M28, M51: the pages of results say what the last runs found, the overview first."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def publisher():
    """The program that writes the page."""
    path = ROOT / "tests" / "interop" / "publish.py"
    spec = importlib.util.spec_from_file_location("publish", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_matrix_is_made_from_the_reports():
    """M28: nobody has touched the table by hand."""
    text = (ROOT / "docs" / "servers.md").read_text()
    assert publisher().page(text) == text


@pytest.mark.parametrize(
    ("page", "first", "last"),
    [
        ("servers.md", "At a glance", "Appendix: what each step printed"),
        ("performance.md", "Why it is fast", "Appendix: the last run"),
    ],
)
def test_a_page_of_results_begins_with_the_overview(page, first, last):
    """M51: who opens it sees the overview at once; what a run measured or printed comes last."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    headings = re.findall("^## (.+)$", text, re.M)
    assert (headings[0], headings[-1]) == (first, last)
    assert "\n|" not in text.partition(f"## {first}")[0]
