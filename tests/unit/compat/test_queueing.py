"""Observers and the retry helper under their official names."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest

from tinker_ext.compat.queueing import QueueStateLogger, RetryHandler, is_user_error
from tinker_ext.core.retry_config import RetryConfig
from tinker_ext.errors import BadRequestError, InternalServerError, RequestFailedError
from tinker_ext.types.enums import QueueState, RequestErrorCategory

QUICK = RetryConfig(retry_delay_base=0.0, retry_delay_max=0.0)


def failing(times: int, error: Exception):
    calls = []

    async def work(value: int) -> int:
        calls.append(value)
        if len(calls) <= times:
            raise error
        return value

    return work, calls


def status(code: int, cls: type[Exception]) -> Exception:
    request = httpx.Request("POST", "http://server/api/v1/asample")
    return cls("no", httpx.Response(code, request=request), None)


def test_retry_handler_tries_again():
    """M24: what may help is tried again, with the pauses of its RetryConfig."""
    work, calls = failing(2, status(500, InternalServerError))
    assert asyncio.run(RetryHandler(QUICK).execute(work, 3)) == 3
    assert calls == [3, 3, 3]


@pytest.mark.parametrize("config", [QUICK, RetryConfig(enable_retry_logic=False)])
def test_retry_handler_gives_up(config: RetryConfig):
    """M24: an error of the request itself, or any error with retries off, is raised at once."""
    work, calls = failing(9, status(400, BadRequestError))
    with pytest.raises(BadRequestError):
        asyncio.run(RetryHandler(config).execute(work, 1))
    assert calls == [1]


def test_user_errors():
    """M38: a 400 and a request that failed by the user's fault are user errors; a 500 is not."""
    assert is_user_error(status(400, BadRequestError))
    assert is_user_error(RequestFailedError("no", "r", RequestErrorCategory.User))
    assert not is_user_error(RequestFailedError("no", "r", RequestErrorCategory.Server))
    assert not is_user_error(status(500, InternalServerError))


def test_queue_state_logger_is_quiet(caplog: pytest.LogCaptureFixture):
    """M26: never for `active`, and at most one line a minute."""
    logger = QueueStateLogger("model-1", "Training")
    with caplog.at_level(logging.WARNING, logger="tinker_ext.compat"):
        logger.on_queue_state_change(QueueState.ACTIVE, None)
        assert caplog.messages == []
        for _ in range(3):
            logger.on_queue_state_change(QueueState.PAUSED_CAPACITY, "full house")
    assert len(caplog.messages) == 1
    assert "model-1" in caplog.messages[0]
    assert "full house" in caplog.messages[0]
