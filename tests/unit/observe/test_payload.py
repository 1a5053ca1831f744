"""What is reported about an event, and what never is."""

import json

import httpx
import pytest

from tinker_ext._transport.messages import Lane
from tinker_ext.auth import HOSTED_ORIGIN
from tinker_ext.clients.service import is_wanted
from tinker_ext.config import Config
from tinker_ext.errors import (
    APIConnectionError,
    APIResponseValidationError,
    ConfigurationError,
    DeadlineExceededError,
    RequestFailedError,
    error_for_status,
)
from tinker_ext.observe.reporter import drafts, is_urgent, is_user_error, places_of
from tinker_ext.telemetry import (
    OperationFinished,
    RequestFailed,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
    describe,
)

SECRET = "tml-never-in-telemetry"


def finished(failure, **fields):
    return OperationFinished(
        operation="forward_backward",
        target="m",
        seconds=1.5,
        request_id="r1",
        attempts=2,
        failure=failure,
        **fields,
    )


@pytest.mark.parametrize(
    ("failure", "name", "severity", "user"),
    [
        (RequestFailedError(SECRET, "r1", "user"), "application_error", "WARNING", True),
        (RequestFailedError(SECRET, "r1", "server"), "application_error", "ERROR", False),
        (error_for_status(422, SECRET.encode()), "api_status_error", "WARNING", True),
        (error_for_status(408, SECRET.encode()), "api_status_error", "ERROR", False),
        (error_for_status(503, SECRET.encode()), "api_status_error", "ERROR", False),
        (APIConnectionError(message=SECRET), "connection_error", "ERROR", False),
        (DeadlineExceededError(SECRET), "timeout", "ERROR", False),
        (
            APIResponseValidationError(httpx.Response(200, text=SECRET), SECRET, SECRET),
            "validation_error",
            "ERROR",
            False,
        ),
        (ValueError(SECRET), "api_status_error", "ERROR", False),
    ],
)
def test_a_failed_operation_is_two_events_without_its_message(failure, name, severity, user):
    """M34: names, severities and user errors as in W§4.10; texts stay on the machine."""
    try:
        raise failure
    except Exception as error:
        first, second = drafts(finished(error))
    assert first["event_name"] == f"APIFuture.result_async.{name}"
    assert first["severity"] == severity
    assert first["event_data"]["is_user_error"] is user
    if user:
        assert second["event_name"] == "user_error"
        assert second["severity"] == "WARNING"
    else:
        assert second["event"] == "UNHANDLED_EXCEPTION"
        assert second["error_type"] == type(failure).__name__
    assert is_urgent(second)
    assert SECRET not in json.dumps([first, second])


def test_a_user_error_counts_anywhere_in_the_chain():
    """M34: 400–499 except 408, in causes and contexts too."""
    outer = RuntimeError()
    outer.__cause__ = ValueError()
    outer.__cause__.__context__ = error_for_status(404)
    assert is_user_error(outer)
    outer.__cause__.__context__ = error_for_status(408)
    assert not is_user_error(outer)
    loop = ValueError()
    loop.__context__ = loop
    assert not is_user_error(loop)


@pytest.mark.parametrize(
    ("event", "names"),
    [
        (RequestStarted("asample", Lane.SAMPLE, 1, 10), []),
        (RequestFinished("retrieve_future", Lane.POLL, 1, 408, None, 1.0), []),
        (RequestFinished("retrieve_future", Lane.POLL, 1, None, "APITimeoutError", 1.0), []),
        (
            RequestFinished("retrieve_future", Lane.POLL, 3, 503, None, 1.0),
            ["APIFuture.result_async.api_status_error"],
        ),
        (
            RequestFinished("retrieve_future", Lane.POLL, 3, None, "ConnectError", 1.0),
            ["APIFuture.result_async.connection_error"],
        ),
        (RequestFinished("asample", Lane.SAMPLE, 3, 503, None, 1.0), []),
        (
            RetryScheduled("forward", Lane.TRAIN, 1, "ConnectError", 1.0, "backoff"),
            ["InternalClientHolder.execute_with_retries.exception"],
        ),
        (RetryScheduled("send_telemetry", Lane.TELEMETRY, 1, "503", 1.0, "backoff"), []),
        (
            RequestFailed("session_heartbeat", Lane.SESSION, 1, 1.0, error_for_status(503)),
            ["InternalClientHolder.execute_with_retries.exception"],
        ),
        (
            RequestFailed("get_session", Lane.REST, 1, 1.0, error_for_status(404)),
            ["InternalClientHolder.execute_with_retries.exception", "user_error"],
        ),
        (RequestFailed("get_client_config", Lane.SESSION, 1, 1.0, error_for_status(404)), []),
        (RequestFailed("send_telemetry", Lane.TELEMETRY, 1, 1.0, error_for_status(404)), []),
        (finished(None), []),
    ],
)
def test_what_requests_report(event, names):
    """M34: telemetry never reports itself, and ordinary events are not reported."""
    assert [draft.get("event_name") for draft in drafts(event)] == names


def test_a_failed_sample_that_was_never_accepted_has_its_own_name():
    """M34: RetryHandler.execute.exception for samples the server did not take."""
    event = OperationFinished(
        operation="asample", target="s", seconds=1.0, failure=error_for_status(400)
    )
    assert next(drafts(event))["event_name"] == "RetryHandler.execute.exception"


@pytest.mark.parametrize(
    ("argument", "variable", "consent", "hosted", "wanted"),
    [
        (None, None, None, True, False),
        (None, None, None, False, False),
        (None, None, "1", True, True),
        (None, None, "1", False, False),
        (None, "1", None, False, True),
        (None, "on", None, True, True),
        (None, "0", "1", True, False),
        (True, "0", None, False, True),
        (False, "1", "1", True, False),
    ],
)
def test_off_unless_turned_on_or_hosted_with_consent(argument, variable, consent, hosted, wanted):
    """M34: off unless the user turns it on, or the server is the hosted one and they consented."""
    env = {"TINKER_TELEMETRY": variable, "TINKER_EXT_TELEMETRY_CONSENT": consent}
    config = Config.from_env({name: value for name, value in env.items() if value})
    base_url = f"{HOSTED_ORIGIN}/x" if hosted else "http://127.0.0.1:8000"
    assert is_wanted(argument, config, base_url) is wanted


def test_an_event_as_a_dict_is_json_and_names_the_error():
    """M34: users get structured events they can write anywhere."""
    fields = describe(finished(ValueError(SECRET), metrics={"a": 1.0}))
    assert fields["event"] == "OperationFinished"
    assert fields["error"] == "ValueError"
    assert SECRET not in json.dumps(fields)
    lane = describe(RequestStarted("asample", Lane.SAMPLE, 1, 10))["lane"]
    assert json.dumps(lane) == '"sample"'


def test_an_error_tells_where_in_the_package_it_passed():
    """M29: module, line and function of ours; nothing of the user's files."""
    with pytest.raises(ConfigurationError) as caught:
        Config(retry_base=-1.0)
    places = places_of(caught.value)
    assert places
    assert all(line.startswith("tinker_ext.") for line in places.splitlines())
    assert "test_payload" not in places
    assert places_of(ValueError("never raised")) is None
