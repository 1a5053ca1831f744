"""Teach the tiny model to answer `\boxed{n}`, so that reinforcement has rewards to tell apart."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import tinker
from tinker_cookbook import model_info, renderers
from tinker_cookbook.recipes.math_rl.math_env import MathEnv
from tinker_cookbook.supervised.data import conversation_to_datum
from tinker_cookbook.tokenizer_utils import get_tokenizer

STEPS = 80
ANSWERS = ("5", "6", "7")


def main(model: str, log: str) -> None:
    """Train on random answers and record the state as a checkpoint to start from."""
    rng = random.Random(0)
    lines = Path("openai/gsm8k/main/train.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    name = model_info.get_recommended_renderer_name(model)
    renderer = renderers.get_renderer(name, get_tokenizer(model))
    service = tinker.ServiceClient()
    trainer = service.create_lora_training_client(model, rank=16)
    for _ in range(STEPS):
        batch = []
        for row in rng.sample(rows, 8):
            answer = f"\\boxed{{{rng.choice(ANSWERS)}}}"
            chat = [
                {"role": "user", "content": row["question"] + MathEnv.question_suffix()},
                {"role": "assistant", "content": answer},
            ]
            last = renderers.TrainOnWhat.LAST_ASSISTANT_MESSAGE
            batch.append(conversation_to_datum(chat, renderer, 1024, last))
        trained = trainer.forward_backward(batch, "cross_entropy")
        trainer.optim_step(tinker.AdamParams(learning_rate=5e-3)).result()
        trained.result()
    path = trainer.save_state("taught").result().path
    Path(log).mkdir(parents=True, exist_ok=True)
    record = {"name": "taught", "batch": 0, "state_path": path}
    (Path(log) / "checkpoints.jsonl").write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
