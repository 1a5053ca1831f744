"""From events of a client to events of the telemetry endpoint: a pure translation.

Only names, numbers and ids are reported. No message, header, body or traceback of a user leaves the
machine: an error message may quote what the server was sent. Of a traceback the places inside this
package are reported.
"""

from __future__ import annotations

import datetime
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from tinker_ext._transport.events import (
    Event,
    OperationFinished,
    RequestFailed,
    RequestFinished,
    RetryScheduled,
    SessionEnded,
    SessionStarted,
)
from tinker_ext._transport.messages import Lane
from tinker_ext.errors import (
    APIConnectionError,
    APIResponseValidationError,
    APIStatusError,
    DeadlineExceededError,
    RequestFailedError,
)

# These run beside the user's calls: servers may lack them, and nobody waits for their result.
BACKGROUND: Final = frozenset(
    {
        "get_client_config",
        "get_client_dynamic_config",
        "session_heartbeat",
        "finish_session",
        "cancel_future",
        "retrieve_futures",
        "send_telemetry",
    }
)

_DIRECT_LANES: Final = frozenset({Lane.REST, Lane.SESSION})


@attrs.frozen
class Draft:
    """An event without its number; `urgent` ones are sent at once."""

    body: Mapping[str, Any]
    urgent: bool = False


def drafts(event: Event) -> list[Draft]:
    """What to report about an event; usually nothing."""
    return list(_drafts(event))


def _drafts(event: Event) -> Iterator[Draft]:
    if isinstance(event, SessionStarted):
        yield Draft({"event": "SESSION_START", "severity": "INFO"})
    elif isinstance(event, SessionEnded):
        if event.detail is not None and event.status == "errored":
            yield _unhandled(event.detail, "The user's block ended with it.", None)
        yield session_end(event.seconds)
    elif isinstance(event, RetryScheduled):
        if event.lane is not Lane.TELEMETRY:
            yield _retry(event)
    elif isinstance(event, RequestFinished):
        if event.lane is Lane.POLL and _poll_failed(event):
            yield _poll(event)
    elif isinstance(event, RequestFailed):
        if event.lane is not Lane.TELEMETRY and not _is_only_missing(event):
            yield _request_failed(event)
            if event.lane in _DIRECT_LANES and event.operation not in BACKGROUND:
                yield _for_user(event.failure, event.operation)
    elif isinstance(event, OperationFinished) and isinstance(event.failure, Exception):
        yield _operation_failed(event, event.failure)
        yield _for_user(event.failure, event.operation)


def session_end(seconds: float) -> Draft:
    """The end of a session; the duration is Python's timedelta text, as servers expect."""
    duration = str(datetime.timedelta(seconds=max(0.0, seconds)))
    return Draft({"event": "SESSION_END", "severity": "INFO", "duration": duration}, urgent=True)


def is_user_error(error: BaseException | None) -> bool:
    """Whether the user's request was at fault, anywhere in the chain of causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, RequestFailedError) and error.category == "user":
            return True
        status = status_of(error)
        if status is not None and 400 <= status < 500 and status != 408:
            return True
        error = error.__cause__ or error.__context__
    return False


def status_of(error: BaseException) -> int | None:
    """The HTTP status of an error, where it has one."""
    return error.status_code if isinstance(error, APIStatusError) else None


def _generic(name: str, severity: str, data: Mapping[str, Any], *, urgent: bool = False) -> Draft:
    body = {
        "event": "GENERIC_EVENT",
        "severity": severity,
        "event_name": name,
        "event_data": {key: value for key, value in data.items() if value is not None},
    }
    return Draft(body, urgent)


def _unhandled(error_type: str, message: str, places: str | None) -> Draft:
    body: dict[str, Any] = {
        "event": "UNHANDLED_EXCEPTION",
        "severity": "ERROR",
        "error_type": error_type,
        "error_message": message,
    }
    if places:
        body["traceback"] = places
    return Draft(body, urgent=True)


def _for_user(error: BaseException, operation: str) -> Draft:
    """The event for an exception that the user's code gets."""
    name = type(error).__name__
    status = status_of(error)
    if is_user_error(error):
        data = {"error_type": name, "status_code": status, "func": operation}
        return _generic("user_error", "WARNING", data, urgent=True)
    said = "" if status is None else f" with status {status}"
    return _unhandled(name, f"{operation} failed{said}.", places_of(error))


def places_of(error: BaseException) -> str | None:
    """Where in this package an exception passed; no source lines, no files of the user."""
    found = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] == "tinker_ext":
            found.append(f"{module}:{line} in {frame.f_code.co_name}")
    return "\n".join(found) or None


def _retry(event: RetryScheduled) -> Draft:
    data = {
        "func": event.operation,
        "exception_type": None if event.reason.isdigit() else event.reason,
        "status_code": int(event.reason) if event.reason.isdigit() else None,
        "is_retryable": True,
        "is_user_error": False,
        "attempt_count": event.attempt,
    }
    return _generic("InternalClientHolder.execute_with_retries.exception", "WARNING", data)


def _request_failed(event: RequestFailed) -> Draft:
    user = is_user_error(event.failure)
    data = {
        "func": event.operation,
        "exception_type": event.error,
        "status_code": status_of(event.failure),
        "is_retryable": False,
        "is_user_error": user,
        "attempt_count": event.attempts,
        "elapsed_time": round(event.elapsed, 6),
    }
    severity = "WARNING" if user or event.operation in BACKGROUND else "ERROR"
    return _generic("InternalClientHolder.execute_with_retries.exception", severity, data)


def _is_only_missing(event: RequestFailed) -> bool:
    """Whether a server merely lacks something that not every server has."""
    return event.operation in BACKGROUND and is_user_error(event.failure)


def _poll_failed(event: RequestFinished) -> bool:
    if event.status is not None:
        return event.status >= 400 and event.status != 408
    return event.error not in (None, "CancelledError") and "Timeout" not in str(event.error)


def _poll(event: RequestFinished) -> Draft:
    data = {
        "status_code": event.status,
        "exception_type": event.error,
        "iteration": event.attempt - 1,
        "elapsed_time": round(event.elapsed, 6),
    }
    kind = "connection_error" if event.status is None else "api_status_error"
    return _generic(f"APIFuture.result_async.{kind}", "WARNING", data)


def _operation_failed(event: OperationFinished, error: Exception) -> Draft:
    user = is_user_error(error)
    data: dict[str, Any] = {
        "request_id": event.request_id,
        "request_type": event.operation,
        "exception_type": event.error,
        "status_code": status_of(error),
        "is_user_error": user,
        "iteration": event.attempts,
        "elapsed_time": round(event.seconds, 6),
    }
    if event.operation == "asample" and event.request_id is None:
        data |= {"func": "asample", "should_retry": False, "attempt_count": event.attempts}
        return _generic("RetryHandler.execute.exception", "WARNING" if user else "ERROR", data)
    kind = "api_status_error"
    if isinstance(error, RequestFailedError):
        kind = "application_error"
        data["error_category"] = error.category.name
    elif isinstance(error, APIResponseValidationError):
        kind = "validation_error"
    elif isinstance(error, DeadlineExceededError):
        kind = "timeout"
    elif isinstance(error, APIConnectionError):
        kind = "connection_error"
    return _generic(f"APIFuture.result_async.{kind}", "WARNING" if user else "ERROR", data)
