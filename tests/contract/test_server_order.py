"""M28, M31: how far ahead training calls are sent, by what the server is known to do."""

import httpx
import pytest

from tinker_ext import AdamParams, Datum, ModelInput, ServiceClient
from tinker_ext.mock import Settings, create_app

CALLS = ("forward_backward", "optim_step", "retrieve_future")


def order_of_requests(**settings):
    """What the server saw of two pipelined training steps: `post` and `result`, in order."""
    app = create_app(Settings(inline_engine=True, latency=0.05, **settings))
    transport = httpx.ASGITransport(app)
    with ServiceClient(base_url="http://x", api_key="tml-x", transport=transport) as service:
        client = service.create_lora_training_client("tinker-ext/tiny", rank=4)
        before = len(app.log.requests())
        datum = Datum(ModelInput.from_ints([1, 2]), {"target_tokens": [2, 3]})
        futures = []
        for _ in range(2):
            futures.append(client.forward_backward([datum], "cross_entropy"))
            futures.append(client.optim_step(AdamParams()))
        for future in futures:
            future.result()
        seen = [entry.path.rpartition("/")[2] for entry in app.log.requests()[before:]]
    app.close()
    return ["result" if name == CALLS[2] else "post" for name in seen if name in CALLS]


def test_a_server_without_client_config_gets_one_call_after_the_other():
    """M31: skyrl-tx 0.3.0 lets a queued optim_step overtake, so nothing is queued there."""
    assert order_of_requests(era="0.4.1") == ["post", "result"] * 4


@pytest.mark.parametrize("settings", [{}, {"wire": "json"}])
def test_others_get_calls_ahead_of_results(settings):
    """M17: steps overlap with the way back and forth."""
    assert order_of_requests(**settings)[:2] == ["post", "post"]


def test_the_user_may_know_better(monkeypatch):
    """M27: told that seq ids count there, the client sends ahead on such a server, too."""
    monkeypatch.setenv("TINKER_EXT_SEQ", "order")
    assert order_of_requests(era="0.4.1")[:2] == ["post", "post"]
