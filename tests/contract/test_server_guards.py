"""F30, M45: the embedded server guards what it is told to guard, and bounds what it takes."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
import tracemalloc

import httpx
import orjson
import pytest
import zstandard
from raw_tinker import Raw

from tinker_ext.mock import Server, Settings, create_app

KEY = {"x-api-key": "tml-right"}


def guarded(**options):
    """A server that lets one key in."""
    return Settings(api_keys=["tml-right"], inline_engine=True, **options)


def ask(settings, method, path, headers=None, **options):
    """One request to a fresh server in process."""

    async def scenario():
        app = create_app(settings)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(base_url="http://embedded", transport=transport) as http:
            reply = await http.request(method, path, headers=headers, **options)
        app.close()
        return reply

    return asyncio.run(scenario())


def forged(claims, secret):
    """An HS256 JWT of somebody who has guessed a secret."""
    parts = [{"alg": "HS256", "typ": "JWT"}, claims]
    text = b".".join(base64.urlsafe_b64encode(orjson.dumps(p)).rstrip(b"=") for p in parts)
    mark = base64.urlsafe_b64encode(hmac.digest(secret, text, "sha256")).rstrip(b"=")
    return (text + b"." + mark).decode()


def test_a_token_forged_from_the_seed_is_refused():
    """F30, M45: with keys set the secret of tokens is random; the seed is public."""
    claims = {"exp": time.time() + 3600, "sub": "anybody"}
    for secret in (
        hashlib.sha256(b"tinker-ext/0").digest(),
        hashlib.sha256(b"archives/0").digest(),
        b"",
    ):
        headers = {"x-api-key": forged(claims, secret)}
        assert ask(guarded(), "GET", "/api/v1/get_server_capabilities", headers).status_code == 401


def test_a_token_of_the_server_is_good():
    """F30: the exchange itself still works."""

    async def scenario():
        async with Raw(settings=guarded(), headers=KEY) as raw:
            token = (await raw.post("auth/token"))["jwt"]
            reply = await raw.send("GET", "get_server_capabilities", headers={"x-api-key": token})
            assert reply.status_code == 200

    asyncio.run(scenario())


def test_tokens_outlive_a_restart_on_the_same_state(tmp_path):
    """F30: the secret is kept with the state, readable by its owner only."""

    async def scenario():
        async with Raw(settings=guarded(state=tmp_path), headers=KEY) as raw:
            token = (await raw.post("auth/token"))["jwt"]
        async with Raw(settings=guarded(state=tmp_path), headers={"x-api-key": token}) as raw:
            assert (await raw.send("GET", "get_server_capabilities")).status_code == 200

    asyncio.run(scenario())
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/_mock/log"),
        ("GET", "/_mock/training"),
        ("GET", "/_mock/telemetry"),
        ("POST", "/_mock/faults"),
        ("DELETE", "/_mock/faults"),
        ("POST", "/_mock/sessions/x/lose"),
    ],
)
def test_control_paths_need_the_key(method, path):
    """F30, M45: who may not train may not read the log or plant faults either."""
    assert ask(guarded(), method, path, json=[]).status_code == 401
    assert ask(guarded(), method, path, KEY, json=[]).status_code != 401


def test_archive_and_trace_urls_are_signed_with_a_secret():
    """F30: a link needs no key, and cannot be made from the seed."""

    async def scenario():
        async with Raw(settings=guarded(), headers=KEY) as raw:
            session = await raw.session()
            model = await raw.model(session)
            path = await raw.save(model, "save_weights_for_sampler", path="a")
            inner = path.removeprefix("tinker://")
            until = str(int(time.time()) + 60)
            secret = hashlib.sha256(b"archives/0").digest()
            forged = hmac.new(secret, f"{inner}?{until}".encode(), "sha256").hexdigest()
            url = f"/_mock/archives/{inner}?expires={until}&signature={forged}"
            bare = httpx.AsyncClient(
                base_url="http://embedded", transport=httpx.ASGITransport(raw.app)
            )
            assert (await bare.get(url)).status_code == 403
            reply = await raw.send("GET", f"sessions/{session}/trace_export")
            assert (await bare.get(reply.json()["url"])).status_code == 200
            assert (await bare.get(f"/_mock/traces/{session}")).status_code == 403
            await bare.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:1"}, 200),
        ({"host": "localhost"}, 200),
        ({"host": "[::1]:80"}, 200),
        ({"host": "evil.example:80"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:99"}, 200),
    ],
)
def test_a_loopback_server_answers_to_names_of_this_machine_only(headers, status):
    """F30, M45: a page whose name was rebound to 127.0.0.1 gets nothing."""
    with Server(Settings()) as server:
        assert httpx.get(f"{server.url}/api/v1/healthz", headers=headers).status_code == status


def test_a_name_can_be_allowed():
    """F30: behind a proxy the server has a name of its own."""
    with Server(Settings(hosts=["tinker.example"])) as server:
        reply = httpx.get(f"{server.url}/api/v1/healthz", headers={"host": "tinker.example"})
        assert reply.status_code == 200


def test_two_servers_on_one_state_folder(tmp_path):
    """F30: the second one says so; when the first has ended the folder is free."""
    first = create_app(Settings(state=tmp_path))
    with pytest.raises(ValueError, match="in use by another server"):
        create_app(Settings(state=tmp_path))
    first.close()
    create_app(Settings(state=tmp_path)).close()


def test_a_folder_of_another_seed_is_given_back(tmp_path):
    """F30: a server that cannot start holds no lock."""
    create_app(Settings(state=tmp_path)).close()
    with pytest.raises(ValueError, match="was written with"):
        create_app(Settings(state=tmp_path, seed=1))
    create_app(Settings(state=tmp_path)).close()


def test_a_body_beyond_the_limit_is_413_and_not_read(tmp_path):
    """F30: on a port, with the connection closed behind it."""
    with Server(Settings(body_limit=1 << 20)) as server:
        url = f"{server.url}/api/v1/create_session"

        def endless():
            for _ in range(1 << 14):
                yield b" " * (1 << 16)

        try:
            reply = httpx.post(url, content=endless(), timeout=300)
        except httpx.TransportError:
            pass  # the server hung up while we were still sending
        else:
            assert reply.status_code == 413
            assert "1048576" in reply.json()["detail"]
        statuses = [entry.status for entry in server.log.requests("create_session")]
        assert statuses == [413]
        assert httpx.get(f"{server.url}/api/v1/healthz").status_code == 200


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
def test_a_compressed_bomb_is_refused_within_its_bound(encoding):
    """F30: some kilobytes that stand for 64 MB cost little memory."""
    import gzip

    plain = b" " * (64 << 20)
    packed = (
        zstandard.ZstdCompressor(level=3, write_content_size=False).compress(plain)
        if encoding == "zstd"
        else gzip.compress(plain)
    )
    del plain
    headers = {"content-type": "application/json", "content-encoding": encoding}
    tracemalloc.start()
    reply = ask(
        Settings(body_limit=4 << 20), "POST", "/api/v1/create_session", headers, content=packed
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reply.status_code == 422
    assert "more than 4194304 bytes" in reply.text
    assert peak < 48 << 20


@pytest.mark.parametrize("cut", [-5, None])
def test_a_zstd_body_is_one_whole_frame(cut):
    """F30: neither a part of it nor anything after it is taken for the body."""
    body = json.dumps({"tags": [], "user_metadata": {}, "sdk_version": "x"}).encode()
    packed = zstandard.compress(body * 1)
    headers = {"content-type": "application/json", "content-encoding": "zstd"}
    wrong = packed[:cut] if cut else packed + b"garbage"
    path = "/api/v1/create_session"
    assert ask(Settings(), "POST", path, headers, content=packed).status_code == 200
    assert ask(Settings(), "POST", path, headers, content=wrong).status_code == 422


@pytest.mark.parametrize("levels", [80, 300, 900, 100_000])
@pytest.mark.parametrize("where", ["metadata", "list"])
def test_deep_json_is_422(levels, where):
    """F30: never a 500, and never stored."""
    if where == "metadata":
        deep = b'{"a":' * levels + b"1" + b"}" * levels
        body = b'{"tags":[],"sdk_version":"x","user_metadata":' + deep + b"}"
    else:
        body = b"[" * levels + b"]" * levels
    headers = {"content-type": "application/json"}
    reply = ask(Settings(), "POST", "/api/v1/create_session", headers, content=body)
    assert reply.status_code == 422
    assert "deep" in reply.text or "depth" in reply.text


def test_the_log_holds_what_was_sent():
    """F36: a test can assert the body of a request, compressed or not; tokens stay out."""

    async def scenario():
        async with Raw() as raw:
            model = await raw.model()
            body = raw.training_body(model)
            await raw.post("forward_backward", **body)
            packed = zstandard.compress(orjson.dumps({**body, "seq_id": 2}))
            headers = {"content-type": "application/json", "content-encoding": "zstd"}
            reply = await raw.send("POST", "forward_backward", content=packed, headers=headers)
            assert reply.status_code == 200
            plain, opened = raw.app.log.requests("forward_backward")
            assert plain.json == body
            assert opened.json == {**body, "seq_id": 2}
            assert opened.request_bytes == len(packed)
            await raw.send(
                "POST",
                "load_weights",
                {"model_id": model, "path": "tinker://x/weights/y", "weights_access_token": "s3"},
            )
            assert "s3" not in str(raw.app.log.requests("load_weights")[0].body)
            reply = await raw.http.get("/_mock/log", params={"path": "forward_backward"})
            assert reply.json()["requests"][0]["json"] == body

    asyncio.run(scenario())


def test_the_log_drops_old_bodies_first():
    """F36: bodies are kept within a bound."""
    from tinker_ext.mock.log import RequestLog

    log = RequestLog(100, body_bytes=100)
    for number in range(10):
        log.record(0.0, "POST", "/api/v1/asample", 200, (30, 1), body=b"%030d" % number)
    log.record(0.0, "POST", "/api/v1/asample", 200, (101, 1), body=b"x" * 101)
    kept = [entry.body for entry in log.requests() if entry.body]
    assert kept == [b"%030d" % n for n in (7, 8, 9)]


def test_a_reply_is_in_the_log_before_it_leaves():
    """F36: whoever has read a reply finds its request in the log, at once."""
    app = create_app(Settings())
    noted = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(_):
        noted.append([entry.status for entry in app.log.requests("healthz")])

    scope = {"type": "http", "method": "GET", "path": "/api/v1/healthz", "query_string": b""}
    asyncio.run(app({**scope, "headers": []}, receive, send))
    assert noted == [[200], [200]]  # the head and the body
