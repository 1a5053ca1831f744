"""Observers and retry helpers under the names of `tinker.lib`, for code that imports them."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import tinker_ext._statuses as statuses
from tinker_ext._transport.messages import Reply, RetryRule
from tinker_ext._transport.retry import ACCEPT, Attempts, Fail, Retry, Timing, Verdict, run
from tinker_ext.core.retry_config import RetryConfig
from tinker_ext.errors import APIStatusError, RequestFailedError
from tinker_ext.types.enums import QueueState, RequestErrorCategory

T = TypeVar("T")

log = logging.getLogger("tinker_ext.compat")
LOG_EVERY_S = 60.0
DEFAULT = RetryConfig()


class QueueStateObserver(ABC):
    """Is told when a request of a client starts or stops waiting in the server's queue."""

    @abstractmethod
    def on_queue_state_change(
        self, queue_state: QueueState, queue_state_reason: str | None
    ) -> None:
        """Called with the new state and the server's reason, if it gave one."""

    @classmethod
    def __subclasshook__(cls, subclass: type) -> Any:
        # SamplingClient has the method, as in the official SDK, and knows nothing of this module.
        if cls is not QueueStateObserver:
            return NotImplemented
        return callable(getattr(subclass, "on_queue_state_change", None)) or NotImplemented


class QueueStateLogger(QueueStateObserver):
    """Logs waiting at most once a minute, and never the state `active`."""

    def __init__(self, identifier: str, message_prefix: str = "Operation") -> None:
        self._what = f"{message_prefix} of {identifier}"
        self._last = -LOG_EVERY_S

    def on_queue_state_change(
        self, queue_state: QueueState, queue_state_reason: str | None
    ) -> None:
        """Write one line unless the last one is less than a minute old."""
        if queue_state == QueueState.ACTIVE or time.monotonic() - self._last < LOG_EVERY_S:
            return
        self._last = time.monotonic()
        reason = queue_state_reason or "the server gave no reason"
        log.warning("%s waits (%s): %s", self._what, queue_state.value, reason)


def is_retryable_status_code(status_code: int) -> bool:
    """Whether a request that got this status may be sent again."""
    return status_code in statuses.PASSING or status_code == statuses.CONFLICT


def is_user_error(exception: BaseException) -> bool:
    """Whether the request itself is at fault, so that sending it again cannot help."""
    if isinstance(exception, APIStatusError):
        return 400 <= exception.status_code < 500 and exception.status_code not in statuses.PASSING
    return (
        isinstance(exception, RequestFailedError)
        and exception.category == RequestErrorCategory.User
    )


class RetryHandler(Generic[T]):
    """Runs a coroutine function again while its failure allows it, with growing pauses."""

    def __init__(
        self, config: RetryConfig = DEFAULT, name: str = "default", telemetry: Any = None
    ) -> None:
        self.config = config
        self.name = name
        self._telemetry = telemetry
        self._random = random.Random()
        self._slots = asyncio.Semaphore(self.config.max_connections or 1000)

    def get_telemetry(self) -> Any:
        """What was passed as `telemetry`."""
        return self._telemetry

    def _retryable(self, error: Exception) -> bool:
        if isinstance(error, APIStatusError):
            return is_retryable_status_code(error.status_code)
        return isinstance(error, self.config.retryable_exceptions)

    async def execute(self, func: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Await `func(*args, **kwargs)` until it succeeds.

        Raises:
            Exception: What `func` raised last, when sending again cannot help, retries are off or
                `progress_timeout` seconds have passed.
        """
        work = _Work(self, lambda: func(*args, **kwargs))
        async with self._slots:
            await work.make()
            if isinstance(work.verdict, Retry):
                await run(work, work.make)
        if work.error is not None:
            raise work.error
        value: T = work.value
        return value

    def judge(self, error: Exception, failures: int, spent: float) -> Verdict:
        """Decide what follows a failure."""
        config = self.config
        late = config.enable_stuck_detection and spent > config.progress_timeout
        if late or not config.enable_retry_logic or not self._retryable(error):
            return Fail("final")
        return Retry(config.delay(failures, self._random.random()), "configured")


class _Work(Attempts):
    """A coroutine function of the user that is called until it succeeds."""

    def __init__(self, handler: RetryHandler[Any], func: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(handler.name, "", RetryRule.ONCE, math.inf, Timing(), random.Random())
        self._handler = handler
        self._func = func
        self.value: Any = None

    async def make(self) -> None:
        """Call it once and take note of what came."""
        error: Exception | None = None
        try:
            self.value = await self._func()
        except Exception as caught:
            error = caught
        self.verdict = await self.take(None, error)

    async def judge(self, reply: Reply | None, error: Exception | None) -> Verdict:
        """Decide what follows from one call."""
        return ACCEPT if error is None else self._handler.judge(error, self.count, self.elapsed)
