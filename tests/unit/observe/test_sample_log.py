"""Recorded samples: what is written, how much, and what the page reads of it."""

import errno
import json
import logging
import os
from types import SimpleNamespace

import numpy as np
import pytest

from tinker_ext import ModelInput, SampleLog, SampleResponse
from tinker_ext.errors import ConfigurationError, InvalidInputError
from tinker_ext.observe import sample_log
from tinker_ext.types import SampledSequence
from tinker_ext.ui.samples import MOST_TEXT, SampleIndex

HOSTILE = "<script>alert(1)</script>\x00\x1b[31m\u202eevil\ud800"
TEXTS = {1: "one ", 2: "two ", 3: HOSTILE, 4: "four " * 500}


class Words:
    """A tokenizer of four tokens, one of them long."""

    decoded = 0

    def decode(self, tokens):
        self.decoded += 1
        return "".join(TEXTS.get(token, "?") for token in tokens)


def reply(*sequences):
    return SampleResponse(
        [
            SampledSequence(
                "stop", tokens_np=np.array(tokens), logprobs_np=np.full(len(tokens), -0.5)
            )
            for tokens in sequences
        ]
    )


def lines(log):
    return [json.loads(text) for text in log.path.read_text().splitlines()]


def test_a_sample_is_written_with_text_reward_and_both_logprobs(tmp_path):
    """M34: everything the page shows, and the page's reader finds it by prompt."""
    log = SampleLog(tmp_path / "run", tokenizer=Words())
    prompt = ModelInput.from_ints([1, 2])
    log.record(
        prompt,
        reply([1, 2], [2]),
        rewards=[1, 0.5],
        trainer_logprobs=[[-0.4, -0.6], None],
        step=3,
        checkpoint="tinker://r/sampler_weights/3",
    )
    log.record(prompt, reply([2]), step=4)
    log.record("other", reply([1]))
    first, second, third = lines(log)
    assert first["prompt"] == "one two "
    assert first["prompt_id"] == second["prompt_id"] != third["prompt_id"]
    assert third["prompt_id"] == "3bfa390929296753"  # the same in every log and version
    one, two = first["sequences"]
    assert (one["text"], one["pieces"], one["reward"]) == ("one two ", ["one ", "two "], 1.0)
    assert (one["logprobs"], one["trainer_logprobs"]) == ([-0.5, -0.5], [-0.4, -0.6])
    assert two["trainer_logprobs"] is None
    index = SampleIndex(tmp_path / "run")
    assert index.advance()
    groups = index.prompts()
    assert [(g["prompt"], g["records"], g["count"]) for g in groups] == [
        ("other", 1, 1),
        ("one two ", 2, 3),
    ]
    assert [r["step"] for r in index.records(first["prompt_id"])] == [3, 4]
    assert index.prompts("two")[0]["prompt_id"] == first["prompt_id"]
    assert not index.advance()


def test_what_is_on_disk_stays_within_the_bound(tmp_path):
    """F29: the oldest make room, also while the page reads."""
    log = SampleLog(tmp_path, tokenizer=Words(), max_bytes=20_000)
    index = SampleIndex(tmp_path)
    for step in range(300):
        log.record(f"prompt {step}", reply([1] * 20), step=step)
        if step % 37 == 0:
            index.advance()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 20_000
    index.advance()
    newest = index.prompts()[0]
    assert newest["prompt"] == "prompt 299"
    assert 10 < len(index.rows) < 300
    assert [r["step"] for r in index.records(newest["prompt_id"])] == [299]


def test_a_sample_larger_than_the_bound_leaves_the_others_alone(tmp_path, caplog):
    """F29: it is left out and told of once; what was recorded before stays."""
    log = SampleLog(tmp_path, max_bytes=20_000)
    log.record("small", reply([1]), step=1)
    for step in (2, 3):
        log.record("x" * 15_000, reply([1]), step=step)
    log.record("small", reply([1]), step=4)
    assert [line["step"] for line in lines(log)] == [1, 4]
    (said,) = caplog.messages
    assert "max_bytes" in said
    assert [file.name for file in tmp_path.iterdir()] == ["samples.jsonl"]


def test_a_file_holds_half_of_the_bound_to_the_byte(tmp_path, monkeypatch):
    """F29: a sample that fills it is recorded, one that is a byte larger is not."""
    monkeypatch.setattr(sample_log, "time", SimpleNamespace(time=lambda: 1.5))

    def recorded(name, bound, count):
        log = SampleLog(tmp_path / name, max_bytes=bound)
        for _ in range(count):
            log.record("x", reply([1]))
        return [len(f.read_bytes().splitlines()) for f in sorted((tmp_path / name).glob("*"))]

    assert recorded("one", 10_000, 1) == [1]
    size = (tmp_path / "one" / "samples.jsonl").stat().st_size
    assert recorded("fits", 2 * size, 1) == [1]
    assert recorded("larger", 2 * size - 1, 1) == []
    assert recorded("two", 4 * size, 2) == [2]
    assert recorded("three", 4 * size, 3) == [2, 1]


def test_a_new_file_that_cannot_be_opened_is_told_as_it_is(tmp_path, caplog, monkeypatch):
    """F29: nothing is closed twice, which could be a file that another thread has opened since."""
    log = SampleLog(tmp_path, max_bytes=1_000)
    log.record("x" * 200, reply([1]))
    real, tried = os.open, []

    def open_once(path, *rest):
        if str(path) == str(log.path):
            tried.append(path)
            if len(tried) > 1:
                raise OSError(errno.EMFILE, "Too many open files")
        return real(path, *rest)

    monkeypatch.setattr(os, "open", open_once)
    log.record("x" * 200, reply([1]))
    monkeypatch.undo()
    assert "Too many open files" in caplog.text
    log.record("small", reply([1]))
    assert [line["prompt"] for line in lines(log)] == ["small"]


def test_a_hostile_sample_is_only_text(tmp_path):
    """Safe: script tags, control characters, half a character, a megabyte: one line each."""
    log = SampleLog(tmp_path, tokenizer=Words(), max_bytes=64 << 20)
    log.record(HOSTILE, reply([3], [4] * 1000))
    (line,) = lines(log)
    assert line["sequences"][0]["text"].startswith("<script>")
    index = SampleIndex(tmp_path)
    index.advance()
    (record,) = index.records(line["prompt_id"])
    assert len(record["sequences"][1]["text"]) == MOST_TEXT
    assert record["sequences"][1]["cut"] > 900_000


def test_a_megabyte_of_a_text_is_recorded(tmp_path):
    """F29: of prompts and of what was sampled, and as much of token ids."""
    log = SampleLog(tmp_path, tokenizer=Words())
    log.record("x" * ((1 << 20) + 1), reply([4] * 420))
    plain = SampleLog(tmp_path)
    plain.record(ModelInput.from_ints([123_456_789] * 110_000), reply([1]))
    first, second = lines(log)
    texts = first["prompt"], first["sequences"][0]["text"], second["prompt"]
    assert [len(text) for text in texts] == [1 << 20] * 3


def test_a_vocabulary_is_decoded_once(tmp_path):
    """F29: a thousand tokens cost a thousand look-ups, not a thousand decodings."""
    words = Words()
    log = SampleLog(tmp_path, tokenizer=words)
    log.record("x", reply([1, 2] * 500))
    assert words.decoded <= 3


def test_one_call_in_many_is_recorded(tmp_path):
    """M34: `every` thins out."""
    log = SampleLog(tmp_path, every=10)
    for _ in range(25):
        log.record("x", reply([1]))
    assert len(lines(log)) == 3
    assert lines(log)[0]["sequences"][0]["text"] == "1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"rewards": [1.0]}, "rewards must have one entry for each of the 2"),
        ({"trainer_logprobs": [[0.0]]}, "trainer_logprobs must have one entry for each of the 2"),
        ({"trainer_logprobs": [[0.0], [0.0]]}, "each of the 2 sampled tokens, not 1"),
    ],
)
def test_numbers_that_do_not_fit_are_refused_at_the_call(tmp_path, arguments, said):
    """M6: nothing is written."""
    log = SampleLog(tmp_path)
    with pytest.raises(InvalidInputError, match=said):
        log.record("x", reply([1, 2], [3]), **arguments)
    assert not log.path.exists()


@pytest.mark.parametrize(
    "bad", [{"max_bytes": 0}, {"every": 0}, {"every": True}, {"max_bytes": 1.5}]
)
def test_a_bound_must_be_a_number(tmp_path, bad):
    """M6: said when the log is made."""
    with pytest.raises(ConfigurationError, match="whole number"):
        SampleLog(tmp_path, **bad)


def test_a_disk_that_cannot_be_written_is_told_once(tmp_path, caplog):
    """F29: a run never ends because of its recording."""
    (tmp_path / "samples.jsonl").mkdir()
    log = SampleLog(tmp_path)
    with caplog.at_level(logging.WARNING, "tinker_ext"):
        log.record("x", reply([1]))
        log.record("x", reply([1]))
    assert len(caplog.records) == 1
