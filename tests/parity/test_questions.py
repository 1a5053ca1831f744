"""F58: the differences that docs/migration.md lists are those that both packages show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from questions import QUESTIONS
from sdks import installed, ours

from tinker_ext.mock import Server

pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")

# Question -> words of the row in docs/migration.md that tells about its different answer.
WRONG = "a wrong argument of a call"
ACCEPTED = "a datum without an input"
DIFFERENT = {
    "a_field_assigned": "assigning to a field",
    "a_negative_temperature": "temperature, max_tokens or expected_tokens below 0",
    "an_unknown_field": "a missing or unknown keyword of a type",
    "neither_key_nor_url": "without a key and a base URL",
    "unordered_hashes_of_chunks": ":hash_unordered",
    "a_period_in_dates": "midnight in UTC",
    "an API key that is not one": "does not begin with `tml-`",
    **dict.fromkeys(
        ("True as a token", "a token as text appended", "max_tokens as text"),
        "text or True for a number",
    ),
    **dict.fromkeys(
        (
            "a datum without an input",
            "training on a generator",
            "a checkpoint named None",
            "an end that is not one",
            "retries with a negative delay",
            "a list with a limit as text",
        ),
        ACCEPTED,
    ),
    **dict.fromkeys(
        (
            "a tensor as None",
            "inputs that are not a dict",
            "a rank of 0",
            "training on nothing trained",
            "samples of none",
            "samples of text",
            "logprobs of a list",
            "training on None",
            "training with a loss of None",
            "training on a datum alone",
            "a step with None",
            "a step with a dict",
            "a path to load that is not one",
            "a run of an empty name",
            "a checkpoint named with a slash",
            "a life below an hour",
            "a scope that is not one",
            "a base URL that is not one",
        ),
        WRONG,
    ),
}


def _answers(sdk):
    site = [str(sdk.site)] if sdk.site is not None else [str(ROOT), str(ROOT / "generated")]
    with Server() as server:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(site),
            "TINKER_BASE_URL": server.url,
            "TINKER_API_KEY": "tml-parity",
        }
        done = subprocess.run(
            [sdk.python, str(Path(__file__).with_name("questions.py")), sdk.package],
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def both():
    (official,) = [sdk for sdk in installed() if sdk.version == "0.36.0"]
    return _answers(official), _answers(ours())


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_answer_is_the_same_or_listed(both, name):
    """F58: a difference is on the page, and what is on the page differs."""
    theirs, mine = (answers[name] for answers in both)
    if name not in DIFFERENT:
        assert mine["warns"] == theirs["warns"]
        if isinstance(theirs["value"], dict):  # an error of ours may be more classes, not fewer
            assert set(mine["value"]["raises"]) >= set(theirs["value"]["raises"])
        else:
            assert mine["value"] == theirs["value"]
    else:
        assert mine != theirs
        assert DIFFERENT[name] in PAGE
