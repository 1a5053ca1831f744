"""The generated calls: sync and async, errors, timeouts, raw access, secrets."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest
from tinker_api import Client
from tinker_api.api.checkpoints import delete_checkpoint
from tinker_api.api.futures import retrieve_future
from tinker_api.api.service import health_check as health
from tinker_api.api.training import forward_backward
from tinker_api.errors import (
    ApiError,
    ResponseError,
    StatusError,
    UnexpectedBody,
    UnexpectedStatus,
)
from tinker_api.models import (
    ErrorBody,
    ForwardBackwardInput,
    ForwardBackwardRequest,
    FutureRetrieveRequest,
    HealthResponse,
    PendingFutureBody,
    UntypedAPIFuture,
)
from tinker_api.types import Headers, Unknown, loads

JSON = "application/json"
ASK = FutureRetrieveRequest(request_id="r")
ROOT = Path(__file__).resolve().parents[2]


def client_for(
    content: bytes,
    status: int = 200,
    kind: str | None = JSON,
    seen: list[httpx.Request] | None = None,
) -> Client:
    """Return a client whose server always gives this answer."""

    def answer(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        headers = {} if kind is None else {"content-type": kind}
        return httpx.Response(status, headers=headers, content=content)

    transport = httpx.MockTransport(answer)
    return Client("http://server/prefix", token="tml-secret", httpx_args={"transport": transport})


def test_sync_and_async_calls_give_the_record() -> None:
    """M16: the four forms of a call agree."""
    client = client_for(b'{"status":"ok","new":1}')
    parsed = health.sync(client=client)
    assert parsed == HealthResponse.from_dict({"status": "ok", "new": 1})
    assert asyncio.run(health.asyncio(client=client_for(b'{"status":"ok","new":1}'))) == parsed
    detailed = health.sync_detailed(client=client)
    assert (detailed.status_code, detailed.content) == (200, b'{"status":"ok","new":1}')
    assert detailed.headers["content-type"] == JSON
    assert detailed.parsed == parsed
    again = asyncio.run(health.asyncio_detailed(client=client_for(b'{"status":"ok","new":1}')))
    assert again.parsed == parsed


def test_the_request_carries_what_the_document_says() -> None:
    """M33: path, key, content type and body; a prefix of the base URL is kept."""
    seen: list[httpx.Request] = []
    client = client_for(b'{"request_id":"r"}', seen=seen)
    body = ForwardBackwardRequest(
        model_id="m",
        seq_id=1,
        forward_backward_input=ForwardBackwardInput(data=[], loss_fn="ppo"),
    )
    assert forward_backward.sync(client=client, body=body) == UntypedAPIFuture(request_id="r")
    forward_backward.sync(client=client, body=b"\x01", content_encoding="zstd")
    first, second = seen
    assert first.url.path == "/prefix/api/v1/forward_backward"
    assert first.headers["x-api-key"] == "tml-secret"
    assert first.headers["content-type"] == JSON
    assert loads(first.content)["forward_backward_input"] == {"data": [], "loss_fn": "ppo"}
    assert second.headers["content-type"] == "application/x-protobuf"
    assert second.headers["content-encoding"] == "zstd"
    assert second.content == b"\x01"


def checkpoint_parts(run: str, kind: str, name: str) -> dict[str, Any]:
    """Return the parts of the request that deletes a checkpoint."""
    return delete_checkpoint.OPERATION.build(
        training_run_id=run, checkpoint_kind=kind, checkpoint_name=name
    )


def test_path_values_are_quoted() -> None:
    """M33: an id cannot reach another path."""
    parts = checkpoint_parts("a..b?x:0", "weights", "step 1")
    assert parts["url"] == "/api/v1/training_runs/a..b%3Fx:0/checkpoints/weights/step%201"
    for bad in ("", ".", "..", "a/b", "a/../b"):
        with pytest.raises(ValueError, match="part of a path"):
            checkpoint_parts(bad, "weights", "x")
    with pytest.raises(ValueError, match="checkpoint_kind is 'oops'; use one of 'weights'"):
        checkpoint_parts("run", "oops", "x")
    with pytest.raises(ValueError, match="one line"):
        retrieve_future.OPERATION.build(body=ASK, x_idempotency_key="a\r\nX-Evil: 1")


@pytest.mark.parametrize(
    ("status", "kind", "content", "error"),
    [
        (200, "text/html", b"<html>login</html>", UnexpectedBody),
        (200, "text/plain", b'{"metrics":{}}', UnexpectedBody),
        (200, JSON, b'{"metrics": {"a"', UnexpectedBody),
        (200, JSON, b"", UnexpectedBody),
        (200, JSON, b"<html>", UnexpectedBody),
        (200, JSON, b"\xff\xfe\x00", UnexpectedBody),
        (200, JSON, b"[" * 100_000, UnexpectedBody),
        (200, JSON, b'{"a":' * 100_000, UnexpectedBody),
        (200, JSON, b'{"type":"try_again"}', UnexpectedBody),
        (200, "image/png", b"\x89PNG", UnexpectedBody),
        (200, None, b"<html>", UnexpectedBody),
        (201, JSON, b"[", UnexpectedBody),
        (302, "text/html", b"moved", UnexpectedStatus),
        (418, JSON, b"{}", UnexpectedStatus),
        (451, "text/html", b"<html>", UnexpectedStatus),
        (999, JSON, b"{}", UnexpectedStatus),
        (400, JSON, b'{"detail":"bad"}', StatusError),
        (402, JSON, b'{"detail":"pay"}', StatusError),
        (408, JSON, b'{"queue_state":"active"}', StatusError),
        (408, JSON, b"", StatusError),
        (408, JSON, b'{"queue_state":5}', StatusError),
        (429, JSON, b'{"detail":{"limit":3}}', StatusError),
        (429, JSON, b"[1]", UnexpectedBody),
        (410, "text/plain", b"gone", StatusError),
        (429, JSON, b"{}", StatusError),
        (500, JSON, b'{"detail":[{"loc":["a",1],"msg":"m","type":"t"}]}', StatusError),
        (500, JSON, b"oops", UnexpectedBody),
        (502, "text/html; charset=utf-8", b"<html>bad gateway</html>", StatusError),
        (503, "application/xml", b"<a/>", UnexpectedBody),
        (520, "text/html", b"<html>cloud</html>", StatusError),
        (524, JSON, b'{"detail":"timeout"}', StatusError),
    ],
)
def test_bad_answers_are_typed_errors(
    status: int, kind: str | None, content: bytes, error: type[ResponseError]
) -> None:
    """M2, M38: never a KeyError or JSONDecodeError; the error has status, type and first bytes."""
    for call in (
        lambda: retrieve_future.sync(client=client_for(content, status, kind), body=ASK),
        lambda: asyncio.run(
            retrieve_future.asyncio(client=client_for(content, status, kind), body=ASK)
        ),
    ):
        with pytest.raises(ApiError) as caught:
            call()
        problem = caught.value
        assert type(problem) is error
        assert isinstance(problem, ResponseError)
        assert problem.status_code == status
        assert problem.content == content
        assert problem.head == content[:200]
        assert problem.content_type == (kind or "").partition(";")[0]
        assert str(status) in str(problem)
        twin = pickle.loads(pickle.dumps(problem))
        assert (type(twin), str(twin)) == (type(problem), str(problem))


def test_documented_errors_are_parsed() -> None:
    """M38: the body of a documented status is a record, in both forms of the call."""
    pending = retrieve_future.sync_detailed(
        client=client_for(b'{"queue_state":"paused_capacity"}', 408), body=ASK
    )
    assert pending.parsed == PendingFutureBody(queue_state="paused_capacity")
    with pytest.raises(StatusError) as caught:
        retrieve_future.sync(client=client_for(b'{"detail":"no"}', 401), body=ASK)
    assert caught.value.parsed == ErrorBody(detail="no")
    with pytest.raises(StatusError) as caught:
        retrieve_future.sync(client=client_for(b'{"error":{"a":1}}', 429), body=ASK)
    assert caught.value.parsed == Unknown({"error": {"a": 1}})


@pytest.mark.parametrize("status", [200, 201, 202])
def test_any_success_is_read_as_the_documented_one(status: int) -> None:
    """F33, M28: servers accept work with 200, 201 or 202."""
    client = client_for(b'{"request_id":"r"}', status)
    assert forward_backward.sync(client=client, body=b"{}") == UntypedAPIFuture(request_id="r")


@pytest.mark.parametrize("status", [200, 202, 204])
def test_success_without_a_body_may_have_any_2xx(status: int) -> None:
    """M35: servers differ in how they say that a deletion is done."""
    client = client_for(b"", status, None)
    delete_checkpoint.sync("run", "weights", "x", client=client)


def test_protobuf_results_come_as_bytes() -> None:
    """M27: the content type decides, not the bytes."""
    client = client_for(b"\x0a\x00", kind="application/x-protobuf")
    assert retrieve_future.sync(client=client, body=ASK) == b"\x0a\x00"


def test_undecidable_results_come_as_unknown() -> None:
    """M2: raw access for what cannot be told apart."""
    assert retrieve_future.sync(client=client_for(b"{}"), body=ASK) == Unknown({})


def test_there_is_always_a_timeout() -> None:
    """M22: sixty seconds unless told otherwise, also with a foreign httpx client."""
    seen: list[httpx.Request] = []
    client = client_for(b'{"status":"ok"}', seen=seen)
    health.sync(client=client)
    health.sync(client=client, timeout=5)
    health.sync(client=client_for(b'{"status":"ok"}', seen=seen).with_timeout(7))
    foreign = httpx.Client(
        base_url="http://x",
        timeout=None,
        transport=client.httpx_args["transport"],
    )
    health.sync(client=Client("http://x").set_httpx_client(foreign))
    assert [request.extensions["timeout"]["read"] for request in seen] == [60, 5, 7, 60]
    for bad in (None, 0, -1, float("inf"), float("nan"), httpx.Timeout(None)):
        limit: Any = bad
        with pytest.raises((ValueError, TypeError)):
            Client("http://x", timeout=limit)
        if bad is not None:
            with pytest.raises(ValueError, match="positive number of seconds"):
                health.sync(client=client, timeout=limit)


def test_secrets_are_in_no_repr() -> None:
    """M33: token, headers, user info of the URL and header parameters stay out of sight."""
    client = client_for(b'{"status":"ok"}')
    client = Client(
        "http://user:secret@host/path",
        token="tml-secret",
        headers={"CF-Access-Client-Secret": "secret"},
        httpx_args=client.httpx_args,
    )
    assert "secret" not in repr(client)
    assert "host/path" in repr(client)
    assert "secret" not in repr(client.with_headers({"a": "secret"}))
    assert "secret" not in repr(Headers({"x-api-key": "secret"}))
    response = health.sync_detailed(client=client_for(b'{"status":"secret"}'))
    assert "secret" not in repr(response)
    parts = retrieve_future.OPERATION.build(body=ASK, x_idempotency_key="secret")
    assert "secret" not in repr(parts["headers"])
    with pytest.raises(UnexpectedBody) as caught:
        health.sync(client=client_for(b'{"status":"secret'))
    assert "secret" not in f"{caught.value} {caught.value!r}"
    with pytest.raises(TypeError, match="credential"):
        pickle.dumps(client)


def test_redirects_are_not_followed() -> None:
    """M33: the key goes to its server only."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(307, headers={"location": "http://evil/"})

    client = Client("http://x", token="k", httpx_args={"transport": httpx.MockTransport(answer)})
    with pytest.raises(UnexpectedStatus):
        health.sync(client=client)
    assert len(seen) == 1


def test_import_is_light_and_typed() -> None:
    """M39: the package, its records and JSON tools load without httpx, numpy or orjson."""
    code = (
        "import sys, tinker_api, tinker_api.models, tinker_api.types, tinker_api.errors\n"
        "from tinker_api.models import AdamParams\n"
        "from tinker_api.api.training import forward_backward\n"
        "AdamParams().to_dict()\n"
        "heavy = {'httpx', 'numpy', 'orjson', 'google.protobuf', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    path = f"{ROOT}:{ROOT / 'generated'}"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": path})
    for package in ("tinker_api", "tinker_proto"):
        assert files(package).joinpath("py.typed").is_file()
