"""Which server a client talks to, and what it says when it chose one itself."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from unittest.mock import MagicMock

import pytest

from tinker_ext import (
    AdminClient,
    RestClient,
    SamplingClient,
    ServiceClient,
    TrainingClient,
)
from tinker_ext._wire.dialect import Wire
from tinker_ext.config import HOSTED_BASE_URL, Config
from tinker_ext.errors import ConfigurationError, InvalidInputError
from tinker_ext.mock import embedded


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch, tmp_path):
    for name in ("TINKER_API_KEY", "TINKER_BASE_URL", "TINKER_CREDENTIAL_CMD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    embedded.reset()
    yield
    embedded.reset()


def test_without_key_and_url_the_embedded_server_answers_with_a_warning():
    """M40: one visible warning that names the ways out, then everything works offline."""
    with pytest.warns(UserWarning, match="embedded server") as seen:
        first = ServiceClient()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = ServiceClient()
    assert len(seen) == 1
    assert seen[0].filename == __file__
    for way in ("TINKER_API_KEY", "TINKER_BASE_URL", "base_url='embedded'"):
        assert way in str(seen[0].message)
    with first, second:
        assert first.get_server_capabilities().supported_models
        assert second.holder.server.base_url == embedded.URL


def test_the_drop_in_uses_the_embedded_server_too(stand_in):
    """M40: `tinker.ServiceClient()` without key and URL is the same client."""
    with pytest.warns(UserWarning, match="embedded server"), stand_in.ServiceClient() as service:
        assert service.holder.server.base_url == embedded.URL


def test_a_key_means_the_hosted_service():
    """M33: a key without a base URL goes to the hosted service."""
    assert ServiceClient(api_key="tml-x").holder.server.base_url == HOSTED_BASE_URL


def test_environment_and_argument(monkeypatch):
    """M33: TINKER_BASE_URL is used; the argument wins; any key shape is fine elsewhere."""
    monkeypatch.setenv("TINKER_BASE_URL", "http://one/path/")
    assert ServiceClient(api_key="any").holder.server.base_url == "http://one/path"
    assert ServiceClient(base_url="http://two", api_key="x").holder.server.base_url == "http://two"
    monkeypatch.setenv("TINKER_BASE_URL", "embedded")
    assert ServiceClient().holder.server.base_url == embedded.URL


def test_older_arguments_are_taken_with_a_warning(monkeypatch):
    """M16: what 0.4.1 took is still taken."""
    monkeypatch.delitem(sys.modules, "tinker", raising=False)
    with pytest.warns(DeprecationWarning, match="timeout"):
        service = ServiceClient(base_url="http://x", api_key="k", timeout=5.0, max_retries=3)
    assert service.holder.server.config.request_timeout == 5.0
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
    service.close("success").result(300)


PASSWORD = "hunter2-hunter2-hunter2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base_url": 5}, "base_url must be text"),
        ({"base_url": "localhost:8000"}, "http://"),
        ({"base_url": "server"}, "http://"),
        ({"base_url": "ftp://x"}, "ftp"),
        ({"base_url": "http://"}, "no valid host"),
        ({"base_url": "http://a..b"}, "no valid host"),
        ({"base_url": "http://x:port"}, "base URL"),
        ({"base_url": "http://x/?a=b"}, "query"),
        ({"base_url": f"http://user:{PASSWORD}@x"}, "password"),
        ({"config": {}}, "config must be a Config"),
        ({"config": Config(base_url="ftp://x")}, "ftp"),
        ({"wire": "xml"}, "wire"),
        ({"wire": 5}, "wire"),
        ({"api_key": 5}, "api_key must be text"),
        ({"api_key": f"{PASSWORD}\nX-Other: 1"}, "X-API-Key"),
        ({"config": Config(api_key=f"{PASSWORD}\n")}, "X-API-Key"),
        ({"config": Config(cloudflare_client_id=f"{PASSWORD}\n")}, "CF-Access-Client-Id"),
        ({"default_headers_overrides": {"X-A": f"{PASSWORD}\r\nX-B: 1"}}, "X-A"),
        ({"default_headers_overrides": {"X A": "1"}}, "X A"),
        ({"default_headers_overrides": {"X-A": 1}}, "X-A"),
        ({"default_headers_overrides": "X-A"}, "default_headers_overrides"),
        ({"default_headers": "X-A"}, "default_headers"),
        ({"user_metadata": "x"}, "user_metadata"),
        ({"user_metadata": {1: "x"}}, "user_metadata"),
        ({"user_metadata": {"a": float("nan")}}, "user_metadata"),
        ({"budget": "x"}, "budget"),
        ({"budget": 1.5}, "budget"),
        ({"budget": {1: 2}}, "budget"),
        ({"prices": 5}, "prices"),
        ({"run_log": 5}, "run_log"),
        ({"on_event": 5}, "on_event"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wrong_settings_are_refused_by_the_constructor(arguments, message):
    """M38: not by the first call; and no error shows a secret."""
    with pytest.raises(ConfigurationError, match=message) as caught:
        ServiceClient(**{"base_url": "https://x", "api_key": "k", **_without_key(arguments)})
    assert PASSWORD not in repr(caught.value) + str(caught.value)


def _without_key(arguments):
    """The arguments, letting the settings of a Config count where it has them."""
    config = arguments.get("config")
    if not isinstance(config, Config):
        return arguments
    alone = {"base_url": None} if config.base_url.startswith("ftp") else {}
    return {"api_key": None if config.api_key else "k", **alone, **arguments}


@pytest.mark.parametrize("cls", [RestClient, AdminClient])
def test_other_clients_refuse_the_same(cls):
    """M38: every client that opens a connection of its own looks at what it is given."""
    for arguments in ({"base_url": "ftp://x"}, {"base_url": 5}, {"api_key": b"k"}):
        with pytest.raises(ConfigurationError):
            cls(**{"base_url": "http://x", "api_key": "k", **arguments})


def test_wrong_settings_of_the_environment(monkeypatch):
    """M38: the environment is looked at like arguments are."""
    monkeypatch.setenv("TINKER_BASE_URL", "localhost:8000")
    with pytest.raises(ConfigurationError, match="http://"):
        ServiceClient(api_key="k")
    monkeypatch.setenv("TINKER_BASE_URL", "https://x")
    monkeypatch.setenv("TINKER_API_KEY", f"{PASSWORD}\nX-Other: 1")
    with pytest.raises(ConfigurationError, match="X-API-Key") as caught:
        ServiceClient()
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"base_url": "embedded"},
        {"base_url": "embedded:"},
        {"base_url": "embedded://"},
        {"base_url": "https://x:8443/services/prod/", "wire": "auto"},
        {"base_url": "http://[::1]:8000", "wire": "proto"},
        {"base_url": "http://x", "wire": Wire.JSON},
        {"base_url": "http://x", "config": Config(), "user_metadata": {"a": "b"}},
        {"base_url": "http://x", "default_headers_overrides": {"X-A": "caf\xe9"}},
    ],
)
def test_good_settings_pass(arguments):
    """M33: names of the embedded server, ports, paths, IPv6 and wires are taken."""
    ServiceClient(api_key="k", **arguments).close().result(300)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:8000", "did you mean http://localhost:8000 or https://localhost:8000?"),
        ("127.0.0.1", "did you mean http://127.0.0.1 or https://127.0.0.1?"),
        ("ftp://host/x", "not ftp://"),
        ("embeded", "or be 'embedded'"),
        ("Embedded:state", "or be 'embedded'"),
    ],
)
def test_a_base_url_without_a_scheme_is_answered_with_the_one_meant(url, said):
    """M38: what was typed comes back with what is missing."""
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        ServiceClient(base_url=url, api_key="k")


def test_a_password_in_a_base_url_without_a_scheme_is_not_shown():
    """M33: an error shows no secret."""
    with pytest.raises(ConfigurationError) as caught:
        ServiceClient(base_url="me:secret@host", api_key="k")
    assert "secret" not in str(caught.value)
