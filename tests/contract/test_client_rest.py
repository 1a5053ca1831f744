"""REST and admin clients against the server: every method, pages, and states that are there."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, date, datetime

import pytest
from in_process import MODEL, client, run, server

from tinker_ext import AdminClient, RestClient
from tinker_ext.errors import (
    APIStatusError,
    ConfigurationError,
    InvalidInputError,
    NotFoundError,
)


async def prepared(service, saves=("a", "b")):
    training = await service.create_lora_training_client_async(MODEL, rank=4)
    for name in saves:
        await (await training.save_state_async(name))
    sampler = await (await training.save_weights_for_sampler_async("s"))
    return training, sampler.path


def test_runs_and_checkpoints():
    """M35: list, get, by path, delete, TTL, weights info, samplers, sessions."""

    async def scenario():
        app = server()
        async with client(app) as service:
            rest = service.create_rest_client()
            training, path = await prepared(service)
            run_id = training.model_id
            runs = await rest.list_training_runs_async()
            assert [r.training_run_id for r in runs.training_runs] == [run_id]
            one = await rest.get_training_run_async(run_id)
            assert (one.base_model, one.lora_rank, one.corrupted) == (MODEL, 4, False)
            assert (await rest.get_training_run_by_tinker_path_async(path)) == one
            listed = await rest.list_checkpoints_async(run_id)
            assert {c.checkpoint_id for c in listed.checkpoints} == {
                "weights/a",
                "weights/b",
                "sampler_weights/s",
            }
            info = await rest.get_weights_info_by_tinker_path(f"tinker://{run_id}/weights/a")
            assert (info.base_model, info.lora_rank) == (MODEL, 4)
            await rest.set_checkpoint_ttl_from_tinker_path_async(path, 7200)
            await rest.set_checkpoint_ttl_from_tinker_path_async(path, None)
            await rest.delete_checkpoint_async(run_id, "weights/a")
            await rest.delete_checkpoint_from_tinker_path_async(f"tinker://{run_id}/weights/b")
            left = await rest.list_user_checkpoints_async()
            assert [c.checkpoint_id for c in left.checkpoints] == ["sampler_weights/s"]
            session = await rest.get_session_async(service.session_id)
            assert session.training_run_ids == [run_id]
            assert service.session_id in (await rest.list_sessions_async()).sessions
            sampling = await service.create_sampling_client_async(model_path=path)
            sampler = await rest.get_sampler(sampling._sampling_session_id)
            assert sampler.base_model == MODEL
            assert await sampling.get_base_model_async() == MODEL
            copied = await rest.copy_weights_async(path, "p")
            assert copied.startswith("tinker://")
            assert app.log.violations == []

    run(scenario)


def test_publishing_what_is_not_there_is_an_error():
    """M35: only "already so" is fine."""

    async def scenario():
        async with client(server()) as service:
            rest = service.create_rest_client()
            for change in (
                rest.publish_checkpoint_from_tinker_path_async,
                rest.unpublish_checkpoint_from_tinker_path_async,
            ):
                with pytest.raises(NotFoundError):
                    await change("tinker://nobody:train:0/weights/none")

    run(scenario)


def test_publishing_twice_returns_at_once():
    """M35: a checkpoint that is public (or private) already is fine, without retries."""

    async def scenario():
        app = server()
        async with client(app) as service:
            rest = service.create_rest_client()
            _, path = await prepared(service, ())
            began = asyncio.get_running_loop().time()
            for _ in range(2):
                await rest.publish_checkpoint_from_tinker_path_async(path)
            (found,) = (await rest.list_user_checkpoints_async()).checkpoints
            assert found.public
            for _ in range(2):
                await rest.unpublish_checkpoint_from_tinker_path_async(path)
            publishes = len(app.log.requests("training_runs/*/publish"))
            return asyncio.get_running_loop().time() - began, publishes

    seconds, requests = run(scenario)
    assert seconds < 1.0
    assert requests == 4


def test_pages_read_to_the_end():
    """M35: iterators go through all pages, in both styles."""

    async def scenario():
        async with client(server()) as service:
            rest = service.create_rest_client()
            for _ in range(5):
                await service.create_lora_training_client_async(MODEL, rank=2)
            runs = [r.training_run_id async for r in rest.training_runs(page_size=2)]
            sessions = [s async for s in rest.sessions(page_size=1)]
            checkpoints = [c async for c in rest.checkpoints()]
            return runs, sessions, checkpoints, service.session_id

    runs, sessions, checkpoints, session_id = run(scenario)
    assert len(set(runs)) == 5
    assert sessions == [session_id]
    assert checkpoints == []


def test_admin():
    """M35: audit log, billing and storage."""

    async def scenario():
        async with client(server()) as service:
            await prepared(service)
            admin = AdminClient(service.holder)
            await admin.get_audit_log_async("checkpoints", date(2026, 1, 2))
            usage = await admin.get_billing_usage_async(
                datetime(2026, 1, 1, tzinfo=UTC), "2026-01-10T00:00:00Z"
            )
            storage = await admin.get_current_checkpoint_storage_usage_async()
            with pytest.raises(InvalidInputError):
                await admin.get_audit_log_async("nothing")
            with pytest.raises(InvalidInputError):
                await admin.get_billing_usage_async(datetime(2026, 1, 1), "x")
            with pytest.warns(DeprecationWarning, match="AdminClient"):
                await service.create_rest_client().get_audit_log_async()
            return usage, storage

    usage, storage = run(scenario)
    assert usage.data is not None
    assert storage.data is not None


def test_archive_links_of_the_first_era():
    """M35: a redirect to the archive is the answer, and is not followed."""

    async def scenario():
        async with client(server(era="0.4.1")) as service:
            rest = service.create_rest_client()
            _, path = await prepared(service)
            reply = await rest.get_checkpoint_archive_url_from_tinker_path_async(path)
            return reply

    reply = run(scenario)
    assert reply.url
    assert reply.expires.tzinfo is not None


def test_mistakes():
    """M38: wrong paths and ids fail at the call; an unknown run is the server's 404."""

    async def scenario():
        async with client(server()) as service:
            rest = service.create_rest_client()
            with pytest.raises(InvalidInputError):
                await rest.delete_checkpoint_from_tinker_path_async("tinker://x")
            with pytest.raises(InvalidInputError):
                rest.delete_checkpoint("run", "weights")
            with pytest.raises(InvalidInputError):
                await rest.get_external_weights_urls_async("tinker://r/weights/a")
            with pytest.raises(InvalidInputError):
                await rest.set_checkpoint_ttl_from_tinker_path_async("tinker://r/weights/a", 3)
            with pytest.raises(APIStatusError) as caught:
                await rest.get_training_run_async("nobody")
            with pytest.raises(InvalidInputError):
                RestClient(service.holder, base_url="http://x")
            return caught.value

    assert run(scenario).status_code == 404


@pytest.mark.parametrize("cls", [RestClient, AdminClient])
def test_twins_take_the_same_arguments(cls):
    """M16: x and x_async differ in how the result comes, not in what they take."""
    twins = 0
    for name, member in inspect.getmembers(cls, inspect.isfunction):
        if name.endswith("_async") and not name.startswith("_"):
            assert inspect.iscoroutinefunction(member), name
            plain = getattr(cls, name.removesuffix("_async"))
            left, right = inspect.signature(plain), inspect.signature(member)
            assert left.parameters == right.parameters, name
            twins += 1
    assert twins >= 3


def test_a_bad_base_url_is_refused():
    """M33: only http and https are spoken; the constructor says so."""
    with pytest.raises(ConfigurationError):
        RestClient(base_url="file:///etc/passwd", api_key="tml-x")
