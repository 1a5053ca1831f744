"""Whatever opens files closes them, also where it fails (M19)."""

from __future__ import annotations

import os
import tarfile
from unittest.mock import Mock

import httpx
import numpy as np
import pytest

from tinker_ext import SampleLog, SampleResponse, log_to
from tinker_ext.downloads import fetch, unpack
from tinker_ext.downloads.fetch import alone
from tinker_ext.errors import DownloadError, TinkerError
from tinker_ext.journal import Journal
from tinker_ext.runlog import RunLog
from tinker_ext.types import SampledSequence


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def sample_log(place):
    log = SampleLog(place / "samples", max_bytes=8192)
    answer = SampleResponse(
        [SampledSequence("stop", tokens_np=np.arange(20), logprobs_np=np.zeros(20))]
    )
    for _ in range(60):
        log.record("prompt", answer)


def run_log(place):
    log = RunLog(place / "log")
    log.write("note", text="x")
    log.close()


def passed_on_log(place):
    log = log_to(place / "log", Mock())
    log.write("step", step=1, loss=2.0)
    log.close()


def moved_log(place):
    log = RunLog(place / "log")
    log.write("note", text="x")
    log.path.rename(place / "moved")
    log.write("session_end")
    log.close()


def journal(place):
    held = Journal(place / "run.journal")
    held.plan({"base_model": "m", "rank": 4, "seed": 1})
    with pytest.raises(TinkerError):
        Journal(place / "run.journal")
    held.file.rewrite(held.state.to_record())
    held.close()
    Journal(place / "run.journal").close()


def damaged_journal(place):
    path = place / "damaged"
    path.write_bytes(b"not a journal\n")
    with pytest.raises(TinkerError):
        Journal(path)


def lock(place):
    target = place / "target"
    with alone(target), pytest.raises(DownloadError, match="somebody else"), alone(target):
        pass
    assert not (place / "target.part.lock").exists()


def download(place):
    http = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(404)))
    with pytest.raises(DownloadError, match="404"):
        fetch("http://files.test/a", place / "a", client=http)
    http.close()


def archive(place):
    with tarfile.open(place / "a.tar", "w") as tar:
        tar.add(__file__, "file")
        tar.add(__file__, "../escape")
    with pytest.raises(DownloadError):
        unpack(place / "a.tar", place / "unpacked")
    with tarfile.open(place / "b.tar", "w") as tar:
        tar.add(__file__, "file")
    unpack(place / "b.tar", place / "unpacked")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are listed there")
@pytest.mark.parametrize(
    "work",
    [
        sample_log,
        run_log,
        passed_on_log,
        moved_log,
        journal,
        damaged_journal,
        lock,
        download,
        archive,
    ],
)
def test_no_descriptor_is_left(work, tmp_path):
    """M19: a run of weeks opens and closes thousands of times."""
    (tmp_path / "first").mkdir()
    work(tmp_path / "first")  # what is opened once for good is open now
    before = descriptors()
    for name in ("second", "third"):
        (tmp_path / name).mkdir()
        work(tmp_path / name)
    assert descriptors() == before
