"""Checkpoint paths and console links."""

import attrs
import pytest

from tinker_ext import paths
from tinker_ext.errors import InvalidInputError


@pytest.mark.parametrize(
    ("path", "run", "kind", "checkpoint"),
    [
        ("tinker://r/weights/1", "r", "training", "weights/1"),
        ("tinker://s:train:0/sampler_weights/a", "s:train:0", "sampler", "sampler_weights/a"),
        ("tinker://r/external_weights/x", "r", "external", "external_weights/x"),
        ("tinker:///weights/1", "", "training", "weights/1"),
    ],
)
def test_parse(path, run, kind, checkpoint):
    """M35: a checkpoint path splits into run, type and checkpoint id, and joins again."""
    parsed = paths.parse_checkpoint(path)
    assert attrs.astuple(parsed) == (path, run, kind, checkpoint)
    assert paths.checkpoint_path(run, checkpoint) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "x",
        "tinker://r",
        "tinker://r/weights",
        "tinker://r/foo/x",
        "tinker://r/weights/a/b",
        None,
        5,
    ],
)
def test_bad_paths(path):
    """M35: anything else is refused with the expected form."""
    with pytest.raises(InvalidInputError, match="Invalid tinker path"):
        paths.parse_checkpoint(path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tinker://r/weights/1", True),
        ("tinker:///weights/1", True),
        ("tinker://model_1/final", True),
        ("file:///tmp/x", True),
        ("s3://bucket", True),
        ("org/model", False),
        ("://", False),
        ("tinker://x", False),
        ("tinker://x/", False),
        ("http://a", False),
        ("HTTPS://a/weights/b", False),
        (None, False),
        (5, False),
    ],
)
def test_any_scheme_counts_as_weights(path, expected):
    """M28: other servers use other path schemes, and paths without a kind."""
    assert paths.looks_like_weights(path) is expected


def test_links():
    """M16: console links have the run and checkpoint fully escaped."""
    path = "tinker://s:train:0/sampler_weights/a b"
    base = paths.CONSOLE_URL
    assert paths.checkpoint_url(path) == f"{base}/checkpoints/s%3Atrain%3A0/sampler_weights%2Fa%20b"
    assert paths.playground_url(path) == (
        f"{base}/playground?mode=checkpoint&checkpoint="
        "tinker%3A%2F%2Fs%3Atrain%3A0%2Fsampler_weights%2Fa%20b"
    )
    assert paths.session_url("a/b") == f"{base}/sessions/a%2Fb"
    assert paths.training_run_url("s:train:0") == f"{base}/training_runs/s%3Atrain%3A0"
    assert paths.sessions_url() == f"{base}/sessions"
    assert paths.new_key_url("my key") == f"{base}/keys?new_key=true&key_name=my%20key"
    assert paths.key_url("k1") == f"{base}/keys/k1"
