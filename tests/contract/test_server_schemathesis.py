"""M40: generated requests find no crash and no undocumented answer, with fixed seeds."""

import asyncio
import os

import pytest
from contract.document import DOCUMENT_PATH, operations
from hypothesis import HealthCheck, Phase, given, settings
from raw_tinker import Raw

from tinker_ext.mock import Server, Settings

LABELS = [f"{operation.method} {operation.template}" for operation in operations()]
EXAMPLES = int(os.environ.get("TINKER_FUZZ_EXAMPLES", "2"))


@pytest.fixture(scope="module")
def checked():
    """The operations by label, and the checks; imported here, since only one worker needs it.

    Schemathesis has a plugin of pytest for this, which would cost every run of pytest its import.
    """
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    config = schemathesis.Config.from_dict({"seed": 1, "phases": {"coverage": {"enabled": False}}})
    found = schemathesis.openapi.from_path(DOCUMENT_PATH, config=config).get_all_operations()
    every = {operation.label: operation for operation in (each.ok() for each in found)}
    assert sorted(every) == sorted(LABELS)
    return every, [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]


@pytest.fixture(scope="module")
def server():
    with Server(Settings(long_poll=0.01, inline_engine=True)) as running:
        yield running
        assert running.log.violations == []


async def fill(url):
    """Make one of each thing, so that requests reach further than "unknown"."""
    async with Raw(url=url) as raw:
        session = await raw.session()
        model = await raw.model(session)
        path = await raw.save(model, path="one")
        await raw.save(model, "save_weights_external", path="one")
        sampler = await raw.save(model, "save_weights_for_sampler", path="one")
        opened = await raw.post(
            "create_sampling_session",
            session_id=session,
            sampling_session_seq_id=0,
            model_path=sampler,
        )
        ticket = await raw.post("forward_backward", **raw.training_body(model))
        return {
            "session_id": session,
            "model_id": model,
            "training_run_id": model,
            "base_model": "tinker-ext/tiny",
            "path": path,
            "source_path": path,
            "tinker_path": path,
            "model_path": sampler,
            "checkpoint_name": "one",
            "sampler_id": opened["sampling_session_id"],
            "sampling_session_id": opened["sampling_session_id"],
            "request_id": ticket["request_id"],
            "starting_on": "2026-01-02T00:00:00Z",
            "ending_before": "2026-01-03T00:00:00Z",
        }


@pytest.fixture(scope="module")
def known(server):
    return asyncio.run(fill(server.url))


def planted(values, known):
    """Put names of real things where a generated request names things."""
    if not isinstance(values, dict):
        return values
    keep = {"path"} if "optimizer" not in values else set()
    return {
        key: known[key] if key in known and key not in keep else planted(value, known)
        for key, value in values.items()
    }


@pytest.mark.parametrize("label", LABELS)
def test_no_crash_and_no_undocumented_answer(label, checked, server, known):
    """M40: whatever the document allows is answered as the document says."""
    every, checks = checked

    @given(case=every[label].as_strategy())
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answered(case):
        case.validate_response(case.call(base_url=server.url), checks=checks)
        case.body = planted(case.body, known)
        case.path_parameters = planted(case.path_parameters, known)
        case.query = planted(case.query, known)
        case.validate_response(case.call(base_url=server.url), checks=checks)

    answered()
