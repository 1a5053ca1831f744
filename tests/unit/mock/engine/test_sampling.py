"""Sampling and scoring: agreement with training, seeds, filters and stops."""

import numpy as np
import pytest

from tinker_ext.mock.engine import (
    EMPTY_LOGPROB,
    AdamW,
    Adapter,
    Datum,
    SampleParams,
    Sampler,
)
from tinker_ext.mock.engine.choose import choose

PROMPT = list(b"The engine is")


def decode(ids):
    return bytes(i for i in ids if i < 256).decode("utf-8", "replace")


@pytest.fixture(scope="module")
def sampler(base):
    return Sampler.of_base(base)


@pytest.fixture(scope="module")
def trained(base):
    """An adapter that has learned one sentence."""
    ids = np.array([*PROMPT, *b" small. It learns.", 257])
    datum = Datum(ids[:-1], {"target_tokens": ids[1:]})
    adapter = Adapter(base, rank=16)
    # Slowly: at thrice this rate the loss swings, and the processor decides which token wins.
    for _ in range(60):
        adapter.forward_backward([datum], "cross_entropy")
        adapter.optim_step(AdamW(learning_rate=3e-3))
    return adapter


@pytest.mark.parametrize("length", [1, 31, 32, 100, 250, 300, 511])
def test_sampled_logprobs_agree_with_the_training_forward(trained, length):
    """M40: cache and full pass agree to 1e-4, also where the attention window has moved on."""
    rng = np.random.default_rng(length)
    prompt = rng.integers(0, 256, length)
    [sample] = trained.snapshot().sample(prompt, 1, SampleParams(max_tokens=40, stop=[]))
    ids = np.concatenate([prompt, sample.tokens])
    datum = Datum(ids[:-1], {"target_tokens": ids[1:]})
    [output] = trained.forward([datum], "cross_entropy").loss_fn_outputs
    np.testing.assert_allclose(output["logprobs"][length - 1 :], sample.logprobs, atol=1e-4)
    scores = trained.snapshot().score(ids)
    np.testing.assert_allclose(output["logprobs"], scores.logprobs[1:], atol=1e-4)


def test_sample_i_has_the_stream_of_seed_plus_i(sampler):
    """M40: the same seed gives the same bytes, whatever else is sampled with it."""
    params = SampleParams(max_tokens=12, seed=100)
    together = sampler.sample(PROMPT, 40, params)
    for i in (0, 1, 33, 39):
        [alone] = sampler.sample(PROMPT, 1, SampleParams(max_tokens=12, seed=100 + i))
        assert alone.tokens.tobytes() == together[i].tokens.tobytes()
        assert alone.logprobs.tobytes() == together[i].logprobs.tobytes()
    assert len({sample.tokens.tobytes() for sample in together}) > 30


def test_training_changes_samples_and_a_snapshot_stays(base, trained, sampler):
    """M40: greedy sampling repeats what was learned; an old snapshot does not move."""
    params = SampleParams(max_tokens=30, temperature=0.0)
    [sample] = trained.snapshot().sample(PROMPT, 1, params, eos=[257])
    assert decode(sample.tokens) == " small. It learns."
    assert sample.stop_reason == "stop"
    assert sample.tokens[-1] == 257

    adapter = Adapter(base, rank=4)
    snapshot = adapter.snapshot()
    before = snapshot.sample(PROMPT, 1, SampleParams(max_tokens=8))[0].logprobs
    adapter.forward_backward([Datum([1, 2], {"target_tokens": [2, 3]})], "cross_entropy")
    adapter.optim_step(AdamW(learning_rate=0.1))
    after = snapshot.sample(PROMPT, 1, SampleParams(max_tokens=8))[0].logprobs
    np.testing.assert_array_equal(before, after)
    now = adapter.snapshot().sample(PROMPT, 1, SampleParams(max_tokens=8))[0].logprobs
    assert not np.array_equal(before, now)


def test_frequencies_follow_the_distribution(sampler):
    """M40: 4,000 first tokens against the model's own probabilities (chi-square, 5 sigma)."""
    draws = sampler.sample(PROMPT, 4000, SampleParams(max_tokens=1, seed=1))
    counts = np.bincount([int(sample.tokens[0]) for sample in draws], minlength=259)
    best = sampler.sample(PROMPT, 1, SampleParams(max_tokens=1), topk=259)[0]
    assert best.topk_ids is not None
    assert best.topk_logprobs is not None
    probs = np.zeros(259)
    probs[best.topk_ids[0]] = np.exp(best.topk_logprobs[0])
    assert probs.sum() == pytest.approx(1, abs=1e-4)
    common = probs * 4000 >= 5
    chi = ((counts - 4000 * probs)[common] ** 2 / (4000 * probs[common])).sum()
    freedom = int(common.sum())
    assert chi < freedom + 5 * np.sqrt(2 * freedom)


def test_top_k_and_top_p_keep_the_best():
    """M40: nothing outside the kept set is ever drawn, and everything in it is."""
    logits = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], dtype=np.float32))
    draws = np.linspace(0, 1, 1000, endpoint=False)

    def kept(temperature=1.0, top_k=-1, top_p=1.0):
        rows = np.repeat(logits, len(draws), axis=0)
        return np.bincount(choose(rows, draws, temperature, top_k, top_p), minlength=4)

    np.testing.assert_allclose(kept(), [500, 300, 150, 50], atol=1)
    np.testing.assert_allclose(kept(top_k=2), [625, 375, 0, 0], atol=1)
    np.testing.assert_allclose(kept(top_p=0.7), [625, 375, 0, 0], atol=1)
    np.testing.assert_allclose(kept(top_p=0.1), [1000, 0, 0, 0])
    np.testing.assert_allclose(kept(top_p=0.0), [1000, 0, 0, 0])  # the best one, not the worst
    np.testing.assert_allclose(kept(top_k=3, top_p=0.8), [625, 375, 0, 0], atol=1)
    np.testing.assert_allclose(kept(temperature=0), [1000, 0, 0, 0])
    np.testing.assert_allclose(kept(top_k=1), [1000, 0, 0, 0])
    hot, cold = kept(temperature=10.0), kept(temperature=0.2)
    assert hot[3] > 150
    assert cold[0] > 900


def test_a_draw_at_the_very_end_stays_inside():
    """M40: rounding never yields a token of probability zero."""
    logits = np.array([[0.0, -1e30, 0.0, -1e30]], dtype=np.float32)
    token = choose(logits, np.array([1.0]), 1.0, -1, 1.0)
    assert token.tolist() == [2]


def test_stops(sampler):
    """M40: strings, tokens, end of text, none; the match is kept and nothing follows it."""
    free = sampler.sample(PROMPT, 8, SampleParams(max_tokens=60, seed=5, stop=[]), eos=[101])
    assert {sample.stop_reason for sample in free} == {"length"}
    assert {len(sample.tokens) for sample in free} == {60}

    by_token = sampler.sample(PROMPT, 8, SampleParams(max_tokens=60, seed=5, stop=[101]))
    ended = sampler.sample(PROMPT, 8, SampleParams(max_tokens=60, seed=5), eos=[101])
    by_text = sampler.sample(
        PROMPT, 8, SampleParams(max_tokens=60, seed=5, stop="e"), decode=decode
    )
    for whole, *stopped in zip(free, by_token, ended, by_text, strict=True):
        tokens = whole.tokens.tolist()
        cut = tokens.index(101) + 1 if 101 in tokens else 60
        for sample in stopped:
            assert sample.tokens.tolist() == tokens[:cut]
            assert sample.stop_reason == ("stop" if 101 in tokens else "length")

    pair = sampler.sample(
        PROMPT, 8, SampleParams(max_tokens=60, seed=5, stop=["e ", "t "]), decode=decode
    )
    assert any(sample.stop_reason == "stop" for sample in pair)
    for sample in pair:
        text = decode(sample.tokens)
        assert text.endswith(("e ", "t ")) == (sample.stop_reason == "stop")
        assert "e " not in text[:-1]


def test_sampling_refuses_what_it_cannot_do(sampler):
    """M40: empty prompts, unknown ids and stop strings without a tokenizer."""
    with pytest.raises(ValueError, match="no tokens"):
        sampler.sample([])
    with pytest.raises(ValueError, match="token 4000"):
        sampler.sample([4000])
    with pytest.raises(ValueError, match="tokenizer"):
        sampler.sample(PROMPT, params=SampleParams(stop="x"))
    assert sampler.sample(PROMPT, params=SampleParams(max_tokens=0))[0].tokens.size == 0


def test_scores_of_a_prompt(sampler):
    """M40: own, best, given and drawn tokens at every position after the first."""
    n = len(PROMPT)
    targets = np.stack([np.array(PROMPT[1:]), np.full(n - 1, -1)], axis=1)
    scores = sampler.score(PROMPT, topk=5, targets=targets, alternatives=3, seed=2)
    assert np.isnan(scores.logprobs[0])
    assert np.isfinite(scores.logprobs[1:]).all()
    assert scores.topk_logprobs is not None
    assert scores.topk_ids is not None
    assert scores.topk_ids.shape == (n, 5)
    assert (scores.topk_logprobs[0] == EMPTY_LOGPROB).all()
    assert (np.diff(scores.topk_logprobs[1:], axis=1) <= 0).all()
    assert (scores.topk_logprobs[1:, 0] >= scores.logprobs[1:]).all()
    assert scores.target_logprobs is not None
    np.testing.assert_array_equal(scores.target_logprobs[:, 0], scores.logprobs[1:])
    assert not scores.target_logprobs[:, 1].any()
    assert scores.alt_tokens is not None
    assert scores.alt_logprobs is not None
    assert scores.alt_tokens.shape == (n - 1, 3)
    check = sampler.score(PROMPT, targets=scores.alt_tokens).target_logprobs
    np.testing.assert_array_equal(check, scores.alt_logprobs)
    tail = sampler.score(PROMPT, last_n=4, topk=2)
    assert np.isnan(tail.logprobs[:-4]).all()
    np.testing.assert_array_equal(tail.logprobs[-4:], scores.logprobs[-4:])
    with pytest.raises(ValueError, match=f"needs \\[{n - 1}, K\\]"):
        sampler.score(PROMPT, targets=np.zeros((2, 2), int))
    assert np.isnan(sampler.score([65]).logprobs).all()


def test_reinforcement_learning_is_visible(base):
    """M40: thirty rounds of sampling and importance_sampling raise the share of one letter."""
    adapter = Adapter(base, rank=8)
    shares = []
    for round_number in range(30):
        samples = adapter.snapshot().sample(
            PROMPT, 16, SampleParams(max_tokens=8, seed=1000 * round_number, stop=[])
        )
        rewards = np.array([np.mean(sample.tokens == ord("a")) for sample in samples])
        shares.append(rewards.mean())
        data = []
        for sample, reward in zip(samples, rewards, strict=True):
            ids = np.concatenate([PROMPT, sample.tokens])
            before = np.zeros(len(PROMPT) - 1)
            advantage = np.full(8, reward - rewards.mean())
            inputs = {
                "target_tokens": ids[1:],
                "logprobs": np.concatenate([before, sample.logprobs]),
                "advantages": np.concatenate([before, advantage]),
            }
            data.append(Datum(ids[:-1], inputs))
        adapter.forward_backward(data, "importance_sampling")
        adapter.optim_step(AdamW(learning_rate=3e-3))
    assert np.mean(shares[:3]) < 0.2
    assert np.mean(shares[-3:]) > 0.6
