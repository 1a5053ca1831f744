"""A whole client and servers that send it elsewhere: nothing follows, the order survives."""

from __future__ import annotations

import httpx
import pytest
from in_process import adam, client, datum, run
from stub_server import StubServer

from tinker_ext import ServiceClient
from tinker_ext._transport.messages import RedirectRefusedError
from tinker_ext.errors import ConfigurationError

PLACES = {
    "host": "http://other.test/api/v1/x",
    "port": "http://server.test:8080/api/v1/x",
    "scheme": "https://server.test/api/v1/x",
    "userinfo": "http://user:word@server.test/api/v1/x",
    "same place": "http://server.test/api/v1/x",
    "file": "file:///etc/passwd",
    "data": "data:application/json,{}",
    "nothing": "",
}


class Redirecting(StubServer):
    """Sends one operation elsewhere, once, and remembers where every request went."""

    def __init__(self, operation: str, status: int, place: str) -> None:
        super().__init__(config={"fwdbwd_max_chunk_len": 64, "seq_ids": "dedupe"})
        self._pending = operation
        self._status = status
        self._place = place
        self.urls: list[httpx.URL] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.urls.append(request.url)
        if request.url.path.endswith(self._pending):
            self._pending = "never"
            return httpx.Response(self._status, headers={"location": self._place})
        return await super().handle_async_request(request)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
@pytest.mark.parametrize("place", sorted(PLACES))
def test_a_training_request_is_never_taken_elsewhere(status, place):
    """M19 M33: the redirect is an error, the key stays, and the number is used again."""

    async def scenario():
        server = Redirecting("optim_step", status, PLACES[place])
        async with client(server, wire="json") as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            await (await training.forward_backward_async([datum(1)], "cross_entropy"))
            future = await training.optim_step_async(adam())
            with pytest.raises(RedirectRefusedError) as caught:
                await future
            await (await training.optim_step_async(adam()))
            numbers = [body["seq_id"] for op, body, _ in server.requests if op == "optim_step"]
            return server.urls, numbers, str(caught.value)

    urls, numbers, said = run(scenario)
    assert {(url.scheme, url.host, url.port) for url in urls} == {("http", "server.test", None)}
    assert not any(url.userinfo for url in urls)
    assert numbers == [2]
    assert "word" not in said
    assert "base URL" in said


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://server.test",
        "unix:///run/x.sock",
        "ws://server.test",
        "//server.test",
        "http://user:word@server.test",
        "http://server.test?key=word",
    ],
)
def test_other_urls_are_refused_at_once(url):
    """M33: only plain http and https URLs without a user; the message shows no password."""
    with pytest.raises(ConfigurationError) as caught:
        ServiceClient(base_url=url, api_key="tml-test").get_server_capabilities()
    assert "word" not in str(caught.value).replace("password", "")
