"""Argument checks made before a byte is sent."""

import numpy as np
import pytest

from tinker_ext._wire.json_codec import SampleOptions
from tinker_ext.batch.checks import REQUIRED_INPUTS, SETTINGS, check_batch, check_sample
from tinker_ext.errors import InvalidInputError
from tinker_ext.types import Datum, ImageChunk, ModelInput, TensorData
from tinker_ext.types.enums import LOSS_FN_TYPES

RL = {"target_tokens": [2, 3], "logprobs": [-1.0, -1.0], "advantages": [1.0, 0.0]}


def datum(tokens=(1, 2), **inputs):
    return Datum(ModelInput.from_ints(tokens), inputs)


@pytest.mark.parametrize("loss_fn", LOSS_FN_TYPES)
def test_complete_data_pass(loss_fn):
    """M3: every known loss accepts a batch with its inputs."""
    settings = dict.fromkeys(SETTINGS.get(loss_fn, ("clip", "flag")), True)
    check_batch([datum(**RL)], loss_fn, {**settings})
    assert loss_fn in REQUIRED_INPUTS


@pytest.mark.parametrize("loss_fn", [name for name in LOSS_FN_TYPES if name != "custom"])
def test_every_required_input_is_missed(loss_fn):
    """M3: a missing input is named, with the datum and what was given."""
    for name in REQUIRED_INPUTS[loss_fn]:
        inputs = {key: value for key, value in RL.items() if key != name}
        with pytest.raises(InvalidInputError, match=rf"data\[1\].*{loss_fn}.*{name}"):
            check_batch([datum(**RL), datum(**inputs)], loss_fn)


ONE_EACH = "but model_input has 2 positions; there must be one entry for each."
UNWEIGHTED = "is negative; give positions that do not count weight 0."


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (
            datum(target_tokens=[1]),
            f"data[1].loss_fn_inputs['target_tokens'] has shape [1] {ONE_EACH}",
        ),
        (
            datum(target_tokens=[1, 2], weights=[1, 1, 1]),
            f"data[1].loss_fn_inputs['weights'] has shape [3] {ONE_EACH}",
        ),
        (
            datum(target_tokens=[[1, 2], [3, 4]], weights=[1.0, 1.0]),
            "data[1]: weights have shape [2], target_tokens have [2, 2].",
        ),
        (
            datum(target_tokens=[1, 2], weights=[1.0, float("nan")]),
            "data[1].loss_fn_inputs['weights'] is NaN at position 1.",
        ),
        (
            datum(target_tokens=np.array([1.0, 2.0])),
            "data[1]: target_tokens must be int64, not float32.",
        ),
        (
            datum(target_tokens=[1, -100]),
            f"data[1]: target token -100 at position 1 {UNWEIGHTED}",
        ),
        (
            datum(target_tokens=[-7, 1], weights=[1.0, 1.0]),
            f"data[1]: target token -7 at position 0 {UNWEIGHTED}",
        ),
        (
            datum(target_tokens=[-7, -8], advantages=[0.0, 1.0]),
            f"data[1]: target token -8 at position 1 {UNWEIGHTED}",
        ),
        (
            datum(target_tokens=[1, 2**31]),
            "data[1]: target token 2147483648 is above 2147483647.",
        ),
        (
            datum(tokens=(1, -1), target_tokens=[1, 2]),
            "data[1].model_input: token -1 is outside 0 … 2147483647.",
        ),
        (
            datum(tokens=(1, 2**31), target_tokens=[1, 2]),
            "data[1].model_input: token 2147483648 is outside 0 … 2147483647.",
        ),
    ],
)
def test_bad_datums(example, message):
    """M7: lengths, NaN and token ids are checked at the call, which names the place."""
    with pytest.raises(InvalidInputError) as caught:
        check_batch([datum(target_tokens=[1, 2]), example], "cross_entropy")
    assert str(caught.value) == message


@pytest.mark.parametrize("name", [1, b"weights", ("a",), "two\nlines", "half a pair \ud800"])
def test_names_are_text(name):
    """M7: a name that no wire can carry fails at the call, also beside an array."""
    inputs = {"target_tokens": [2, 3], name: np.ones(2, np.float32)}
    with pytest.raises(
        InvalidInputError, match=r"data\[0\].loss_fn_inputs: a name is printable text, not"
    ):
        check_batch([Datum(ModelInput.from_ints([1, 2]), inputs)], "cross_entropy")
    with pytest.raises(InvalidInputError, match="loss_fn_config: a name is printable text, not"):
        check_batch([datum(target_tokens=[2, 3])], "one_of_the_server", {name: 1.0})


LONG = 3000


@pytest.mark.parametrize("make", [list, np.array])
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tokens", 2**31, r"data\[0\].model_input: token 2147483648 is outside"),
        ("tokens", -1, "token -1 is outside"),
        ("tokens", 2**31 - 1, None),
        ("target_tokens", 2**31, "target token 2147483648 is above"),
        ("target_tokens", -1, "target token -1 at position 2900 is negative"),
        ("weights", np.nan, r"'weights'\] is NaN at position 2900"),
        ("weights", np.inf, None),
    ],
)
def test_long_datums_are_checked_to_the_end(make, name, value, message):
    """M7: one wrong number among thousands is found, in lists and in arrays."""
    columns = {
        "tokens": np.arange(LONG),
        "target_tokens": np.arange(LONG),
        "weights": np.ones(LONG, np.float32),
    }
    columns[name][2900] = value
    made = {key: column.tolist() if make is list else column for key, column in columns.items()}
    batch = [datum(**made)]
    if message is None:
        check_batch(batch, "cross_entropy")
        return
    with pytest.raises(InvalidInputError, match=message):
        check_batch(batch, "cross_entropy")


def test_padding_is_allowed():
    """M9: a negative target counts as padding where its weight is 0 or in two dimensions."""
    check_batch([datum(target_tokens=[0, -100], weights=[1.0, 0.0])], "cross_entropy")
    check_batch([datum(target_tokens=[[1, -1], [2, -1]])], "cross_entropy")


def test_infinity_depends_on_the_wire():
    """M7: protobuf carries infinities, JSON does not."""
    data = [datum(**{**RL, "logprobs": [-np.inf, 0.0]})]
    check_batch(data, "ppo")
    with pytest.raises(InvalidInputError, match=r"^data\[0\]\.loss_fn_inputs\['logprobs'\].*JSON"):
        check_batch(data, "ppo", finite=True)


CLIP = "clip_low_threshold"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], "ppo"), "empty"),
        (([datum(**RL)], "crossentropy"), "cross_entropy"),
        (([datum(**RL)], "PPO"), "did you mean 'ppo'"),
        (([datum(**RL)], "no such loss"), "Unknown loss_fn"),
        (([datum(**RL)], 7), "Unknown loss_fn 7"),
        (([1], "ppo"), "not a Datum"),
        (([datum(**RL)], "ppo", {"clip": 0.1}), "ppo has no setting 'clip'"),
        (([datum(**RL)], "ppo", {CLIP: float("nan")}), "is nan; it must be finite"),
        (([datum(**RL)], "ppo", {CLIP: float("-inf")}), "is -inf; it must be finite"),
        (([datum(**RL)], "ppo", {CLIP: None}), "must be a number or text, not None"),
        (([datum(**RL)], "ppo", "abc"), "loss_fn_config must be a dict"),
        (([datum(**RL)], "ppo", [1]), "loss_fn_config must be a dict"),
        (([datum(**RL)], "ppo", {1: 1.0}), "loss_fn_config"),
        ((None, "ppo"), "list of Datum, not NoneType"),
        ((5, "ppo"), "list of Datum, not int"),
        ((datum(**RL), "ppo"), "not one Datum"),
        (((each for each in [datum(**RL)]), "ppo"), "pass list"),
        (({"a": 1}, "ppo"), "not a Datum"),
        (("ab", "ppo"), "not a Datum"),
        (([datum(tokens=(), **{name: [] for name in RL})], "ppo"), r"data\[0\].*is empty"),
        (([datum(**RL), Datum(ModelInput.empty(), {})], "custom"), r"data\[1\].*is empty"),
    ],
)
def test_bad_calls(arguments, message):
    """M3: what is no batch, a typo in the loss and bad settings are named."""
    with pytest.raises(InvalidInputError, match=message):
        check_batch(*arguments)


def test_any_sequence_is_a_batch():
    """M3: a tuple and a sequence of the user's own are as good as a list."""

    class Rows:
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return [datum(**RL)][index]

    check_batch((datum(**RL),), "ppo")
    check_batch(Rows(), "ppo")


def test_a_sparse_tensor_counts_by_its_shape():
    """M3: one entry for each position, however few of its numbers are sent."""
    sparse = TensorData(
        data=[0.5],
        dtype="float32",
        shape=[2, 2],
        sparse_crow_indices=[0, 1, 1],
        sparse_col_indices=[1],
    )
    check_batch([datum(target_tokens=[[1, 2], [2, 3]], weights=sparse)], "cross_entropy")
    with pytest.raises(InvalidInputError, match="positions"):
        check_batch([datum((1, 2, 3), target_tokens=[[1, 2]] * 3, weights=sparse)], "cross_entropy")


def test_unknown_image_length_is_left_to_the_server():
    """M10: where the length is not declared no length check is made."""
    chunks = [ImageChunk(data=b"x", format="png")]
    example = Datum(ModelInput(chunks=chunks), {"target_tokens": [1, 2, 3]})
    check_batch([example], "cross_entropy")


def test_a_raw_list_assigned_later_is_found():
    """M9: `datum.loss_fn_inputs` may be assigned into; what is assigned is checked."""
    example = datum(target_tokens=[1, 2])
    example.loss_fn_inputs["weights"] = [1.0, 1.0]
    with pytest.raises(InvalidInputError, match="weights"):
        check_batch([example], "cross_entropy")


PROMPT = ModelInput.from_ints([1])
FLAT = TensorData(data=[1], dtype="int64")


def rows(count):
    return TensorData(data=np.ones((count, 2), np.int64))


def check(prompt, num_samples, **asked):
    check_sample(prompt, num_samples, SampleOptions(**asked))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_samples": 0}, "num_samples"),
        ({"num_samples": "2"}, "num_samples must be an integer"),
        ({"num_samples": None}, "num_samples"),
        ({"num_samples": [1]}, "num_samples"),
        ({"num_samples": 1.5}, "num_samples"),
        ({"num_samples": True}, "num_samples"),
        ({"num_samples": 2**63}, "num_samples must be at most"),
        ({"prompt": [1, 2]}, "from_ints"),
        ({"prompt": ModelInput.empty()}, "prompt is empty"),
        ({"prompt": ModelInput.from_ints([])}, "prompt is empty"),
        ({"prompt": ModelInput.from_ints([-1])}, "token -1"),
        ({"topk_prompt_logprobs": -1}, "topk_prompt_logprobs"),
        ({"topk_sample_logprobs": -1}, "topk_sample_logprobs"),
        ({"prompt_alt_tokens_k": -1}, "prompt_alt_tokens_k"),
        ({"topk_prompt_logprobs": 2.5}, "topk_prompt_logprobs"),
        ({"topk_sample_logprobs": "3"}, "topk_sample_logprobs"),
        ({"topk_sample_logprobs": None}, "topk_sample_logprobs"),
        ({"prompt_alt_tokens_k": True}, "prompt_alt_tokens_k"),
        ({"target_prompt_logprobs": FLAT}, "two dimensions"),
        ({"target_prompt_logprobs": [[1, 2]] * 3}, "must be a TensorData, not list"),
        ({"target_prompt_logprobs": rows(2)}, "has 2 rows.*1 positions needs 0"),
        ({"prompt_logprobs_last_n": "1", "prompt_logprobs": True}, "prompt_logprobs"),
        ({"prompt_logprobs_last_n": 0, "prompt_logprobs": True}, "at least 1"),
        ({"prompt_logprobs_last_n": 1}, "include_prompt_logprobs"),
    ],
)
def test_bad_sample_arguments(arguments, message):
    """M16: sample checks its arguments before sending."""
    with pytest.raises(InvalidInputError, match=message):
        check(**{"prompt": PROMPT, "num_samples": 1, **arguments})


def test_good_sample_arguments():
    """M16: valid arguments pass, numpy's integers among them."""
    check(
        ModelInput.from_ints([1, 2]),
        np.int32(2),
        prompt_logprobs=True,
        topk_prompt_logprobs=np.int64(2),
        prompt_logprobs_last_n=np.int64(1),
        target_prompt_logprobs=rows(1),
    )


def test_sparse_targets_count_their_rows():
    """M23: the shape the cookbook asks in, one row for every position after the first, passes."""
    targets = np.array([[-1, -1], [5, 6]], np.int64)
    sparse = TensorData.compressed(targets, pad_value=-1)
    check(ModelInput.from_ints([1, 2, 3]), 1, target_prompt_logprobs=sparse)
    with pytest.raises(InvalidInputError, match="2 rows"):
        check(ModelInput.from_ints([1, 2]), 1, target_prompt_logprobs=sparse)


def test_prompts_of_unknown_length_are_left_to_the_server():
    """M10: an image without a declared length is neither empty nor short of rows."""
    prompt = ModelInput(chunks=[ImageChunk(data=b"x", format="png")])
    check(prompt, 1, target_prompt_logprobs=rows(7))


def test_rows_that_were_checked_are_the_ones_that_are_sent():
    """M9: an array of the caller is copied, who may fill it anew while the sample waits."""
    values = np.ones((1, 2), np.int64)
    targets = TensorData.from_numpy(values)
    check(ModelInput.from_ints([1, 2]), 1, target_prompt_logprobs=targets)
    values[:] = 7
    assert targets.to_numpy().tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("loss_fn", "config", "text"),
    [
        ("ppo", {"clip": 0.2}, "Known: clip_low_threshold, clip_high_threshold"),
        ("dro", {"clip_low_threshold": 0.2}, "Known: beta"),
        ("importance_sampling", {"beta": 0.2}, "importance_sampling has no settings"),
    ],
)
def test_a_setting_the_loss_does_not_read_is_refused(loss_fn, config, text):
    """F41: a typo would train with the default, silently."""
    with pytest.raises(InvalidInputError, match=text):
        check_batch([datum(**RL)], loss_fn, config)


@pytest.mark.parametrize(
    ("loss_fn", "config"),
    [
        ("ppo", {"clip_low_threshold": 0.9, "clip_high_threshold": 1.1}),
        ("dro", {"beta": 0.1}),
        ("stable_reinforce", {"anything": 1.0}),
    ],
)
def test_settings_that_are_known_or_unpublished_pass(loss_fn, config):
    """F41: what nobody has published cannot be told from a typo here."""
    check_batch([datum(**RL)], loss_fn, config)
