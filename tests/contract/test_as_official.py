"""What the official SDK's own tests claim of requests, asked of ours on the embedded server."""

import pytest

from tinker_ext import ServiceClient, errors, types
from tinker_ext.compat import access
from tinker_ext.mock import Server, Settings


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
            with pytest.warns(errors.ExperimentalWarning):
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
