"""Stores for the tests of the fleet: a folder always, a real Redis where one is installed.

`nox -s fleet` sets TINKER_FLEET_REDIS, which makes a missing redis-server a failure.
"""

import os

import pytest
from fleet.redis_server import RedisServer


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    if not RedisServer.installed() and "TINKER_FLEET_REDIS" not in os.environ:
        pytest.skip("redis-server is not installed; `nox -s fleet` needs it")
    server = RedisServer(tmp_path_factory.mktemp("redis")).start()
    yield server
    server.stop()


def empty(kind, request, tmp_path):
    """A store of a kind with nothing in it."""
    if kind == "sqlite":
        return str(tmp_path / "fleet")
    server = request.getfixturevalue("redis_server")
    import redis

    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    return server.url


@pytest.fixture(params=["sqlite", "redis"])
def address(request, tmp_path):
    """Where a fleet may live, empty."""
    return empty(request.param, request, tmp_path)


@pytest.fixture(params=["sqlite", "redis"] if "TINKER_FLEET_REDIS" in os.environ else ["sqlite"])
def place(request, tmp_path):
    """The same for tests that take a while: on Redis in `nox -s fleet` only."""
    return empty(request.param, request, tmp_path)
