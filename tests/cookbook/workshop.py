"""The directory the cookbook runs in: tokenizers and datasets as local folders, no hub needed.

`transformers` and `datasets` take `org/name` for a folder when the current directory has one, so
unmodified recipes find these files by themselves.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

MODELS = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-8B-Base",
    "Qwen/Qwen3-4B-Instruct-2507",
    "Qwen/Qwen3.5-4B",
    "Qwen/Qwen3.5-9B",
    "Qwen/Qwen3.5-9B-Base",
    "Qwen/Qwen3.6-35B-A3B",
)
SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NOUNS = [
    "river",
    "stone",
    "lamp",
    "garden",
    "engine",
    "letter",
    "window",
    "bridge",
    "table",
    "cloud",
]
VERBS = ("carries", "holds", "lights", "follows", "opens", "crosses", "hides", "warms")


def build(place: Path) -> Path:
    """Fill `place` with everything the recipes load; returns it."""
    # `datasets` would go on using what it cached for an earlier version of the files.
    shutil.rmtree(place / "hub", ignore_errors=True)
    rng = random.Random(0)
    _tokenizers(place, rng)
    _chats(place, rng)
    _problems(place, rng)
    _preferences(place, rng)
    return place


def sentence(rng: random.Random) -> str:
    """A short sentence from a small vocabulary, so that a tiny model can learn it."""
    return f"the {rng.choice(NOUNS)} {rng.choice(VERBS)} the {rng.choice(NOUNS)}"


def _rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _tokenizers(place: Path, rng: random.Random) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=list(SPECIAL),
        show_progress=False,
    )
    text = [sentence(rng) for _ in range(200)]
    text += ["Question: what is the answer? \\boxed{} user assistant system Human"] * 20
    made.train_from_iterator(text, trainer)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 4096,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE,
    }
    for name in MODELS:
        folder = place / name
        folder.mkdir(parents=True, exist_ok=True)
        made.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _chat(rng: random.Random) -> list[dict[str, str]]:
    line = sentence(rng)
    return [
        {"role": "user", "content": f"Repeat: {line}"},
        {"role": "assistant", "content": line},
    ]


def _chats(place: Path, rng: random.Random) -> None:
    for split, count in (("train", 160), ("test", 8)):
        rows = [{"prompt_id": str(i), "messages": _chat(rng)} for i in range(count)]
        _rows(place / "HuggingFaceH4/no_robots" / f"{split}.jsonl", rows)
    rows = [{"id": str(i), "messages": _chat(rng)} for i in range(1100)]
    _rows(place / "allenai/tulu-3-sft-mixture/train.jsonl", rows)
    _rows(place / "chats.jsonl", [{"messages": _chat(rng)} for _ in range(64)])


def _problem(rng: random.Random) -> tuple[str, int]:
    # Answers of 5 to 7 only: a model that was taught to guess among them is right now and then.
    total = rng.choice((5, 6, 7))
    a = rng.randint(0, total)
    return f"What is {a} + {total - a}?", total


def _problems(place: Path, rng: random.Random) -> None:
    gsm = place / "openai/gsm8k"
    for split, count in (("train", 256), ("test", 4)):
        pairs = [_problem(rng) for _ in range(count)]
        rows = [{"question": q, "answer": f"We add them.\n#### {a}"} for q, a in pairs]
        _rows(gsm / "main" / f"{split}.jsonl", rows)
    (gsm / "README.md").write_text(
        "---\nconfigs:\n- config_name: main\n  data_files:\n"
        "  - split: train\n    path: main/train.jsonl\n"
        "  - split: test\n    path: main/test.jsonl\n---\n"
    )
    pairs = [_problem(rng) for _ in range(32)]
    rows = [{"question": q, "final_answer": str(a), "difficulty": 1} for q, a in pairs]
    _rows(place / "zwhe99/DeepMath-103K/train.jsonl", rows)


def _preferences(place: Path, rng: random.Random) -> None:
    for split, count in (("train", 64), ("test", 4)):
        rows = []
        for _ in range(count):
            start = f"\n\nHuman: Say something about the {rng.choice(NOUNS)}.\n\nAssistant: "
            rows.append({"chosen": start + sentence(rng), "rejected": start + "no"})
        _rows(place / "Anthropic/hh-rlhf" / f"{split}.jsonl", rows)
