"""The real packages, each writing to a local folder and read back; `nox -s loggers` runs this."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

STEPS = 12


def tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder / "run" / "tensorboard"))
    read.Reload()
    if "loss" not in read.Tags()["scalars"]:
        return {}
    return {event.step: event.value for event in read.Scalars("loss")}


def wandb_records(data):
    """The records of a .wandb file: a header of 7 bytes, then LevelDB's log of 32 KB blocks."""
    at, parts = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if not kind or at + 7 + size > len(data):
            return
        parts += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            yield parts
            parts = b""


def wandb(folder):
    from wandb.proto import wandb_internal_pb2

    found, names = {}, set()
    for file in sorted((folder / "run" / "wandb").glob("offline-run-*/run-*.wandb")):
        names.add(file.stem)
        for data in wandb_records(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            items = {
                item.key or "/".join(item.nested_key): item.value_json
                for item in record.history.item
            }
            if "loss" in items:
                found[int(items.get("_step") or record.history.step.num)] = float(items["loss"])
    assert len(names) <= 1, "one run over there, however often it was started"
    return found


def mlflow(folder):
    from mlflow.tracking import MlflowClient

    if not (folder / "run" / "mlflow.db").exists():
        return {}
    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'run' / 'mlflow.db'}")
    known = client.get_experiment_by_name("tinker-ext")
    runs = client.search_runs([known.experiment_id])
    assert len(runs) == 1
    return {m.step: m.value for m in client.get_metric_history(runs[0].info.run_id, "loss")}


def trackio(folder):
    from trackio.sqlite_storage import SQLiteStorage

    runs = SQLiteStorage.get_runs("tinker-ext")
    assert len(runs) <= 1
    return {
        row["step"]: row["loss"]
        for name in runs
        for row in SQLiteStorage.get_logs("tinker-ext", name)
        if "loss" in row
    }


READERS = {"tensorboard": tensorboard, "wandb": wandb, "mlflow": mlflow, "trackio": trackio}

SCRIPT = """
    import sys, time
    from tinker_ext import log_to
    name, folder, first, last, pause = sys.argv[1:]
    log = log_to(folder + "/run", name)
    for step in range(int(first), int(last) + 1):
        log.write("step", step=step, loss=100.0 - step, metrics={"kl:mean": 0.5},
                  tokens={"train": 10}, seconds=0.1, totals={"train": 10 * step})
        print(step, flush=True)
        time.sleep(float(pause))
    log.close()
"""


def start(name, folder, first, last, pause=0.0):
    words = [sys.executable, "-c", textwrap.dedent(SCRIPT), name, str(folder), first, last, pause]
    path = os.pathsep.join(sys.path)
    return subprocess.Popen(
        [str(word) for word in words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def finish(process):
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 0, said


@pytest.fixture(params=READERS)
def logger(request, tmp_path, monkeypatch):
    """Name of the logger, its folder, and what reads it."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for name in [name for name in sys.modules if name.split(".")[0] == "trackio"]:
        monkeypatch.delitem(sys.modules, name)  # it reads its folder once, on import
    return request.param, tmp_path, READERS[request.param]


@pytest.mark.timeout(600)
def test_steps_are_read_back_and_a_second_start_continues_the_run(logger):
    """M34: every step once, one run over there, no matter how many processes wrote it."""
    name, folder, read = logger
    finish(start(name, folder, 1, STEPS // 2))
    finish(start(name, folder, STEPS // 2 + 1, STEPS))
    assert read(folder) == {step: 100.0 - step for step in range(1, STEPS + 1)}


@pytest.mark.timeout(600)
def test_a_killed_run_misses_at_most_the_last_second_and_then_nothing(logger):
    """M34: SIGKILL in full work; the log has every step, and the next start passes the rest on."""
    name, folder, read = logger
    process = start(name, folder, 1, 10_000, 0.1)
    shown = 0
    while shown < 60:
        line = process.stdout.readline().strip()
        assert line or process.poll() is None, "the script ended"
        shown = int(line) if line.isdigit() else shown  # packages print, too
    process.send_signal(signal.SIGKILL)
    rest = [int(word) for word in process.communicate()[0].split() if word.isdigit()]
    last = max([shown, *rest])
    time.sleep(2)  # writer processes of the packages end in their own time
    arrived = read(folder)
    print(name, "has", len(arrived), "of", last, "steps after the kill")
    assert len(arrived) >= last - 10, "ten steps are a second"
    finish(start(name, folder, last + 1, last + 3))
    assert set(read(folder)) == set(range(1, last + 4))
