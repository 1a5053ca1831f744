"""Makes a tiny random Qwen3 with a byte-level tokenizer, so that a real engine runs offline.

Run by the server's Python (it needs torch, transformers and tokenizers):
`python tiny_model.py DIRECTORY`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

VOCABULARY = 1024
END = "<|endoftext|>"


def make_tokenizer(folder: Path) -> None:
    """Train byte-level BPE on a file of the standard library, which is always there."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(argparse.__file__)], trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END).save_pretrained(folder)


def make_model(folder: Path) -> None:
    """Save a Qwen3 of two layers with random weights, the same every time."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
        dtype="float32",
    )
    Qwen3ForCausalLM(config).float().save_pretrained(folder)


def main() -> None:
    """Make both in the directory named on the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    make_model(folder)
    make_tokenizer(folder)


if __name__ == "__main__":
    main()
