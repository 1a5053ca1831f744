"""Behaviour that the official SDK's own tests claim, asked of ours under its names."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import tinker_ext
from tinker_ext import ServiceClient, compat, errors, types
from tinker_ext.clients import opening
from tinker_ext.compat import access
from tinker_ext.compat.sdk_paths import TOP
from tinker_ext.mock import Server, Settings

ROOT = Path(__file__).parents[3]
INPUT = types.ModelInput.from_ints([1, 2, 3])


@pytest.fixture
def tinker(monkeypatch):
    compat.install()
    import tinker

    monkeypatch.setattr(opening, "stands_in", lambda: True)
    monkeypatch.setattr("tinker_ext.clients.service.stands_in", lambda: True)
    return tinker


def test_our_own_name_has_every_official_one():
    """F37: `import tinker_ext as tinker` is enough."""
    assert [name for name in TOP.split() if not hasattr(tinker_ext, name)] == []
    assert set(TOP.split()) <= set(tinker_ext.__all__)


def test_null_travels_in_metadata():
    """F37: a value of None is sent as null, not left out."""
    with Server() as server, ServiceClient(base_url=server.url, api_key="tml-x") as service:
        service.create_lora_training_client("tinker-ext/tiny", 4, user_metadata={"a": None})
        (sent,) = server.log.requests("create_model")
        assert sent.json["user_metadata"] == {"a": None}


@pytest.mark.parametrize("era", ["0.4.1", "0.36.0"])
def test_null_clears_a_label(era):
    """F37: a label set to None is gone when the run, the session or its usage is read back."""
    labels = {"a": None, "b": "kept"}
    with (
        Server(Settings(era=era)) as server,
        ServiceClient(base_url=server.url, api_key="tml-x", user_metadata=labels) as service,
    ):
        first = service.create_lora_training_client(
            "tinker-ext/tiny", 4, user_metadata={"a": "old", "b": "kept"}
        )
        path = first.save_state("x").result(300).path
        second = service.create_training_client_from_state(path, user_metadata=labels)
        rest = service.create_rest_client()
        run = rest.get_training_run(second.model_id).result(300)
        assert run.user_metadata == {"b": "kept"}
        if era == "0.36.0":
            found = rest.search_sessions(types.SessionSearchRequest()).result(300).sessions
            assert [dict(one.user_metadata) for one in found] == [{"b": "kept"}]


@pytest.fixture
def unpaid(monkeypatch):
    """A server without credit, as the environment's server."""
    flags = {"billing_exception_max_pause_duration_sec": 1}
    with Server(Settings(client_config=flags)) as server:
        monkeypatch.setenv("TINKER_BASE_URL", server.url)
        monkeypatch.setenv("TINKER_API_KEY", "tml-x")
        for path in ("get_server_capabilities", "training_runs"):
            server.faults.add("status", path=path, status=402)
        yield server


def test_accessible_asks_once(unpaid):
    """F47: no wait for money; one request and BillingError."""
    with pytest.raises(errors.BillingError):
        access.raise_if_tinker_not_accessible()
    assert len(unpaid.log.requests("get_server_capabilities")) == 1


def test_look_ups_wait_for_money_as_long_as_the_server_says(unpaid):
    """F47: billing_exception_max_pause_duration_sec counts for look-ups too."""
    with ServiceClient() as service, pytest.raises(errors.BillingError):
        service.create_rest_client().list_training_runs().result(300)


def test_an_unknown_keyword_is_ignored_under_compat_only(tinker, monkeypatch):
    """F49: FutureWarning as in the official SDK; natively an error that says where to look."""
    with pytest.warns(FutureWarning, match="frobnicate"):
        tinker.ServiceClient(base_url="embedded", frobnicate=1)
    monkeypatch.setattr(opening, "stands_in", lambda: False)
    with pytest.raises(TypeError, match=r"frobnicate.*help\(ServiceClient\)"):
        ServiceClient(base_url="embedded", frobnicate=1)


def test_a_copy_needs_a_project_and_no_session():
    """F48: destination_project_id is sent; without a project nothing is."""
    with Server() as server, ServiceClient(base_url=server.url, api_key="tml-x") as service:
        with pytest.raises(ValueError, match="project"):
            service.copy_weights("tinker://r/weights/x")
        assert server.log.requests() == []
        with pytest.raises(errors.TinkerError):  # there is no such checkpoint
            service.copy_weights("tinker://r/weights/x", project_id="p").result(300)
        (sent,) = server.log.requests("*copy*")
        assert sent.json["destination_project_id"] == "p"
        assert "session_id" not in sent.json
        assert server.log.requests("create_session") == []


@pytest.mark.parametrize("name", ["TraceExportError", "WhoamiError"])
def test_errors_that_are_runtime_errors_there(name):
    """F51: caught by the class that the official SDK raises."""
    assert issubclass(getattr(errors, name), RuntimeError)


def test_days_are_times():
    """F50: dates without a time are taken."""
    with ServiceClient(base_url="embedded") as service:
        day = datetime.date(2026, 1, 1)
        admin = tinker_ext.AdminClient(service.holder)
        assert admin.get_billing_usage(day, day + datetime.timedelta(days=1)).result() is not None


def test_a_span_of_another_type():
    """F51: a TypeError there; here also the error of every bad argument."""
    for field in ("model_input_spans", "loss_fn_input_spans"):
        with pytest.raises(TypeError, match="tuple") as caught:
            types.Datum(INPUT, {}, **{field: [("prompt", 3)]})
        assert isinstance(caught.value, errors.InvalidInputError)


@pytest.mark.parametrize("cls", [types.PromptProvenanceSpan, types.SampledProvenanceSpan])
def test_a_span_names_its_sequence(cls):
    """F55: an empty id is refused."""
    with pytest.raises(ValueError, match="id of a sequence"):
        cls(sequence_id="", length=1)


def test_console_urls(tinker):
    """F53: the parameters of the official functions."""
    from tinker.lib import console_urls

    base = "https://tinker.thinkingmachines.ai"
    assert console_urls.checkpoint_console_url("r:train:0", "weights/1") == (
        f"{base}/checkpoints/r%3Atrain%3A0/weights%2F1"
    )
    assert console_urls.new_api_key_console_url(key_name="my key") == (
        f"{base}/keys?new_key=true&key_name=my+key"
    )
    assert console_urls.training_run_console_url("r:train:0") == f"{base}/training_runs/r:train:0"
    assert console_urls.session_console_url("s") == f"{base}/sessions/s"
    assert console_urls.api_key_console_url("a/b") == f"{base}/keys/a%2Fb"
    assert console_urls.checkpoint_playground_url("tinker://r/x") == (
        f"{base}/playground?mode=checkpoint&checkpoint=tinker%3A%2F%2Fr%2Fx"
    )


def test_small_private_names(tinker):
    """F53: `tinker._version` and `tinker._types.NoneType`."""
    from tinker._types import NoneType
    from tinker._version import __title__, __version__

    assert (__title__, __version__, NoneType) == ("tinker", "0.36.0", type(None))


def test_a_holder_closes():
    """F53: `holder.close()` without a status, used or not, once or twice."""
    service = ServiceClient(base_url="embedded")
    service.get_server_capabilities()
    service.holder.close().result(300)
    service.holder.close().result(300)
    with pytest.raises(errors.ClientClosedError):
        service.get_server_capabilities()
    ServiceClient(base_url="embedded").holder.close().result(300)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("BadRequestError", 400),
        ("AuthenticationError", 401),
        ("BillingError", 402),
        ("PermissionDeniedError", 403),
        ("NotFoundError", 404),
        ("ConflictError", 409),
        ("UnprocessableEntityError", 422),
        ("RateLimitError", 429),
    ],
)
def test_statuses_of_classes(name, status):
    """F54: the status can be read from the class."""
    assert getattr(errors, name).status_code == status


def test_a_sampler_observes_queues(tinker):
    """F54: SamplingClient counts as a QueueStateObserver; what has no such method does not."""
    from tinker.lib.queue_state_logger import QueueStateLogger, QueueStateObserver

    assert issubclass(tinker.SamplingClient, QueueStateObserver)
    assert issubclass(QueueStateLogger, QueueStateObserver)
    assert not issubclass(tinker.ServiceClient, QueueStateObserver)


def test_official_warnings(tinker, monkeypatch):
    """F55: create_rest_client() under compat, loss_type_input everywhere."""
    with tinker.ServiceClient(base_url="embedded") as service:
        with pytest.warns(FutureWarning, match="RestClient"):
            service.create_rest_client()
        monkeypatch.setattr("tinker_ext.clients.service.stands_in", lambda: False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            service.create_rest_client()
        training = service.create_lora_training_client("tinker-ext/tiny", 4)
        datum = types.Datum(INPUT, {"target_tokens": [2, 3, 4]})

        def loss(data, logprobs):
            return sum(float(each.sum()) for each in logprobs), {}, [x * 0 for x in logprobs]

        with pytest.warns(DeprecationWarning, match="loss_type_input"):
            training.forward_backward_custom(
                [datum], loss, loss_type_input="logprobs", backend="numpy"
            )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["version"], 0, "tinker 0.36.0\n"),
        (["-f", "json", "version"], 0, "tinker 0.36.0\n"),
        (["auth", "status"], 1, "Credentials available: no\n"),
        (["checkpoint", "delete", "--run-id", "r", "--type", "nonsense"], 1, ""),
    ],
)
def test_the_official_command(tmp_path, words, code, said):
    """F57: what scripts read from `tinker`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TINKER_")}
    path = os.pathsep.join([str(compat.directory()), str(ROOT), str(ROOT / "generated")])
    done = subprocess.run(
        [sys.executable, "-m", "tinker.cli", *words],
        env={**kept, "PYTHONPATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, said)
    assert "Traceback" not in done.stderr
