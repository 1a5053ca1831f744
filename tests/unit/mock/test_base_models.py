"""M32, M40: served models and the size of their vocabularies."""

import json

import pytest

from tinker_ext.mock.base_models import BaseModels


def test_the_built_in_models_speak_bytes():
    """M40: 256 bytes and four special tokens; samples end at the end tokens."""
    model = BaseModels()["tinker-ext/tiny"]
    assert (model.vocabulary, model.bytewise) == (260, True)
    assert model.end_tokens == (258, 256)


@pytest.mark.parametrize(
    ("vocab", "size"), [({"a": 0, "b": 7}, 8), ([["a", -1.0], ["b", -2.0]], 2)]
)
def test_the_vocabulary_covers_every_id(tmp_path, vocab, size):
    """M40: dictionaries with holes and unigram lists; added tokens count."""
    text = {"model": {"vocab": vocab}, "added_tokens": [{"content": "<eos>", "id": 1}]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(text))
    models = BaseModels({"org/name": str(tmp_path)})
    assert models["org/name"].vocabulary == size
    assert models["org/name"].end_tokens == (1,)
    assert models["org/name"].tokenizer_id == str(tmp_path / "tokenizer.json")


def test_a_missing_tokenizer_is_said_at_once(tmp_path):
    """M40: the server does not start with a tokenizer that is not there."""
    with pytest.raises(ValueError, match=r"no tokenizer\.json at"):
        BaseModels({"org/name": str(tmp_path)})
