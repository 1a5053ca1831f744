"""Behaviour that the official SDK's own tests claim, asked of ours under its names."""

from __future__ import annotations

import datetime
import threading
import warnings
from pathlib import Path

import pytest

import tinker_ext
from tinker_ext import ServiceClient, errors, types
from tinker_ext.clients import opening
from tinker_ext.compat.sdk_paths import TOP

ROOT = Path(__file__).parents[3]
INPUT = types.ModelInput.from_ints([1, 2, 3])


@pytest.fixture
def tinker(stand_in):
    return stand_in


def test_our_own_name_has_every_official_one():
    """F37: `import tinker_ext as tinker` is enough."""
    assert [name for name in TOP.split() if not hasattr(tinker_ext, name)] == []
    assert set(TOP.split()) <= set(tinker_ext.__all__)


def test_an_unknown_keyword_is_ignored_under_compat_only(tinker, monkeypatch):
    """F49: FutureWarning as in the official SDK; natively an error that says where to look."""
    with pytest.warns(FutureWarning, match="frobnicate"):
        tinker.ServiceClient(base_url="embedded", frobnicate=1)
    monkeypatch.setattr(opening, "stands_in", lambda: False)
    with pytest.raises(TypeError, match=r"frobnicate.*help\(ServiceClient\)"):
        ServiceClient(base_url="embedded", frobnicate=1)


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
    """F53: `holder.close()` without a status, used or not, once or twice; no thread stays."""
    others = set(threading.enumerate())
    service = ServiceClient(base_url="embedded")
    service.get_server_capabilities()
    service.holder.close().result(300)
    for thread in set(threading.enumerate()) - others:
        thread.join(300)
        assert not thread.is_alive()
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
