"""M40: the same server shows the same things, and an unknown planted mistake is refused.

That each planted mistake shows is proved by the conformance suite, which finds it."""

import asyncio

import pytest
from raw_tinker import Raw, datum
from virtual_clock import run_virtual

from tinker_ext.mock import Settings


async def outcome(raw, path, /, **body):
    """Post and return the result, or the status of a refusal."""
    reply = await raw.send("POST", path, body)
    if reply.status_code != 200:
        return reply.status_code
    value = reply.json()
    if "request_id" not in value:
        return value
    result = await raw.result(value)
    return {"ids": len(value.get("sample_sequence_ids", "")), **result}


async def train(raw, model, seen, **adam):
    """Two chunks and a step; notes what came back."""
    for texts in (["hello world", "good morning"], ["to be or not to be"]):
        body = raw.training_body(model)
        data = [datum(text) for text in texts]
        data[0]["loss_fn_inputs"]["weights"]["data"][2:4] = [-0.5, 3.0]
        body["forward_backward_input"]["data"] = data
        seen.append(await outcome(raw, "forward_backward", **body))
    step = {"model_id": model, "seq_id": raw.next_seq(), "adam_params": adam}
    seen.append(await outcome(raw, "optim_step", **step))


async def sampling(raw, model, session, number, seen):
    """One sampler and three samples; notes what came back."""
    ticket = await raw.post(
        "save_weights_for_sampler",
        model_id=model,
        seq_id=raw.next_seq(),
        sampling_session_seq_id=number,
    )
    sampler = (await raw.result(ticket))["sampling_session_id"]
    base = {
        "sampling_session_id": sampler,
        "prompt": {"chunks": [{"tokens": list(b"hello")}]},
        "prompt_logprobs": True,
        "num_samples": 2,
    }
    choices = [
        {"max_tokens": 5, "seed": 3},
        {"max_tokens": 5, "seed": 3, "temperature": 0.1},
        {"max_tokens": 40, "seed": 3, "stop": [32, 101, 116, 97]},
    ]
    for seq, params in enumerate(choices):
        reply = await outcome(raw, "asample", seq_id=seq, sampling_params=params, **base)
        reply.pop("request_id", None)
        seen.append(reply)
    again = await outcome(raw, "asample", seq_id=9, sampling_params=choices[0], **base)
    seen.append(again)


async def rest(raw, model, seen):
    """Publishing, deleting, expiry, pages; notes statuses and names."""
    place = f"training_runs/{model}/checkpoints/weights"
    for method, path in (
        ("POST", f"{place}/a/publish"),
        ("POST", f"{place}/a/publish"),
        ("DELETE", f"{place}/b"),
    ):
        seen.append((await raw.send(method, path)).status_code)
    for query in ("", "?limit=1", ""):
        listed = (await raw.send("GET", f"checkpoints{query}")).json()["checkpoints"]
        seen.append([c["checkpoint_id"] for c in listed])
        await asyncio.sleep(2000)
    seen.append((await raw.send("GET", "get_server_capabilities")).json())


async def observed(*bugs):
    """Everything a client can see in one run."""
    seen = []
    settings = Settings(inline_engine=True, epoch=1.8e9, session_ttl=1e6, bugs=bugs)
    async with Raw(settings=settings) as raw:
        session = await raw.session()
        seen.append(await outcome(raw, "session_heartbeat", session_id=session))
        unknown = {"session_id": session, "model_seq_id": 9, "base_model": "who"}
        seen.append(await outcome(raw, "create_model", **unknown))
        model = await raw.model(session)
        await sampling(raw, model, session, 0, seen)
        await train(raw, model, seen, learning_rate=0.01, weight_decay=0.1, grad_clip_norm=0.5)
        await train(raw, model, seen, learning_rate=0.01)
        path = await raw.save(model, path="a")
        await raw.save(model, path="b", ttl_seconds=3600)
        await raw.save(model, path="c", ttl_seconds=3600)
        body = raw.training_body(model)
        body["forward_input"] = body.pop("forward_backward_input")
        seen.append(await outcome(raw, "forward", **body))
        await train(raw, model, seen, learning_rate=0.01)
        load = {"model_id": model, "path": path, "optimizer": True}
        seen.append(await outcome(raw, "load_weights", seq_id=raw.next_seq(), **load))
        await train(raw, model, seen, learning_rate=0.01)
        await sampling(raw, model, session, 1, seen)
        body = raw.training_body(model)
        await raw.post("forward_backward", **body)
        body["forward_backward_input"]["data"] = [datum("other")]
        seen.append(await outcome(raw, "forward_backward", **body))
        bad = raw.training_body(model)
        bad["forward_backward_input"]["data"][0]["loss_fn_inputs"].pop("target_tokens")
        seen.append(await outcome(raw, "forward_backward", **bad))
        await rest(raw, model, seen)
    return seen


@pytest.fixture(scope="module")
def clean():
    return run_virtual(observed())


def test_the_same_server_shows_the_same_things(clean):
    """M40: same seed, same numbers, bit for bit."""
    assert run_virtual(observed()) == clean


def test_an_unknown_bug_is_refused():
    """M40: a typo would make a conformance suite pass for nothing."""
    with pytest.raises(ValueError, match="unknown bugs"):
        Settings(bugs={"typo"})
