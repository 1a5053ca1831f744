"""M28, M40: the conformance suite passes the embedded server and finds every planted mistake."""

import itertools
import json
from xml.etree import ElementTree

import attrs
import httpx
import pytest

from tinker_ext.conform import Report, dialect, matrix, names, run, to_junit
from tinker_ext.conform.consequences import consequence
from tinker_ext.conform.registry import CHECKS
from tinker_ext.errors import InvalidInputError
from tinker_ext.mock import BUGS, Settings, create_app, hosted

# Planted mistake → a check that must find it.
FOUND_BY = {
    "adam_bias": "adam.trajectory",
    "capability_missing": "service.capabilities",
    "category_case": "future.failure",
    "checkpoint_no_optimizer": "checkpoint.optimizer",
    "chunk_mean": "gradient.chunks",
    "dedupe_any_body": "seq.conflict",
    "delete_ignored": "rest.delete",
    "error_shape": "future.failure",
    "forward_trains": "gradient.forward",
    "grad_clip_ignored": "adam.grad_clip_norm",
    "heartbeat_gone": "service.heartbeat",
    "load_ignored": "checkpoint.weights",
    "logprob_shift": "score.sampled",
    "lora_seed_ignored": "gradient.lora_seed",
    "loss_scale": "loss.sum",
    "lr_ignored": "adam.learning_rate",
    "max_tokens_plus_one": "sample.max_tokens",
    "metric_suffix": "loss.sum",
    "metrics_empty": "loss.sum",
    "negative_weight_clamped": "gradient.sign",
    "no_accumulate": "gradient.accumulate",
    "num_samples_one": "sample.num_samples",
    "outputs_reversed": "loss.order",
    "pagination_off": "rest.pages",
    "prompt_logprob_shift": "score.prompt",
    "publish_no_conflict": "rest.publish",
    "sampler_stale": "score.trained",
    "seed_ignored": "sample.seed",
    "seq_double": "seq.repeat",
    "sequence_ids_missing": "sample.sequence_ids",
    "stop_ignored": "sample.stop",
    "temperature_ignored": "sample.temperature",
    "ttl_ignored": "rest.ttl",
    "unknown_model_accepted": "error.base_model",
    "weight_decay_ignored": "adam.weight_decay",
    "weights_ignored": "gradient.scale",
}


NUMBERS = itertools.count()


def examine(only=None, **settings):
    """Run the suite on an embedded server with these settings."""
    app = create_app(Settings(**{"inline_engine": True, "long_poll": 0.2, **settings}))
    try:
        return run(
            # What is found out about a server is remembered by its URL.
            f"http://server-{next(NUMBERS)}",
            only,
            api_key="tml-test",
            patience=20.0,
            transport=httpx.ASGITransport(app),
        )
    finally:
        app.close()


@pytest.fixture(scope="module")
def clean():
    return examine()


def test_the_embedded_server_passes_in_full(clean):
    """M40: every check passes; none is absent but rules that only the hosted service has."""
    others = [(r.name, r.evidence) for r in clean.results if r.outcome != "pass"]
    assert [name for name, _ in others if not name.startswith("hosted.")] == []
    assert [r.name for r in clean.of("fail") + clean.of("unjudged")] == []
    assert clean.exit_code == 0
    assert [r.name for r in clean.results] == names()
    assert clean.ok
    assert clean.facts["wire"] == "proto"


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({"era": "0.4.1"}, {"service.client_config", "checkpoint.fresh", "rest.ttl"}),
        ({"era": "0.36.0", "seq": "strict"}, {"body.first_era", "rest.archive"}),
        ({"wire": "json", "seq": "ignore"}, {"seq.repeat", "seq.conflict"}),
        ({"seq": "gap", "pending": "try_again"}, set()),
        (
            {"seq": "late", "wire": "proto", "declared": False}
            | {"created_status": 201, "future_status": 202},
            {"body.first_era"},
        ),
        ({**hosted.overrides(), "long_poll": 0.2}, {"checkpoint.pending"}),
    ],
)
def test_what_a_profile_lacks_is_absent_and_not_failed(settings, missing):
    """F33, M28, M47: each profile, `hosted` included, passes but for features it does not have."""
    report = examine(**settings)
    assert [(r.name, r.evidence) for r in report.of("fail")] == []
    assert missing <= {r.name for r in report.of("absent")}
    assert all(r.evidence for r in report.of("absent"))
    assert report.exit_code == 0
    if "load_first" in settings:
        rules = {f"hosted.{rule.name}" for rule in hosted.RULES}
        assert rules == {name for name in names() if name.startswith("hosted.")}
        assert {r.name for r in report.of("pass")} >= rules


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_every_planted_mistake_is_found(bug):
    """M40: the check made for it fails, with evidence."""
    report = examine([FOUND_BY[bug]], bugs=[bug])
    (result,) = report.results
    assert result.outcome == "fail", f"{bug} was not found: {result}"
    assert len(result.evidence) > 20
    assert len(result.consequence) > 20
    assert not report.ok
    assert report.exit_code == 1


def test_only_takes_groups_and_names_and_refuses_others():
    """M36: a typo is told, with the groups there are."""
    report = examine(["service.healthz", "seq"])
    assert [r.name for r in report.results] == [
        "service.healthz",
        *[name for name in names() if name.startswith("seq.")],
    ]
    with pytest.raises(InvalidInputError, match="sampling"):
        run("embedded", ["sampling"])


def test_a_report_reads_well_and_survives_json():
    """M36: text shows the evidence of what failed, JSON holds everything."""
    report = examine(["loss.sum", "loss.order"], bugs=["metrics_empty"])
    text = report.to_text()
    assert "FAIL    sum" in text
    assert "loss:sum is missing" in text
    assert "pass    order" in text
    assert text.endswith("2 checks: 1 pass, 1 fail, 0 absent.")
    again = Report.from_dict(json.loads(report.to_json()))
    assert again.to_text() == text


def test_the_matrix_compares_servers():
    """M28: one column per server, evidence below, nothing that breaks the table."""
    good = examine(["loss.sum", "service.client_config"])
    bad = examine(["loss.sum", "service.client_config"], bugs=["metrics_empty"], era="0.4.1")
    table = matrix([("one", good), ("two | x", bad)])
    title = CHECKS["loss.sum"].title
    assert f"| loss.sum | {title} | yes | **no** |" in table
    assert "| service.client_config | " in table
    assert "### two | x: 2 checks: 0 pass, 1 fail, 1 absent." in table
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {5}


def test_an_error_in_a_check_is_a_result():
    """M28: whatever a server provokes ends in the report, and the next check runs."""
    missing = ["forward_backward", "forward", "asample"]
    report = examine(["loss.logprobs", "sample.seed", "rest.pages"], without=missing)
    assert [r.outcome for r in report.results] == ["absent", "absent", "pass"]
    assert "has no operation forward" in report.results[0].evidence
    assert "has no sampling" in report.results[1].evidence


def test_a_server_that_lists_no_model_has_one_mistake():
    """M28: the empty list fails once; what needs a model is absent and says how to name one."""
    report = examine(bugs=["capability_missing"])
    assert [r.name for r in report.of("fail")] == ["service.capabilities"]
    missing = [r for r in report.of("absent") if not r.name.startswith("hosted.")]
    assert len(missing) > len(names()) / 2
    assert {r.evidence for r in missing} == {missing[0].evidence}
    assert "--model NAME" in missing[0].evidence


def test_every_check_says_what_clients_do():
    """M47: a failure names the rule, the evidence and the consequence."""
    for name in names():
        assert len(consequence(name)) > 20
    report = examine(["seq.conflict"], bugs=["dedupe_any_body"])
    text = report.to_text()
    assert "refuses another body under a used seq_id with 409" in text
    assert "→ Of two requests under one number one is lost" in text


def test_junit_has_failures_skips_and_errors():
    """M47: what a CI system shows; evidence with control characters stays valid XML."""
    report = examine(["loss.sum", "seq.repeat"], bugs=["metrics_empty"], seq="ignore")
    odd = attrs.evolve(report.results[0], name="loss.odd", outcome="unjudged", evidence="a\x00b")
    root = ElementTree.fromstring(to_junit(attrs.evolve(report, results=(*report.results, odd))))
    cases = {case.get("name"): case for case in root.iter("testcase")}
    failure = cases["loss.sum"].find("failure")
    assert "loss:sum is missing" in failure.get("message")
    assert "clients:" in failure.text
    assert cases["seq.repeat"].find("skipped") is not None
    assert cases["loss.odd"].find("error") is not None


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {"seq": "order", "reorders": True, "wire": "proto", "era": "0.36.0", "lacks": []}),
        ({"seq": "strict", "declared": False}, {"seq": "strict"}),
        ({"seq": "late", "declared": False}, {"seq": "late"}),
        ({"seq": "ignore"}, {"seq": "ignore"}),
        (
            {"era": "0.4.1", "without": ["checkpoints"]},
            {"wire": "json", "era": "0.4.1"},
        ),
    ],
)
def test_the_dialect_of_a_server_is_remembered(settings, wanted):
    """F35, M43: found out by what the server does, whatever it declares."""
    found = dialect(examine(["service", "seq", "rest"], **settings))
    assert {name: found[name] for name in wanted} == wanted
    assert found["format"] == "tinker-ext-dialect/1"
    if settings.get("era") == "0.4.1":
        assert set(found["lacks"]) >= {
            "get_client_config",
            "list_checkpoints",
            "finish_session",
        }


class StandIn(httpx.ASGITransport):
    """A server whose model gives all tokens of a sequence one probability, as TuFT's dummy."""

    async def handle_async_request(self, request):
        """Replace the log-probabilities of results."""
        reply = await super().handle_async_request(request)
        body = await reply.aread()
        if b'"loss_fn_outputs"' not in body:
            return httpx.Response(reply.status_code, headers=reply.headers, content=body)
        value = json.loads(body)
        for output in value["loss_fn_outputs"]:
            data = output["logprobs"]["data"]
            output["logprobs"]["data"] = [-1.0] * len(data)
        return httpx.Response(200, json=value)


def test_a_stand_in_for_a_model_is_not_judged_by_its_numbers():
    """F33, M47: what compares numbers is unjudged, the rest is judged; the exit code says so."""
    app = create_app(Settings(inline_engine=True, long_poll=0.2, wire="json"))
    report = run(
        "http://embedded",
        ["loss.sum", "loss.ppo", "seq.conflict"],
        api_key="tml-test",
        patience=20.0,
        transport=StandIn(app),
    )
    app.close()
    outcomes = {r.name: r.outcome for r in report.results}
    assert outcomes == {"loss.sum": "unjudged", "loss.ppo": "unjudged", "seq.conflict": "pass"}
    assert "the same log-probability" in report.of("unjudged")[0].evidence
    assert report.exit_code == 3


def test_a_server_without_room_for_a_model_is_not_judged():
    """F33, M47: create_model that fails later on is no evidence about the check that needed it."""

    class Full(httpx.ASGITransport):
        made = 0

        async def handle_async_request(self, request):
            reply = await super().handle_async_request(request)
            body = json.loads(await reply.aread() or b"null")
            if isinstance(body, dict) and body.get("type") == "create_model":
                Full.made += 1
                if Full.made > 1:  # the first one is the first look's
                    return httpx.Response(200, json={"error": "no slot left", "category": "server"})
            return httpx.Response(reply.status_code, headers=reply.headers, content=reply.content)

    app = create_app(Settings(inline_engine=True, long_poll=0.2, wire="json"))
    report = run(
        f"http://server-{next(NUMBERS)}",
        ["loss.sum", "seq.conflict", "service.healthz"],
        api_key="tml-test",
        patience=20.0,
        transport=Full(app),
    )
    app.close()
    assert [r.outcome for r in report.results] == ["pass", "unjudged", "unjudged"]
    assert "no slot left" in report.results[1].evidence
    assert report.exit_code == 3
