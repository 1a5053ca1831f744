"""`tinker-ext ui` as a process: how it ends, and how much memory a long log takes."""

import json
import os
import signal
import subprocess
import sys

import httpx
import pytest
from unit.ui.test_shown import line, step


def test_ctrl_c_ends_the_command_with_zero(tmp_path):
    """M37: also while a page is connected to it."""
    command = [sys.executable, "-m", "tinker_ext", "--format", "json", "ui", str(tmp_path)]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        url = json.loads("{" + process.stdout.readline() + process.stdout.readline())["url"]
        with httpx.Client() as client:
            assert client.get(url, follow_redirects=True).status_code == 200
            with client.stream("GET", url.split("?")[0] + "api/events") as stream:
                assert stream.status_code == 200
                process.send_signal(signal.SIGINT)
                assert process.wait(300) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every name is Unicode")
def test_a_folder_whose_name_is_not_utf8_is_served(tmp_path):
    """M50: its address is printed, whatever the terminal makes of the name."""
    place = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(place)
    command = [sys.executable, "-m", "tinker_ext", "ui", place, "--port", "0"]
    env = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        said = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert b"?token=" in said[1]


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads Linux's /proc")
def test_many_lines_need_less_than_200_mb(tmp_path):
    """F29: memory on 100,000 lines here, on a million in the bench."""
    path = tmp_path / "metrics.jsonl"
    with path.open("w") as file:
        for number in range(33_334):
            file.write(line("start", number=number, operation="optim_step", target="m") + "\n")
            file.write(
                line(
                    "operation",
                    number=number,
                    operation="optim_step",
                    target="m",
                    retries=0,
                    effect="yes",
                    error=None,
                    padding="x" * 200,
                )
                + "\n"
            )
            file.write(step(number, kl=0.1, entropy=0.2) + "\n")
    # Not ru_maxrss: that keeps what the parent had at the fork.
    script = (
        "import re, sys; from pathlib import Path\n"
        "from tinker_ext.observe.index import LogIndex\n"
        "log = LogIndex(Path(sys.argv[1])); log.advance(); log.save()\n"
        "most = re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]\n"
        "print(int(most) / 1024, log.lines)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    after, lines = map(float, done.stdout.split())
    assert lines == 100_002
    assert after < 200
