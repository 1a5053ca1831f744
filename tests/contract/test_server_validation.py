"""M40: requests and replies are checked against the document, and the contract file is fresh."""

import asyncio
from pathlib import Path

import httpx
import orjson
import pytest
from raw_tinker import Raw, datum

from tinker_ext.mock import contract
from tinker_ext.mock.routing import ENDPOINTS

ROOT = Path(__file__).parents[2]


def test_contract_json_is_the_document():
    """M1, M40: the shipped contract is the document without prose."""
    fresh = contract.build(ROOT / "openapi" / "tinker.yaml")
    assert contract.FILE.read_bytes() == fresh, (
        "tinker_ext/mock/contract.json is stale; run `nox -s regenerate`"
    )


def test_every_operation_has_a_handler():
    """M40: every endpoint of the document is served, and nothing else under /api/v1/."""
    served = {key for key, found in ENDPOINTS.items() if found.documented}
    assert served == set(contract.load().operations)


def test_an_operation_without_a_handler_is_501(monkeypatch):
    """M41: the server starts all the same, checks the request and names the operation."""
    monkeypatch.delitem(ENDPOINTS, ("POST", "/api/v1/unload_model"))

    async def scenario():
        async with Raw() as raw:
            bad = await raw.send("POST", "unload_model", {"colour": 1})
            good = await raw.send("POST", "unload_model", {"model_id": "m"})
            health = await raw.send("GET", "healthz")
            return bad, good, health, raw.app.log.violations

    bad, good, health, violations = asyncio.run(scenario())
    assert bad.status_code == 422
    assert (good.status_code, good.headers["x-should-retry"]) == (501, "false"), good.text
    assert good.json()["detail"] == "this server has no handler for the operation unload_model"
    assert health.status_code == 200
    assert violations == []


@pytest.mark.parametrize(
    ("path", "change", "where", "text"),
    [
        ("create_session", {"tags": "x"}, ["body", "tags"], "array"),
        ("create_session", {"colour": 1}, ["body"], "colour"),
        ("create_model", {"base_model": None}, ["body", "base_model"], "string"),
        (
            "create_model",
            {"lora_config": {"rank": "x"}},
            ["body", "lora_config", "rank"],
            "integer",
        ),
        (
            "asample",
            {"prompt": {"chunks": [{"tokens": [1, "x"], "type": "encoded_text"}]}},
            ["body", "prompt", "chunks", 0, "tokens", 1],
            "integer",
        ),
    ],
)
def test_a_bad_body_is_422_with_its_path(path, change, where, text):
    """M40: FastAPI's shape, with the JSON path of the fault."""
    bodies = {
        "create_session": {"tags": [], "user_metadata": {}, "sdk_version": "1"},
        "create_model": {"session_id": "s", "model_seq_id": 0, "base_model": "b"},
        "asample": {"prompt": {"chunks": []}, "sampling_params": {}, "base_model": "b"},
    }

    async def scenario():
        async with Raw() as raw:
            reply = await raw.send("POST", path, bodies[path] | change)
            assert reply.status_code == 422
            first = reply.json()["detail"][0]
            assert first["loc"] == where
            assert text in first["msg"]
            assert set(first) == {"loc", "msg", "type"}
            assert raw.app.log.violations == []

    asyncio.run(scenario())


def test_a_missing_field_is_named():
    """M40: the path of a missing field ends with its name."""

    async def scenario():
        async with Raw() as raw:
            reply = await raw.send("POST", "session_heartbeat", {})
            assert reply.json()["detail"] == [
                {
                    "loc": ["body", "session_id"],
                    "msg": '"session_id" is a required property',
                    "type": "missing",
                }
            ]
            for content in (b"", b"{", b"\xff"):
                reply = await raw.send("POST", "session_heartbeat", content=content)
                assert reply.status_code == 422
                assert reply.json()["detail"][0]["type"] == "json_invalid"
            reply = await raw.send("GET", "training_runs?limit=many")
            assert reply.json()["detail"][0]["loc"] == ["query", "limit"]

    asyncio.run(scenario())


def test_paths_and_methods():
    """M40: 404 and 405 with Allow; a base path before /api/v1/ is ignored."""

    async def scenario():
        async with Raw() as raw:
            assert (await raw.send("POST", "nothing", {})).status_code == 404
            reply = await raw.send("PUT", "optim_step", {})
            assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
            reply = await raw.http.get("/services/tinker-prod/api/v1/healthz")
            assert reply.json() == {"status": "ok"}

    asyncio.run(scenario())


def test_a_reply_that_breaks_the_document_is_recorded(monkeypatch):
    """M40: the fixture fails a test on such a record."""
    import attrs

    key = ("GET", "/api/v1/healthz")
    broken = attrs.evolve(ENDPOINTS[key], handler=lambda world, request: {"status": 7})
    monkeypatch.setitem(ENDPOINTS, key, broken)

    async def scenario():
        async with Raw() as raw:
            assert (await raw.send("GET", "healthz")).status_code == 200
            assert len(raw.app.log.violations) == 1
            assert "health_check 200: response.status" in raw.app.log.violations[0]

    asyncio.run(scenario())


def test_a_large_body_is_checked_in_one_compiled_pass():
    """M40: 128 × 4096 tokens with targets and weights pass; one bad token in them is found."""
    operation = contract.load().operations["POST", "/api/v1/forward_backward"]
    text = "x" * 4097
    data = [datum(text) for _ in range(128)]
    body = {
        "model_id": "m",
        "forward_backward_input": {"data": data, "loss_fn": "cross_entropy"},
    }
    contract.load().check_body(operation, body)
    data[100]["model_input"]["chunks"][0]["tokens"][4000] = 0.5
    with pytest.raises(Exception, match="422") as caught:
        contract.load().check_body(operation, body)
    path = ["body", "forward_backward_input", "data", 100, "model_input", "chunks", 0]
    assert caught.value.detail[0]["loc"] == [*path, "tokens", 4000]


def test_secrets_stay_out_of_the_log():
    """M33: the request log shows headers, but no credentials."""

    async def scenario():
        async with Raw(headers={"x-tinker-weights-access-token": "hush"}) as raw:
            await raw.send("GET", "healthz")
            entry = raw.app.log.requests("healthz")[0]
            assert entry.headers["x-api-key"] == "***"
            shown = (await raw.http.get("/_mock/log")).text + repr(raw.app.log.requests())
            assert "tml-test" not in shown
            assert "hush" not in shown

    asyncio.run(scenario())


def test_content_length_is_always_sent(tinker_server):
    """M28: a 400 without Content-Length would be read as a proxy's answer by SDK 0.36.0."""
    with httpx.Client(base_url=tinker_server.url) as http:
        reply = http.post("/api/v1/asample", content=orjson.dumps({}))
        assert reply.status_code == 422
        assert int(reply.headers["content-length"]) == len(reply.content)
