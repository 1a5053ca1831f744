"""The door: what this server generation offers, who is let in, and how fast."""

from __future__ import annotations

import asyncio
from typing import Any

from tinker_ext.mock.contract import Contract, Operation
from tinker_ext.mock.handlers.service import token_is_good
from tinker_ext.mock.log import matches
from tinker_ext.mock.messages import HttpError, Request
from tinker_ext.mock.routing import Endpoint
from tinker_ext.mock.state.world import World

# Keys a strict server of the first era has never heard of (a dot leads into an object).
NEW_KEYS = {
    "create_session": ("project_id", "display_name"),
    "create_model": ("optimizer_config",),
    "optim_step": ("optimizer_params", "adam_params.weight_decay", "adam_params.grad_clip_norm"),
    "save_weights": ("ttl_seconds", "overwrite", "user_metadata"),
    "save_weights_for_sampler": ("ttl_seconds", "user_metadata"),
    "load_weights": (
        "session_id",
        "model_seq_id",
        "base_model",
        "user_metadata",
        "optimizer",
        "optimizer_config",
        "weights_access_token",
    ),
    "sample": (
        "topk_sample_logprobs",
        "target_prompt_logprobs",
        "prompt_alt_tokens_k",
        "prompt_logprobs_last_n",
        "record_stability_info",
    ),
    "retrieve_future": ("allow_metadata_only",),
    "send_telemetry": ("process_uuid",),
}
LIMITED = ("asample", "forward", "forward_backward", "optim_step")


class Gate:
    """Admit requests by era, missing paths, key, rate and latency."""

    def __init__(self, world: World, contract: Contract) -> None:
        self._world = world
        self._contract = contract
        self._settings = world.settings
        self._tokens = world.settings.rate_limit or 0.0
        self._refilled = 0.0

    async def admit(self, found: Endpoint, request: Request) -> None:
        """Let a request in.

        Raises:
            HttpError: 401, 404 or 429.
        """
        if not found.documented:
            return
        if self._settings.request_latency:
            await asyncio.sleep(self._settings.request_latency)
        operation = self._contract.operations[found.method, found.template]
        era = self._settings.era
        if era != "both" and operation.eras and era not in operation.eras:
            raise HttpError(404, "Not Found")
        if any(matches(request.path, pattern) for pattern in self._settings.without):
            raise HttpError(404, "Not Found")
        if operation.operation_id != "health_check":
            self._check_key(request)
        self._check_rate(request)

    def check_era(self, operation: Operation, body: Any) -> None:
        """Refuse keys newer than the server.

        Raises:
            HttpError: 422, as a strict server of the first era answers.
        """
        if self._settings.era != "0.4.1":
            return
        wrong = []
        for key in NEW_KEYS.get(operation.operation_id, ()):
            steps = key.split(".")
            value = body
            for step in steps[:-1]:
                value = value.get(step) or {}
            if steps[-1] in value:
                text = "Extra inputs are not permitted"
                wrong.append({"loc": ["body", *steps], "msg": text, "type": "extra_forbidden"})
        if wrong:
            raise HttpError(422, wrong)

    def _check_key(self, request: Request) -> None:
        keys = self._settings.api_keys
        if keys is None:
            return
        given = request.headers.get("x-api-key", "")
        if given in keys:
            return
        now = self._world.clock.unix()
        if given.count(".") == 2 and token_is_good(given, self._settings.seed, now):
            return
        raise HttpError(401, "the API key is missing or unknown; send it in X-API-Key")

    def _check_rate(self, request: Request) -> None:
        rate = self._settings.rate_limit
        if rate is None or not any(matches(request.path, name) for name in LIMITED):
            return
        now = self._world.clock.now()
        self._tokens = min(rate, self._tokens + (now - self._refilled) * rate)
        self._refilled = now
        if self._tokens < 1:
            retry = f"{self._settings.retry_after:g}"
            raise HttpError(429, f"more than {rate:g} requests a second", {"retry-after": retry})
        self._tokens -= 1
