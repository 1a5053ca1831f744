"""What is run end to end: each recipe or training mode, its arguments and what must come out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

LAST = 60
THINKING = "Qwen/Qwen3-8B"
BASE = "Qwen/Qwen3-8B-Base"

Rows = list[dict[str, Any]]


class Outcome(NamedTuple):
    """What a run left behind."""

    log: Path
    metrics: Rows
    checkpoints: Rows
    requests: dict[str, int]


class Scenario(NamedTuple):
    """One run of a program.

    Attributes:
        name: Name on the command line and in the report.
        program: `-m module` or a script of this folder, then arguments; `{log}` is filled in.
        check: Raises AssertionError when the outcome is wrong.
        short: Whether the short form runs it.
        log: Name of the log directory when it is shared with another scenario.
        kill_at: The program is killed once this checkpoint is recorded.
    """

    name: str
    program: tuple[str, ...]
    check: Callable[[Outcome], None]
    short: bool = True
    log: str = ""
    kill_at: str = ""


def rows(path: Path) -> Rows:
    """The rows of a JSONL file; none when there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _steps(outcome: Outcome, key: str) -> list[float]:
    values = [row[key] for row in outcome.metrics if key in row]
    assert all(math.isfinite(value) for value in values), f"{key} is not finite: {values}"
    return values


def learns(key: str, steps: int) -> Callable[[Outcome], None]:
    """The metric `key` was logged `steps` times and ended lower than it began."""

    def check(outcome: Outcome) -> None:
        values = _steps(outcome, key)
        assert len(values) == steps, f"{key} logged {len(values)} times, not {steps}"
        assert values[-1] < values[0], f"{key} did not fall: {values}"
        assert outcome.checkpoints, "no checkpoint was recorded"
        assert outcome.requests["optim_step"] >= steps

    return check


def trains(steps: int, *keys: str, files: tuple[str, ...] = ()) -> Callable[[Outcome], None]:
    """`steps` steps were logged, each with every metric of `keys`, and `files` are there."""

    def check(outcome: Outcome) -> None:
        for key in keys:
            assert len(_steps(outcome, key)) >= steps, f"{key} missing in {outcome.metrics}"
        for operation in ("forward_backward", "optim_step"):
            count = outcome.requests.get(operation, 0)
            assert count >= steps, f"{operation} sent {count} times, expected {steps}"
        assert outcome.requests.get("asample", 0) > 0, "nothing was sampled"
        for name in files:
            assert (outcome.log / name).stat().st_size > 0, f"{name} is missing or empty"

    return check


def interrupted(outcome: Outcome) -> None:
    """The first run died after its first checkpoint."""
    assert [row["name"] for row in outcome.checkpoints][:1] == ["000002"]
    assert outcome.checkpoints[-1]["name"] != "final"


def resumed(outcome: Outcome) -> None:
    """The second run went on at the last checkpoint, with the optimizer, and came to the end."""
    steps = [row["step"] for row in outcome.metrics if _NLL in row]
    assert steps[-1] == LAST - 1, f"steps logged: {steps}"
    done = outcome.requests["optim_step"]
    names = [row["name"] for row in outcome.checkpoints]
    assert f"{LAST - done:06d}" in names, f"{done} steps were trained after {names}"
    assert 0 < done < LAST, "the second run trained from the start"
    assert outcome.requests["load_weights"] == 1
    assert names[-1] == "final"


def taught(outcome: Outcome) -> None:
    """The model that reinforcement starts from was saved."""
    assert outcome.checkpoints[0]["state_path"].startswith("tinker://")


def rolling(outcome: Outcome) -> None:
    """Rolling checkpoints were saved between the periodic ones."""
    learns(_NLL, 4)(outcome)
    assert any(row.get("rolling") for row in outcome.checkpoints), outcome.checkpoints
    assert outcome.checkpoints[-1]["name"] == "final"


def evaluated(outcome: Outcome) -> None:
    """Held-out loss was measured by forward calls as well."""
    learns("train_mean_nll", 6)(outcome)
    assert any("test/nll" in row or "eval/nll" in row for row in outcome.metrics), outcome.metrics


def _recipe(module: str, *arguments: str) -> tuple[str, ...]:
    return ("-m", f"tinker_cookbook.recipes.{module}", "log_path={log}", *arguments)


def _rl(*arguments: str) -> tuple[str, ...]:
    size = ("groups_per_batch=4", "group_size=4", "max_tokens=4", "lora_rank=8", "max_steps=3")
    return _recipe(
        "math_rl.train",
        f"model_name={THINKING}",
        "learning_rate=1e-3",
        "behavior_if_log_dir_exists=delete",
        *size,
        *arguments,
    )


def _sl(*arguments: str) -> tuple[str, ...]:
    return _recipe(
        "chat_sl.train",
        f"model_name={THINKING}",
        "batch_size=8",
        "max_length=256",
        "lora_rank=8",
        "learning_rate=3e-3",
        *arguments,
    )


def _tiny(module: str, *arguments: str) -> tuple[str, ...]:
    size = ("max_tokens=8", "max_steps=1", "eval_every=0")
    return _recipe(module, "behavior_if_log_dir_exists=delete", *size, *arguments)


_LOOP = (f"model_name={BASE}", "lora_rank=8", "save_every=2")
_NLL = "train_mean_nll"

SCENARIOS = (
    Scenario(
        "sl_loop",
        _recipe("sl_loop", *_LOOP, "batch_size=8", "max_steps=6", "learning_rate=3e-3"),
        learns(_NLL, 6),
    ),
    Scenario("rl_loop_teach", ("teach.py", BASE, "{log}"), taught, log="rl_loop"),
    Scenario(
        "rl_loop",
        _recipe("rl_loop", *_LOOP, "batch_size=4", "group_size=8", "max_tokens=16", "max_steps=4"),
        trains(2, "reward/total"),
        log="rl_loop",
    ),
    Scenario(
        "chat_sl",
        _sl("behavior_if_log_dir_exists=delete", "max_steps=6", "eval_every=3", "save_every=3"),
        evaluated,
    ),
    Scenario(
        "chat_sl_file",
        _sl("behavior_if_log_dir_exists=delete", "dataset=chats.jsonl", "max_steps=4"),
        learns(_NLL, 4),
        short=False,
    ),
    Scenario(
        "chat_sl_tulu",
        _sl("behavior_if_log_dir_exists=delete", "dataset=tulu3", "max_steps=3", "eval_every=0"),
        learns(_NLL, 3),
        short=False,
    ),
    Scenario(
        "resume_first",
        _sl("behavior_if_log_dir_exists=delete", "num_epochs=20", "save_every=2", "eval_every=0"),
        interrupted,
        log="resume",
        kill_at="000002",
    ),
    Scenario(
        "resume_second",
        _sl(
            "behavior_if_log_dir_exists=resume",
            "num_epochs=20",
            "save_every=20",
            "eval_every=0",
            f"max_steps={LAST}",
        ),
        resumed,
        log="resume",
    ),
    Scenario("math_rl", _rl(), trains(3, "env/all/reward/total")),
    Scenario(
        "math_rl_gsm8k",
        _rl("env=gsm8k", "max_steps=2", "eval_every=1", "compute_post_kl=True"),
        trains(2, "env/all/reward/total"),
        short=False,
    ),
    Scenario(
        "math_rl_deepmath",
        _rl("env=deepmath", "max_steps=2", "num_substeps=2"),
        trains(2, "env/all/reward/total"),
        short=False,
    ),
    Scenario(
        "rl_stream_ppo",
        _rl(
            "loss_fn=ppo",
            "stream_minibatch_config.groups_per_batch=4",
            "stream_minibatch_config.num_minibatches=2",
        ),
        trains(3, "env/all/reward/total"),
    ),
    Scenario("rl_async", _rl("max_steps_off_policy=2"), trains(3, "env/all/reward/total")),
    Scenario(
        "rl_cispo",
        _rl("loss_fn=cispo", "max_steps=2"),
        trains(2, "env/all/reward/total"),
        short=False,
    ),
    Scenario("rl_process_pool", ("rl_modes.py", "process_pool", "{log}"), trains(2)),
    Scenario(
        "rl_kl_penalty",
        ("rl_modes.py", "kl_penalty", "{log}"),
        trains(2, "kl_policy_base"),
    ),
    Scenario(
        "rl_tracing",
        ("rl_modes.py", "tracing", "{log}"),
        trains(2, files=("trace_events.jsonl",)),
    ),
    Scenario(
        "dpo",
        _recipe(
            "preference.dpo.train",
            f"model_name={THINKING}",
            "batch_size=8",
            "max_length=256",
            "learning_rate=1e-3",
            "behavior_if_log_dir_exists=delete",
            "max_steps=3",
        ),
        learns("dpo_loss", 3),
    ),
    Scenario(
        "rolling_checkpoints",
        _sl(
            "behavior_if_log_dir_exists=delete",
            "max_steps=4",
            "save_every=2",
            "rolling_save_every=1",
            "rolling_ttl_seconds=3600",
        ),
        rolling,
        short=False,
    ),
    Scenario(
        "guess_number",
        _tiny("multiplayer_rl.guess_number.train", "batch_size=2", "group_size=2"),
        trains(0),
        short=False,
    ),
    Scenario(
        "shorter",
        _tiny("preference.shorter.train", "batch_size=2", "group_size=4"),
        trains(1),
        short=False,
    ),
    Scenario(
        "on_policy_distillation",
        _tiny(
            "distillation.on_policy_distillation",
            "dataset=tulu3",
            "groups_per_batch=2",
            "group_size=2",
            "lora_rank=8",
        ),
        trains(1, "teacher_kl"),
        short=False,
    ),
)
