"""TINKER_LOG: what a user sees of the client's own log."""

import re
import subprocess
import sys

# Most clients of one process have one setting; a later one may have another.
CODE = """
import os, sys
import tinker_ext
for level in ("", "loud", "debug", "info"):
    os.environ["TINKER_LOG"] = level
    print("level", level, file=sys.stderr)
    for _ in range(2):
        with tinker_ext.ServiceClient(base_url="embedded") as service:
            service.get_server_capabilities()
"""


def test_tinker_log_shows_the_log_of_this_package():
    """M33: TINKER_LOG=debug shows every attempt once, other values leave logging alone."""
    env = {"PYTHONPATH": ":".join(sys.path), "HOME": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], check=True, env=env, capture_output=True, text=True
    )
    said = {part.partition("\n")[0]: part for part in done.stderr.split("level ")[1:]}
    seen = {level: text.count("ended with 200") for level, text in said.items()}
    assert seen == {"": 0, "loud": 0, "debug": 4, "info": 0}
    lines = [line for line in said["debug"].splitlines() if "ended with 200" in line]
    assert all(re.match(r"\d{4}-\d\d-\d\d [\d:,]+ tinker_ext DEBUG ", line) for line in lines)
