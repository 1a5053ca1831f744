"""The examples: scripts that run, and notebooks that are the same code and run too."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NAMES = ("quickstart", "rl_toy", "custom_loss", "async_pipeline", "see_it")


@pytest.fixture(scope="module")
def notebooks():
    spec = importlib.util.spec_from_file_location("notebooks", EXAMPLES / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def python(*words):
    path = os.pathsep.join([str(ROOT), str(ROOT / "generated")])
    return subprocess.run(
        [sys.executable, *map(str, words)],
        # As strict as production: what passes here is not refused there.
        env={**os.environ, "PYTHONPATH": path, "TINKER_EXT_PROFILE": "hosted"},
        capture_output=True,
        text=True,
        timeout=500,
    )


def test_the_notebooks_are_those_of_the_scripts(notebooks):
    """M36: a changed script with an old notebook fails here, with the command to run."""
    assert notebooks.stale() == []
    scripts = {path.stem for path in EXAMPLES.glob("*.py")} - {"notebooks"}
    assert scripts == set(notebooks.NAMES) == {path.stem for path in EXAMPLES.glob("*.ipynb")}


def test_notebooks_run():
    """M36: every cell runs, with fewer steps than it ships with."""
    fewer = ["--set", "STEPS=3", "--set", "SAMPLES=8"]
    done = python(EXAMPLES / "notebooks.py", "run", *NAMES, *fewer)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("== ") == len(NAMES)
    assert "all logprobs equal: True" in done.stdout


def test_a_failing_cell_fails_the_run(notebooks):
    """M36: an error in a cell is not swallowed."""
    book = notebooks.notebook('"""# T"""\n\n# %%\nx = 1\n\n# %%\nassert x == 2\n')
    with pytest.raises(AssertionError):
        notebooks.execute(book)


def test_shipped_notebooks_carry_their_outputs(notebooks):
    """M36: a reader sees results without running anything, and no path of the author's machine."""
    for name in notebooks.NAMES:
        book = json.loads((EXAMPLES / f"{name}.ipynb").read_text())
        code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
        assert any(cell["outputs"] for cell in code)
        assert str(Path.home()) not in json.dumps(book)


def test_a_notebook_shows_what_its_last_line_is(notebooks):
    """M36: a display of ours becomes an output of the cell, as in Jupyter."""
    book = notebooks.notebook(
        '"""# T"""\n\n# %%\nfrom tinker_ext.core.in_flight import '
        "PendingOperations\nPendingOperations()\n"
    )
    notebooks.execute(book)
    (output,) = book["cells"][1]["outputs"]
    assert "Nothing is pending" in output["data"]["text/html"]


def test_the_reward_rises():
    """M36: the RL example, as shipped, learns its toy reward."""
    done = python(EXAMPLES / "rl_toy.py")
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.rpartition("\nreward ")[2].split(" in ")[0].split(" → ")
    assert float(first) < 0.4
    assert float(last) > 0.9


def test_the_custom_loss_falls():
    """M15: the custom loss example, as shipped, falls."""
    done = python(EXAMPLES / "custom_loss.py")
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.rpartition("\nloss ")[2].split(";")[0].split(" → ")
    assert float(last) < 0.1 * float(first)
