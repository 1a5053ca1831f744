"""Training modes of the cookbook's RL loop that its command lines do not reach."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tinker_cookbook.recipes.math_rl.arithmetic_env import ArithmeticDatasetBuilder
from tinker_cookbook.rl.train import Config, KLReferenceConfig, main

MODEL = "Qwen/Qwen3-8B"


def config(log_path: str, **more: Any) -> Config:
    """A run of two small steps on sums."""
    return Config(
        learning_rate=1e-3,
        dataset_builder=ArithmeticDatasetBuilder(
            batch_size=4,
            model_name_for_tokenizer=MODEL,
            renderer_name="qwen3",
            n_batches=4,
            include_fewshot=True,
            group_size=4,
        ),
        model_name=MODEL,
        renderer_name="qwen3",
        recipe_name="rl_modes",
        max_tokens=4,
        lora_rank=8,
        log_path=log_path,
        max_steps=2,
        save_every=1,
        eval_every=0,
        base_url=os.environ["TINKER_BASE_URL"],
        **more,
    )


def run(mode: str, log_path: str) -> None:
    """Run one mode to its end."""
    if mode == "process_pool":
        spawn = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(max_workers=2, mp_context=spawn)
        asyncio.run(main(config(log_path), rollout_executor=pool))
    elif mode == "kl_penalty":
        reference = KLReferenceConfig(base_model=MODEL)
        made = config(log_path, kl_penalty_coef=0.05, kl_reference_config=reference)
        asyncio.run(main(made))
    elif mode == "tracing":
        asyncio.run(main(config(log_path, enable_trace=True)))
    else:
        raise SystemExit(f"unknown mode {mode!r}")


if __name__ == "__main__":
    run(*sys.argv[1:])
