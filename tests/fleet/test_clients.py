"""Clients in a fleet, on a real server: they join by argument, environment, pickle and handle."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from fleet.redis_server import RedisServer
from fleet.test_members import wait_for

from tinker_ext import ModelInput, SamplingClient, SamplingParams, ServiceClient
from tinker_ext.clients.handles import decode_handle
from tinker_ext.config import Config
from tinker_ext.errors import BudgetExceededError, ConfigurationError
from tinker_ext.fleet import open_store
from tinker_ext.fleet.store import KEYS
from tinker_ext.ledger import Budget
from tinker_ext.mock import Server, Settings

ROOT = Path(__file__).parents[2]
MODEL = "tinker-ext/tiny"
KEY = "tml-canary-of-the-fleet"
PROMPT, PARAMS = ModelInput.from_ints([1, 2, 3]), SamplingParams(max_tokens=2)


@pytest.fixture
def server():
    with Server(Settings(sample_limit=16, retry_after=0.1)) as running:
        yield running


@pytest.fixture
def service(server, place):
    with ServiceClient(
        base_url=server.url, api_key=KEY, fleet=place, display_name="a run", budget=10_000
    ) as client:
        yield client


def members(place, server):
    """Who works on this server; clients of another test may still be about to leave."""
    store = open_store(place)
    found = store.look().values()
    store.close()
    return [member for each in found if each.base_url == server.url for member in each.members]


def test_samples_are_drawn_with_permits_of_the_fleet(server, service, place):
    """M49: a client joins when it is made, says who it is, and leaves when it is closed."""
    sampler = service.create_sampling_client(base_model=MODEL)
    futures = [sampler.sample(PROMPT, 1, PARAMS) for _ in range(40)]
    assert all(len(future.result().sequences) == 1 for future in futures)
    service._workspace.member.sync()
    (member,) = members(place, server)
    assert member["run"] == "a run"
    assert member["process"] == os.getpid()
    assert member["accepted"] == 40
    service.close().result()
    assert members(place, server) == []


def test_a_client_closed_before_it_did_anything_has_left(server, service, place):
    """M49, M44: no member, no lease and no thread of it stay."""
    assert len(members(place, server)) == 1
    service.close().result()
    assert members(place, server) == []
    assert not service._workspace.member._thread.is_alive()


def test_a_client_that_cannot_be_made_has_left(server, place):
    """M49: what is wrong with another argument shows after it has joined."""
    with pytest.raises(ConfigurationError, match="price table"):
        ServiceClient(base_url=server.url, api_key=KEY, fleet=place, budget=Budget(cost=1.0))
    assert members(place, server) == []


def test_the_budget_of_a_client_is_that_of_the_fleet(server, service, place):
    """M49: what one client spent stops another, at the call."""
    sampler = service.create_sampling_client(base_model=MODEL)
    sampler.sample(PROMPT, 1, SamplingParams(max_tokens=200, stop=[])).result()
    with ServiceClient(base_url=server.url, api_key=KEY, fleet=place) as other:
        second = other.create_sampling_client(base_model=MODEL)
        with pytest.raises(BudgetExceededError, match="Spent by"):
            second.sample(PROMPT, 50, SamplingParams(max_tokens=200))
        second.sample(PROMPT, 1, PARAMS).result()


def test_another_credential_is_another_fleet(server, service, place):
    """M49: limits belong to a server and a credential."""
    service.create_sampling_client(base_model=MODEL)
    with ServiceClient(base_url=server.url, api_key="tml-other", fleet=place) as other:
        assert len(open_store(place).look()) == 2
        assert other._workspace.member.value == 64


WORKER = """
import pickle, sys
from tinker_ext import ModelInput, SamplingParams
client = pickle.loads(bytes.fromhex(sys.stdin.readline()))
client.sample(ModelInput.from_ints([1, 2, 3]), 1, SamplingParams(max_tokens=2)).result()
client._workspace.member.sync()
print(client._workspace.member.id, flush=True)
sys.stdin.readline()
"""


def test_a_pickled_client_joins_in_another_process(server, service, place):
    """M49: multiprocessing, Ray and torch workers become members by themselves."""
    sampler = service.create_sampling_client(base_model=MODEL)
    path = os.pathsep.join([str(ROOT), str(ROOT / "generated")])
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "TINKER_API_KEY": KEY},
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(pickle.dumps(sampler).hex() + "\n")
    worker.stdin.flush()
    name = worker.stdout.readline().strip()
    found = {member["id"]: member["accepted"] for member in members(place, server)}
    assert found.get(name) == 1
    assert len(found) == 2
    worker.communicate("\n", timeout=300)
    assert {member["id"] for member in members(place, server)} == set(found) - {name}


def test_a_handle_carries_the_fleet(server, service, place, monkeypatch):
    """M49."""
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    sampler = service.create_sampling_client(base_model=MODEL)
    again = SamplingClient.from_sampler_handle(sampler.get_sampler_handle())
    assert again._workspace.member.id in {member["id"] for member in members(place, server)}
    again.sample(PROMPT, 1, PARAMS).result()


def test_the_environment_names_the_fleet(server, tmp_path, monkeypatch):
    """M49: TINKER_EXT_FLEET needs no change of a program."""
    monkeypatch.setenv("TINKER_EXT_FLEET", str(tmp_path / "fleet"))
    with ServiceClient(base_url=server.url, api_key=KEY):
        assert len(members(str(tmp_path / "fleet"), server)) == 1


def test_no_key_reaches_the_store(service, place):
    """M49: credentials appear as a salted hash, and nothing a key could be found with."""
    sampler = service.create_sampling_client(base_model=MODEL)
    sampler.sample(PROMPT, 1, PARAMS).result()
    service._workspace.member.sync()
    if place.startswith("redis"):
        client = service._workspace.member.store._client
        kept = "".join(client.keys("*")) + json.dumps(client.hgetall(KEYS["fleets"]))
    else:
        files = sorted(Path(place).iterdir())
        kept = "".join(file.read_bytes().decode("latin-1") for file in files)
    assert "http://127.0.0.1" in kept
    assert KEY not in kept
    assert service._workspace.server.fingerprint not in kept


def test_a_password_does_not_travel(server, tmp_path, monkeypatch):
    """M49: neither in a handle, a pickle, a repr nor a Config; a worker takes its own."""
    if not RedisServer.installed() and "TINKER_FLEET_REDIS" not in os.environ:
        pytest.skip("redis-server is not installed; `nox -s fleet` needs it")
    redis = RedisServer(tmp_path, password="pass-canary").start()
    try:
        url = redis.url.replace("redis://", "redis://:pass-canary@")
        monkeypatch.setenv("TINKER_API_KEY", KEY)
        config = Config.from_env(fleet=url)
        with ServiceClient(base_url=server.url, config=config) as service:
            sampler = service.create_sampling_client(base_model=MODEL)
            handle = sampler.get_sampler_handle()
            state = decode_handle(handle)
            assert state["fleet"] == redis.url
            shown = [repr(config), json.dumps(state), repr(service)]
            raw = pickle.dumps(sampler) + pickle.dumps(config)
            assert not any("pass-canary" in text for text in shown)
            assert b"pass-canary" not in raw
            monkeypatch.setenv("REDISCLI_AUTH", "pass-canary")
            again = SamplingClient.from_sampler_handle(handle)
            assert not again._workspace.member.is_cut_off
            again.sample(PROMPT, 1, PARAMS).result()
    finally:
        redis.stop()


def test_nothing_is_loaded_without_a_fleet():
    """M39, M49: the room costs a client nothing that does not use it."""
    code = (
        "import sys; from tinker_ext import ServiceClient; "
        "ServiceClient(base_url='http://127.0.0.1:9', api_key='k').close(); "
        "print([m for m in sys.modules if 'fleet' in m or m in ('sqlite3', 'redis')])"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "generated")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_a_pause_of_the_fleet_comes_before_the_first_request(monkeypatch, tmp_path):
    """M49: a thread of the fleet tells it, and the client's own loop makes the shared pause."""
    with ServiceClient(base_url="embedded", fleet=str(tmp_path)) as service:
        workspace = service.holder
        workspace.open()
        monkeypatch.setattr(type(workspace.samples), "in_flight", 1)
        workspace.member.refused(started=0.0, pause=30.0, full=False)

        async def left():
            return workspace.server.connection.backoff.remaining()

        wait_for(lambda: workspace.submit(left()).result(300) > 20.0)
        monkeypatch.undo()
