"""How a REST client is made: of another client's connection, or with one of its own."""

import asyncio
import contextlib

import pytest
from in_process import client, run, server
from stub_server import StubServer

from tinker_ext import RestClient
from tinker_ext.errors import InvalidInputError, TinkerError


@pytest.mark.parametrize("given", [{"base_url": "http://b.test"}, {"api_key": "tml-b"}])
def test_a_connection_is_shared_or_made_not_both(given):
    """M36: which server would be asked must not be a riddle."""

    async def scenario():
        async with client(server()) as service:
            with pytest.raises(InvalidInputError, match="not both"):
                RestClient(service.holder, **given)
            shared = RestClient(service.holder)
            assert "http://server.test" in repr(shared)
            await shared.list_training_runs_async()

    run(scenario)


def test_a_client_of_its_own_has_its_own_server():
    """M36: both arguments count, together and alone."""

    async def scenario():
        for options in ({}, {"api_key": "tml-b"}):
            own = RestClient(base_url="http://b.test", **options)
            assert "http://b.test" in repr(own)
            await own.close()

    asyncio.run(scenario())


def test_the_server_is_told_which_method_asks():
    """M36: the name that the user called, as by the official client, in both forms."""
    path = "tinker://run/weights/a"
    calls = {
        "set_checkpoint_ttl_from_tinker_path": (path, 7200),
        "delete_checkpoint_from_tinker_path": (path,),
        "publish_checkpoint_from_tinker_path": (path,),
        "get_training_run_by_tinker_path": (path,),
        "list_checkpoints": ("run",),
        "export_session_trace": ("s",),
    }

    async def scenario():
        stub = StubServer()
        async with client(stub) as service:
            rest = service.create_rest_client()
            for name, arguments in calls.items():
                with contextlib.suppress(TinkerError):
                    await getattr(rest, name + "_async")(*arguments)
                with contextlib.suppress(TinkerError):
                    await getattr(rest, name)(*arguments)
        named = (request.headers.get("x-sdk-method") for _, _, request in stub.requests)
        return [name for name in named if name is not None]

    told = run(scenario)
    assert set(told) == set(calls)
    assert all(told.count(name) >= 2 for name in calls)
