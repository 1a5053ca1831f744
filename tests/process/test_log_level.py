"""TINKER_LOG: what a user sees of the client's own log."""

import subprocess
import sys

import pytest

CODE = """
import tinker_ext
with tinker_ext.ServiceClient(base_url="embedded") as service:
    service.get_server_capabilities()
with tinker_ext.ServiceClient(base_url="embedded") as service:
    service.get_server_capabilities()
"""


@pytest.mark.parametrize(("level", "lines"), [("debug", 4), ("info", 0), ("loud", 0), ("", 0)])
def test_tinker_log_shows_the_log_of_this_package(level, lines):
    """M33: TINKER_LOG=debug shows every attempt once, other values leave logging alone."""
    env = {"PYTHONPATH": ":".join(sys.path), "TINKER_LOG": level, "HOME": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], check=True, env=env, capture_output=True, text=True
    )
    assert len([line for line in done.stderr.splitlines() if "ended with 200" in line]) == lines
