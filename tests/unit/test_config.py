"""Settings: defaults, environment, overrides, and secrets that stay secret."""

import copy
import math
import pickle

import attrs
import numpy as np
import pytest

from tinker_ext.config import HOSTED_BASE_URL, Config, Secret
from tinker_ext.errors import ConfigurationError

FIELDS = attrs.fields(Config)


def test_defaults():
    """M21: heartbeat every 10 s, warning after 120 s; the hosted service by default."""
    config = Config.from_env({})
    assert config.base_url == HOSTED_BASE_URL
    assert (config.heartbeat_interval, config.heartbeat_warn_after) == (10, 120)
    assert config.api_key is None
    assert config.telemetry is None


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("TINKER_BASE_URL", "http://host:1/x/", "base_url", "http://host:1/x"),
        ("TINKER_BASE_URL", "", "base_url", HOSTED_BASE_URL),
        ("TINKER_API_KEY", "tml-1", "api_key", Secret("tml-1")),
        ("TINKER_CREDENTIAL_CMD", "print-key", "credential_cmd", "print-key"),
        ("TINKER_PROJECT_ID", "p", "project_id", "p"),
        ("TINKER_TAGS", "a, b,,a", "tags", ("a", "b")),
        ("TINKER_TAGS", "", "tags", ()),
        ("TINKER_TELEMETRY", "YES", "telemetry", True),
        ("TINKER_TELEMETRY", "0", "telemetry", False),
        ("TINKER_LOG", "DEBUG", "log_level", "debug"),
        ("CLOUDFLARE_ACCESS_CLIENT_ID", "id", "cloudflare_client_id", "id"),
        ("CLOUDFLARE_ACCESS_CLIENT_SECRET", "s", "cloudflare_client_secret", Secret("s")),
        ("TINKER_EXT_WIRE", "JSON", "wire", "json"),
        ("TINKER_EXT_DIALECT_FILE", "d.json", "dialect_file", "d.json"),
        ("TINKER_EXT_POLL_TIMEOUT", "2.5", "poll_timeout", 2.5),
        ("TINKER_EXT_WAIT_DEADLINE", "never", "wait_deadline", None),
        ("TINKER_EXT_CHUNK_DATUMS", "7", "chunk_datums", 7),
    ],
)
def test_environment(variable, text, field, value):
    """M33: every variable reaches its field; an empty one counts as not set."""
    assert getattr(Config.from_env({variable: text}), field) == value


def test_every_field_has_its_own_variable():
    """M33: no knob is out of reach of the environment and none shares a variable."""
    variables = [field.metadata["env"] for field in FIELDS]
    assert all(variables)
    assert len(set(variables)) == len(variables)


def test_arguments_win_unless_none():
    """M33: an argument beats the environment; None means "not given"."""
    env = {"TINKER_BASE_URL": "http://env", "TINKER_API_KEY": "env-key"}
    config = Config.from_env(env, base_url="http://arg", api_key=None)
    assert config.base_url == "http://arg"
    assert config.api_key == Secret("env-key")


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("TINKER_EXT_POLL_TIMEOUT", "soon"),
        ("TINKER_EXT_POLL_TIMEOUT", "-1"),
        ("TINKER_EXT_RETRY_ATTEMPTS", "0"),
        ("TINKER_TELEMETRY", "maybe"),
        ("TINKER_EXT_WIRE", "xml"),
    ],
)
def test_bad_values_are_refused(variable, text):
    """M33: a wrong value fails at once and is named."""
    with pytest.raises(ConfigurationError) as caught:
        Config.from_env({variable: text})
    name = next(field.name for field in FIELDS if field.metadata["env"] == variable)
    assert variable in str(caught.value) or name in str(caught.value)


OPTIONAL = {"wait_deadline", "retry_attempts", "chunk_datums", "chunk_size"}
NUMBERS = [field.name for field in FIELDS if isinstance(field.default, int | float)]
NUMBERS = [*(set(NUMBERS) - {"telemetry_consent"} | OPTIONAL)]
WHOLE = {"retry_attempts", "chunk_datums", "chunk_size", "sample_concurrency", "poll_connections"}
WHOLE |= {name for name in NUMBERS if name.endswith("_in_flight")}


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_only_numbers_that_fit_are_taken(name):
    """M33: what is not a number bites at construction, by name, and not in the midst of a run."""
    wrong = ["5", True, [], math.nan, 0, -1]
    wrong += [1.5, math.inf] if name in WHOLE else []
    wrong += [] if name in OPTIONAL else [None]
    for value in wrong:
        with pytest.raises(ConfigurationError, match=f"{name} must be .*(above 0|or more)"):
            Config(**{name: value})
    for value in (1, np.int64(3), *([] if name in WHOLE else [0.5, np.float32(2.5), math.inf])):
        assert getattr(Config(**{name: value}), name) == value
    if name in OPTIONAL:
        assert getattr(Config(**{name: None}), name) is None


@pytest.mark.parametrize("name", ["heartbeat_interval", "stall_warning_period"])
def test_a_period_that_would_be_a_storm_is_refused(name):
    """M33: a heartbeat each nanosecond is thousands of requests a second."""
    with pytest.raises(ConfigurationError, match=f"{name} must be .*0.05 or more"):
        Config(**{name: 1e-9})
    Config(**{name: 0.05})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("telemetry", "maybe"),
        ("telemetry", 1),
        ("telemetry_consent", None),
        ("tags", 5),
        ("tags", ["a", 5]),
        ("tags", None),
        ("api_key", 5),
        ("cloudflare_client_secret", b"x"),
        ("cloudflare_client_id", 5),
        ("project_id", 5),
        ("log_level", 5),
        ("credential_cmd", ["echo", "hush"]),
        ("dialect_file", 5),
        ("fleet", 5),
        ("fleet", "\0"),
        ("fleet", " "),
    ],
)
def test_a_value_of_another_kind_is_refused(name, value):
    """M33: at construction, by name, without showing what may be a secret."""
    with pytest.raises(ConfigurationError, match=f"^{name} must be ") as caught:
        Config(**{name: value})
    assert "hush" not in str(caught.value)


def test_a_folder_of_a_fleet_may_have_an_odd_name():
    """M33: what the system takes as a name is taken, a space that does not break included."""
    assert Config(fleet="/shared/my\u00a0fleet").fleet == "/shared/my\u00a0fleet"


def test_unknown_setting():
    """M33: a typo in a setting is refused."""
    with pytest.raises(TypeError):
        Config.from_env({}, heart_beat=1)


SECRET_ENV = {
    "TINKER_API_KEY": "tml-hidden",
    "TINKER_CREDENTIAL_CMD": "echo tml-hidden",
    "CLOUDFLARE_ACCESS_CLIENT_SECRET": "tml-hidden",
}


def test_secrets_are_not_shown():
    """M33: no repr, str, format or traceback of a Config shows a key."""
    config = Config.from_env(SECRET_ENV)
    assert config.api_key is not None
    for text in (repr(config), str(config), f"{config.api_key}", repr(config.api_key)):
        assert "tml-hidden" not in text
    assert config.api_key.reveal() == "tml-hidden"
    assert "tml-hidden" not in config.api_key.fingerprint


def test_pickle_carries_no_secret(monkeypatch):
    """M33: a pickled Config has no key; the process that loads it reads its own."""
    data = pickle.dumps(Config.from_env(SECRET_ENV, heartbeat_interval=3))
    assert b"tml-hidden" not in data
    monkeypatch.setenv("TINKER_API_KEY", "tml-mine")
    again = pickle.loads(data)
    assert again.heartbeat_interval == 3
    assert again.api_key == Secret("tml-mine")


def test_what_travels_is_what_was_set(monkeypatch):
    """M33: JSON values without a secret; the rest is the other process's own."""
    values = Config.from_env(SECRET_ENV, wait_deadline=0.5, tags=["a"], retry_base=1).portable()
    assert values == {"wait_deadline": 0.5, "tags": ["a"], "retry_base": 1}
    assert Config(wait_deadline=None).portable() == {"wait_deadline": None}
    monkeypatch.setenv("TINKER_API_KEY", "tml-mine")
    monkeypatch.setenv("TINKER_EXT_POLL_TIMEOUT", "7")
    again = Config.from_portable({**values, "newer": 1, "api_key": "tml-forged"}, "http://x")
    assert again == Config(
        base_url="http://x",
        api_key="tml-mine",
        poll_timeout=7,
        wait_deadline=0.5,
        tags=("a",),
        retry_base=1,
    )
    for bad in ({"wait_deadline": "soon"}, {"tags": 3}, {"wire": "morse"}, []):
        with pytest.raises(ConfigurationError):
            Config.from_portable(bad)


def test_a_bare_secret_does_not_pickle():
    """M33: a key cannot slip into another object's pickle."""
    with pytest.raises(TypeError, match="does not pickle"):
        pickle.dumps(Secret("x"))


def test_copies_keep_the_key():
    """M33: copying inside a process loses nothing."""
    config = Config.from_env(SECRET_ENV)
    assert copy.deepcopy(config) == config
    assert attrs.evolve(config, wire="json").api_key == config.api_key


def test_cloudflare_headers():
    """M33: Cloudflare Access headers come from the environment, and only then."""
    env = {"CLOUDFLARE_ACCESS_CLIENT_ID": "i", "CLOUDFLARE_ACCESS_CLIENT_SECRET": "s"}
    assert Config.from_env({}).extra_headers() == {}
    assert Config.from_env(env).extra_headers() == {
        "CF-Access-Client-Id": "i",
        "CF-Access-Client-Secret": "s",
    }
