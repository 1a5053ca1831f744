"""What each package of a logger is told: which run, which numbers, when it is written and ended.

The packages are stand-ins that note their calls; `nox -s loggers` runs the real ones.
"""

import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tinker_ext import log_to
from tinker_ext.observe import loggers


@pytest.fixture
def package(monkeypatch):
    """Put modules in the place of packages."""

    def put(**modules):
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name.replace("__", "."), module)

    return put


def steps(folder, logger, *numbers, **options):
    """Write steps to a log that passes them on, and close it."""
    log = log_to(folder / "run", logger, **options)
    for number in numbers:
        log.write("step", step=number, loss=number / 2, metrics={"a b:c": 3.0})
    log.close()


def test_weights_and_biases(tmp_path, package, monkeypatch):
    """M34: one run, by its id also after a restart; offline unless the user wants otherwise."""
    monkeypatch.delenv("WANDB_MODE", raising=False)
    fields = {"model_fields": {"x_transaction_log_flush_interval": None}}
    wandb = Mock(Settings=Mock(side_effect=lambda **given: given, **fields))
    package(wandb=wandb)
    steps(tmp_path, "wandb", 4, project="p", name="n")
    (init,) = wandb.init.call_args_list
    given = init.kwargs
    assert (given["project"], given["name"], given["mode"]) == ("p", "n", "offline")
    assert (given["resume"], given["reinit"]) == ("allow", "create_new")
    assert given["dir"] == str(tmp_path / "run")
    assert given["settings"] == {
        "silent": True,
        "console": "off",
        "x_transaction_log_flush_interval": 0.5,
    }
    run = wandb.init.return_value
    ((values,), options) = run.log.call_args
    assert {key: values[key] for key in ("a b:c", "loss")} == {"a b:c": 3.0, "loss": 2.0}
    assert values["_timestamp"] > 1e9
    assert options == {"step": 4, "commit": True}
    run.finish.assert_called_once_with()
    monkeypatch.setenv("WANDB_MODE", "online")
    wandb.Settings.model_fields = {}  # an older one does not know the setting
    steps(tmp_path, "wandb", 5)
    again = wandb.init.call_args.kwargs
    assert (again["id"], again["mode"], again["name"]) == (given["id"], "online", "run")
    assert again["settings"] == {"silent": True, "console": "off"}
    assert [call.kwargs["step"] for call in run.log.call_args_list] == [4, 5]


def test_mlflow(tmp_path, package, monkeypatch):
    """M34: names that MLflow takes, in batches that it takes, into one run that is ended."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    client = Mock()
    client.get_experiment_by_name.return_value = None
    client.create_run.return_value.info.run_id = "R"
    client.log_batch.side_effect = lambda run, metrics: batches.append((run, list(metrics)))
    batches = []
    tracking = SimpleNamespace(MlflowClient=Mock(return_value=client))
    package(
        mlflow=Mock(),
        mlflow__tracking=tracking,
        mlflow__entities=SimpleNamespace(Metric=lambda *given: given),
    )
    steps(tmp_path, "mlflow", *range(1, 462), project="p", name="n")
    uri = tracking.MlflowClient.call_args.kwargs["tracking_uri"]
    assert uri == f"sqlite:///{tmp_path.resolve()}/run/mlflow.db"
    client.create_experiment.assert_called_once_with("p")
    number = client.create_experiment.return_value
    client.create_run.assert_called_once_with(number, run_name="n")
    client.update_run.assert_called_with("R", status="RUNNING")
    client.set_terminated.assert_called_once_with("R")
    assert {run for run, _ in batches} == {"R"}
    assert max(len(metrics) for _, metrics in batches) <= 1000  # more is refused
    taken = [metric for _, metrics in batches for metric in metrics]
    assert [value for key, value, _, _ in taken if key == "loss"] == [n / 2 for n in range(1, 462)]
    assert {key for key, *_ in taken} == {"loss", "a b_c"}
    assert [step for key, _, _, step in taken if key == "loss"] == list(range(1, 462))
    assert all(isinstance(moment, int) and moment > 1e12 for _, _, moment, _ in taken)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere.test")
    steps(tmp_path, "mlflow", 999)
    assert tracking.MlflowClient.call_args.kwargs["tracking_uri"] == "http://elsewhere.test"
    assert client.create_run.call_count == 1


def test_mlflow_uses_an_experiment_that_is_there(tmp_path, package):
    """M34: a second run of a project is put beside the first."""
    client = Mock()
    client.get_experiment_by_name.return_value.experiment_id = "E"
    client.create_run.return_value.info.run_id = "R"
    package(
        mlflow=Mock(),
        mlflow__tracking=SimpleNamespace(MlflowClient=Mock(return_value=client)),
        mlflow__entities=SimpleNamespace(Metric=lambda *given: given),
    )
    steps(tmp_path, "mlflow", 1, name="n")
    client.get_experiment_by_name.assert_called_once_with("tinker-ext")
    client.create_experiment.assert_not_called()
    client.create_run.assert_called_once_with("E", run_name="n")


def test_trackio(tmp_path, package):
    """M34: one run by its name, nothing but our numbers in it."""
    trackio = Mock()
    package(trackio=trackio)
    steps(tmp_path, "trackio", 4, project="p", name="n")
    given = trackio.init.call_args.kwargs
    assert given["name"].startswith("n-")
    assert {key: given[key] for key in given if key != "name"} == {
        "project": "p",
        "resume": "allow",
        "embed": False,
        "auto_log_gpu": False,
        "auto_log_cpu": False,
    }
    run = trackio.init.return_value
    run.log.assert_called_once_with({"a b:c": 3.0, "loss": 2.0}, step=4)
    run.finish.assert_called_once_with()
    steps(tmp_path, "trackio", 5, name="n")
    assert trackio.init.call_args.kwargs["name"] == given["name"]


def test_tensorboard(tmp_path, package):
    """M34: one event a step, with its time, in a folder below the run's."""
    writers = Mock()
    made = SimpleNamespace
    summaries = SimpleNamespace(Summary=lambda value: value)
    summaries.Summary.Value = lambda tag, simple_value: (tag, simple_value)
    events = SimpleNamespace(Event=lambda **given: made(**given))
    package(
        tensorboard__summary__writer__event_file_writer=writers,
        tensorboard__compat__proto__event_pb2=events,
        tensorboard__compat__proto__summary_pb2=summaries,
    )
    steps(tmp_path, "tensorboard", 4)
    writers.EventFileWriter.assert_called_once_with(str(tmp_path / "run" / "tensorboard"))
    writer = writers.EventFileWriter.return_value
    ((event,), _) = writer.add_event.call_args
    assert event.step == 4
    assert event.wall_time > 1e9
    assert dict(event.summary) == {"a b:c": 3.0, "loss": 2.0}
    writer.flush.assert_called()
    writer.close.assert_called_once_with()


def test_after_a_crash_the_last_seconds_are_passed_on_again(tmp_path, monkeypatch):
    """M34: some packages write with a delay; what is older than that is not repeated."""
    clock = 100.0
    monkeypatch.setattr(loggers.time, "monotonic", lambda: clock)
    monkeypatch.setattr(loggers, "EVERY_SECONDS", 1e6)  # only `forward` passes on
    taken = []
    logger = SimpleNamespace(
        log=lambda step, values, time: taken.append(step), flush=Mock(), close=Mock()
    )
    log = log_to(tmp_path / "run", logger)
    for step in (1, 2, 3):
        log.write("step", step=step, loss=1.0)
        log.forward()
        log.forward()  # nothing new
        clock += 3.0
    log.write("step", step=4, loss=1.0)
    log.forward()
    assert taken == [1, 2, 3, 4]
    assert logger.flush.call_count == 4
    again = log_to(tmp_path / "run", logger)  # the first was never closed
    again.close()
    assert taken == [1, 2, 3, 4, 4]
    log.close()
    third = log_to(tmp_path / "run", logger)
    third.close()
    assert taken == [1, 2, 3, 4, 4]


def test_half_a_line_is_left_out(tmp_path):
    """M34: the last line of a writer that was killed is not a step."""
    place, logger = tmp_path / "log.jsonl", Mock()
    whole = b'{"type":"step","step":1,"time":1.0,"loss":2.0}\n'
    place.write_bytes(whole + b'{"type":"step"}\n' + b'{"type":"step","step":2')
    log_to(place, logger).close()
    logger.log.assert_called_once_with(1, {"loss": 2.0}, 1.0)
