"""Sessions seen from outside: who owns them, how they are found, traced and ended."""

from __future__ import annotations

import asyncio
import contextlib

import httpx
import pytest
from in_process import MODEL, client, run, server
from stub_server import StubServer

from tinker_ext import types
from tinker_ext.clients import rest as rest_module
from tinker_ext.errors import APIStatusError, FeatureMissingError, TinkerError

pytestmark = pytest.mark.filterwarnings("ignore:search_sessions is experimental")


def test_whoami_reads_the_token_of_the_server():
    """M33 M35: with token exchange on, the claims name user, organisation and e-mail."""

    async def scenario():
        app = server(api_keys=["tml-test"], client_config={"pjwt_auth_enabled": True})
        async with client(app) as service:
            me = await service.create_rest_client().whoami()
            assert len(app.log.requests("auth/token")) == 1
            assert app.log.violations == []
            return me

    me = run(scenario)
    assert isinstance(me, types.WhoamiResponse)
    assert me.user_urn
    assert me.org_urn.startswith("tml:organization:")
    assert "@" in me.email


def test_whoami_needs_a_token():
    """M33: a plain key says nothing about its owner, and the error says that."""

    async def scenario():
        async with client(server()) as service:
            with pytest.raises(FeatureMissingError, match="names its user"):
                await service.create_rest_client().whoami()

    run(scenario)


async def opened(app, **options):
    """A service with a session of its own."""
    service = client(app, **options)
    await service.create_lora_training_client_async(MODEL, rank=4)
    return service


def found(reply):
    return [summary.session_id for summary in reply.sessions]


def test_sessions_are_searched_by_what_they_were_given():
    """M35: name, metadata, id and project; pages go on at the cursor."""

    async def scenario():
        app = server()
        services = [
            await opened(app, display_name=f"run {n}", user_metadata={"n": str(n)})
            for n in range(3)
        ]
        rest = services[0].create_rest_client()
        ids = [service.session_id for service in services]

        async def search(**query):
            return await rest.search_sessions_async(types.SessionSearchRequest(**query))

        assert found(await search(display_name="run 1")) == [ids[1]]
        assert found(await search(user_metadata={"n": "2"})) == [ids[2]]
        assert found(await search(session_id=ids[0])) == [ids[0]]
        await rest.assign_session_project_async(ids[1], "p1")
        assert found(await search(project_ids=["p1"])) == [ids[1]]
        page = await search(limit=2)
        rest_of = await search(limit=2, cursor=page.next_cursor)
        assert sorted(found(page) + found(rest_of)) == sorted(ids)
        assert rest_of.next_cursor is None
        assert app.log.violations == []
        for service in services:
            await service.close("success")

    run(scenario)


@pytest.mark.parametrize("reason", ["success", "errored", "interrupted"])
def test_the_server_learns_why_a_session_ended(reason):
    """M21: close, and leaving the context by any way, end it with the reason, once."""

    async def scenario():
        app = server()
        closed = await opened(app)
        ended = [closed.session_id]
        await closed.close(reason, "as told")
        raised = {"errored": ValueError("x"), "interrupted": KeyboardInterrupt()}
        with contextlib.suppress(ValueError, KeyboardInterrupt):
            async with await opened(app) as left:
                ended.append(left.session_id)
                if reason in raised:
                    raise raised[reason]
        async with await opened(app) as watching:
            query = types.ClientFinishedSessionStatusQuery(reasons=[reason])
            reply = await watching.create_rest_client().search_sessions_async(
                types.SessionSearchRequest(statuses=[query])
            )
            others = await watching.create_rest_client().search_sessions_async(
                types.SessionSearchRequest(statuses=[types.ActiveSessionStatusQuery()])
            )
            assert sorted(found(reply)) == sorted(ended)
            assert found(others) == [watching.session_id]
        assert app.log.violations == []
        finishes = [e for e in app.log.requests() if e.path.endswith("/finish")]
        return len(finishes)

    assert run(scenario) == 3


def test_a_trace_is_exported():
    """M35: the URL leads to the trace of that session; an unknown session is the server's 404."""

    async def scenario():
        app = server()
        async with await opened(app) as service:
            rest = service.create_rest_client()
            url = await rest.export_session_trace_async(service.session_id)
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
                trace = (await http.get(url)).json()
            assert trace["session_id"] == service.session_id
            with pytest.raises(APIStatusError) as caught:
                await rest.export_session_trace_async("nobody")
            return caught.value.status_code

    assert run(scenario) == 404


def test_a_trace_that_takes_time_is_waited_for():
    """M35: asked again at a steady pace until it is ready or failed."""

    async def scenario():
        states = [{"status": "pending"}, {"status": "pending"}, {"status": "ready", "url": "u"}]
        failing = [{"status": "failed", "error": "too old"}]

        def answer(operation, body, request):
            if operation.endswith("a/trace_export"):
                return 200, states.pop(0)
            return (200, failing[0]) if operation.endswith("b/trace_export") else None

        async with client(StubServer(answer)) as service:
            rest = service.create_rest_client()
            began = asyncio.get_running_loop().time()
            assert await rest.export_session_trace_async("a") == "u"
            waited = asyncio.get_running_loop().time() - began
            with pytest.raises(TinkerError, match="too old"):
                await rest.export_session_trace_async("b")
            return waited

    assert run(scenario) == pytest.approx(2 * rest_module.TRACE_POLL_SECONDS)
