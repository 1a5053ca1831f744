"""M40: the server teaches: a toy RL task is learned, and the fixtures train through the client."""

import asyncio

import numpy as np
from raw_tinker import Raw

ROUNDS, SAMPLES, LENGTH = 12, 16, 6
PROMPT = list(b"> ")


def reward(tokens):
    """The share of the letter e."""
    return float(np.mean([token == ord("e") for token in tokens]))


def scored(sequences):
    """Policy-gradient data: reward minus the mean reward as advantage of each token."""
    rewards = [reward(s["tokens"]) for s in sequences]
    data = []
    for sequence, value in zip(sequences, rewards, strict=True):
        tokens, logprobs = sequence["tokens"], sequence["logprobs"]
        pad = len(PROMPT) - 1
        full = PROMPT + tokens
        advantages = [0.0] * pad + [value - float(np.mean(rewards))] * len(tokens)
        data.append(
            {
                "model_input": {"chunks": [{"tokens": full[:-1]}]},
                "loss_fn_inputs": {
                    "target_tokens": {"data": full[1:], "dtype": "int64"},
                    "logprobs": {"data": [0.0] * pad + logprobs, "dtype": "float32"},
                    "advantages": {"data": advantages, "dtype": "float32"},
                },
            }
        )
    return data, float(np.mean(rewards))


async def play():
    """Sample, score, train; returns the mean reward of each round."""
    rewards = []
    async with Raw() as raw:
        model = await raw.model(rank=16)
        for number in range(ROUNDS):
            ticket = await raw.post(
                "save_weights_for_sampler",
                model_id=model,
                seq_id=raw.next_seq(),
                sampling_session_seq_id=number,
            )
            sampler = (await raw.result(ticket))["sampling_session_id"]
            ticket = await raw.post(
                "asample",
                sampling_session_id=sampler,
                seq_id=0,
                num_samples=SAMPLES,
                prompt={"chunks": [{"tokens": PROMPT}]},
                sampling_params={"max_tokens": LENGTH, "seed": 100 * number, "stop": []},
            )
            data, mean = scored((await raw.result(ticket))["sequences"])
            rewards.append(mean)
            body = {"data": data, "loss_fn": "importance_sampling"}
            first = await raw.post(
                "forward_backward",
                model_id=model,
                seq_id=raw.next_seq(),
                forward_backward_input=body,
            )
            second = await raw.post(
                "optim_step",
                model_id=model,
                seq_id=raw.next_seq(),
                adam_params={"learning_rate": 0.02},
            )
            assert "error" not in await raw.result(first)
            await raw.result(second)
    return rewards


def test_a_toy_reward_is_learned():
    """M40: rewarded for the letter e, the model comes to write it."""
    rewards = asyncio.run(play())
    assert np.mean(rewards[-3:]) > 3 * np.mean(rewards[:3])
    assert np.mean(rewards[-3:]) > 0.6


def test_the_client_fixture_trains(tinker_client, tinker_server):
    """M40: `tinker_client` is a ServiceClient on `tinker_server`."""
    import tinker_ext

    training = tinker_client.create_lora_training_client("tinker-ext/tiny", rank=4)
    tokens = list(b"hello world")
    datum = tinker_ext.types.Datum(
        model_input=tinker_ext.types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": tokens[1:], "weights": [1.0] * 10},
    )
    losses = []
    for _ in range(5):
        result = training.forward_backward([datum], "cross_entropy")
        training.optim_step(tinker_ext.types.AdamParams(learning_rate=1e-2)).result()
        losses.append(result.result().metrics["loss:sum"])
    assert losses[-1] < losses[0] / 2
    effects = tinker_server.log.training(training.model_id)
    assert [e.seq for e in effects] == list(range(1, 11))
