"""What carries requests: the transport of the user, else a proxy, else our own channels."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tinker_ext._transport import bridge
from tinker_ext._transport.origin import split_base_url
from tinker_ext._transport.pool import LANE_SETTINGS, Pool


@pytest.mark.parametrize(
    ("given", "proxy", "chosen"),
    [
        (None, None, "ours"),
        (None, "http://proxy.test", "proxy"),
        ("given", None, "given"),
        ("given", "http://proxy.test", "given"),
    ],
)
def test_the_users_transport_comes_first(monkeypatch, given, proxy, chosen):
    """M33: a proxy of the environment does not replace what the user passed."""
    through = httpx.MockTransport(lambda _: httpx.Response(200))
    asked = []
    monkeypatch.setattr(bridge, "proxy_transport", lambda url: asked.append(url) or through)
    mine = httpx.MockTransport(lambda _: httpx.Response(200)) if given else None

    async def scenario():
        origin = split_base_url("http://server.test")[0]
        made = Pool(origin, next(iter(LANE_SETTINGS.values())), given=mine, proxy=proxy)
        carries = made._foreign
        await made.aclose()
        return carries

    carries = asyncio.run(scenario())
    assert carries is {"ours": None, "proxy": through, "given": mine}[chosen]
    assert asked == ([proxy] if chosen == "proxy" else [])


def test_a_transport_that_counts_as_false_is_one_too():
    """M33: such as one that is also a list of what it has seen, as yet empty."""

    class Recorder(httpx.AsyncBaseTransport, list):
        pass

    async def scenario():
        origin = split_base_url("http://server.test")[0]
        mine = Recorder()
        made = Pool(origin, next(iter(LANE_SETTINGS.values())), given=mine)
        assert made._foreign is mine
        await made.aclose()

    asyncio.run(scenario())
