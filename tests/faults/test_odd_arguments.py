"""Arguments nobody should pass: each is one of our errors at the call, before a byte is sent."""

from __future__ import annotations

import copy
import datetime as dt
import pickle

import numpy as np
import pytest
from in_process import MODEL

from tinker_ext import AdminClient, ModelInput, RetryConfig, Run, SamplingParams, ServiceClient
from tinker_ext.core.future import AwaitableConcurrentFuture, LightFuture
from tinker_ext.core.workspace import deadline
from tinker_ext.errors import ConfigurationError, InvalidInputError, WrongTypeError
from tinker_ext.journal import JournalError

HUGE = 10**400


@pytest.fixture(scope="module")
def service():
    with ServiceClient(base_url="embedded") as made:
        yield made


@pytest.mark.parametrize("value", [None, 5, b"x", object(), dt.time(1)])
def test_values_that_are_not_dates(service, value):
    """F50: what is not a date says so."""
    admin = AdminClient(service.holder)
    with pytest.raises(InvalidInputError, match="date"):
        admin.get_billing_usage(value, dt.date(2026, 1, 2))
    with pytest.raises(InvalidInputError, match="date"):
        admin.get_billing_usage(dt.date(2026, 1, 2), value)
    if value is not None:
        with pytest.raises(InvalidInputError, match="date"):
            admin.get_audit_log(day=value)


def test_a_day_as_text(service):
    """The audit log takes a date."""
    with pytest.raises(InvalidInputError, match="date"):
        AdminClient(service.holder).get_audit_log(day="2026-01-01")


def test_a_date_outside_of_the_calendar(service):
    """F50: the first hour of the calendar does not exist in UTC."""
    first = dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=5)))
    with pytest.raises(InvalidInputError, match="calendar"):
        AdminClient(service.holder).get_billing_usage(first, dt.date(2026, 1, 2))


def test_half_a_character_in_a_query(service):
    """A surrogate cannot be written into an address."""
    with pytest.raises(InvalidInputError, match="project_id"):
        AdminClient(service.holder).get_current_checkpoint_storage_usage("a\ud800")


@pytest.mark.parametrize("limit", [10**30, -(10**30), 1 << 63])
def test_a_number_beyond_64_bits_in_a_query(service, limit):
    """It was sent, broke the server and was repeated for minutes."""
    with pytest.raises(InvalidInputError, match="limit"):
        service.create_rest_client().list_training_runs(limit)


def test_a_value_that_contains_itself(service):
    """A cyclic body ends in our error, not in RecursionError."""
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(InvalidInputError, match="contains itself"):
        service.call("create_session", tags=[], user_metadata={"a": cycle}, sdk_version="1").result(
            10
        )


@pytest.mark.parametrize(
    "options",
    [
        {"retry_delay_base": HUGE},
        {"retry_delay_base": np.array([1, 2])},
        {"progress_timeout": 1j},
        {"max_connections": "no"},
        {"enable_retry_logic": "no"},
        {"enable_stuck_detection": 3},
        {"jitter_factor": "no"},
    ],
    ids=str,
)
def test_retry_config(options):
    """Each field says what it takes; "no" is not a way to say False."""
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        RetryConfig(**options)


def test_switches_of_retry_config_take_numpy_and_numbers():
    """0, 1 and numpy's bools are as good as False and True."""
    config = RetryConfig(enable_retry_logic=np.bool_(False), enable_stuck_detection=0)
    assert (config.enable_retry_logic, config.enable_stuck_detection) == (False, False)


@pytest.mark.parametrize("seconds", ["2", None, 0, -1, float("nan"), HUGE, [1], 1j])
def test_deadline(seconds):
    """`deadline()` takes seconds."""
    with (
        pytest.raises(InvalidInputError, match="deadline must be more than 0 seconds"),
        deadline(seconds),
    ):
        pass


@pytest.mark.parametrize("timeout", ["x", b"1", [2]])
def test_result_takes_seconds(timeout):
    """`result("x")`, `exception("x")` of a pending future."""
    future: LightFuture[int] = LightFuture()
    for wait in (future.result, future.exception, AwaitableConcurrentFuture(future).result):
        with pytest.raises(WrongTypeError, match="timeout must be a number"):
            wait(timeout)


@pytest.mark.parametrize("count", ["3", 2.5, None, True, -1])
def test_steps_of_a_run(tmp_path, count):
    """`Run.steps` counts; a wrong count fails at the call, not at the first step."""
    with Run(tmp_path / "run", base_model=MODEL, base_url="embedded") as run:
        with pytest.raises(InvalidInputError, match="count"):
            run.steps(count)
        with pytest.raises(InvalidInputError, match="count"):
            run.steps_async(count)
        assert run.next_step == 0


@pytest.mark.parametrize("every", ["2", 1.5, 0, True])
def test_save_every_of_a_run(tmp_path, every):
    """So does `save_every`."""
    with pytest.raises(InvalidInputError, match="save_every"):
        Run(tmp_path / "run", base_model=MODEL, base_url="embedded", save_every=every)


def test_a_run_without_a_file():
    """A journal needs a file."""
    with pytest.raises(JournalError, match="path"):
        Run(None, base_model=MODEL, base_url="embedded")


def test_pickling_says_what_to_do_instead(service):
    """A client or a future in a pickle names itself and the way out; a copy is the thing itself."""
    training = service.create_lora_training_client(MODEL, rank=1)
    sampler = service.create_sampling_client(base_model=MODEL)
    future = sampler.sample(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=1))
    things = {
        "ServiceClient": service,
        "TrainingClient": training,
        "RestClient": service.create_rest_client(),
        "LightFuture": future,
        "AwaitableConcurrentFuture": service.call("health_check"),
    }
    for name, thing in things.items():
        with pytest.raises(TypeError, match=f"{name} belongs to its process.*(there|path|result)"):
            pickle.dumps(thing)
        assert copy.copy(thing) is thing
        assert copy.deepcopy([thing])[0] is thing
    future.result(300)
