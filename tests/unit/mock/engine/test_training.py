"""What training changes, what it leaves alone and that it does both exactly."""

import itertools
import threading
from pathlib import Path

import numpy as np
import pytest

from tinker_ext.mock.engine import AdamW, Adapter, BaseModel, Datum, Dimuon

ROOT = Path(__file__).parents[4]


def same_bits(left, right):
    assert left.keys() == right.keys()
    return all(left[name].tobytes() == right[name].tobytes() for name in left)


def ragged(text_datum):
    return [text_datum(length, offset) for offset, length in enumerate((128, 7, 33, 300, 64, 1))]


@pytest.mark.parametrize("rate", [1e-4, 1e-3, 1e-2])
def test_loss_falls_at_customary_learning_rates(base, text_datum, rate):
    """M40: from a sane start, each step below the one before (small bumps at the fastest)."""
    adapter = Adapter(base, rank=16, seed=2)
    data = [text_datum(64, offset) for offset in range(4)]
    losses = []
    for _ in range(20):
        losses.append(adapter.forward_backward(data, "cross_entropy").loss / 256)
        adapter.optim_step(AdamW(learning_rate=rate))
    assert 3.0 < losses[0] < 5.0
    assert losses[-1] < losses[0] - 100 * rate
    rises = sum(later > earlier for earlier, later in itertools.pairwise(losses))
    assert rises == 0 or rate == 1e-2


def test_new_adapter_is_the_base_model(base, text_datum):
    """M40: B starts at zero, whatever rank and seed."""
    data = [text_datum(50)]
    first = Adapter(base, rank=1, seed=1).forward(data, "cross_entropy")
    second = Adapter(base, rank=64, seed=2, train_mlp=False).forward(data, "cross_entropy")
    assert first.loss == second.loss


def test_untrained_logits_are_near_uniform_without_a_prior(text_datum):
    """M40: the loss of a fresh model without a prior is close to ln V."""
    plain = BaseModel.create("plain", 259)
    loss = Adapter(plain, 4).forward([text_datum(200)], "cross_entropy").loss / 200
    assert abs(loss - np.log(259)) < 0.3


def test_batch_mates_do_not_change_a_datum(base, text_datum):
    """M40: log-probabilities are the same bits alone and in any batch."""
    data = ragged(text_datum)
    adapter = Adapter(base, rank=8)
    together = adapter.forward(data, "cross_entropy").loss_fn_outputs
    for datum, output in zip(data, together, strict=True):
        [alone] = adapter.forward([datum], "cross_entropy").loss_fn_outputs
        assert alone["logprobs"].tobytes() == output["logprobs"].tobytes()


def test_chunked_equals_unchunked_bit_for_bit(base, text_datum):
    """M40: one call, one call per datum and calls of two leave the same weights."""
    data = ragged(text_datum)
    results = []
    for size in (1, 2, len(data)):
        adapter = Adapter(base, rank=8, seed=4)
        for _ in range(3):
            for start in range(0, len(data), size):
                adapter.forward_backward(data[start : start + size], "cross_entropy")
            adapter.optim_step(AdamW(learning_rate=1e-2))
        results.append(adapter.state_dict(optimizer=True))
    assert same_bits(results[0], results[1])
    assert same_bits(results[0], results[2])


def test_same_seed_same_bytes_other_seed_other_bytes(base, text_datum):
    """M40: a run is a function of its seed."""

    def run(seed):
        adapter = Adapter(base, rank=8, seed=seed)
        adapter.forward_backward([text_datum(40)], "cross_entropy")
        adapter.optim_step()
        return adapter.state_dict()

    assert same_bits(run(7), run(7))
    assert not same_bits(run(7), run(8))
    twin = BaseModel.create("tests/tiny", 259, seed=3)
    other = BaseModel.create("tests/tiny", 259, seed=4)
    assert twin.embedding.tobytes() == base.embedding.tobytes() != other.embedding.tobytes()


def test_adapters_in_threads_do_not_disturb_each_other(base, text_datum):
    """M40: two adapters trained at the same time end as they would alone."""

    def train(adapter):
        for step in range(6):
            adapter.forward_backward([text_datum(90, step), text_datum(20)], "cross_entropy")
            adapter.optim_step(AdamW(learning_rate=1e-3))

    alone = [Adapter(base, 8, seed) for seed in (1, 2)]
    for adapter in alone:
        train(adapter)
    racing = [Adapter(base, 8, seed) for seed in (1, 2)]
    threads = [threading.Thread(target=train, args=(adapter,)) for adapter in racing]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for left, right in zip(alone, racing, strict=True):
        assert same_bits(left.state_dict(), right.state_dict())


@pytest.mark.parametrize("flag", ["train_mlp", "train_attn", "train_unembed"])
def test_flags_freeze_their_part(base, text_datum, flag):
    """M40: a part that is not trained has no parameters and keeps the base's weights."""
    part = {"train_mlp": ".mlp.", "train_attn": ".self_attn.", "train_unembed": "lm_head"}[flag]
    flags = {name: name == flag for name in ("train_mlp", "train_attn", "train_unembed")}
    adapter = Adapter(base, rank=4, **flags)
    first = adapter.forward_backward([text_datum(60)], "cross_entropy").loss
    adapter.optim_step(AdamW(learning_rate=1e-2))
    assert adapter.forward([text_datum(60)], "cross_entropy").loss < first
    assert all(part in name for name in adapter.state_dict())
    weights = adapter.snapshot().weights
    for name, value in base.weights.items():
        assert (value.tobytes() == weights[name].tobytes()) == (part not in name + "."), name


def test_nothing_to_train_is_refused(base):
    """M40: rank and flags are checked at once."""
    with pytest.raises(ValueError, match="at least one of"):
        Adapter(base, 4, train_mlp=False, train_attn=False, train_unembed=False)
    with pytest.raises(ValueError, match="rank"):
        Adapter(base, 0)


def test_weights_scale_the_gradient_exactly(base, text_datum):
    """M40: weight 2 on one datum is the datum twice; powers of two are exact."""

    def gradient(data):
        adapter = Adapter(base, rank=4, seed=1)
        adapter.forward_backward(data, "cross_entropy")
        adapter.optim_step(AdamW(learning_rate=0.0, beta1=0.0))
        state = adapter.state_dict(optimizer=True)
        return {name: value for name, value in state.items() if ".exp_avg." in name}

    once, twice = gradient([text_datum(40)]), gradient([text_datum(40), text_datum(40)])
    double, negative = gradient([text_datum(40, 0, 2.0)]), gradient([text_datum(40, 0, -1.0)])
    for name, value in once.items():
        np.testing.assert_array_equal(2 * value, double[name])
        np.testing.assert_array_equal(twice[name], double[name])
        np.testing.assert_array_equal(-value, negative[name])
    assert any(value.any() for value in once.values())


def test_positions_without_weight_do_not_train(base, text_datum):
    """M40: zero weights give zero loss, no gradient, and still log-probabilities."""
    adapter = Adapter(base, rank=4)
    outputs = adapter.forward_backward([text_datum(40, 0, 0.0)], "cross_entropy")
    assert outputs.loss == 0
    assert (outputs.loss_fn_outputs[0]["logprobs"] < 0).all()
    assert adapter.optim_step()["grad_norm:mean"] == 0


def test_forward_changes_nothing_and_gradients_add_up(base, text_datum):
    """M40: forward leaves no gradient; two backward calls before a step are their sum."""
    adapter = Adapter(base, rank=4)
    adapter.forward([text_datum(30)], "cross_entropy")
    assert adapter.optim_step()["grad_norm:mean"] == 0
    norms = []
    for calls in (1, 2):
        for _ in range(calls):
            adapter.forward_backward([text_datum(30)], "cross_entropy")
        norms.append(adapter.optim_step(AdamW(learning_rate=0.0))["grad_norm:mean"])
    assert norms[1] == pytest.approx(2 * norms[0], rel=1e-6)
    assert adapter.optim_step()["grad_norm:mean"] == 0


def test_saved_state_continues_bit_for_bit(base, text_datum):
    """M40: weights, moments and a pending gradient survive; a rank mismatch changes nothing."""
    original = Adapter(base, rank=4, seed=1)
    original.forward_backward([text_datum(30)], "cross_entropy")
    original.optim_step(AdamW(learning_rate=1e-2))
    original.forward_backward([text_datum(31)], "cross_entropy")
    saved = original.state_dict(optimizer=True, pending=True)
    copy = Adapter(base, rank=4, seed=9)
    copy.load_state_dict(saved, optimizer=True)
    for adapter in (original, copy):
        adapter.optim_step(AdamW(learning_rate=1e-2))
    assert same_bits(original.state_dict(optimizer=True), copy.state_dict(optimizer=True))
    assert copy.step == 2

    fresh = Adapter(base, rank=4, seed=9)
    fresh.load_state_dict(saved, optimizer=False)
    assert fresh.step == 0

    other = Adapter(base, rank=8)
    before = other.state_dict()
    with pytest.raises(ValueError, match="another rank"):
        other.load_state_dict(saved)
    assert same_bits(before, other.state_dict())
    narrow = Adapter(base, rank=4, train_mlp=False, train_attn=False)
    with pytest.raises(ValueError, match="train_"):
        Adapter(base, rank=4).load_state_dict(narrow.state_dict())


def test_bad_data_is_named_and_leaves_the_gradient_alone(base, text_datum):
    """M40: the message points at the datum, and a failed call adds nothing."""
    adapter = Adapter(base, rank=4)
    good = text_datum(10)
    bad = {
        "no target_tokens": Datum([1, 2]),
        "outside the vocabulary": Datum([1, 999], {"target_tokens": np.array([1, 2])}),
        "has shape": Datum([1, 2], {"target_tokens": np.array([1, 2, 3])}),
        "no tokens": Datum([], {"target_tokens": np.array([])}),
        "weights has 3": Datum([1, 2], {"target_tokens": [1, 2], "weights": np.ones(3)}),
    }
    for message, datum in bad.items():
        with pytest.raises(ValueError, match=message) as caught:
            adapter.forward_backward([good, datum], "cross_entropy")
        assert "data[1]" in str(caught.value)
    with pytest.raises(ValueError, match="unknown loss_fn 'mse'"):
        adapter.forward([good], "mse")
    assert adapter.optim_step()["grad_norm:mean"] == 0


def test_dimuon_learns(base, text_datum):
    """M14: the other optimizer family takes steps that lower the loss."""
    adapter = Adapter(base, rank=4)
    data = [text_datum(60)]
    losses = []
    for _ in range(5):
        losses.append(adapter.forward_backward(data, "cross_entropy").loss)
        adapter.optim_step(Dimuon(learning_rate=0.02))
    assert losses[-1] < losses[0]


def test_large_vocabulary_streams_its_logits():
    """M40: a vocabulary beyond the kept size trains, and agrees with plain numpy."""
    vocabulary = 5000
    base = BaseModel.create("large", vocabulary)
    rng = np.random.default_rng(0)
    datum = Datum(
        rng.integers(0, vocabulary, 40), {"target_tokens": rng.integers(0, vocabulary, 40)}
    )
    adapter = Adapter(base, rank=2)
    losses = []
    for _ in range(5):
        losses.append(adapter.forward_backward([datum], "cross_entropy").loss)
        adapter.optim_step(AdamW(learning_rate=1e-2))
    assert losses == sorted(losses, reverse=True)
    assert losses[0] / 40 == pytest.approx(np.log(vocabulary), abs=0.4)
    together = adapter.forward([datum, datum], "cross_entropy").loss_fn_outputs
    assert together[0]["logprobs"].tobytes() == together[1]["logprobs"].tobytes()
