"""M29: the official SDKs, unmodified, run on the embedded server, and our client agrees with them.

`nox -s parity` installs each official version in its own environment and names its interpreter in
TINKER_PARITY_PYTHONS (colon-separated); our own client runs in this environment.
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinker_ext.mock import Server, Settings

DRIVER = Path(__file__).with_name("sdk_driver.py")
PYTHONS = [p for p in os.environ.get("TINKER_PARITY_PYTHONS", "").split(":") if p]


def drive(python, package, era):
    """Run the driver in one environment against a fresh server of one era."""
    with Server(Settings(era=era)) as server:
        environment = {
            **os.environ,
            "TINKER_BASE_URL": server.url,
            "TINKER_API_KEY": "tml-parity",
            "TINKER_TELEMETRY": "1",
            "HF_HUB_OFFLINE": "1",
        }
        done = subprocess.run(
            [python, str(DRIVER), package],
            env=environment,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert server.log.violations == []
        return json.loads(done.stdout.splitlines()[-1])


def close(one, other, tolerance=1e-5):
    """Tell whether two lists of numbers agree."""
    return len(one) == len(other) and all(
        a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
        for a, b in zip(one, other, strict=True)
    )


@pytest.fixture(scope="module")
def ours():
    return drive(sys.executable, "tinker_ext", "both")


@pytest.fixture(scope="module", params=PYTHONS)
def official(request):
    return drive(request.param, "tinker", "both")


def test_losses_fall_and_agree(official, ours):
    """M29: twenty steps of cross entropy, the same numbers through both clients."""
    assert official["losses"][-1] < official["losses"][0] / 10
    assert close(official["losses"], ours["losses"])


def test_a_restored_model_is_the_saved_one(official, ours):
    """M29: save, load, and the loss is what it was."""
    assert close([official["restored"]], [official["forward"]])
    assert close([official["restored"]], [ours["restored"]])


def test_policy_losses_agree(official, ours):
    """M29: importance sampling and PPO give the same numbers through both clients."""
    for name, value in official["importance"].items():
        assert close([value], [ours["importance"][name]])


def test_samples_and_logprobs_agree(official, ours):
    """M29: the same seed gives the same tokens, named or ephemeral, through both clients."""
    for kind in ("sample", "ephemeral"):
        assert official[kind]["tokens"] == ours[kind]["tokens"]
        assert official[kind]["prompt"][0] is None
        assert close(official[kind]["prompt"][1:], ours[kind]["prompt"][1:])


def test_custom_loss_agrees(official, ours):
    """M15, M29: a loss written by the user gives the same value through both clients."""
    assert official["custom"] is not None, "custom losses of the SDK need torch beside it"
    assert official["custom"]["squares"] > 0
    if ours["custom"] is not None:
        assert close([official["custom"]["squares"]], [ours["custom"]["squares"]])


def test_rest_calls_agree(official, ours):
    """M29, M35: runs, checkpoints, publishing."""
    assert official["rest"] == ours["rest"]


@pytest.mark.parametrize("era", ["0.4.1", "0.36.0"])
def test_each_sdk_runs_on_its_own_era(era):
    """M40: the era profile serves the SDK of that era."""
    matching = [p for p in PYTHONS if version_of(p) == era]
    for python in matching:
        report = drive(python, "tinker", era)
        assert report["losses"][-1] < report["losses"][0] / 10
    assert matching, f"no interpreter with tinker {era} in TINKER_PARITY_PYTHONS"


def version_of(python):
    """Return the version of the official SDK in an environment."""
    code = "import importlib.metadata as m; print(m.version('tinker'))"
    return subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
