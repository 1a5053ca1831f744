"""Optimizer settings, outputs, checkpoints, and the table of lazily loaded names."""

import copy
import pickle
from fractions import Fraction

import attrs
import numpy as np
import pytest
from rows import for_each

from tinker_ext import types
from tinker_ext.errors import InvalidInputError


class Several:
    """Numbers that are not one, which torch refuses with this error."""

    def _refuse(self):
        raise RuntimeError("a Tensor with 2 elements cannot be converted to Scalar")

    __float__ = __index__ = _refuse


def test_adam_defaults():
    """M14: the defaults of the official client."""
    assert attrs.asdict(types.AdamParams()) == {
        "learning_rate": 1e-4,
        "beta1": 0.9,
        "beta2": 0.95,
        "eps": 1e-12,
        "weight_decay": 0.0,
        "grad_clip_norm": 0.0,
    }


@pytest.mark.parametrize(
    ("cls", "arguments"),
    [
        (types.AdamParams, {"learning_rate": float("inf")}),
        (types.AdamParams, {"learning_rate": 10**400}),
        (types.SamplingParams, {"temperature": -(10**400)}),
        (types.AdamParams, {"learning_rate": Fraction(10**400)}),
        (types.AdamParams, {"learning_rate": Several()}),
        (types.LoraConfig, {"rank": Several()}),
        (types.AdamParams, {"learning_rate": "fast"}),
        (types.DimuonParams, {"learning_rate": -1}),
        (types.DimuonParams, {"learning_rate": 1, "beta1": 1}),
        (types.LoraConfig, {"rank": 0}),
        (types.LoraConfig, {"rank": 1.5}),
        (types.LoraConfig, {"rank": 1, "train_mlp": "maybe"}),
        (types.LoraConfig, {"rank": 1, "train_attn": None}),
        (types.AdamOptimizerConfig, {"type": "sgd"}),
        (types.DimuonOptimizerConfig, {"version": 2}),
        (types.AdamOptimizerConfig, {"type": None}),
        (types.DimuonOptimizerConfig, {"type": None}),
        (types.DimuonParams, {"learning_rate": 1, "type": None}),
        (types.ImageChunk, {"data": b"", "format": "png", "type": None}),
        (types.ImageAssetPointerChunk, {"location": "", "format": "png", "type": None}),
        (types.DmelChunk, {"dmel": b"", "type": None}),
    ],
)
def test_bad_settings(cls, arguments):
    """M14: non-finite and out-of-range settings fail at the call."""
    with pytest.raises(InvalidInputError):
        cls(**arguments)


def test_unknown_optimizer_passes_through():
    """M14: an optimizer family this package does not know keeps every field."""
    params = types.OptimParamsBase(type="lion", learning_rate=0.1, sign=True)
    assert params.to_dict() == {"type": "lion", "learning_rate": 0.1, "sign": True}
    assert params.sign is True
    assert pickle.loads(pickle.dumps(params)) == params == copy.deepcopy(params)
    assert params != types.OptimizerConfigBase(type="lion", learning_rate=0.1, sign=True)
    with pytest.raises(AttributeError):
        _ = params.missing
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        params.sign = False


def test_settings_fit_into_generated_requests():
    """M4: a request takes our settings; what is None is absent."""
    request = types.CreateModelRequest(
        session_id="s",
        model_seq_id=0,
        base_model="b",
        lora_config=types.LoraConfig(rank=8),
        optimizer_config=types.DimuonOptimizerConfig(),
    ).to_dict()
    assert request["optimizer_config"] == {"type": "dimuon", "version": 1}
    assert request["lora_config"] == {
        "rank": 8,
        "train_unembed": True,
        "train_mlp": True,
        "train_attn": True,
    }


def test_adam_is_keyword_only():
    """M14: positions would be guesswork."""
    with pytest.raises(TypeError):
        types.AdamParams(1e-3)


@pytest.mark.parametrize(
    ("metrics", "loss"),
    [
        ({"loss:sum": 2.0, "loss:mean": 1.0}, 2.0),
        ({"loss:mean": 1.0}, 1.0),
        ({"loss": 3.0}, 3.0),
    ],
)
def test_loss_is_read_from_metrics(metrics, loss):
    """M13: `.loss` reads the metric the server sent."""
    assert types.ForwardBackwardOutput("x", [], metrics).loss == loss


@pytest.mark.parametrize("metrics", [{}, {"kl:mean": 1.0}, {"loss": 1.0, "loss_1": 2.0}])
def test_loss_says_why_not(metrics):
    """M13: without a usable metric it says what was found and what to do."""
    with pytest.raises(InvalidInputError, match="loss_fn_outputs") as caught:
        _ = types.ForwardBackwardOutput("x", [], metrics).loss
    assert all(name in str(caught.value) for name in metrics)


def test_output_has_no_field_loss():
    """M13: the wire has three fields, `.loss` is not one of them; the client counts positions."""
    names = [field.name for field in attrs.fields(types.ForwardBackwardOutput)]
    assert names == ["loss_fn_output_type", "loss_fn_outputs", "metrics", "trained"]


def test_parsed_path():
    """M35: a checkpoint path is parsed into its parts."""
    parsed = types.ParsedCheckpointTinkerPath.from_tinker_path("tinker://r/sampler_weights/x")
    assert attrs.asdict(parsed) == {
        "tinker_path": "tinker://r/sampler_weights/x",
        "training_run_id": "r",
        "checkpoint_type": "sampler",
        "checkpoint_id": "sampler_weights/x",
    }
    with pytest.raises(ValueError, match="Invalid tinker path"):
        types.ParsedCheckpointTinkerPath.from_tinker_path("tinker://r/x")


def test_console_links():
    """M16: saved weights know their console pages."""
    saved = types.SaveWeightsForSamplerResponse(path="tinker://r/sampler_weights/x")
    assert saved.get_console_url().endswith("/checkpoints/r/sampler_weights%2Fx")
    assert "checkpoint=tinker%3A%2F%2Fr" in saved.get_playground_url()
    assert types.SaveWeightsResponse(path="tinker://r/weights/x").get_console_url()


@for_each(types.__all__)
def test_every_name_loads(name):
    """M16: every public name resolves, and twice to the same object."""
    assert getattr(types, name) is getattr(types, name)


def test_unknown_name():
    """M16: a wrong name is an AttributeError."""
    with pytest.raises(AttributeError, match="Dutum"):
        _ = types.Dutum
    assert "Datum" in dir(types)


@pytest.mark.parametrize("value", ["server", "SERVER", "Server"])
def test_category_reads_any_case(value):
    """M3: categories are decoded in any case, unknown ones read as unknown."""
    assert types.RequestErrorCategory(value) is types.RequestErrorCategory.Server
    assert types.RequestErrorCategory("novel") == "unknown"
    assert types.QueueState("novel") is types.QueueState.UNKNOWN


@pytest.mark.parametrize("given", [False, 0, np.False_, np.int64(0)])
def test_lora_flags(given):
    """M30: booleans, 0 and 1, of Python and of numpy, are flags."""
    assert types.LoraConfig(rank=1, train_mlp=given).train_mlp is False


@pytest.mark.parametrize("data", [None, 5])
def test_a_batch_is_a_list(data):
    """M30: a wrong value is a ValueError."""
    with pytest.raises(InvalidInputError, match="list of Datum"):
        types.ForwardBackwardInput(data=data, loss_fn="cross_entropy")


def test_an_unknown_key_is_an_error_that_names_the_known_ones():
    """M14: `from_dict` takes the keys of the document."""
    with pytest.raises(InvalidInputError, match=r"no field 'lr'; it has .*learning_rate"):
        types.AdamParams.from_dict({"lr": 1e-3})


BY_NAME = (
    "AdamOptimizerConfig", "AdamParams", "DimuonOptimizerConfig", "DimuonParams", "DmelChunk",
    "EncodedTextChunk", "ImageAssetPointerChunk", "ImageChunk", "LoraConfig", "ModelInput",
    "OptimStepRequest", "ParsedCheckpointTinkerPath", "PromptProvenanceSpan", "SampleRequest",
    "SampledProvenanceSpan", "SamplingParams", "SaveWeightsForSamplerResponse",
    "SaveWeightsResponse",
)  # fmt: skip


def test_fields_are_given_by_name():
    """M30: as to the official types; a field that is added later moves no other."""
    for name in BY_NAME:
        # Not "missing a positional argument": the first one must not have been taken.
        with pytest.raises(TypeError, match="takes 1 positional argument but"):
            getattr(types, name)(1)


RECORDS = (
    types.AdamOptimizerConfig(),
    types.AdamParams(learning_rate=2.0),
    types.DimuonOptimizerConfig(),
    types.DimuonParams(learning_rate=2.0),
    types.DmelChunk(dmel=b"x"),
    types.ImageAssetPointerChunk(location="x", format="png", height=2),
    types.ImageChunk(data=b"x", format="png", width=2),
    types.LoraConfig(rank=3, seed=5),
    types.SamplingParams(max_tokens=7),
    types.SaveWeightsForSamplerResponse(path="tinker://m/sampler_weights/a"),
    types.SaveWeightsResponse(path="tinker://m/weights/a"),
)


@for_each(RECORDS)
def test_pickles_of_releases_before_a_field_was_added(record):
    """M16: a field that is not in a pickle is as if it had not been given."""
    before = record.__reduce_ex__(4)[2]
    for field in attrs.fields(type(record)):
        state = {name: value for name, value in before.items() if name != field.name}
        new = type(record).__new__(type(record))
        new.__setstate__(state)
        assert {name: getattr(new, name) for name in state} == state
        if field.init and field.default is not attrs.NOTHING:
            assert getattr(new, field.name) == field.default


def test_whatever_is_a_number_to_python_is_one():
    """M30: by `__float__` or by `__index__`; text and truth values are not."""

    class Whole:
        def __index__(self):
            return 3

    class Broken:
        def __float__(self):
            return 0.5

    for value, wanted in ((Whole(), 3.0), (Broken(), 0.5), (np.float32(0.25), 0.25), (2, 2)):
        assert types.AdamParams(learning_rate=value).learning_rate == wanted
    for value in ("1", b"1", True, None, [1]):
        with pytest.raises(InvalidInputError):
            types.AdamParams(learning_rate=value)
