"""A session after its end: who asks for it is told why it has ended, the first reason first."""

from __future__ import annotations

import asyncio

import pytest
from in_process import client, run, server

from tinker_ext.errors import ClientClosedError, SessionEndedError


@pytest.mark.parametrize("opened", [True, False])
def test_a_closed_session_cannot_be_used(opened):
    """M21: whether it was ever opened or not, nothing is asked of the server any more."""

    async def scenario():
        async with client(server()) as service:
            session = service.holder.session
            if opened:
                assert await session.ensure() == session.session_id
            session.close()
            for _ in range(2):
                with pytest.raises(ClientClosedError, match="This client is closed"):
                    await session.ensure()
                session.close()
            return session.session_id

    assert run(scenario) is None  # a closed client has none


def test_what_ended_a_session_first_stays_the_reason():
    """M21: the server's word is not replaced by the close that follows it."""

    async def scenario():
        async with client(server()) as service:
            session = service.holder.session
            await session.ensure()
            session._ended = SessionEndedError("ended by the server")
            session.close()
            with pytest.raises(SessionEndedError, match="ended by the server"):
                await session.ensure()

    run(scenario)


def test_who_waits_for_a_session_that_is_closed_is_told():
    """M21: a call that opens the session does not wait for ever."""

    async def scenario():
        async with client(server(latency=5.0)) as service:
            session = service.holder.session
            waiting = asyncio.ensure_future(session.ensure())
            await asyncio.sleep(0)
            session.close()
            (end,) = await asyncio.gather(waiting, return_exceptions=True)
            return end

    assert isinstance(run(scenario), ClientClosedError)
