"""M29, M46: the official SDKs, unmodified, on the embedded server; our client sees the same.

`nox -s parity` installs the versions of the short form (`-- --versions all` for every era) and says
where they are in TINKER_PARITY_PYTHON and TINKER_PARITY_SDKS; our own client runs in this
environment.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from compare import agrees
from sdk_driver import STEPS_OF_A_RUN
from sdks import installed, ours

SDKS = installed()


@pytest.fixture(scope="module")
def mine():
    return ours().drive()


@pytest.fixture(scope="module", params=SDKS, ids=str)
def official(request):
    report = request.param.drive()
    return request.param, report


@pytest.mark.parametrize("step", STEPS_OF_A_RUN)
def test_each_step_is_as_with_our_client(official, mine, step):
    """M15, M29, M35, M46: the same losses, samples, log-probabilities and listings."""
    _, report = official
    assert step not in report["failed"], report["failed"][step]
    assert step not in mine["failed"], mine["failed"][step]
    assert agrees(step, report[step], mine[step]), (report[step], mine[step])


def test_the_server_kept_to_the_document(official):
    """M29, M40: whatever an SDK sent, no reply broke the document."""
    assert official[1]["violations"] == []


def test_bodies_are_those_of_the_era(official):
    """F35, M29: protobuf from 0.25.0 on, and before that where client/config asks for it."""
    sdk, report = official
    new = [int(n) for n in sdk.version.split(".")] >= [0, 25]
    assert report["bodies"] == (["protobuf"] if new or sdk.proto else ["json"])


@pytest.mark.parametrize("era", ["0.4.1", "0.36.0"])
def test_each_sdk_runs_on_its_own_era(era):
    """M40: the era profile serves the SDK of that era."""
    (sdk,) = [sdk for sdk in SDKS if sdk.version == era]
    report = sdk.drive(era)
    assert report["failed"] == {}
    assert report["train"][-1] < report["train"][0] / 10
