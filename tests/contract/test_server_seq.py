"""M17, M20, M40: what a repeated, early or missing seq_id does under each server profile."""

import asyncio

import pytest
from raw_tinker import Raw
from virtual_clock import run_virtual

from tinker_ext.mock import Settings


def settings(profile, **options):
    return Settings(inline_engine=True, seq=profile, long_poll=1.0, **options)


async def repeated(profile, **options):
    """Send one forward_backward twice; returns both replies, the effects and the app."""
    async with Raw(settings=settings(profile, **options)) as raw:
        model = await raw.model()
        body = raw.training_body(model)
        first = await raw.send("POST", "forward_backward", body)
        second = await raw.send("POST", "forward_backward", body)
        return first, second, raw.app.log.training(model)


@pytest.mark.parametrize("profile", ["dedupe", "gap"])
def test_a_repeat_gets_the_first_ticket(profile):
    """M20: the same seq_id with the same body trains once."""
    first, second, effects = asyncio.run(repeated(profile))
    assert first.json() == second.json()
    assert [(e.seq, e.op, e.attempts) for e in effects] == [(1, "forward_backward", 2)]


def test_strict_refuses_a_repeat():
    """M20: 409, and one effect."""
    _, second, effects = asyncio.run(repeated("strict"))
    assert second.status_code == 409
    assert len(effects) == 1


def test_ignore_trains_again():
    """M20: a server that does not look at seq_id trains twice."""
    first, second, effects = asyncio.run(repeated("ignore"))
    assert first.json()["request_id"] != second.json()["request_id"]
    assert [e.seq for e in effects] == [1, 1]


@pytest.mark.parametrize("profile", ["dedupe", "gap", "strict"])
def test_another_body_under_a_used_number_is_a_conflict(profile):
    """M20: the number belongs to the first body."""

    async def scenario():
        async with Raw(settings=settings(profile)) as raw:
            model = await raw.model()
            await raw.post("forward_backward", **raw.training_body(model, seq=1))
            other = raw.training_body(model, "good night", seq=1)
            reply = await raw.send("POST", "forward_backward", other)
            assert reply.status_code == 409
            assert "seq_id 1" in reply.json()["detail"]

    asyncio.run(scenario())


@pytest.mark.parametrize("profile", ["dedupe", "gap", "strict", "ignore"])
def test_chunks_posted_last_to_first_run_in_order(profile):
    """M17: numbers 2, 3, then 1 take effect as 1, 2, 3, bit-equal to the orderly run."""

    async def scenario(order):
        async with Raw(settings=settings(profile)) as raw:
            model = await raw.model()
            texts = {1: "one for all", 2: "two of a kind", 3: "three is a crowd"}
            for seq in order:
                await raw.post("forward_backward", **raw.training_body(model, texts[seq], seq))
            step = {"model_id": model, "seq_id": 4, "adam_params": {"learning_rate": 0.01}}
            await raw.result(await raw.post("optim_step", **step))
            raw.seq = 4
            effects = [e.seq for e in raw.app.log.training(model)]
            return effects, await raw.loss(model)

    orderly, loss = asyncio.run(scenario([1, 2, 3]))
    mixed, same = asyncio.run(scenario([2, 3, 1]))
    assert orderly == mixed == [1, 2, 3, 4]
    assert loss == same


def test_gap_waits_for_the_missing_number_and_says_so():
    """M22, M40: held work answers 408 with its reason until the gap is closed."""

    async def scenario():
        async with Raw(settings=settings("gap")) as raw:
            model = await raw.model()
            early = await raw.post("forward_backward", **raw.training_body(model, seq=2))
            poll = {"request_id": early["request_id"]}
            for _ in range(100):
                reply = await raw.send("POST", "retrieve_future", poll)
                assert reply.status_code == 408
            assert reply.json()["queue_state_reason"] == "waiting for seq_id 1"
            assert raw.app.log.training(model) == []
            await raw.post("forward_backward", **raw.training_body(model, seq=1))
            await raw.result(early)
            assert [e.seq for e in raw.app.log.training(model)] == [1, 2]

    run_virtual(scenario())


def test_other_profiles_give_up_on_a_gap():
    """M40: a client that lost a number is served after `reorder_wait` seconds."""

    async def scenario():
        async with Raw(settings=settings("dedupe", reorder_wait=5.0)) as raw:
            model = await raw.model()
            started = asyncio.get_running_loop().time()
            early = await raw.post("forward_backward", **raw.training_body(model, seq=3))
            await raw.result(early)
            assert 5.0 <= asyncio.get_running_loop().time() - started < 7.0
            await raw.result(await raw.post("forward_backward", **raw.training_body(model, seq=4)))
            assert [e.seq for e in raw.app.log.training(model)] == [3, 4]

    run_virtual(scenario())


def test_creation_is_keyed_by_its_number():
    """M18: the same model_seq_id and sampling_session_seq_id name the same things."""

    async def scenario(profile):
        async with Raw(settings=settings(profile)) as raw:
            session = await raw.session()
            model = {"session_id": session, "model_seq_id": 0, "base_model": "tinker-ext/tiny"}
            sampler = {
                "session_id": session,
                "sampling_session_seq_id": 0,
                "base_model": "tinker-ext/tiny",
            }
            for path, body in (("create_model", model), ("create_sampling_session", sampler)):
                first = await raw.send("POST", path, body)
                second = await raw.send("POST", path, body)
                yield first, second

    async def collect(profile):
        return [pair async for pair in scenario(profile)]

    assert all(a.json() == b.json() for a, b in asyncio.run(collect("dedupe")))
    assert all(b.status_code == 409 for _, b in asyncio.run(collect("strict")))


def test_a_repeated_sample_is_drawn_once():
    """M23: the same sampling seq_id with the same body gets the first ticket."""

    async def scenario(profile):
        async with Raw(settings=settings(profile)) as raw:
            body = {
                "base_model": "tinker-ext/tiny",
                "seq_id": 5,
                "prompt": {"chunks": [{"tokens": [1, 2]}]},
                "sampling_params": {"max_tokens": 2},
            }
            first = await raw.send("POST", "asample", body)
            second = await raw.send("POST", "asample", body)
            return first.json(), second.json(), second.status_code

    first, second, _ = asyncio.run(scenario("dedupe"))
    assert first == second
    first, second, _ = asyncio.run(scenario("ignore"))
    assert first != second
    assert asyncio.run(scenario("strict"))[2] == 409


def test_late_refuses_a_repeat_at_its_poll():
    """F4, M43: the repeat is accepted under its own id; its poll is a 409, again and again."""

    async def scenario():
        async with Raw(settings=settings("late")) as raw:
            model = await raw.model()
            body = raw.training_body(model)
            first = await raw.post("forward_backward", **body)
            second = await raw.post("forward_backward", **body)
            assert first["request_id"] != second["request_id"]
            assert (await raw.result(first))["metrics"]["loss:sum"] > 0
            for _ in range(2):
                poll = {"request_id": second["request_id"]}
                reply = await raw.send("POST", "retrieve_future", poll)
                assert reply.status_code == 409
                assert "Sequence conflict: expected 2, got 1." in reply.json()["detail"]
            assert [e.seq for e in raw.app.log.training(model)] == [1]

    asyncio.run(scenario())


def test_late_refusals_survive_a_restart(tmp_path):
    """F4: what was refused before a restart is refused after it, and trains nothing."""

    async def scenario():
        options = settings("late", state=tmp_path, fsync=False)
        async with Raw(settings=options) as raw:
            model = await raw.model()
            body = raw.training_body(model)
            await raw.post("forward_backward", **body)
            second = await raw.post("forward_backward", **body)
        async with Raw(settings=options) as raw:
            reply = await raw.send("POST", "retrieve_future", {"request_id": second["request_id"]})
            assert reply.status_code == 409
            assert [e.seq for e in raw.app.log.training(model)] == [1]

    asyncio.run(scenario())


@pytest.mark.parametrize("profile", ["dedupe", "strict", "ignore", "gap", "late"])
@pytest.mark.parametrize("declared", [True, False])
def test_what_a_repeat_means_is_declared_or_not(profile, declared):
    """F3, M43: every rule exists as a server that does not tell it, as real ones do not."""

    async def scenario():
        async with Raw(settings=settings(profile, declared=declared)) as raw:
            reply = await raw.post("client/config", sdk_version="x")
            assert reply.get("seq_ids") == (profile if declared else None)

    asyncio.run(scenario())
