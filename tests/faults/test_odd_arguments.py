"""Arguments nobody should pass: each is one of our errors at the call, before a byte is sent."""

from __future__ import annotations

import copy
import datetime as dt
import pickle

import numpy as np
import pytest
from in_process import MODEL

from tinker_ext import (
    AdamParams,
    AdminClient,
    Config,
    Datum,
    ModelInput,
    RetryConfig,
    Run,
    SamplingClient,
    SamplingParams,
    ServiceClient,
)
from tinker_ext.cli.examination import examine
from tinker_ext.core.future import AwaitableConcurrentFuture, LightFuture
from tinker_ext.core.workspace import deadline
from tinker_ext.errors import (
    BadRequestError,
    ConfigurationError,
    InvalidInputError,
    UnknownKeyError,
    WrongTypeError,
)
from tinker_ext.journal import JournalError

HUGE = 10**400


@pytest.fixture(scope="module")
def service():
    with ServiceClient(base_url="embedded") as made:
        yield made


@pytest.fixture(scope="module")
def training(service):
    return service.create_lora_training_client(MODEL, rank=1)


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


@pytest.mark.parametrize("value", ["a/b", "tinker://run/weights/x", "..", "a/../../admin"])
@pytest.mark.parametrize(
    "look_up", ["get_session", "get_training_run", "get_sampler", "list_checkpoints"]
)
def test_an_id_is_one_part_of_a_path(service, look_up, value):
    """M35: the server's "Not Found" for such a path read as "this server has no …"."""
    rest = service.create_rest_client()
    with pytest.raises(InvalidInputError, match="an id is one word without a slash, such as"):
        getattr(rest, look_up)(value)


@pytest.mark.parametrize("name", [".", "..", "a/b", "/etc/passwd", "a\\b", "a\r\nb", "a\0"])
@pytest.mark.parametrize(
    "save", ["save_state", "save_weights_for_sampler", "save_weights_external"]
)
def test_a_checkpoint_name_is_one_part_of_a_path(training, save, name):
    """M37: nothing is saved under a name that leads elsewhere."""
    with pytest.raises(InvalidInputError, match="one part of a path, such as 'step-100', not"):
        getattr(training, save)(name)


@pytest.mark.parametrize("name", [".", ".."])
def test_the_server_refuses_such_a_name_too(service, training, name):
    """M40: whoever asks."""
    body = {"model_id": training.model_id, "path": name, "seq_id": 1}
    with pytest.raises(BadRequestError, match="are not names"):
        service.call("save_weights", **body).result()


@pytest.mark.parametrize("mark", ["\r\n", "\n", "\0", "\x1b[2J", "\u2028"])
def test_a_base_url_with_control_characters(mark):
    """M33, M38: refused at the call, and never written raw into a log or a terminal."""
    url = f"http://127.0.0.1:9{mark}X-Injected: 1"
    with pytest.raises(ConfigurationError, match="line break or another control") as caught:
        ServiceClient(base_url=url, api_key="tml-test")
    assert str(caught.value).isprintable()
    findings = list(examine(url, env={}))
    assert findings[-1].status == "fail"
    assert all(f"{finding.detail}{finding.fix}".isprintable() for finding in findings)


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


TWO = np.array([1, 2])
"""Neither true nor false, not a number, and equal to nothing."""
DATA = [Datum(ModelInput.from_ints([1, 2]), {"target_tokens": [2, 3]})]


@pytest.mark.parametrize("field", ["max_tokens", "seed", "temperature", "top_k", "top_p"])
def test_an_array_as_a_number_of_sampling(field):
    """F50: numpy's own error named neither the field nor the value."""
    with pytest.raises(InvalidInputError, match=rf"{field} must be a .*number, not array"):
        SamplingParams(**{"max_tokens": 3, field: TWO})


@pytest.mark.parametrize("field", ["learning_rate", "beta1", "beta2", "eps", "grad_clip_norm"])
def test_an_array_as_a_number_of_the_optimizer(field):
    """F50: so with the optimizer's."""
    with pytest.raises(InvalidInputError, match=rf"{field} must be a number, not array"):
        AdamParams(**{field: TWO})


@pytest.mark.parametrize("name", ["rank", "seed", "train_mlp", "train_attn", "train_unembed"])
def test_an_array_in_the_shape_of_an_adapter(service, name):
    """F50: a rank, a seed and each switch say what they take."""
    with pytest.raises(InvalidInputError, match=f"{name} must be"):
        service.create_lora_training_client(MODEL, **{name: TWO})


@pytest.mark.parametrize("loss_fn", [TWO, [], {}, {1: 2}])
def test_a_loss_that_is_not_a_name(training, loss_fn):
    """F50: an array, and what cannot be looked up."""
    for call in (training.forward, training.forward_backward):
        with pytest.raises(InvalidInputError, match="Unknown loss_fn"):
            call(DATA, loss_fn)


@pytest.mark.filterwarnings("ignore:`loss_type_input` has no effect")
@pytest.mark.parametrize("name", ["backend", "loss_type_input"])
@pytest.mark.parametrize("value", [TWO, [], {}], ids=str)
def test_options_of_a_custom_loss(training, name, value):
    """F50: each option says what it takes."""
    with pytest.raises(InvalidInputError, match=f"{name} must be"):
        training.forward_backward_custom(DATA, lambda data, logprobs: (0.0, {}), **{name: value})


def test_an_array_of_one_number_as_a_batch(training):
    """F50: it has no length."""
    with pytest.raises(InvalidInputError, match="data must be a list of Datum"):
        training.forward(np.array(5.0), "cross_entropy")


def test_a_loss_input_without_a_name():
    """F50: a number as the key."""
    with pytest.raises(UnknownKeyError, match="under 1 has no known dtype"):
        Datum(ModelInput.from_ints([1]), {1: 2})


def test_an_array_as_a_switch_of_a_sample(service):
    """F50: neither yes nor no."""
    sampler = service.create_sampling_client(base_model=MODEL)
    with pytest.raises(InvalidInputError, match="include_prompt_logprobs must be True or False"):
        sampler.sample(
            ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=1), include_prompt_logprobs=TWO
        )


@pytest.mark.parametrize("token", [5, [], b"secret", TWO], ids=str)
def test_an_access_token_that_is_not_text(service, token):
    """F50: refused before a client is made, and not shown."""
    path, wrong = "tinker://x/weights/y", "weights_access_token must be text or None, not "
    calls = (
        lambda: service.create_training_client_from_state(path, weights_access_token=token),
        lambda: service.create_training_client_from_state_with_optimizer(
            path, weights_access_token=token
        ),
        lambda: service.copy_weights(path, project_id="p", weights_access_token=token),
    )
    for call in calls:
        with pytest.raises(InvalidInputError, match=f"{wrong}{type(token).__name__}"):
            call()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("wire", TWO),
        ("wire", []),
        ("telemetry", TWO),
        ("telemetry", "off"),
        ("run_log", "a" * 300),
        ("run_log", "x\0y"),
        ("run_log", "\ud800"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_arguments_of_a_client(name, value):
    """F50, M33: at the constructor, by name, and in text that can be printed."""
    with pytest.raises(ConfigurationError, match=name) as caught:
        ServiceClient(base_url="embedded", **{name: value})
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("name", "value"),
    [("wire", TWO), ("seq", TWO), ("seq", []), ("tags", np.array(5.0))],
    ids=lambda value: ascii(value)[:20],
)
def test_arrays_in_a_config(name, value):
    """F50: the field says what it takes."""
    with pytest.raises(ConfigurationError, match=f"{name} must be"):
        Config(**{name: value})


@pytest.mark.parametrize("key", [TWO, 5, "tml-\ud800"], ids=ascii)
def test_a_key_beside_a_handle(service, key):
    """F50: a handle takes the key that a client takes."""
    handle = service.create_sampling_client(base_model=MODEL).get_sampler_handle()
    with pytest.raises(ConfigurationError, match="api_key must be text"):
        SamplingClient.from_sampler_handle(handle, api_key=key)


def test_port_0():
    """M33: it went to port 80."""
    with pytest.raises(ConfigurationError, match="port 0"):
        ServiceClient(base_url="http://127.0.0.1:0", api_key="tml-test")
