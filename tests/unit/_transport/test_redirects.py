"""How far redirects are followed, and what a refused one says about the place it pointed to."""

import httpx
import pytest
from in_process import client, run
from stub_server import StubServer

from tinker_ext._transport.messages import Call, Reply
from tinker_ext._transport.origin import refusal
from tinker_ext.errors import TinkerError


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("http://127.0.0.1:8001/x", "to http://127.0.0.1:8001;"),
        ("https://user:word@host.test:8443/word?key=word#word", "to https://host.test:8443;"),
        ("https://host.test/word", "to https://host.test;"),
        ("http://[::1]:8001/x", "to http://[::1]:8001;"),
        ("/word", "to another place;"),
        ("http://host.test:word/", "to an unreadable place;"),
    ],
)
def test_a_refused_redirect_names_host_and_port(location, place):
    """M33: host and port tell one server from another; user, path and query may be secrets."""
    reply = Reply(307, httpx.Headers({"location": location}), b"")
    said = str(refusal(Call("optim_step", "POST", "/optim_step"), reply))
    assert place in said
    assert "word" not in said


@pytest.mark.parametrize(("hops", "followed"), [(5, True), (6, False)])
def test_five_redirects_are_followed(hops, followed):
    """F31: on the same server; one that goes round in circles comes to an end."""

    async def scenario():
        asked = []

        def handler(operation, body, request):
            if not operation.startswith("sessions"):
                return None
            asked.append(request.url.path)
            if len(asked) > hops:
                return 200, {"sessions": ["s"]}
            return 307, {}, {"location": f"/api/v1/sessions/{len(asked)}"}

        async with client(StubServer(handler)) as service:
            try:
                page = await service.create_rest_client().list_sessions_async()
            except TinkerError:
                page = None
        return asked, page is not None

    asked, found = run(scenario)
    assert found is followed
    onward = [f"/api/v1/sessions/{hop}" for hop in range(1, 6)]
    assert asked == ["/api/v1/sessions", *onward]
