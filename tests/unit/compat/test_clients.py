"""What tracing, mocking and process pools do to client classes: patch, imitate, pickle."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
from unittest.mock import MagicMock

import pytest

from tinker_ext import (
    APIFuture,
    RestClient,
    SamplingClient,
    ServiceClient,
    TrainingClient,
    types,
)
from tinker_ext.core.future import AwaitableConcurrentFuture, LightFuture

# Replaced on the class by the cookbook's tracing and capture.
TRACED = {
    TrainingClient: """
        forward_async forward_backward_async forward_backward_custom_async get_info_async
        optim_step_async save_state_async load_state_async load_state_with_optimizer_async
        save_weights_for_sampler_async save_weights_external_async
        save_weights_and_get_sampling_client_async create_sampling_client_async
        forward_backward optim_step save_weights_for_sampler
    """,
    SamplingClient: "sample sample_async compute_logprobs_async get_base_model_async",
}
CASES = [(cls, name) for cls, names in TRACED.items() for name in names.split()]


@pytest.mark.parametrize(("cls", "name"), CASES)
def test_methods_can_be_replaced_on_the_class(monkeypatch, cls: type, name: str):
    """M30: tracing replaces plain functions found on the class; `*_async` are coroutines."""
    original = vars(cls)[name]
    assert inspect.isfunction(original)
    assert inspect.iscoroutinefunction(original) == name.endswith("_async")

    @functools.wraps(original)
    def traced(self, *args, **kwargs):
        return "traced"

    monkeypatch.setattr(cls, name, traced)
    assert getattr(cls, name) is traced


@pytest.mark.parametrize("cls", [TrainingClient, SamplingClient])
def test_no_async_method_beyond_the_known_ones(cls: type):
    """M30: tracing wraps every public coroutine of these classes, so there may be no others."""
    public = {n for n in dir(cls) if not n.startswith("_")}
    found = {n for n in public if inspect.iscoroutinefunction(getattr(cls, n))}
    assert found - set(TRACED[cls].split()) == set()


@pytest.mark.parametrize("cls", [SamplingClient, TrainingClient, ServiceClient, RestClient])
def test_mock_spec(cls: type):
    """M30: `MagicMock(spec=…)` knows the methods, so they are attributes of the class."""
    mock = MagicMock(spec=cls)
    assert isinstance(mock, cls)
    for name in ("sample_async", "optim_step_async", "create_rest_client", "get_training_run"):
        assert hasattr(mock, name) == hasattr(cls, name)
    with pytest.raises(AttributeError):
        mock.no_such_method()


def test_future_is_generic_at_run_time():
    """M30: `APIFuture[X]` is written into dataclass bodies."""
    assert APIFuture[types.ForwardBackwardOutput] is not None
    assert int | types.ModelInputChunk  # an alias that is used in unions


def test_sampling_client_pickles_without_its_key():
    """M30: a sampling client goes to another process; the key does not travel in the pickle."""
    with ServiceClient(base_url="embedded", api_key="tml-secret-key") as service:
        sampler = service.create_sampling_client(base_model="tinker-ext/tiny")
        data = pickle.dumps(sampler)
        assert b"tml-secret-key" not in data
        copy = pickle.loads(data)
        params = types.SamplingParams(max_tokens=3, seed=1, temperature=0)
        prompt = types.ModelInput.from_ints([1, 2, 3])
        first = sampler.sample(prompt, 1, params).result()
        second = copy.sample(prompt, 1, params).result()
        assert first.sequences[0].tokens == second.sequences[0].tokens


def test_capture_reads_the_inner_future():
    """M30: capture looks for `_future` and `add_done_callback` to learn how a call ended."""
    with ServiceClient(base_url="embedded") as service:
        trainer = service.create_lora_training_client("tinker-ext/tiny", rank=4)
        future = trainer.optim_step(types.AdamParams())
        seen = []
        future._future.add_done_callback(lambda f: seen.append(f.result()))
        assert future.result() is not None
        assert len(seen) == 1


def test_the_stand_in_is_the_same_class(stand_in):
    """M30: a patch through `tinker` is seen by users of `tinker_ext`, and the other way round."""
    assert stand_in.SamplingClient is SamplingClient
    assert stand_in.TrainingClient is TrainingClient


def test_awaiting_a_finished_future_lets_other_tasks_run():
    """M30: a background task made before the await (a rolling checkpoint) gets its turn first."""
    light: LightFuture[int] = LightFuture()
    light.settle(1)
    order = []

    async def background() -> None:
        order.append("background")

    async def main() -> None:
        task = asyncio.create_task(background())
        order.append(await AwaitableConcurrentFuture(light))
        order.append(await AwaitableConcurrentFuture(light).result_async(timeout=0))
        await task

    asyncio.run(main())
    assert order == ["background", 1, 1]
