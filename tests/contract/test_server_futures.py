"""M22, M40: long polls, their pending answers, expiry, cancelling and the session-wide poll."""

import asyncio

import pytest
from raw_tinker import Raw
from virtual_clock import run_virtual

from tinker_ext.mock import Pause, Server, Settings

SAMPLE = {
    "base_model": "tinker-ext/tiny",
    "prompt": {"chunks": [{"tokens": [1, 2]}]},
    "sampling_params": {"max_tokens": 2, "seed": 1},
}


def inline(**options):
    return Settings(inline_engine=True, **options)


@pytest.mark.parametrize(("style", "status"), [("408", 408), ("try_again", 200)])
def test_a_poll_waits_and_then_says_so(style, status):
    """M22: nothing for the length of the poll, then "try again" with the queue state."""

    async def scenario():
        async with Raw(settings=inline(latency=50.0, long_poll=30.0, pending=style)) as raw:
            ticket = await raw.post("asample", **SAMPLE)
            clock = asyncio.get_running_loop().time
            started = clock()
            reply = await raw.send("POST", "retrieve_future", {"request_id": ticket["request_id"]})
            assert clock() - started == pytest.approx(30.0)
            assert reply.status_code == status
            assert reply.json() == {
                "type": "try_again",
                "request_id": ticket["request_id"],
                "queue_state": "active",
            }
            reply = await raw.send("POST", "retrieve_future", {"request_id": ticket["request_id"]})
            assert clock() - started == pytest.approx(50.0)
            assert reply.json()["type"] == "sample"

    run_virtual(scenario())


def test_a_pause_has_a_state_and_a_reason():
    """M22, M26: paused_rate_limit and its text, then the result."""
    pause = Pause("paused_rate_limit", seconds=40.0, reason="too many adapters")

    async def scenario():
        async with Raw(settings=inline(pause=pause, long_poll=30.0)) as raw:
            ticket = await raw.post("asample", **SAMPLE)
            reply = await raw.send("POST", "retrieve_future", {"request_id": ticket["request_id"]})
            assert reply.status_code == 408
            assert reply.json()["queue_state"] == "paused_rate_limit"
            assert reply.json()["queue_state_reason"] == "too many adapters"
            assert (await raw.result(ticket))["sequences"]

    run_virtual(scenario())


def test_capacity_for_models():
    """M22: a model too many waits as paused_capacity until another is unloaded."""

    async def scenario():
        async with Raw(settings=inline(models_limit=1, long_poll=1.0)) as raw:
            session = await raw.session()
            first = await raw.model(session)
            body = {"session_id": session, "model_seq_id": 1, "base_model": "tinker-ext/tiny"}
            ticket = await raw.post("create_model", **body)
            reply = await raw.send("POST", "retrieve_future", {"request_id": ticket["request_id"]})
            assert reply.json()["queue_state"] == "paused_capacity"
            await raw.result(await raw.post("unload_model", model_id=first))
            assert (await raw.result(ticket))["model_id"].endswith(":train:1")

    run_virtual(scenario())


def test_results_expire():
    """M22: unread results live an hour, read ones a few minutes; then 410, unknown ids 404."""

    async def scenario():
        async with Raw(settings=inline(future_ttl=3600.0, delivered_ttl=300.0)) as raw:
            read = await raw.post("asample", **SAMPLE)
            unread = await raw.post("asample", **SAMPLE)
            await raw.result(read)
            await asyncio.sleep(200)
            await raw.result(read)
            await asyncio.sleep(200)

            async def status(request_id):
                body = {"request_id": request_id}
                return (await raw.send("POST", "retrieve_future", body)).status_code

            assert await status(read["request_id"]) == 410
            await asyncio.sleep(3300)
            assert await status(unread["request_id"]) == 410
            assert await status("req-of-somebody-else") == 404

    run_virtual(scenario())


def test_metadata_first():
    """M22: a large result announces its size before it travels."""

    async def scenario():
        async with Raw(settings=inline(metadata_threshold=10)) as raw:
            ticket = await raw.post("asample", **SAMPLE)
            body = {"request_id": ticket["request_id"], "allow_metadata_only": True}
            reply = await raw.send("POST", "retrieve_future", body)
            assert reply.json()["status"] == "complete_metadata"
            whole = await raw.send("POST", "retrieve_future", body | {"allow_metadata_only": False})
            assert len(whole.content) == reply.json()["response_payload_size"]

    asyncio.run(scenario())


def test_one_poll_for_all_samples_of_a_session():
    """M23: retrieve_futures reports completions once, from the cursor on."""

    async def scenario():
        async with Raw(settings=inline(long_poll=5.0)) as raw:
            session = await raw.session()
            opened = await raw.post(
                "create_sampling_session",
                session_id=session,
                sampling_session_seq_id=0,
                base_model="tinker-ext/tiny",
            )
            sampler = opened["sampling_session_id"]
            joined = await raw.post("join_sampling_session", sampling_session_id=sampler)
            assert joined["client_counter"] == 1
            body = {k: v for k, v in SAMPLE.items() if k != "base_model"}
            body["sampling_session_id"] = sampler
            tickets = [await raw.post("asample", seq_id=n, **body) for n in range(3)]
            other = await raw.post("asample", seq_id=1_000_000_000, **body)
            target = {"type": "sampling_session", "sampling_session_id": sampler}
            page = await raw.post("retrieve_futures", target=target)
            ids = [c["request_id"] for c in page["completions"]]
            assert ids == [t["request_id"] for t in tickets]
            assert all(c["response_payload_uncompressed_size"] > 0 for c in page["completions"])
            empty = await raw.post("retrieve_futures", target=target, prev_cursor=page["cursor"])
            assert empty == {"completions": [], "cursor": 3}
            clone = await raw.post("retrieve_futures", target={**target, "cloned_sampler_id": 1})
            assert [c["request_id"] for c in clone["completions"]] == [other["request_id"]]

    run_virtual(scenario())


def test_a_cancelled_sample_fails_for_its_reader():
    """M22: cancel_future ends a pending sample; only samples are cancelled."""

    async def scenario():
        with Server(Settings(latency=0.0)) as server:
            async with Raw(url=server.url) as raw:
                slow = {**SAMPLE, "sampling_params": {"max_tokens": 900, "stop": []}}
                first = await raw.post("asample", **slow)
                second = await raw.post("asample", **slow)
                body = {"request_id": second["request_id"]}
                assert (await raw.send("POST", "cancel_future", body)).status_code == 204
                assert "cancelled" in (await raw.result(second))["error"]
                assert "sequences" in await raw.result(first)
                model = await raw.model()
                ticket = await raw.post("forward_backward", **raw.training_body(model))
                body = {"request_id": ticket["request_id"]}
                assert (await raw.send("POST", "cancel_future", body)).status_code == 400

    asyncio.run(scenario())


def test_too_many_samples_and_too_many_requests_are_429():
    """M23: capacity limits answer 429 with retry-after."""

    async def scenario():
        async with Raw(settings=inline(rate_limit=2.0, retry_after=1.5)) as raw:
            replies = [await raw.send("POST", "asample", SAMPLE) for _ in range(4)]
            assert [r.status_code for r in replies] == [200, 200, 429, 429]
            assert replies[-1].headers["retry-after"] == "1.5"
            await asyncio.sleep(1.0)
            assert (await raw.send("POST", "asample", SAMPLE)).status_code == 200

    run_virtual(scenario())

    async def queue():
        with Server(Settings(sample_limit=2)) as server:
            async with Raw(url=server.url) as raw:
                slow = {**SAMPLE, "sampling_params": {"max_tokens": 900, "stop": []}}
                replies = [await raw.send("POST", "asample", slow) for _ in range(4)]
                assert [r.status_code for r in replies][-2:] == [429, 429]

    asyncio.run(queue())


def test_a_silent_session_expires():
    """M21: heartbeats keep a session; silence ends it with 410."""

    async def scenario():
        async with Raw(settings=inline(session_ttl=120.0)) as raw:
            session = await raw.session()
            model = await raw.model(session)
            beat = {"session_id": session}
            for _ in range(5):
                await asyncio.sleep(100)
                assert (await raw.send("POST", "session_heartbeat", beat)).status_code == 200
            await asyncio.sleep(121)
            assert (await raw.send("POST", "session_heartbeat", beat)).status_code == 410
            body = raw.training_body(model)
            assert (await raw.send("POST", "forward_backward", body)).status_code == 410

    run_virtual(scenario())


def test_mixed_ids_name_no_request_of_the_server_before():
    """M22, M40: who polls through a restart would get a stranger's result; samples are the same."""
    order = {**SAMPLE, "sampling_params": {"max_tokens": 8}}

    async def served(mixed, *earlier):
        async with Raw(settings=inline(ids=mixed)) as raw:
            ticket = await raw.post("asample", **order)
            model = await raw.post(
                "create_model",
                session_id=await raw.session(),
                model_seq_id=0,
                base_model=order["base_model"],
                lora_config={"rank": 1},
            )
            asked = [ticket["request_id"], model["request_id"]]
            polls = [
                await raw.send("POST", "retrieve_future", {"request_id": request_id})
                for request_id in (*asked, *earlier)
            ]
            codes = [poll.status_code for poll in polls]
            return asked, codes, polls[0].json()["sequences"][0]["tokens"]

    earlier, _, before = run_virtual(served("first"))
    _, codes, after = run_virtual(served("second", *earlier))
    assert codes == [200, 200, 404, 404]
    assert before == after
