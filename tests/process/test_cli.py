"""The program as a process: its start, its exit codes, its signals, its first five minutes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tinker_ext import ServiceClient

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "tinker_ext"]


def environment(tmp_path, **more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TINKER_")}
    path = os.pathsep.join([str(ROOT), str(ROOT / "generated")])
    return {**kept, "PYTHONPATH": path, "HOME": str(tmp_path), "COLUMNS": "100", **more}


def start(tmp_path, *words, **more):
    return subprocess.Popen(
        [*PROGRAM, *words],
        cwd=tmp_path,
        env=environment(tmp_path, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(tmp_path, *words, **more):
    process = start(tmp_path, *words, **more)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("words", "code", "where"),
    [
        (["version"], 0, "out"),
        (["--base-url", "ftp://x", "run", "list"], 1, "err"),
        (["nonsense"], 2, "err"),
        (["run", "list", "--limit", "x"], 2, "err"),
    ],
)
def test_exit_codes(tmp_path, words, code, where):
    """M36: 0, 1 and 2 as documented; errors on stderr alone, without a traceback."""
    found, out, err = finished(tmp_path, *words)
    assert found == code
    assert bool(out) == (where == "out")
    assert bool(err) == (where == "err")
    assert "Traceback" not in err


def test_serve_prints_what_to_export_and_stops_at_ctrl_c(tmp_path):
    """M40: the port is printed with both export lines; they work; Ctrl-C is the normal end."""
    server = start(tmp_path, "serve", "--port", "0", "--seed", "3", "--model", "my/model")
    try:
        first = server.stdout.readline()
        exports = [server.stdout.readline().split()[1].split("=", 1) for _ in range(2)]
        assert "my/model" in first
        assert [name for name, _ in exports] == ["TINKER_BASE_URL", "TINKER_API_KEY"]
        code, out, err = finished(tmp_path, "--format", "json", "model", "list", **dict(exports))
        assert code == 0, err
        assert "my/model" in [item["model_name"] for item in json.loads(out)["models"]]
        taken = exports[0][1].rpartition(":")[2]
        code, _, err = finished(tmp_path, "serve", "--port", taken)
        assert code == 1
        assert "--port 0" in err
    finally:
        server.send_signal(signal.SIGINT)
        _, err = server.communicate(timeout=300)
    assert (server.returncode, err) == (0, "")


def serving(tmp_path, *options):
    process = start(tmp_path, "--format", "json", "serve", "--port", "0", *options)
    text = ""
    while not text.endswith("}\n"):
        text += process.stdout.readline()
    return process, json.loads(text)["url"]


@pytest.mark.parametrize(("options", "same"), [([], False), (["--seed", "3"], True)])
def test_ids_of_a_server_that_forgets_mean_nothing_to_the_next(tmp_path, options, same):
    """M20, M40: else a run would go on with whatever another one has made there since."""
    ids = set()
    for _ in range(2):
        process, url = serving(tmp_path, *options)
        try:
            with ServiceClient(base_url=url, api_key="tml-example") as service:
                ids.add(service.create_lora_training_client("tinker-ext/tiny", rank=1).model_id)
        finally:
            process.kill()
            process.communicate()
    assert (len(ids) == 1) is same


def test_serve_state_survives_a_kill(tmp_path):
    """M40: what was trained before kill -9 is there after a restart with the same --state."""

    def serve():
        return serving(tmp_path, "--state", "state")

    first, url = serve()
    with ServiceClient(base_url=url, api_key="tml-example") as service:
        trainer = service.create_lora_training_client("tinker-ext/tiny", rank=1)
        path = trainer.save_state("kept").result().path
    first.kill()
    first.communicate()
    second, url = serve()
    try:
        _, out, _ = finished(tmp_path, "--base-url", url, "-f", "json", "checkpoint", "list")
        paths = [item["tinker_path"] for item in json.loads(out)["checkpoints"]]
    finally:
        second.kill()
        second.communicate()
    assert paths == [path]


def test_quickstart(tmp_path):
    """M36: the first five minutes: before and after, curve, files, checkpoint, code."""
    code, out, err = finished(tmp_path, "quickstart", "--out", "lesson")
    assert (code, err) == (0, "")
    assert "step    1/150  loss per token" in out
    assert "tokens/s  ETA" in out
    assert "Right answers" in out
    before, after = out.partition("Right answers")[2].split("of 64")[:2]
    assert int(before) <= 2
    assert int(after) >= 60
    assert "all equal to the last bit" in out
    assert "The Python that did it" in out
    assert "\x1b[" not in out
    assert {file.name for file in (tmp_path / "lesson").iterdir()} == {
        "loss.svg", "loss.png", "metrics.jsonl", "quickstart.py",
    }  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "lesson/metrics.jsonl").open()]
    steps = [line for line in lines if line["type"] == "step"]
    assert len(steps) == 150
    assert steps[-1]["loss_per_token"] < 0.1 * steps[0]["loss_per_token"]


def test_quickstart_as_json(tmp_path):
    """M36: the same story for programs, and nothing else on stdout."""
    code, out, _ = finished(tmp_path, "--format", "json", "quickstart", "--steps", "2")
    told = json.loads(out)
    assert code == 0
    assert told["restored_equal"] is True
    assert len(told["losses"]) == told["steps"] == 2
    assert len(told["before"]) == len(told["after"]) == 64


def test_ctrl_c_in_the_middle_of_work(tmp_path):
    """M21: an interrupted command ends at once, with 130 and without a traceback."""
    process = start(tmp_path, "quickstart", "--steps", "100000")
    while not process.stdout.readline().startswith("step"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_a_reader_that_leaves_early(tmp_path):
    """M36: `tinker-ext … | head -1` is not an error."""
    command = f"{sys.executable} -m tinker_ext serve --list-bugs | head -1"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_completion_through_the_variable(tmp_path):
    """M36: a shell asks the program itself through _TINKER_EXT_COMPLETE."""
    _, out, _ = finished(
        tmp_path,
        _TINKER_EXT_COMPLETE="bash_complete",
        COMP_WORDS="tinker-ext checkpoint se",
        COMP_CWORD="2",
    )
    assert out == "plain,set-ttl\n"
