"""F40: a run on an embedded server with a folder survives kill -9; else the error says why."""

import contextlib
import signal
import subprocess
import sys
import textwrap

import pytest

import tinker_ext
from tinker_ext import ServiceClient
from tinker_ext.errors import ConfigurationError
from tinker_ext.journal import JournalError
from tinker_ext.mock import embedded

PROGRAM = textwrap.dedent(
    """
    import sys
    from tinker_ext import AdamParams, Datum, ModelInput, Run

    url, journal, last = sys.argv[1:]
    datum = Datum(ModelInput.from_ints([104, 101]), {"target_tokens": [101, 108]})
    with Run(
        journal, base_model="tinker-ext/tiny", rank=4, seed=3, base_url=url, save_every=3
    ) as run:
        for step in run.steps(int(last)):
            run.training.forward_backward([datum], "cross_entropy")
            run.training.optim_step(AdamParams(learning_rate=1e-2)).result()
            print(run.how, step, flush=True)
        output = run.training.forward([datum], "cross_entropy").result()
        print("loss", float(output.loss), flush=True)
    """
)


def start(url, journal, last):
    command = [sys.executable, "-c", PROGRAM, url, str(journal), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed_after(process, steps):
    """Kill a process without a word when it has done some steps."""
    try:
        for _ in range(steps):
            assert process.stdout.readline(), process.stderr.read()
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate(timeout=300)


def loss_of(process):
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    lines = out.splitlines()
    assert lines[-1].startswith("loss "), out
    return lines[0].split()[0], float(lines[-1].split()[1])


def test_a_run_on_a_folder_survives_kill(tmp_path):
    """F40, M20: killed twice, it goes on where it was, and ends as an unkilled run does."""
    url = f"embedded:{tmp_path / 'state'}"
    for _ in range(2):
        killed_after(start(url, tmp_path / "journal", 7), 2)
    how, loss = loss_of(start(url, tmp_path / "journal", 7))
    assert how == "reattached"
    _, calm = loss_of(start(f"embedded:{tmp_path / 'other'}", tmp_path / "calm", 7))
    assert loss == calm


def test_without_a_folder_the_error_names_the_cause(tmp_path):
    """F40: the server died with its process, and the message says what to do instead."""
    killed_after(start("embedded", tmp_path / "journal", 12), 5)
    options = {"base_model": "tinker-ext/tiny", "rank": 4, "seed": 3, "base_url": "embedded"}
    with (
        pytest.raises(JournalError, match=r"ended with it.*base_url='embedded:FOLDER'"),
        tinker_ext.Run(tmp_path / "journal", **options) as run,
    ):
        for _ in run.steps(12):
            pass


@pytest.mark.parametrize("steps", [2, 5])
def test_without_a_folder_a_run_does_not_take_up_another_model(tmp_path, caplog, steps):
    """M20, F40: the next process gives its own models and checkpoints the ids of the run's."""
    killed_after(start("embedded", tmp_path / "journal", 12), steps)
    embedded.reset()  # so that the ids are those of a process that begins
    other = ServiceClient(base_url="embedded")
    trained = other.create_lora_training_client("tinker-ext/tiny", rank=4, seed=9)
    trained.save_state("step-000003").result()
    options = {"base_model": "tinker-ext/tiny", "rank": 4, "seed": 3, "base_url": "embedded"}
    with pytest.raises(JournalError) if steps > 3 else contextlib.nullcontext():  # noqa: SIM117
        with tinker_ext.Run(tmp_path / "journal", **options) as run:
            assert next(iter(run.steps(12))) == 0
            assert run.how == "restarted"
            assert run.training.model_id != trained.model_id
    if steps < 3:
        assert "embedded server of a process that has ended" in caplog.text
    other.close().result()


def test_a_run_recorded_before_processes_were_is_of_another_one(tmp_path, monkeypatch):
    """M20, F40: where none was written down, the run took up another model of the same id."""
    options = {"base_model": "tinker-ext/tiny", "rank": 4, "seed": 3, "base_url": "embedded"}
    embedded.reset()
    with monkeypatch.context() as earlier, contextlib.suppress(KeyError):
        earlier.setattr(embedded, "process", lambda url: None)
        with tinker_ext.Run(tmp_path / "j", **options) as run:
            for step in run.steps(2):
                if step == 1:
                    raise KeyError("a crash")
    embedded.reset()
    with ServiceClient(base_url="embedded") as other:
        trained = other.create_lora_training_client("tinker-ext/tiny", rank=4, seed=9)
        with tinker_ext.Run(tmp_path / "j", **options) as run:
            assert next(iter(run.steps(2))) == 0
            assert (run.how, run.training.model_id == trained.model_id) == ("restarted", False)


def listed(service):
    found = service.create_rest_client().list_user_checkpoints().result().checkpoints
    return [checkpoint.tinker_path for checkpoint in found]


def test_a_folder_is_one_server_of_one_process(tmp_path):
    """F30, F40: two clients share it, another process is told who has it."""
    url = f"embedded:{tmp_path}"
    with ServiceClient(base_url=url) as first, ServiceClient(base_url=url) as second:
        path = first.create_lora_training_client("tinker-ext/tiny", rank=4).save_state("a").result()
        names = [
            c.tinker_path
            for c in second.create_rest_client().list_user_checkpoints().result().checkpoints
        ]
        assert names == [path.path]
        with ServiceClient(base_url="embedded") as other:
            assert path.path not in listed(other)
        program = "import sys; from tinker_ext import ServiceClient as S; "
        program += "S(base_url=sys.argv[1]).get_server_capabilities()"
        done = subprocess.run(
            [sys.executable, "-c", program, url], capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 1
        assert "is in use by another server" in done.stderr
    embedded.reset()


def test_unknown_options_are_refused():
    """F40: a typo in the base URL is an error of ours at the call."""
    with pytest.raises(ConfigurationError, match="has no option 'profil'"):
        ServiceClient(base_url="embedded:?profil=hosted")
    with pytest.raises(ConfigurationError, match="has no option 'profil'"):
        ServiceClient(base_url="embedded:?profil=")
    with pytest.raises(ConfigurationError, match="there is no profile 'prod'"):
        ServiceClient(base_url="embedded:?profile=prod").get_server_capabilities()


def test_the_hosted_profile_by_base_url():
    """F34, M47: no port is needed to try a program against the rules of production."""
    with ServiceClient(base_url="embedded:?profile=hosted") as service:
        client = service.create_lora_training_client("tinker-ext/tiny", rank=4)
        saved = client.save_state("a").result().path
        refused = pytest.raises(
            tinker_ext.errors.BadRequestError, match="LoadWeights is not permitted"
        )
        with refused, pytest.warns(FutureWarning):
            client.load_state(saved).result()
    embedded.reset()
