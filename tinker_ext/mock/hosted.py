"""The rules of the hosted service that a client can run into, each with where it is known from.

`Settings.of_profile("hosted")` and `tinker-ext serve --profile hosted` put all of them in force, so
that a program which passes there is not refused in production. What nobody has published is not
guessed.
"""

from __future__ import annotations

from typing import Any

import attrs

COOKBOOK = "https://github.com/thinking-machines-lab/tinker-cookbook"
FEEDBACK = "https://github.com/thinking-machines-lab/tinker-feedback"
SDK = "https://github.com/thinking-machines-lab/tinker/blob/d595dc2"


@attrs.frozen
class Rule:
    """One rule.

    Attributes:
        name: Short name, also that of the check in the group `hosted` of the conformance suite.
        text: What is refused, and how.
        source: Where this was seen.
    """

    name: str
    text: str
    source: str


RULES = (
    Rule(
        "load_first",
        "load_weights is a client's first request, else 400 "
        '"LoadWeights is not permitted with seq_id N"; load into a new client instead',
        "https://github.com/NovaSky-AI/SkyRL/pull/2071 (tried on production, 2026-08-19)",
    ),
    Rule(
        "rank_cap",
        "a LoRA rank above the model's is 400 "
        '"Lora_config.rank 128 exceeds max LoRA rank 32 for model …"; 32 for mixture-of-experts',
        f"{COOKBOOK}/issues/9 (message and answer of the maintainers, 2025-10-03)",
    ),
    Rule(
        "taken_name",
        "save_weights under a taken name is 409 \"Checkpoint 'N' already exists for model … in "
        'weights. Please choose a different name to avoid overwriting."',
        f"{COOKBOOK}/pull/59 (traceback, 2025-10-30)",
    ),
    Rule(
        "ttl_range",
        "a checkpoint lives for one hour to ten years: ttl_seconds below 3600 or above 315360000 "
        "is 400",
        f"{COOKBOOK}/pull/603 (2026-04-04) and save_weights_request.py of the official SDK 0.36.0 "
        '("1 hour (3600) to 10 years")',
    ),
    Rule(
        "session_cap",
        "about 50 fine-tuning jobs of one account at once; those beyond are not refused: they "
        'wait as paused_rate_limit, reason "concurrent LoRA rate limit hit"',
        f"{COOKBOOK}/issues/730 (the number, 2026-05-21) and /issues/55 (the words, 2025-12-11)",
    ),
    Rule(
        "strict_fields",
        "fields of the other era, or unknown ones, are 422 'Extra inputs are not permitted'",
        f"{SDK}/src/tinker/_models.py (StrictBase, of which every request model is one)",
    ),
    Rule(
        "accepted",
        "a future answers 202, not 200",
        f"{FEEDBACK}/issues/37 (requests to production, 2025-11-27)",
    ),
    Rule(
        "undeclared",
        "client/config does not say what a repeated seq_id means",
        f"{SDK}/src/tinker/types/client_config_response.py (its fields)",
    ),
)

JOBS = 50
MOE_RANK = 32


def overrides() -> dict[str, Any]:
    """Return the settings that put the rules in force."""
    return {
        "era": "0.36.0",
        "seq": "dedupe",
        "declared": False,
        "future_status": 202,
        "load_first": True,
        "taken_names": True,
        "moe_rank_limit": MOE_RANK,
        "models_limit": JOBS,
        "models_limit_state": "paused_rate_limit",
    }
