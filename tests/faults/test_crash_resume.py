"""Kill -9 at any moment of a run, resume, and end with the weights of the run nobody disturbed.

By default a few of the kill points; `CRASH_POINTS=200` (or `all`) tries that many of each kind. The
run is short, so that 200 are nearly all there are, and all kinds take minutes on one core.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinker_ext.mock import Server, Settings

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("crash_driver.py")
POINTS = os.environ.get("CRASH_POINTS", "")
STEPS = 8
JOURNAL_BYTES = 470 * STEPS
"""About as large as the journal of a run gets before it is rewritten."""


@pytest.fixture(scope="module")
def driver():
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/generated"}
    process = subprocess.Popen(
        [sys.executable, str(DRIVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )

    def order(server, journal, kill_at=None, **options):
        fields = {"journal": str(journal), "url": server.url, "steps": STEPS, "kill_at": kill_at}
        process.stdin.write(json.dumps({**fields, **options}) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    with process:
        yield order
        process.stdin.close()


@pytest.fixture(scope="module")
def calm(driver, tmp_path_factory):
    """The run that nobody disturbs: its events and its weights, the same on every server."""
    with Server(Settings(session_ttl=3600)) as server:
        done = driver(server, tmp_path_factory.mktemp("calm") / "journal")
        assert done["code"] == 0
        assert done["done"] == list(range(STEPS))
        return {"events": done["events"], "weights": weights(server, done["path"])}


def weights(server, path):
    """Every array of a saved state, optimizer included."""
    flat = {}

    def walk(name, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{name}/{key}", inner)
        else:
            flat[name] = np.asarray(value).tobytes()

    walk("", server.app.world.checkpoints.get(path).blob)
    return flat


def effects(server, model_id):
    return [effect.seq for effect in server.app.log.training(model_id) if not effect.error]


def lose(server, really):
    for session_id in list(server.app.world.sessions) if really else ():
        server.app.world.lose_session(session_id)


def ended(server):
    """Whether the kill came after the run had told the server that it was over."""
    *_, last = server.app.world.sessions.values() or [None]
    return last is not None and last.status["type"] != "active"


def sampled(events, few, seed):
    """The kill points to try: all, a number from the environment, or a few."""
    if POINTS == "all":
        return list(range(1, events + 1))
    wanted = min(events, int(POINTS) if POINTS else few)
    return sorted(random.Random(seed).sample(range(1, events + 1), wanted))


# profile of the server, whether it loses the session with the crash, points by default
KINDS = [("dedupe", False, 2), ("gap", False, 1), ("strict", False, 1), ("ignore", False, 1)]
KINDS += [("late", False, 1), ("dedupe", True, 1)]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("seq", "loses", "few"), KINDS)
def test_any_kill_ends_in_the_same_weights(driver, calm, tmp_path, seq, loses, few):
    """M19 M20: kill -9 anywhere, resume, and the weights are bit-equal; nothing trained twice."""
    with Server(Settings(seq=seq, session_ttl=3600, log_size=1_000_000)) as server:
        hows = set()
        for point in sampled(calm["events"], few, f"{seq} {loses}"):
            journal = tmp_path / f"{point}.journal"
            killed = driver(server, journal, kill_at=point)
            if killed["code"] == 0 and point > 0.95 * calm["events"]:
                continue  # this server needed a few requests less
            assert killed["code"] == -signal.SIGKILL, f"kill point {point}"
            lose(server, loses)
            over = ended(server)
            # A second crash, early in the resumed process.
            again = driver(server, journal, kill_at=1 + point % STEPS)
            lose(server, loses)
            done = again
            if again["code"] != 0:
                over = over or ended(server)
                done = driver(server, journal)
            assert done["code"] == 0, f"kill point {point}"
            if loses or not over:
                hows.add(done["how"])
            assert weights(server, done["path"]) == calm["weights"], f"kill point {point}"
            model_id = done["path"].split("/")[2]
            seqs = effects(server, model_id)
            assert seqs == list(range(1, len(seqs) + 1)), f"kill point {point}"
            status = server.app.world.sessions[model_id.split(":")[0]].status
            assert status["reason"]["type"] == "success", f"kill point {point}"
            assert b"CANARY" not in journal.read_bytes()
        if loses:
            assert "reattached" not in hows
        elif seq in ("dedupe", "gap"):
            assert hows <= {"reattached", "started"}


FULL = re.compile(r"The journal \S+ cannot be (written|opened): File too large")
# profile of the server, points by default
DISKS = [("dedupe", 2), ("gap", 2), ("strict", 1), ("ignore", 1), ("late", 1)]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("seq", "few"), DISKS)
def test_a_disk_that_fills_ends_in_the_same_weights(driver, calm, tmp_path, seq, few):
    """F24 M20: full in the middle of any write, then killed, then resumed: bit-equal weights."""
    rng = random.Random(f"disk {seq}")
    with Server(Settings(seq=seq, session_ttl=3600, log_size=1_000_000)) as server:
        failed = 0
        for disk in sampled(JOURNAL_BYTES, few, f"disk {seq}"):
            journal = tmp_path / f"{disk}.journal"
            at = rng.choice((None, rng.randrange(1, calm["events"])))
            full = driver(server, journal, kill_at=at, disk=disk, quiet=True)
            failed += full["code"] != 0
            if full["code"] > 0:
                assert full["ours"], f"{disk} bytes: {full['error']}"
                assert FULL.search(full["error"]), f"{disk} bytes: {full['error']}"
            # The disk is full at the first attempt to resume, too, then somebody makes room.
            driver(server, journal, disk=disk, quiet=True)
            done = driver(server, journal)
            assert done["code"] == 0, f"{disk} bytes: {done}"
            assert weights(server, done["path"]) == calm["weights"], f"{disk} bytes"
            seqs = effects(server, done["path"].split("/")[2])
            assert seqs == list(range(1, len(seqs) + 1)), f"{disk} bytes"
        assert failed


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("seq", "few"), DISKS)
def test_a_disk_that_is_full_for_a_while(driver, calm, tmp_path, seq, few):
    """F24 M20: some writes fail, later ones do not, then killed: what was sent is known."""
    rng = random.Random(f"while {seq}")
    with Server(Settings(seq=seq, session_ttl=3600, log_size=1_000_000)) as server:
        for first in sampled(calm["events"] - 10, few, f"while {seq}"):
            journal = tmp_path / f"{first}.journal"
            last = first + rng.choice((1, 2, 3, 8, 20))
            at = rng.choice((None, last + rng.randrange(1, 30)))
            full = [first, last, rng.choice((0, 1, 100))]
            what = f"full {full}, killed at {at}"
            driver(server, journal, kill_at=at, full=full, quiet=True)
            done = driver(server, journal)
            assert done["code"] == 0, f"{what}: {done}"
            assert weights(server, done["path"]) == calm["weights"], what
            seqs = effects(server, done["path"].split("/")[2])
            assert seqs == list(range(1, len(seqs) + 1)), what


def test_a_journal_is_for_its_owner_alone(driver, tmp_path):
    """F24: others on the machine may not read what is trained, nor after it was rewritten."""
    with Server(Settings(session_ttl=3600)) as server:
        journal = tmp_path / "run.journal"
        assert driver(server, journal)["code"] == 0
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
