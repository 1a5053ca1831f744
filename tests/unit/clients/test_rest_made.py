"""How a REST client is made: of another client's connection, or with one of its own."""

import asyncio

import pytest
from in_process import client, run, server

from tinker_ext import RestClient
from tinker_ext.errors import InvalidInputError


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
