"""M28, M40: the conformance suite passes the embedded server and finds every planted mistake."""

import json

import httpx
import pytest

from tinker_ext.conform import Report, matrix, names, run
from tinker_ext.conform.registry import CHECKS
from tinker_ext.errors import InvalidInputError
from tinker_ext.mock import BUGS, Settings, create_app

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


def examine(only=None, **settings):
    """Run the suite on an embedded server with these settings."""
    app = create_app(Settings(inline_engine=True, **settings))
    try:
        return run(
            "http://embedded",
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
    """M40: every check passes; none is absent."""
    assert [(r.name, r.evidence) for r in clean.results if r.outcome != "pass"] == []
    assert [r.name for r in clean.results] == names()
    assert clean.ok
    assert clean.facts["wire"] == "proto"


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({"era": "0.4.1"}, {"service.client_config", "checkpoint.fresh", "rest.ttl"}),
        ({"era": "0.36.0", "seq": "strict"}, {"body.first_era", "rest.archive"}),
        ({"wire": "json", "seq": "ignore"}, {"seq.repeat", "seq.conflict"}),
    ],
)
def test_what_a_profile_lacks_is_absent_and_not_failed(settings, missing):
    """M28: every profile of the server passes but for the features it does not have."""
    report = examine(**settings)
    assert [(r.name, r.evidence) for r in report.of("fail")] == []
    assert missing <= {r.name for r in report.of("absent")}
    assert all(r.evidence for r in report.of("absent"))


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_every_planted_mistake_is_found(bug):
    """M40: the check made for it fails, with evidence."""
    report = examine([FOUND_BY[bug]], bugs=[bug])
    (result,) = report.results
    assert result.outcome == "fail", f"{bug} was not found: {result}"
    assert len(result.evidence) > 20
    assert not report.ok


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
    missing = report.of("absent")
    assert len(missing) > len(names()) / 2
    assert {r.evidence for r in missing} == {missing[0].evidence}
    assert "--model NAME" in missing[0].evidence
