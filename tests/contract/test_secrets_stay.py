"""M45: a secret goes to the server it is for, and comes back from none in an error."""

from __future__ import annotations

import base64
import json
import pickle
import traceback
import warnings

import httpx
import pytest
from in_process import client, run
from scripted import fresh_url
from stub_server import StubServer

from tinker_ext import ModelInput, SamplingClient, SamplingParams, ServiceClient, auth
from tinker_ext.auth import CredentialStore, origin_of
from tinker_ext.cli.examination import key
from tinker_ext.config import Config
from tinker_ext.errors import AuthenticationError, ConfigurationError, TinkerError
from tinker_ext.mock import Server, Settings

MODEL = "tinker-ext/tiny"
SECRETS = {
    "key": "tml-0123456789abcdef-key",
    "cloudflare id": "0123456789abcdef.access",
    "cloudflare secret": "fedcba9876543210-cloudflare",
    "bearer": "eyJ0123456789abcdef-bearer",
    "cookie": "session=0123456789abcdef-cookie",
    "weights": "weights-0123456789abcdef-token",
}


def everything(error):
    yield "".join(traceback.format_exception(error))
    yield f"{error} {error!r} {error.args!r} {vars(error)!r}"
    yield pickle.dumps(error).decode("latin-1")


class Echo(httpx.AsyncBaseTransport):
    """Answers errors that quote the whole request, after a good start."""

    def __init__(self):
        self.seen = set()

    async def handle_async_request(self, request):
        body = (await request.aread()).decode("latin-1")
        headers = {name.decode(): value.decode() for name, value in request.headers.raw}
        self.seen |= {name for name, text in SECRETS.items() if text in f"{headers}{body}"}
        path = request.url.path
        if path.endswith("/client/config"):
            return httpx.Response(200, json={})
        if path.endswith("/create_session"):
            return httpx.Response(200, json={"type": "create_session", "session_id": "s"})
        if path.endswith("/load_weights"):
            self.quoted = {"headers": headers, "body": body}
            return httpx.Response(200, json={"request_id": "r", "model_id": "m"})
        if path.endswith("/retrieve_future"):
            # A failed operation is told with status 200, by another request than it was sent with.
            error = json.dumps(self.quoted)
            return httpx.Response(200, json={"error": error, "category": "user"})
        if path.endswith("/create_model"):
            return httpx.Response(200, json={"request_id": "c", "model_id": "m"})
        quoted = json.dumps({"headers": headers, "body": body})
        return httpx.Response(400, headers={"x-echo": quoted}, json={"detail": quoted})


def test_no_error_repeats_a_secret_that_the_server_quotes():
    """F32: Cloudflare id and secret, Authorization, cookies and the token for foreign weights."""
    echo = Echo()
    config = Config(
        cloudflare_client_id=SECRETS["cloudflare id"],
        cloudflare_client_secret=SECRETS["cloudflare secret"],
        retry_attempts=1,
    )
    headers = {"Authorization": f"Bearer {SECRETS['bearer']}", "Cookie": SECRETS["cookie"]}
    with ServiceClient(
        base_url="http://server.test",
        api_key=SECRETS["key"],
        config=config,
        default_headers_overrides=headers,
        transport=echo,
    ) as service:
        calls = [
            service.get_server_capabilities,
            lambda: service.create_rest_client().list_training_runs().result(300),
            lambda: service.copy_weights(
                "tinker://run/weights/x", weights_access_token=SECRETS["weights"]
            ).result(300),
            lambda: service.create_training_client_from_state(
                "tinker://run/weights/x", weights_access_token=SECRETS["weights"]
            ),
        ]
        for call in calls:
            with pytest.raises(TinkerError) as caught:
                call()
            for text in everything(caught.value):
                leaked = [name for name, secret in SECRETS.items() if secret in text]
                assert not leaked, (leaked, text)
    assert echo.seen == set(SECRETS)


@pytest.mark.parametrize("place", ["configuration", "environment"])
def test_a_command_gives_the_key(place, monkeypatch, tmp_path):
    """F22 F26: `credential_cmd` or TINKER_CREDENTIAL_CMD, which runs once for many requests."""
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    runs = tmp_path / "runs"
    command = f"echo run >> {runs}; echo tml-from-a-command"
    if place == "environment":
        monkeypatch.setenv("TINKER_CREDENTIAL_CMD", command)
    config = Config(credential_cmd=command) if place == "configuration" else Config()
    with (
        Server(Settings(api_keys={"tml-from-a-command"})) as server,
        ServiceClient(base_url=server.url, config=config) as service,
    ):
        for _ in range(10):
            assert service.get_server_capabilities().supported_models
    assert runs.read_text().split() == ["run"]


def test_a_stored_key_opens_no_other_server(monkeypatch, tmp_path):
    """F39: a key stored for one server is not tried on another one, which would take it."""
    monkeypatch.setattr("pathlib.Path.home", lambda: tmp_path)
    for name in ("TINKER_API_KEY", "TINKER_CREDENTIAL_CMD"):
        monkeypatch.delenv(name, raising=False)
    CredentialStore().add("tml-hosted", key_id="1", name="a")
    with (
        Server(Settings(api_keys={"tml-hosted"})) as server,
        ServiceClient(base_url=server.url) as service,
        pytest.raises(AuthenticationError),
    ):
        service.get_server_capabilities()


@pytest.mark.parametrize("end", [None, "soon", [], True])
def test_a_token_whose_end_is_not_a_time(end):
    """F26: the reply of the token endpoint is named in an error of ours, without the token."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": end}).encode()).decode().rstrip("=")
    token = f"eyJhbGciOiJIUzI1NiJ9.{claims}.secret"

    def answer(name, body, request):
        return (200, {"jwt": token}) if name == "auth/token" else None

    async def scenario():
        stub = StubServer(answer, config={"pjwt_auth_enabled": True})
        async with client(stub, base_url=fresh_url()) as service:
            with pytest.raises(TinkerError) as caught:
                await service.create_sampling_client_async(base_model="m")
        return str(caught.value)

    told = run(scenario)
    assert "exp" in told
    assert token not in told


def test_a_key_over_plain_http_is_warned_of(monkeypatch):
    """F32 M45: said at the constructor, before anything is sent."""
    monkeypatch.setattr(auth, "_warned", set())
    with pytest.warns(UserWarning, match=r"http://192\.0\.2\.1.*unencrypted"):
        ServiceClient(base_url="http://192.0.2.1", api_key=SECRETS["key"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ServiceClient(base_url="https://192.0.2.1", api_key=SECRETS["key"])
        ServiceClient(base_url="http://127.0.0.1:9", api_key=SECRETS["key"])


# -- handles -----------------------------------------------------------------------------------


def handle_to(url):
    state = {"sampling_session_id": "s", "session_id": "x", "base_url": url, "config": {}}
    return base64.urlsafe_b64encode(json.dumps(state).encode()).decode()


@pytest.fixture
def trap():
    """A server that somebody else put into a handle, and what it was sent."""
    with Server(Settings()) as server:
        sent = []
        handle = server.app.respond

        async def respond(*arguments):
            sent.append(repr([getattr(each, "headers", None) for each in arguments]))
            return await handle(*arguments)

        server.app.respond = respond
        server.sent = sent
        yield server


@pytest.mark.parametrize("variable", ["TINKER_API_KEY", "TINKER_CREDENTIAL_CMD"])
def test_a_foreign_handle_gets_no_key_of_ours(trap, monkeypatch, variable):
    """F32 M45: the text says where it leads, so it must not decide where the key goes."""
    monkeypatch.setenv(variable, f"echo {SECRETS['key']}" if "CMD" in variable else SECRETS["key"])
    monkeypatch.delenv("TINKER_BASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="is not sent there") as caught:
        SamplingClient.from_sampler_handle(handle_to(trap.url))
    assert "api_key=" in str(caught.value.hint)
    assert not trap.sent


def test_a_foreign_handle_gets_no_gateway_secret_either(trap, monkeypatch):
    """F32: with a key of its own for that server, nothing else of this process goes there."""
    monkeypatch.delenv("TINKER_BASE_URL", raising=False)
    monkeypatch.setenv("TINKER_API_KEY", SECRETS["key"])
    monkeypatch.setenv("CLOUDFLARE_ACCESS_CLIENT_ID", SECRETS["cloudflare id"])
    monkeypatch.setenv("CLOUDFLARE_ACCESS_CLIENT_SECRET", SECRETS["cloudflare secret"])
    client = SamplingClient.from_sampler_handle(handle_to(trap.url), api_key="tml-for-them")
    with pytest.raises(TinkerError):
        client.sample(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=1)).result(300)
    told = " ".join(trap.sent)
    assert trap.log.requests("asample") or trap.log.requests("*")
    assert not [name for name, text in SECRETS.items() if text in told]


def test_a_handle_to_our_own_server_works_as_before(monkeypatch):
    """M23: the configured server, one that this program has a client of, and a stored key."""
    prompt, params = ModelInput.from_ints([1]), SamplingParams(max_tokens=1)
    monkeypatch.setenv("TINKER_API_KEY", SECRETS["key"])
    with Server(Settings(api_keys={SECRETS["key"]})) as server:
        with ServiceClient(base_url=server.url) as service:
            handle = service.create_sampling_client(base_model=MODEL).get_sampler_handle()
            again = SamplingClient.from_sampler_handle(handle)
            assert again.sample(prompt, 1, params).result(300)
        monkeypatch.setattr("tinker_ext.clients.handles._told", set())
        monkeypatch.setenv("TINKER_BASE_URL", server.url)
        SamplingClient.from_sampler_handle(handle_to(server.url))


# -- doctor ------------------------------------------------------------------------------------


def test_doctor_says_which_key_goes_where(tmp_path, monkeypatch):
    """F39 M45: where the key comes from, where it goes, and which ones stay at home."""
    monkeypatch.setattr("pathlib.Path.home", lambda: tmp_path)
    CredentialStore().add("tml-hosted", key_id="1", name="a")
    CredentialStore(origin=origin_of("http://127.0.0.1:8000")).add("local", key_id="2", name="b")

    def told(url, **env):
        return " | ".join(finding.detail for finding in key(url, env))

    here = told("http://127.0.0.1:8000/")
    assert "servers" in here
    assert "sent to http://127.0.0.1:8000" in here
    assert "stored for https://tinker.thinkingmachines.dev; not sent to http://127.0" in here
    elsewhere = told("http://127.0.0.1:8001")
    assert "none is sent to http://127.0.0.1:8001" in elsewhere
    assert "from TINKER_API_KEY, sent to http://x" in told("http://x", TINKER_API_KEY="k")
    command = told("http://x", TINKER_CREDENTIAL_CMD="echo k")
    assert "TINKER_CREDENTIAL_CMD, which works, sent to http://x" in command
