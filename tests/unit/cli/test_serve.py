"""From the options of `serve` to the settings of the server."""

import pytest

from tinker_ext.cli.run import run
from tinker_ext.cli.serve import command


def settings(*words):
    from tinker_ext.cli.serve import settings_from

    context = command.make_context("serve", list(words))
    return settings_from(context.params)


def test_defaults_are_those_of_the_server():
    """M40: `serve` without options is the default server on this machine only."""
    found = settings()
    assert (found.host, found.port, found.era, found.seq, found.seed) == (
        "127.0.0.1", 8000, "both", "dedupe", 0,
    )  # fmt: skip
    assert found.api_keys is None


def test_every_option_arrives(tmp_path):
    """M40: profiles, limits, faults and bugs of the command line reach the settings."""
    found = settings(
        "--port", "0", "--seed", "7", "--model", "a/b", "--model", "c/d", "--state", str(tmp_path),
        "--era", "0.4.1", "--seq", "strict", "--wire", "json", "--without", "telemetry",
        "--without", "client/config", "--latency", "0.5", "--request-latency", "0.25",
        "--sample-limit", "3", "--models-limit", "2", "--rate-limit", "5", "--retry-after", "2",
        "--pause", "paused_capacity:7", "--bug", "adam_bias", "--pending", "try_again",
        "--fault", "status:optim_step:nth=2,status=503", "--fault", "drop_response",
        "--api-key", "tml-x", "--long-poll", "1", "--session-ttl", "9",
    )  # fmt: skip
    assert (found.seed, found.era, found.seq, found.wire) == (7, "0.4.1", "strict", "json")
    assert found.models == {"a/b": None, "c/d": None}
    assert found.without == ("telemetry", "client/config")
    assert (found.latency, found.request_latency) == (0.5, 0.25)
    assert (found.sample_limit, found.models_limit, found.rate_limit) == (3, 2, 5.0)
    assert (found.pause.state, found.pause.seconds) == ("paused_capacity", 7.0)
    assert found.bugs == {"adam_bias"}
    assert [(rule.kind, rule.path) for rule in found.faults] == [
        ("status", "optim_step"),
        ("drop_response", "*"),
    ]
    assert found.api_keys == {"tml-x"}
    assert (found.long_poll, found.session_ttl, found.pending) == (1.0, 9.0, "try_again")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fault", "explode"], "explode"),
        (["--fault", "status:*:wrong=1"], "wrong"),
        (["--bug", "nonsense"], "nonsense"),
        (["--pause", "asleep"], "asleep"),
        (["--model", "a/b=/no/such/dir"], "tokenizer.json"),
    ],
)
def test_nonsense_is_refused_before_serving(words, message, capsys):
    """M36: a wrong value is one line on stderr and exit code 1; no server starts."""
    assert run(["serve", "--port", "0", *words]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("Error: ")
    assert message in shown.err


@pytest.mark.parametrize(
    ("flag", "name"), [("--list-bugs", "adam_bias"), ("--list-faults", "html")]
)
def test_lists(flag, name, capsys):
    """M40: the names of faults and planted mistakes can be looked up."""
    assert run(["serve", flag]) == 0
    assert name in capsys.readouterr().out
