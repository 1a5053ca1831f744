"""The door: what this server generation offers, who is let in, and how fast."""

from __future__ import annotations

import asyncio
from hmac import compare_digest
from typing import Any

from tinker_ext.mock import eras
from tinker_ext.mock.contract import Contract, Operation
from tinker_ext.mock.handlers.service import token_is_good
from tinker_ext.mock.log import matches
from tinker_ext.mock.messages import HttpError, Request
from tinker_ext.mock.routing import Endpoint
from tinker_ext.mock.state.world import World

SIGNED = ("/_mock/archives/", "/_mock/traces/")
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
            # A signed URL is its own key; everything else here can read and change all state.
            if not request.path.startswith(SIGNED):
                self._check_key(request)
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
        """Refuse fields of another generation than the server's.

        Raises:
            HttpError: 422, as a strict server answers.
        """
        wrong = eras.faults(self._settings.era, operation.operation_id, body)
        if wrong:
            raise HttpError(422, wrong)

    def _check_key(self, request: Request) -> None:
        keys = self._settings.api_keys
        if keys is None:
            return
        given = request.headers.get("x-api-key", "")
        if any(compare_digest(given.encode(), key.encode()) for key in keys):
            return
        now = self._world.clock.unix()
        if given.count(".") == 2 and token_is_good(given, self._world.secret, now):
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
