"""Tokenizers: the name rules, the places files are looked for, and the words of the error."""

import json
import os
import shutil
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tinker_ext import TrainingClient, tokenizers
from tinker_ext.errors import TinkerError
from tinker_ext.tokenizers import TokenizerName, local_file, tokenizer_for_model

LLAMA = "thinkingmachineslabinc/meta-llama-3-instruct-tokenizer"


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        ("Qwen/Qwen3-8B", None, "Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-8B:peft:131072", None, "Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-8B", "other/tokenizer", "other/tokenizer"),
        ("Qwen/Qwen3-8B", "other/tokenizer:variant", "other/tokenizer"),
        ("meta-llama/Llama-3.1-8B", None, LLAMA),
        ("meta-llama/Llama-3.1-8B", "own/tokenizer", "own/tokenizer"),
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("TML/secret", "TML/published", "TML/published"),
        ("org/model", "org/tokenizer/deeper", "org/tokenizer/deeper"),
        ("meta-llama/Llama-2-7b", None, "meta-llama/Llama-2-7b"),
        ("org/model/variant", None, "org/model"),
        ("org/model/variant/deeper", None, "org/model"),
        ("plain", None, "plain"),
        ("moonshotai/Kimi-K2.5-Text-Only", None, "moonshotai/Kimi-K2.5"),
    ],
)
def test_name_rules(model, given, expected):
    """M32: the server's word first, then the rules by name."""
    assert tokenizer_for_model(model, given).id == expected


@pytest.mark.parametrize(
    ("model", "revision"),
    [
        ("moonshotai/Kimi-K2-Thinking", "612681931a8c906ddb349f8ad0f582cb552189cd"),
        ("moonshotai/Kimi-K2.5", "4d01dfe0332d63057c186e0b262165819efb6611"),
        ("moonshotai/Kimi-K2.5-Text-Only", "4d01dfe0332d63057c186e0b262165819efb6611"),
        ("moonshotai/Kimi-K2.6", "b5aabbfb20227ed42becbf5541dbffd213942c58"),
        ("moonshotai/Kimi-K3", "f831ab66814297da540d832a5235f8e904f29d06"),
    ],
)
def test_pinned_revisions(model, revision):
    """M32: Kimi tokenizers come at one revision and with their own code."""
    name = tokenizer_for_model(model)
    assert (name.revision, name.own_code) == (revision, True)


@pytest.mark.parametrize("model", ["TML/secret", "thinkingmachines/secret"])
def test_unpublished_tokenizers_say_so(model):
    """M32: a model without a public tokenizer gives the way out."""
    with pytest.raises(TinkerError, match="not published"):
        tokenizer_for_model(model)


def test_offline_error_names_the_file_and_the_place(monkeypatch, tmp_path):
    """M32: without a network the message says what to fetch and where to put it."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(
        TinkerError, match=r"Fetch tokenizer.json of some/model.*TINKER_EXT_TOKENIZERS"
    ):
        tokenizers.load("some/model")


@pytest.mark.parametrize("said", ["1", "true", "YES", "on"])
def test_offline_the_hub_is_not_asked(monkeypatch, said):
    """M32: every way to say so counts, and the error says that this is the reason."""
    asked = Mock(side_effect=OSError("no network\nmore of it"))
    monkeypatch.setitem(sys.modules, "huggingface_hub", Mock(hf_hub_download=asked))
    name = TokenizerName("org/model", revision="abc")
    with pytest.raises(TinkerError, match=r"HF_HUB_OFFLINE is set.* at revision abc"):
        tokenizers.fetch(name, {"HF_HUB_OFFLINE": said})
    asked.assert_not_called()
    for env in ({"HF_HUB_OFFLINE": "0"}, {"OTHER": "1"}):
        with pytest.raises(TinkerError, match=r"\(OSError: no network\)"):
            tokenizers.fetch(name, env)
    asked.side_effect = ["/found"]
    assert str(tokenizers.fetch(name, {"OTHER": "1"})) == "/found"
    asked.assert_called_with("org/model", "tokenizer.json", revision="abc")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(TinkerError, match="huggingface-hub is not installed"):
        tokenizers.fetch(name, {"OTHER": "1"})


def test_of_several_snapshots_the_newest_is_taken(tmp_path):
    """M32: unless a revision is asked for; one without the file is passed over."""
    snapshots = tmp_path / "models--org--model" / "snapshots"
    for age, revision in enumerate(("new", "old", "oldest")):
        (snapshots / revision).mkdir(parents=True)
        (snapshots / revision / "tokenizer.json").touch()
        os.utime(snapshots / revision, (1000 - age, 1000 - age))
    env = {"HF_HUB_CACHE": str(tmp_path)}

    def found(revision=None):
        path = local_file(TokenizerName("org/model", revision=revision), env)
        return path and path.parent.name

    assert (found(), found("old"), found("other")) == ("new", "old", None)
    (snapshots / "new" / "tokenizer.json").unlink()
    assert found() == "old"


def test_files_are_found_where_they_may_lie(tmp_path):
    """M32: a file, its directory, the user's directory and the hub cache all work."""
    source = local_file(TokenizerName("tinker-ext/tiny"), {})
    own = tmp_path / "own" / "org" / "model"
    cached = tmp_path / "hf" / "hub" / "models--org--cached" / "snapshots" / "abc"
    for directory in (own, cached):
        directory.mkdir(parents=True)
        shutil.copy(source, directory / "tokenizer.json")
    env = {"TINKER_EXT_TOKENIZERS": str(tmp_path / "own"), "HF_HOME": str(tmp_path / "hf")}
    assert local_file(TokenizerName(str(own)), env) == own / "tokenizer.json"
    assert local_file(TokenizerName(str(own / "tokenizer.json")), env) == own / "tokenizer.json"
    assert local_file(TokenizerName("org/model"), env) == own / "tokenizer.json"
    assert local_file(TokenizerName("org/cached"), env) == cached / "tokenizer.json"
    assert local_file(TokenizerName("org/cached", "abc"), env) == cached / "tokenizer.json"
    assert local_file(TokenizerName("org/cached", "other"), env) is None


def test_a_damaged_file_is_named(tmp_path):
    """M32: a broken file gives our error with its path."""
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(TinkerError, match="not a tokenizer file"):
        tokenizers.load(tmp_path)


@pytest.mark.parametrize("text", ["hello", "über 😀\n\ttabs", "", "a" * 1000])
def test_shipped_tokenizer_round_trips_any_text(text):
    """M32: the embedded server's tokenizer resolves by name, offline."""
    tokenizer = tokenizers.load("tinker-ext/tiny")
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text
    assert all(isinstance(token, int) for token in ids)
    assert tokenizer is tokenizers.load("tinker-ext/tiny")


def test_the_calls_people_use():
    """M32: ids, tokens, sizes and special tokens read as in transformers."""
    tokenizer = tokenizers.load("tinker-ext/tiny")
    assert tokenizer.eos_token_id == tokenizer.convert_tokens_to_ids(tokenizer.eos_token)
    assert tokenizer.convert_ids_to_tokens([tokenizer.eos_token_id]) == [tokenizer.eos_token]
    assert tokenizer.convert_ids_to_tokens(tokenizer.eos_token_id) == tokenizer.eos_token
    assert tokenizer.convert_tokens_to_ids([tokenizer.eos_token]) == [tokenizer.eos_token_id]
    assert len(tokenizer) == len(tokenizer.get_vocab()) >= tokenizer.vocab_size
    ids = tokenizer.encode("hi")
    assert tokenizer("hi") == {"input_ids": ids, "attention_mask": [1] * len(ids)}


CHAT = """{{ bos_token or '' }}
  {% for m in messages %}
<{{ m.role }}>{{ m.content }}{{ eos_token }}
  {% endfor %}
{% if add_generation_prompt %}<assistant>{{ think }}{% endif %}"""


def chatting(place, template):
    """The shipped tokenizer with another chat template beside its file."""
    shutil.copytree(tokenizers.SHIPPED, place)
    file = place / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "chat_template": template}))
    return tokenizers.load(place)


def test_messages_are_rendered_with_the_template_of_the_model(tmp_path):
    """M32: as text or as ids, with the start of an answer only when that is wanted."""
    tokenizer = chatting(tmp_path / "t", CHAT)
    messages = [{"role": "user", "content": "hi"}]
    end = tokenizer.eos_token
    begin = f"{tokenizer.bos_token or ''}\n"
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    assert text == f"{begin}<user>hi{end}\n"
    asked = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, think="..."
    )
    assert asked == f"{text}<assistant>..."
    ids = tokenizer.apply_chat_template(messages)
    assert ids == tokenizer.encode(text, add_special_tokens=False)


def test_a_template_that_cannot_be_rendered_says_what_is_missing(tmp_path, monkeypatch):
    """M32: the template itself, or what renders it and how it is installed."""
    with pytest.raises(TinkerError, match="has no chat template"):
        chatting(tmp_path / "without", None).apply_chat_template([])
    tokenizer = chatting(tmp_path / "with", CHAT)
    monkeypatch.setitem(sys.modules, "jinja2.sandbox", None)
    with pytest.raises(TinkerError, match=r"chat templates need jinja2: pip install"):
        tokenizer.apply_chat_template([])


@pytest.mark.parametrize(
    ("told", "wanted"), [("org/other", "org/other"), (None, "org/model"), ("", "org/model")]
)
def test_the_tokenizer_that_a_server_names_wins(told, wanted, monkeypatch):
    """M14: over the name of the model, of which a variant is left out."""
    data = SimpleNamespace(model_name="org/model:variant", tokenizer_id=told)
    client = SimpleNamespace(get_info=lambda: SimpleNamespace(model_data=data))
    monkeypatch.setattr(tokenizers, "load", lambda chosen: chosen)
    assert TrainingClient.get_tokenizer(client).id == wanted


def test_transformers_runs_the_code_of_pinned_revisions_only(tmp_path, monkeypatch):
    """M32 M33: what anybody may upload is not run; a file on this machine comes first."""
    loaded = Mock(side_effect=lambda where, **options: (where, *options.values()))
    auto = SimpleNamespace(from_pretrained=loaded)
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoTokenizer=auto))
    monkeypatch.setenv("TINKER_EXT_TOKENIZERS", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    kimi = tokenizer_for_model("moonshotai/Kimi-K3")
    assert tokenizers.load("org/new", use_transformers=True) == ("org/new", None, False, True)
    assert tokenizers.load(kimi, use_transformers=True) == (kimi.id, kimi.revision, True, True)
    assert loaded.call_args.kwargs.keys() == {"revision", "trust_remote_code", "use_fast"}
    (tmp_path / "org" / "here").mkdir(parents=True)
    shutil.copy(tokenizers.SHIPPED / "tokenizer.json", tmp_path / "org" / "here")
    here = tokenizers.load("org/here", use_transformers=True)
    assert here == (str(tmp_path / "org" / "here"), None, False, True)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(TinkerError, match="pip install transformers"):
        tokenizers.load("org/other", use_transformers=True)


def test_an_error_speaks_of_own_code_where_there_is_some(monkeypatch):
    """M32: only those need transformers."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name, own in (
        (TokenizerName("org/new"), False),
        (tokenizer_for_model("moonshotai/Kimi-K3"), True),
    ):
        with pytest.raises(TinkerError) as caught:
            tokenizers.fetch(name)
        assert ("code of its own" in str(caught.value)) is own
        assert (f"at revision {name.revision}" in str(caught.value)) is own
