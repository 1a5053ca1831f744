"""Which server a client talks to, and what it says when it chose one itself."""

from __future__ import annotations

import inspect
import warnings
from unittest.mock import MagicMock

import pytest

from tinker_ext import SamplingClient, ServiceClient, TrainingClient
from tinker_ext.clients import embedded
from tinker_ext.config import HOSTED_BASE_URL
from tinker_ext.errors import InvalidInputError, TinkerError


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch, tmp_path):
    for name in ("TINKER_API_KEY", "TINKER_BASE_URL", "TINKER_CREDENTIAL_CMD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    embedded.reset()
    yield
    embedded.reset()


def test_without_key_and_url_the_embedded_server_answers_with_a_warning():
    """M40: one visible warning, then everything works offline."""
    with pytest.warns(UserWarning, match="embedded server") as seen:
        first = ServiceClient()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = ServiceClient()
    assert len(seen) == 1
    with first, second:
        assert first.get_server_capabilities().supported_models
        assert second.holder.link.base_url == embedded.URL


def test_the_drop_in_may_insist_on_a_key(monkeypatch):
    """M33: with the default switched off, a missing key is an error that says what to do."""
    monkeypatch.setattr(embedded, "default_to_embedded", False)
    with pytest.raises(TinkerError, match="TINKER_API_KEY"):
        ServiceClient()


def test_a_key_means_the_hosted_service():
    """M33: a key without a base URL goes to the hosted service."""
    assert ServiceClient(api_key="tml-x").holder.link.base_url == HOSTED_BASE_URL


def test_environment_and_argument(monkeypatch):
    """M33: TINKER_BASE_URL is used; the argument wins; any key shape is fine elsewhere."""
    monkeypatch.setenv("TINKER_BASE_URL", "http://one/path/")
    assert ServiceClient(api_key="any").holder.link.base_url == "http://one/path"
    assert ServiceClient(base_url="http://two", api_key="x").holder.link.base_url == "http://two"
    monkeypatch.setenv("TINKER_BASE_URL", "embedded")
    assert ServiceClient().holder.link.base_url == embedded.URL


def test_older_arguments_are_taken_with_a_warning():
    """M16: what 0.4.1 took is still taken."""
    with pytest.warns(DeprecationWarning, match="timeout"):
        service = ServiceClient(base_url="http://x", api_key="k", timeout=5.0, max_retries=3)
    assert service.holder.link.config.request_timeout == 5.0
    with pytest.raises(TypeError, match="nonsense"):
        ServiceClient(base_url="http://x", nonsense=1)


def test_clients_can_be_mocked_and_patched(monkeypatch):
    """M30: MagicMock(spec=…) and setattr on the classes work, async methods are coroutines."""
    for cls in (ServiceClient, TrainingClient, SamplingClient):
        mock = MagicMock(spec=cls)
        for name, member in inspect.getmembers(cls, inspect.isfunction):
            if name.endswith("_async") and not name.startswith("_"):
                assert inspect.iscoroutinefunction(member), name
                assert hasattr(mock, name)
    monkeypatch.setattr(SamplingClient, "sample", lambda self: 3)
    assert SamplingClient.sample(None) == 3


@pytest.mark.parametrize("cls", [ServiceClient, TrainingClient, SamplingClient])
def test_twins_take_the_same_arguments(cls):
    """M16: x and x_async differ in how the result comes, not in what they take."""
    twins = 0
    for name, member in inspect.getmembers(cls, inspect.isfunction):
        if name.endswith("_async") and not name.startswith("_"):
            plain = getattr(cls, name.removesuffix("_async"))
            left = inspect.signature(plain).parameters
            assert left == inspect.signature(member).parameters, name
            twins += 1
    assert twins >= 3


def test_mistakes_at_the_constructor():
    """M38: an unknown finish status and an impossible adapter are refused here."""
    service = ServiceClient(base_url="http://x", api_key="k")
    with pytest.raises(InvalidInputError):
        service.close("done")
    with pytest.raises(InvalidInputError):
        service.create_lora_training_client(
            "m", train_mlp=False, train_attn=False, train_unembed=False
        )
    with pytest.raises(InvalidInputError):
        service.create_training_client_from_state("tinker://r/sampler_weights/x")
    service.close("success").result(5)
