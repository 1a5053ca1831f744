"""The rules of the hosted service that a client can run into, each with where it is known from.

`Settings.hosted()` and `tinker-ext serve --profile hosted` put all of them in force, so that a
program which passes there is not refused in production. What nobody has published is not guessed.
"""

from __future__ import annotations

from typing import Any

import attrs

COOKBOOK = "https://github.com/thinking-machines-lab/tinker-cookbook"
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
        "ttl_floor",
        "a checkpoint lifetime below one hour (ttl_seconds < 3600) is 400",
        f"{COOKBOOK}/pull/603 (2026-04-04); the upper bound of ten years is ours",
    ),
    Rule(
        "session_cap",
        "about 50 live sessions of one account; the number is as reported, the status (429 with "
        "Retry-After) is ours",
        f"{COOKBOOK}/issues/730 (2026-05-21)",
    ),
    Rule(
        "lora_cap",
        "models beyond those that fit wait as paused_rate_limit, reason "
        '"concurrent LoRA rate limit hit"; reported of samples, and how many fit is ours',
        f"{COOKBOOK}/issues/55 (2025-12-11)",
    ),
    Rule(
        "strict_fields",
        "fields of the other era, or unknown ones, are 422 'Extra inputs are not permitted'",
        f"{SDK}/src/tinker/_models.py (StrictBase, of which every request model is one)",
    ),
    Rule(
        "accepted",
        "a future answers 202, not 200; that what is created answers 201 is as in TuFT 0.2.2",
        f"{SDK}/tests/test_proto_request_conv.py (the server of the SDK's own tests)",
    ),
    Rule(
        "undeclared",
        "client/config does not say what a repeated seq_id means",
        f"{SDK}/src/tinker/types/client_config_response.py (its fields)",
    ),
)

SESSIONS = 50
MODELS = 50
MOE_RANK = 32


def overrides() -> dict[str, Any]:
    """Return the settings that put the rules in force."""
    return {
        "era": "0.36.0",
        "seq": "dedupe",
        "declared": False,
        "created_statuses": True,
        "load_first": True,
        "taken_names": True,
        "moe_rank_limit": MOE_RANK,
        "sessions_limit": SESSIONS,
        "models_limit": MODELS,
        "models_limit_state": "paused_rate_limit",
    }
