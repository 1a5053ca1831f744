"""M41: public records follow the document: its fields, its omission rules; old pickles load."""

from __future__ import annotations

import base64
import copy
import json
import pickle
import typing
from pathlib import Path
from typing import Any

import attrs
import pytest
from contract import document as doc
from tinker_api import models
from tinker_api.operations import CREATE_MODEL, OPTIM_STEP, SAMPLE

from tinker_ext import types
from tinker_ext.batch.checks import check_batch
from tinker_ext.errors import InvalidInputError
from tinker_ext.types import enums

PICKLES = json.loads(Path(__file__).with_name("pickles-0.1.0.json").read_text("utf-8"))
SCHEMAS = doc.load_document()["components"]["schemas"]
FOLLOWING: dict[type[Any], dict[str, Any]] = {
    types.AdamParams: {},
    types.DimuonParams: {"learning_rate": 0.1},
    types.AdamOptimizerConfig: {},
    types.DimuonOptimizerConfig: {},
    types.LoraConfig: {"rank": 4},
    types.SamplingParams: {},
    types.SaveWeightsResponse: {"path": "tinker://r/weights/1"},
    types.SaveWeightsForSamplerResponse: {"path": "tinker://r/sampler_weights/1"},
}
# Types with behaviour or on a hot path are written by hand. Beside each: what the client fills in
# itself when it sends or reads one, so that users have no such attribute.
BY_HAND: dict[str, set[str]] = {
    "Datum": set(),
    "DmelChunk": set(),
    "EncodedTextChunk": set(),
    "ForwardBackwardInput": set(),
    "ForwardBackwardOutput": set(),
    "ForwardBackwardRequest": {"type"},
    "ForwardRequest": {"type"},
    "ImageAssetPointerChunk": set(),
    "ImageChunk": set(),
    "ModelInput": set(),
    "PromptProvenanceSpan": set(),
    "SampleRequest": set(),
    "SampleResponse": set(),
    "SampledProvenanceSpan": set(),
    "SampledSequence": set(),
    "TensorData": set(),
}


@pytest.mark.parametrize("record", FOLLOWING, ids=lambda record: record.__name__)
def test_a_public_record_is_its_generated_definition(record: type[Any]) -> None:
    """M41: every field of the schema, and what is built is what the definition would send."""
    name = record.__name__
    definition = getattr(models, name)
    assert issubclass(record, definition)
    public = {field.name for field in attrs.fields(record)} - {"additional_properties", "_wire"}
    assert public == SCHEMAS[name]["properties"].keys()
    built = record(**FOLLOWING[record])
    plain = definition(**{field: getattr(built, field) for field in public})
    assert built.to_dict() == plain.to_dict()
    assert record.from_dict(built.to_dict()) == built
    for twin in (copy.copy(built), copy.deepcopy(built), pickle.loads(pickle.dumps(built))):
        assert (type(twin), twin) == (record, built)
        assert twin.to_dict() == built.to_dict()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        built.type = "x"
    with pytest.raises(TypeError, match="unexpected keyword"):
        record(**FOLLOWING[record], brand_new=1)


@pytest.mark.parametrize("name", BY_HAND)
def test_types_written_by_hand_have_the_fields_of_the_schema(name: str) -> None:
    """M41: a new field of such a type is noticed here, not by a user."""
    known = set(dir(getattr(types, name)))
    assert SCHEMAS[name]["properties"].keys() - BY_HAND[name] - known == set()


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_of_the_last_release_load(name: str) -> None:
    """M41: written by 0.1.0; same class, same fields, as good as a new one."""
    old = pickle.loads(base64.b64decode(PICKLES[name]["pickle"]))
    assert type(old) is getattr(types, name)
    assert repr(old) == PICKLES[name]["repr"]
    assert pickle.loads(pickle.dumps(old)) == old
    if hasattr(old, "to_dict"):
        json.dumps(old.to_dict())


def test_a_pickle_without_a_newer_field_has_its_default() -> None:
    """M41: what an older release did not know reads as absent."""
    for record in (types.AdamParams(learning_rate=0.5), models.AdamParams(learning_rate=0.5)):
        state = record.__getstate__()
        del state["grad_clip_norm"]
        older = object.__new__(type(record))
        older.__setstate__(state)
        assert older == record
        assert older.grad_clip_norm == 0.0


def test_what_is_sent_is_up_to_the_document() -> None:
    """M4: keys of the second era only when set; the others always; None never."""
    adam = {"learning_rate": 0.0001, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12}
    assert types.AdamParams().to_dict() == adam
    assert types.AdamParams(weight_decay=0.1, grad_clip_norm=0).to_dict() == {
        **adam,
        "weight_decay": 0.1,
    }
    assert types.LoraConfig(rank=4, train_mlp=False).to_dict() == {
        "rank": 4,
        "train_unembed": True,
        "train_mlp": False,
        "train_attn": True,
    }
    assert types.SamplingParams(stop="\n", max_tokens=3).to_dict() == {
        "max_tokens": 3,
        "stop": ["\n"],
        "temperature": 1,
        "top_k": -1,
        "top_p": 1,
    }
    assert types.SamplingParams(stop=[]).to_dict()["stop"] == []


def test_the_table_takes_public_records() -> None:
    """M41: what a user builds is what the row of an operation sends."""
    step = OPTIM_STEP.prepare(model_id="m", adam_params=types.AdamParams()).body
    other = OPTIM_STEP.prepare(
        model_id="m", optimizer_params=types.DimuonParams(learning_rate=0.1)
    ).body
    lion = types.OptimParamsBase(type="lion", rho=2)
    unknown = OPTIM_STEP.prepare(model_id="m", optimizer_params=lion).body
    made = CREATE_MODEL.prepare(
        session_id="s",
        model_seq_id=0,
        base_model="b",
        lora_config=types.LoraConfig(rank=4),
        optimizer_config=types.DimuonOptimizerConfig(),
    ).body
    sample = SAMPLE.prepare(
        prompt={"chunks": []}, sampling_params=types.SamplingParams(stop="a")
    ).body
    assert step is not None
    assert step["adam_params"] == types.AdamParams().to_dict()
    assert other is not None
    assert other["optimizer_params"]["type"] == "dimuon"
    assert unknown is not None
    assert unknown["optimizer_params"] == {"type": "lion", "rho": 2}
    assert made is not None
    assert (made["lora_config"]["rank"], made["optimizer_config"]["version"]) == (4, 1)
    assert sample is not None
    assert sample["sampling_params"]["stop"] == ["a"]


def test_known_families_belong_to_the_open_ones() -> None:
    """F54: as in the official SDK."""
    assert isinstance(types.DimuonParams(learning_rate=0.1), types.OptimParamsBase)
    assert issubclass(types.AdamOptimizerConfig, types.OptimizerConfigBase)
    assert issubclass(types.DimuonOptimizerConfig, types.OptimizerConfigBase)
    assert not isinstance(types.AdamParams(), types.OptimParamsBase)
    assert not isinstance(types.OptimizerConfigBase(type="x"), types.OptimParamsBase)


def test_names_of_losses_are_those_of_the_document() -> None:
    """M3, M41: the list is generated; a typo is answered with the nearest name."""
    assert list(enums.LOSS_FN_TYPES) == SCHEMAS["LossFnType"]["enum"]
    assert typing.get_args(types.LossFnType) == enums.LOSS_FN_TYPES
    with pytest.raises(InvalidInputError, match=r"'cros_entropy'; did you mean 'cross_entropy'\?"):
        check_batch([], "cros_entropy")
