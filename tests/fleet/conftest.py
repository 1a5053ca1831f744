"""Stores for the tests of the fleet: a folder always, a real Redis where one is installed.

`nox -s fleet` sets TINKER_FLEET_REDIS, which makes a missing redis-server a failure.
"""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet.redis_server import RedisServer

from tinker_ext.fleet.store import FILE, KEYS

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    """Every member has left when its test ends: the next test may use the same Redis.

    One that stays would be a member of the next test's fleet, and take a part of its permits.
    """
    before = set(threading.enumerate())
    yield
    end = time.monotonic() + PATIENCE
    while left := [t for t in set(threading.enumerate()) - before if t.name == "fleet"]:
        assert time.monotonic() < end, f"{len(left)} members have not left"
        time.sleep(0.02)


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


def lose(address):
    """Take away everything that a store holds, as its users see it: while it is in use."""
    if not address.startswith("redis"):
        os.rename(address, f"{address} deleted")  # at once, since members may make it again
        shutil.rmtree(f"{address} deleted")
        return
    import redis

    with redis.Redis.from_url(address) as client:
        client.flushall()


def overwrite(address, text):
    """Put a text in the place of what a store keeps of its fleets; None deletes it."""
    if address.startswith("redis"):
        import redis

        with redis.Redis.from_url(address) as client:
            for name in client.hkeys(KEYS["fleets"]):
                if text is None:
                    client.hdel(KEYS["fleets"], name)
                else:
                    client.hset(KEYS["fleets"], name, text)
        return
    with sqlite3.connect(Path(address) / FILE) as database:
        change = "DELETE FROM fleets" if text is None else "UPDATE fleets SET kept = ?"
        database.execute(change, () if text is None else (text,))
    database.close()


@pytest.fixture(params=["sqlite", "redis"])
def address(request, tmp_path):
    """Where a fleet may live, empty."""
    return empty(request.param, request, tmp_path)


@pytest.fixture(params=["sqlite", "redis"] if "TINKER_FLEET_REDIS" in os.environ else ["sqlite"])
def place(request, tmp_path):
    """The same for tests that take a while: on Redis in `nox -s fleet` only."""
    return empty(request.param, request, tmp_path)
