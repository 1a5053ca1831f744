"""A custom loss that could not be put into its session may be made again; one that was may not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tinker_ext.clients import losses
from tinker_ext.clients.losses import LossRegistry
from tinker_ext.errors import InvalidInputError, TinkerError


def loss(logprobs: Any) -> Any:
    return logprobs.sum(), {}


class Session:
    """Cannot be opened until it is well."""

    well = False

    async def ensure(self) -> str:
        if not self.well:
            raise TinkerError("no session today")
        return "S"


async def _ready() -> Any:
    return SimpleNamespace(config=SimpleNamespace(custom_loss_server_side=False))


def test_a_loss_that_failed_is_forgotten(monkeypatch):
    """M15: the second try is the first one that counts."""
    monkeypatch.setattr(losses, "trace", lambda fn, name: SimpleNamespace(code="sum"))
    session = Session()
    workspace: Any = SimpleNamespace(session=session, server=SimpleNamespace(ready=_ready))

    async def scenario() -> None:
        registry = LossRegistry(workspace)
        handle = registry.reserve(loss, {"logprobs": 1})
        with pytest.raises(TinkerError, match="no session today"):
            await registry.finish(handle)
        session.well = True
        made = await registry.finish(registry.reserve(loss, {"logprobs": 1}))
        assert (made.session_id, made.loss_id, made.name) == ("S", None, "loss")
        with pytest.raises(InvalidInputError, match="computes the same as loss"):
            registry.reserve(loss, {"logprobs": 1})

    asyncio.run(scenario())
