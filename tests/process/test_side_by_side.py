"""The commands that `nox` runs side by side: each end is told, and nothing outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# nox itself is not part of the environment that its sessions run in.
LOADED = """
import importlib.util, signal, sys, types
# As in a terminal: what runs these tests may ignore signals, as `nohup` and a shell's `&` do.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
nox = types.ModuleType("nox")
nox.options, nox.Session = types.SimpleNamespace(), object
nox.session = lambda function=None, **_: function or (lambda function: function)
sys.modules["nox"] = nox
spec = importlib.util.spec_from_file_location("noxfile", sys.argv[1])
noxfile = importlib.util.module_from_spec(spec)
spec.loader.exec_module(noxfile)
begin = noxfile.BACKGROUND.begin
"""
# Starts a program and tells both their numbers; neither ends by itself, nor by Ctrl-C.
PARENT = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN) if sys.argv[2:] else None
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""


def started(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", LOADED + code, str(ROOT / "noxfile.py"), *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )


def alive(number: int) -> bool:
    """Whether a process is there; one that has ended and that nobody asks for is not."""
    with contextlib.suppress(OSError):
        return "Z" not in Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    return False


def test_a_program_that_is_not_there_is_told() -> None:
    """The session failed with a hang: the thread that was to run it had ended."""
    code = """
try:
    begin(["/no/such/program"], {}).result(60)
except FileNotFoundError as error:
    print(error.filename)
print(begin([sys.executable, "-c", "print('next')"], {}).result(60).stdout)
"""
    program = started(code)
    assert program.communicate(timeout=120)[0].split() == ["/no/such/program", "next"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
@pytest.mark.parametrize("end", ["a failure", "SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("deaf", [False, True])
def test_nothing_outlives_nox(end: str, deaf: bool, tmp_path: Path) -> None:
    """What commands have started ends with them, also where one does not listen."""
    code = f"""
command = [sys.executable, "-c", {PARENT!r}, sys.argv[2], *sys.argv[3:]]
noxfile.PATIENCE = 0.5
running = begin(command, {{}})
import os, time
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
print("ready", flush=True)
sys.exit(1) if {end == "a failure"} else running.result()
"""
    place = tmp_path / "numbers"
    program = started(code, str(place), *(["deaf"] if deaf else []))
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    numbers = [int(number) for number in place.read_text().split()]
    if end != "a failure":
        assert all(map(alive, numbers))
        program.send_signal(signal.Signals[end])
    program.communicate(timeout=60)
    until = time.monotonic() + 30
    while any(map(alive, numbers)) and time.monotonic() < until:
        time.sleep(0.02)
    left = [number for number in numbers if alive(number)]
    for number in left:
        os.kill(number, signal.SIGKILL)
    assert left == []
