"""What the main calls give, as a type checker sees it; never run, only checked."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, assert_type

from tinker_api import models, operations

from tinker_ext import (
    AdamParams,
    APIFuture,
    Checkpoint,
    Datum,
    ForwardBackwardOutput,
    LossHandle,
    ModelInput,
    OptimStepResponse,
    RetryConfig,
    SampledSequence,
    SampleResponse,
    SamplingClient,
    SamplingParams,
    ServiceClient,
    TensorData,
    TrainingClient,
    TrainingRun,
    types,
)

PROMPT = ModelInput.from_ints([1, 2])
PARAMS = SamplingParams(max_tokens=2)
DATA = [Datum(PROMPT, {"target_tokens": [2, 3], "weights": [1.0, 1.0]})]


def table_of_operations() -> None:
    """A row knows what its operation answers and what its future yields."""
    assert_type(operations.HEALTH_CHECK.parse(200, {}, b""), models.HealthResponse)
    assert_type(operations.OPTIM_STEP.parse(200, {}, b""), models.UntypedAPIFuture)
    result = operations.OPTIM_STEP.parse_result(b"{}")
    if not isinstance(
        result,
        models.TryAgainResponse | models.FutureMetadataOnly | models.RequestFailedResponse,
    ):
        assert_type(result, models.OptimStepResponse)
    assert_type(operations.LIST_CHECKPOINTS.prepare(limit=3).query, tuple[tuple[str, str], ...])
    assert_type(operations.DELETE_CHECKPOINT.parse(204, {}, b""), None)
    low_level: models.AdamParams = AdamParams()
    assert_type(low_level.to_dict(), dict[str, Any])


def data_types() -> None:
    """Records keep their types."""
    assert_type(PROMPT, ModelInput)
    assert_type(PROMPT.to_ints(), list[int])
    assert_type(PROMPT.length, int)
    assert_type(DATA[0].loss_fn_inputs["weights"], TensorData)


def training(service: ServiceClient, client: TrainingClient) -> None:
    """Training calls give futures; `result` gives the value."""
    assert_type(service.create_lora_training_client("m", rank=8), TrainingClient)
    assert_type(service.create_training_client_from_state("tinker://r/weights/a"), TrainingClient)
    step = client.forward_backward(DATA, "cross_entropy")
    assert_type(step, APIFuture[ForwardBackwardOutput])
    assert_type(step.result(timeout=1.0), ForwardBackwardOutput)
    assert_type(client.forward(DATA, "cross_entropy"), APIFuture[ForwardBackwardOutput])
    assert_type(client.optim_step(AdamParams()), APIFuture[OptimStepResponse])
    assert_type(client.save_state("a"), APIFuture[types.SaveWeightsResponse])
    assert_type(client.save_state("a").result().path, str)
    assert_type(client.load_state("p"), APIFuture[types.LoadWeightsResponse])
    assert_type(client.get_info(), types.GetInfoResponse)
    assert_type(client.save_weights_and_get_sampling_client(), SamplingClient)


async def training_async(service: ServiceClient, client: TrainingClient) -> None:
    """One await gives the future, the second its value; look-ups give the value at once."""
    assert_type(await service.create_lora_training_client_async("m"), TrainingClient)
    step = await client.forward_backward_async(DATA, "cross_entropy")
    assert_type(step, APIFuture[ForwardBackwardOutput])
    assert_type(await step, ForwardBackwardOutput)
    assert_type(await step.result_async(), ForwardBackwardOutput)
    assert_type(await client.optim_step_async(AdamParams()), APIFuture[OptimStepResponse])
    assert_type(await client.get_info_async(), types.GetInfoResponse)
    assert_type(await client.save_weights_and_get_sampling_client_async(), SamplingClient)


def custom_losses(service: ServiceClient, client: TrainingClient) -> None:
    """A function or a handle, the same result."""

    def numpy_loss(data: list[Datum], logprobs: list[Any]) -> tuple[float, dict[str, float], Any]:
        return 0.0, {}, logprobs

    handle = service.create_custom_loss(lambda logprobs: (logprobs.sum(), {}), {"logprobs": 1})
    assert_type(handle, APIFuture[LossHandle])
    assert_type(handle.result().loss_id, str | None)
    for loss in (numpy_loss, handle.result()):
        output = client.forward_backward_custom(DATA, loss)
        assert_type(output, APIFuture[ForwardBackwardOutput])


def sampling(service: ServiceClient) -> None:
    """Samples are futures of `concurrent.futures`."""
    client = service.create_sampling_client(base_model="m", retry_config=RetryConfig())
    assert_type(client, SamplingClient)
    future: Future[SampleResponse] = client.sample(PROMPT, 1, PARAMS)
    assert_type(future.result(), SampleResponse)
    assert_type(future.result().sequences[0], SampledSequence)
    assert_type(future.result().sequences[0].tokens, list[int])
    assert_type(client.compute_logprobs(PROMPT).result(), list[float | None])
    assert_type(SamplingClient.from_sampler_handle(client.get_sampler_handle()), SamplingClient)


async def sampling_async(service: ServiceClient) -> None:
    """The async forms give the value after one await."""
    client = await service.create_sampling_client_async(base_model="m")
    assert_type(await client.sample_async(PROMPT, 1, PARAMS), SampleResponse)
    assert_type(await client.compute_logprobs_async(PROMPT), list[float | None])


async def looking_up(service: ServiceClient) -> None:
    """REST: futures, values, and pages for both kinds of loop."""
    rest = service.create_rest_client()
    assert_type(rest.list_training_runs(), Future[types.TrainingRunsResponse])
    assert_type(await rest.list_training_runs_async(), types.TrainingRunsResponse)
    for run in rest.training_runs():
        assert_type(run, TrainingRun)
    async for found in rest.checkpoints():
        assert_type(found, Checkpoint)


async def contexts() -> None:
    """Both kinds of `with` give the client itself."""
    with ServiceClient(base_url="embedded") as service:
        assert_type(service, ServiceClient)
    async with ServiceClient(base_url="embedded") as other:
        assert_type(other, ServiceClient)
    closing: None = other.close("success").result()
    assert closing is None
