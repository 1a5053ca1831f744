"""Calls that are refused before a byte is sent, and replies to them that lack what they promise."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
from in_process import client, run
from stub_server import StubServer
from tinker_api import operations as api

from tinker_ext import SamplingClient
from tinker_ext.clients import arguments, models
from tinker_ext.clients.rest import checkpoint_parts
from tinker_ext.clients.service import _row
from tinker_ext.core.future import LightFuture
from tinker_ext.errors import APIResponseValidationError, InvalidInputError, TinkerError
from tinker_ext.journal import Journal


def test_the_row_of_an_operation():
    """F47: by its operationId or as it is; a name that is nearly one is offered."""
    assert _row("get_info") is api.GET_INFO
    assert _row(api.GET_INFO) is api.GET_INFO
    with pytest.raises(InvalidInputError, match="did you mean get_info") as caught:
        _row("get_infos")
    assert "optim_step" in str(caught.value)  # all are listed
    for wrong in ("zzzzzz", 7, None):
        with pytest.raises(InvalidInputError, match=r"There is no operation .*\(all: ") as caught:
            _row(wrong)
        assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", ["", None, 7, ".", "..", "a/b", "a\\b", "a\nb"])
def test_names_of_checkpoints(name):
    """M13: one part of a path."""
    with pytest.raises(InvalidInputError, match="checkpoint name"):
        arguments.check_name(name)
    arguments.check_name("step-100")
    arguments.check_name("...")


def test_a_save_without_a_path_is_told():
    """M15: the server has saved something that nobody can name."""
    reply = SimpleNamespace(path="tinker://a", to_dict=lambda: {"path": None})
    assert arguments.named_sampler(reply).path == "tinker://a"
    assert arguments.external_weights(reply).path == "tinker://a"
    for empty in (None, ""):
        reply.path = empty
        for read in (arguments.named_sampler, arguments.external_weights):
            with pytest.raises(APIResponseValidationError, match="without telling") as caught:
                read(reply)
            assert caught.value.body == {"path": None}
            assert caught.value.response.status_code == 200


def test_a_chained_future_follows_the_other():
    """M22: its value, its error and its end; cancelled either way."""
    inner = LightFuture()
    outer = arguments.chained(inner, lambda done: done.result() + 1)
    inner.settle(1)
    assert outer.result(0) == 2
    inner = LightFuture()
    outer = arguments.chained(inner, lambda done: done.result())
    inner.fail(KeyError("x"))
    assert isinstance(outer.exception(0), KeyError)
    inner = LightFuture()
    outer = arguments.chained(inner, lambda done: done.result())
    assert inner.cancel()
    assert outer.cancelled()
    inner = LightFuture()
    outer = arguments.chained(inner, lambda done: done.result())
    assert outer.cancel()
    assert inner.cancelled()


def test_a_sampling_session_without_an_id_is_refused():
    """M15: nothing could be sampled from it."""

    async def scenario():
        def nameless(operation, body, request):
            nothing = operation == "create_sampling_session"
            return (200, {"sampling_session_id": ""}) if nothing else None

        async with client(StubServer(nameless)) as service:
            with pytest.raises(TinkerError, match="id"):
                await service.create_sampling_client_async(base_model="m")

    run(scenario)


def test_what_needs_a_journal_says_so():
    """M20: nothing is resumed or completed without one."""

    async def scenario():
        async with client(StubServer()) as service:
            workspace = service._workspace
            with pytest.raises(InvalidInputError, match="nothing to resume: pass journal="):
                await models.resume(workspace, True, None)
            with pytest.raises(InvalidInputError, match="No run is recorded: pass journal="):
                await models.complete_step(workspace, 0, None)
            return len(service.pending())

    assert run(scenario) == 0


def test_a_run_that_has_made_no_model_starts_anew(tmp_path):
    """M20: a crash may come before the model is made, whether or not its plan was written down."""

    async def scenario():
        async with client(StubServer()) as service:
            workspace = service._workspace
            with contextlib.closing(Journal(tmp_path / "j")) as journal:
                workspace.journal = journal
                assert await models.resume(workspace, True, None) is None
                journal.plan({"base_model": "m", "rank": 4, "seed": 1})
                assert await models.resume(workspace, True, None) is None

    run(scenario)


def test_an_archive_is_a_link():
    """M37: the path with the project first where it is known; no link is told as it is."""

    async def scenario(answers):
        asked = []

        def handler(operation, body, request):
            if "archive" in operation:
                asked.append(operation)
                return answers[min(len(asked), len(answers)) - 1]
            return None

        async with client(StubServer(handler)) as service:
            rest = service.create_rest_client()
            path = "tinker://run/weights/a"
            try:
                found = await rest.get_checkpoint_archive_url_from_tinker_path_async(path)
            except TinkerError as error:
                return error, asked
            return found.url, asked

    link = (302, b"", {"location": "http://files/a"})
    url, asked = run(lambda: scenario([link]))
    assert (url, len(asked)) == ("http://files/a", 1)
    missing = (404, {"detail": "Not Found"})
    error, asked = run(lambda: scenario([missing]))
    assert isinstance(error, TinkerError)
    assert len(asked) == len(set(asked))
    for answer in ((302, b"x" * 3000), (200, b"x" * 3000, {"location": "http://files/a"})):
        error, _ = run(lambda answer=answer: scenario([answer]))
        assert isinstance(error, APIResponseValidationError)
        assert "did not answer with a link" in str(error)
        assert len(error.response.content) == 2000


def test_search_wants_a_request():
    """M13: a class or a dict is not one."""

    async def scenario():
        async with client(StubServer()) as service:
            rest = service.create_rest_client()
            for wrong in (dict, {}, None, "x"):
                with (
                    pytest.warns(match="experimental"),
                    pytest.raises(InvalidInputError, match="must be a SessionSearchRequest"),
                ):
                    rest.search_sessions(wrong)
            await asyncio.sleep(0)

    run(scenario)


def test_a_custom_loss_is_a_function_or_a_handle():
    """M30: what is neither fails at the call, and so does another input than logprobs."""

    def loss(data, logprobs):
        return 0.0, {}

    assert arguments.loss_function(loss, None) is loss
    with pytest.warns(DeprecationWarning, match="leave it out"):
        assert arguments.loss_function(loss, "logprobs", "numpy") is loss
    for wrong in (None, "x", 7):
        with pytest.raises(InvalidInputError, match="must be a function or a LossHandle"):
            arguments.loss_function(wrong, None)
    for wrong in ("tokens", 7):
        with (
            pytest.warns(DeprecationWarning, match="leave it out"),
            pytest.raises(InvalidInputError, match="must be 'logprobs'"),
        ):
            arguments.loss_function(loss, wrong)
    for wrong in ("jax", None):
        with pytest.raises(InvalidInputError, match="backend must be"):
            arguments.loss_function(loss, None, wrong)


def test_the_old_form_of_a_save_for_sampling_says_what_to_use():
    """M30: it works as before."""

    async def scenario():
        async with client(StubServer()) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            with pytest.warns(DeprecationWarning, match="use save_weights_and_get_sampling_client"):
                future = training.save_weights_and_get_sampling_client_submit()
            first = await future
            with pytest.warns(DeprecationWarning, match="`name` is ignored"):
                second = await training.save_weights_and_get_sampling_client_async("x")
            return first, second

    assert [type(each) for each in run(scenario)] == [SamplingClient] * 2


def test_ids_of_checkpoints_have_two_parts():
    """M13: a kind and a name; what has fewer or more would ask for something else."""
    assert checkpoint_parts("r", "weights/a") == {
        "training_run_id": "r",
        "checkpoint_kind": "weights",
        "checkpoint_name": "a",
    }
    for wrong in ("weights", "weights/", "weights/a/b", "", None, 7):
        with pytest.raises(InvalidInputError, match="is not a checkpoint id"):
            checkpoint_parts("r", wrong)
