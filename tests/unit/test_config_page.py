"""What a user gets who sets nothing: the defaults, as the page on configuration lists them."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from tinker_ext import RetryConfig
from tinker_ext.config import HOSTED_BASE_URL, Config
from tinker_ext.downloads.unpack import UnpackLimits

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
ROWS = dict(re.findall(r"^\| `[A-Z_]+` \| `(\w+)` \| (.+?) \|", PAGE.read_text(), re.M))
WORDS = {"–": (None, ()), "off": (False,), "on": (True,), "hosted service": (HOSTED_BASE_URL,)}


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(Config)])
def test_the_page_names_the_default_that_holds(name):
    """M33: a default that changes is a change of the page."""
    told, value = ROWS[name], getattr(Config(), name)
    if told in WORDS:
        assert value in WORDS[told]
    elif isinstance(value, str):
        assert value == told
    else:
        assert value == float(told.replace(",", ""))


def test_a_retry_config_of_nothing_is_that_of_the_official_sdk():
    """F37 M24: the names and defaults its users know."""
    config = RetryConfig()
    assert (config.max_connections, config.progress_timeout) == (1000, 7200.0)
    assert (config.retry_delay_base, config.retry_delay_max) == (0.5, 10.0)
    assert (config.jitter_factor, config.enable_retry_logic) == (0.25, True)
    assert config.enable_stuck_detection is True


def test_what_an_archive_may_become():
    """M37: beyond it an archive is refused."""
    limits = UnpackLimits()
    assert (limits.max_files, limits.max_bytes) == (10_000, 256 * 2**30)
    assert (limits.max_ratio, limits.max_depth) == (200.0, 16)
