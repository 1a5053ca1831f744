"""How one sampling client retries; the names and defaults users of the official SDK know."""

from __future__ import annotations

import math
import sys
from typing import Any

import attrs

import tinker_ext._statuses as statuses
from tinker_ext.errors import APIConnectionError, ConfigurationError, RetryableException
from tinker_ext.types.records import flag, number

_MOST_DOUBLINGS = 62


def _number(name: str, default: float, *, optional: bool = False, **bounds: Any) -> Any:
    convert = number(name, error=ConfigurationError, **bounds)
    if optional:
        convert = attrs.converters.optional(convert)
    return attrs.field(default=default, converter=convert)


def _switch(name: str) -> Any:
    return attrs.field(default=True, converter=flag(name, ConfigurationError))


def _retryable() -> tuple[type[Exception], ...]:
    import httpx  # takes longer to load than the rest of a client

    return TimeoutError, APIConnectionError, httpx.TimeoutException, RetryableException


def _errors(value: Any) -> tuple[type[Exception], ...]:
    kinds = (value,) if isinstance(value, type) else value
    if not isinstance(kinds, (tuple, list, set, frozenset)) or not all(
        isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds
    ):
        raise ConfigurationError(f"retryable_exceptions must be a tuple of errors, not {value!r}.")
    return tuple(kinds)


@attrs.frozen
class RetryConfig:
    """Retry behaviour of one sampling client.

    A client without one follows the package: first retry at once, the server's delays, and the
    limits of `Config`.

    Args:
        max_connections: Most samples of this client in flight; None leaves it to the server. The
            limit the server names holds in any case.
        progress_timeout: Seconds without any accepted or finished sample of this client after
            which its samples fail as stuck.
        retry_delay_base: First pause after a failure, in seconds; it doubles with every failure.
            A delay the server names is obeyed instead.
        retry_delay_max: Longest such pause.
        jitter_factor: Part of a pause by which it varies at random, to both sides.
        enable_retry_logic: False raises the first failure. A server that refuses for now (429 or
            402) is waited for all the same.
        enable_stuck_detection: Whether `progress_timeout` applies; the server may turn it off.
        retryable_exceptions: Errors after which a sample is sent again. 408, 409 and 5xx always
            are; a request that failed on the server is with `RequestFailedError` in the tuple.

    Raises:
        ConfigurationError: A value has the wrong type or is out of range.

    Example:
        >>> config = RetryConfig(max_connections=8, retry_delay_base=1.0, jitter_factor=0.0)
        >>> [config.delay(failures, 0.5) for failures in (1, 2, 3, 9)]
        [1.0, 2.0, 4.0, 10.0]
    """

    max_connections: int | None = _number(
        "max_connections", 1000, optional=True, whole=True, least=1
    )
    progress_timeout: float = _number("progress_timeout", 7200.0, least=0, endless=True)
    retry_delay_base: float = _number("retry_delay_base", 0.5, least=0)
    retry_delay_max: float = _number("retry_delay_max", 10.0, least=0, endless=True)
    jitter_factor: float = _number("jitter_factor", 0.25, least=0)
    enable_retry_logic: bool = _switch("enable_retry_logic")
    enable_stuck_detection: bool = _switch("enable_stuck_detection")
    retryable_exceptions: tuple[type[Exception], ...] = attrs.field(
        factory=_retryable, converter=_errors
    )

    def delay(self, failures: int, chance: float) -> float:
        """Pause after so many failures in a row; `chance` in 0…1 picks the jitter."""
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        plain = min(self.retry_delay_base * 2.0**doublings, self.retry_delay_max)
        varied = plain * (1.0 + self.jitter_factor * (2.0 * chance - 1.0))
        return min(max(varied, 0.0), self.retry_delay_max)

    def resends(self, status: int | None, error: Exception | None) -> bool:
        """Whether an attempt that the retry table would repeat is repeated for this client."""
        if status in statuses.REFUSED_FOR_NOW:
            return True
        return self.enable_retry_logic and (error is None or self.retries(error))

    def retries(self, error: Exception) -> bool:
        """Whether a sample is submitted again after this error."""
        return self.enable_retry_logic and isinstance(error, self.retryable_exceptions)


def portable(config: RetryConfig) -> dict[str, Any]:
    """The settings that fit into JSON: all but the exception types."""
    values = attrs.asdict(config, filter=attrs.filters.exclude("retryable_exceptions"))
    # JSON has no infinity; nobody outlives the largest number of seconds either.
    return {
        name: sys.float_info.max if value == math.inf else value for name, value in values.items()
    }
