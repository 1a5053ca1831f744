"""Behind an HTTP proxy hundreds of samples wait at once, on as many connections as they need."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from faults.tcp_proxy import TcpProxy

from tinker_ext import Config, ModelInput, SamplingParams, ServiceClient
from tinker_ext.mock import Server, Settings

SAMPLES = 130
"""More than the hundred connections of an httpx pool that nobody has configured."""


def test_more_waits_than_one_pool_of_connections(monkeypatch):
    """F25: each wait has a connection to the proxy; none stands in line until it times out."""
    settings = Settings(latency=1e6, long_poll=600.0, log_size=10_000)
    with Server(settings) as server, TcpProxy(urlsplit(server.url).port, 0, rate=0.0) as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "")
        config = Config(
            base_url=server.url, api_key="tml-test", poll_timeout=600.0, close_timeout=2.0
        )
        with ServiceClient(config=config) as service:
            sampling = service.create_sampling_client(base_model="tinker-ext/tiny")
            prompt, params = ModelInput.from_ints([1]), SamplingParams(max_tokens=1)
            futures = [sampling.sample(prompt, 1, params) for _ in range(SAMPLES)]
            polls, patience = 0, time.monotonic() + 300
            while polls < SAMPLES and time.monotonic() < patience:
                polls = max(polls, proxy.asking("retrieve_future"))
                time.sleep(0.1)
            for future in futures:
                future.cancel()
    assert polls >= SAMPLES
