"""How one sampling client retries; the names and defaults users of the official SDK know."""

from __future__ import annotations

import attrs
import httpx

from tinker_ext.errors import APIConnectionError, RetryableException

RETRYABLE = (TimeoutError, APIConnectionError, httpx.TimeoutException, RetryableException)


@attrs.frozen
class RetryConfig:
    """Retry behaviour of a sampling client.

    Args:
        max_connections: Most samples of this client in flight; None leaves it to the server.
        progress_timeout: Seconds without any success after which sampling is stuck.
        retry_delay_base: Kept for compatibility; the one retry table decides delays.
        retry_delay_max: Kept for compatibility.
        jitter_factor: Kept for compatibility.
        enable_retry_logic: Whether an expired sample is submitted again.
        enable_stuck_detection: Whether `progress_timeout` applies.
        retryable_exceptions: Kept for compatibility.
    """

    max_connections: int | None = attrs.field(default=1000)
    progress_timeout: float = 7200.0
    retry_delay_base: float = 0.5
    retry_delay_max: float = 10.0
    jitter_factor: float = 0.25
    enable_retry_logic: bool = True
    enable_stuck_detection: bool = True
    retryable_exceptions: tuple[type[Exception], ...] = RETRYABLE

    @max_connections.validator
    def _check(self, _: object, value: int | None) -> None:
        if value is not None and value <= 0:
            raise ValueError(f"max_connections must be more than 0, got {value}")
