"""Checkpoint files and the records around the engine."""

import json

import numpy as np
import pytest

from tinker_ext.mock.engine import (
    Adapter,
    csr_to_dense,
    from_safetensors,
    media_tokens,
    to_safetensors,
)


def test_safetensors_layout_and_round_trip(base):
    """M40: header length, JSON header, raw little-endian arrays; equal arrays, equal bytes."""
    tensors = Adapter(base, rank=4).state_dict(optimizer=True)
    content = to_safetensors(tensors)
    length = int.from_bytes(content[:8], "little")
    assert (8 + length) % 8 == 0
    header = json.loads(content[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "np"}
    ends = [0]
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        assert start == ends[-1]
        ends.append(end)
        raw = content[8 + length + start : 8 + length + end]
        assert raw == tensors[name].tobytes()
        assert entry["shape"] == list(tensors[name].shape)
    assert 8 + length + ends[-1] == len(content)
    back = from_safetensors(content)
    assert back.keys() == tensors.keys()
    assert to_safetensors(back) == content


def test_checkpoint_names_are_those_of_peft(base):
    """M40: A is (rank, inputs), B is (outputs, rank), under PEFT's names."""
    adapter = Adapter(base, rank=4)
    shapes = {name: value.shape for name, value in adapter.state_dict().items()}
    prefix = "base_model.model.model.layers.1."
    assert shapes[prefix + "self_attn.q_proj.lora_A.weight"] == (4, 32)
    assert shapes[prefix + "mlp.up_proj.lora_B.weight"] == (64, 4)
    assert shapes["base_model.model.lm_head.lora_B.weight"] == (259, 4)
    config = adapter.adapter_config()
    assert config["r"] == 4
    assert config["lora_alpha"] == 32
    assert config["base_model_name_or_path"] == "tests/tiny"
    assert config["target_modules"] == sorted(
        ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "lm_head"]
    )
    assert json.loads(json.dumps(config)) == config


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 20, b"\x02\0\0\0\0\0\0\0[]", b"\x05" + b"\0" * 7]
)
def test_damaged_files_are_refused(content):
    """M40: a cut or foreign file gives a clear error."""
    with pytest.raises(ValueError, match="not a safetensors file"):
        from_safetensors(content)


def test_media_tokens_depend_on_content_only():
    """M10: an image stands for as many ids as it announces."""
    first = media_tokens(b"image", 7, 259)
    assert first.shape == (7,)
    assert ((first >= 0) & (first < 259)).all()
    np.testing.assert_array_equal(first, media_tokens(b"image", 7, 259))
    assert not np.array_equal(first, media_tokens(b"other", 7, 259))


def test_csr_to_dense():
    """M8: listed cells keep their value, the others hold the fill."""
    dense = csr_to_dense(
        np.array([5, 6, 7]), np.array([0, 2, 2, 3]), np.array([0, 2, 1]), (3, 3), -1
    )
    assert dense.tolist() == [[5, -1, 6], [-1, -1, -1], [-1, 7, -1]]
