"""OpenTelemetry: spans and metrics with the extra, nothing without it."""

import pytest
from in_process import MODEL, adam, client, datum, run, server
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.errors import TinkerError
from tinker_ext.mock.settings import Pause
from tinker_ext.telemetry import opentelemetry_observer


@pytest.fixture
def tracing():
    spans, metrics = InMemorySpanExporter(), InMemoryMetricReader()
    tracer_provider = TracerProvider()
    tracer_provider.add_span_processor(SimpleSpanProcessor(spans))
    return tracer_provider, MeterProvider([metrics]), spans, metrics


def numbers(metrics):
    """Sums and counts by metric name and attributes."""
    found = {}
    for resource in metrics.get_metrics_data().resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    value = getattr(point, "value", None) or getattr(point, "count", None)
                    found[(metric.name, *sorted(map(str, point.attributes.values())))] = value
    return found


def test_a_span_per_call_below_the_callers_span(tracing):
    """M34: spans carry tokens, ids and errors, and belong to the trace of the caller."""
    tracer_provider, meter_provider, spans, metrics = tracing
    app = server()
    observer = opentelemetry_observer(tracer_provider, meter_provider)

    async def scenario():
        async with client(app, observer=observer) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            tracer = tracer_provider.get_tracer("mine")
            with tracer.start_as_current_span("my step") as mine:
                step = await training.forward_backward_async([datum(4)], "cross_entropy")
                await (await training.optim_step_async(adam()))
                await step
            with pytest.raises(TinkerError), pytest.warns(FutureWarning):
                await (await training.load_state_async("tinker://nobody/weights/x"))
            sampler = await training.save_weights_and_get_sampling_client_async()
            await sampler.sample_async(
                ModelInput.from_ints([1, 2, 3]), 1, SamplingParams(max_tokens=2)
            )
            return mine.get_span_context()

    mine = run(scenario)
    made = {span.name: span for span in spans.get_finished_spans()}
    step = made["tinker.forward_backward"]
    assert step.parent.span_id == mine.span_id
    assert step.context.trace_id == mine.trace_id
    assert step.attributes["tinker.tokens_in"] == 4
    assert step.attributes["tinker.seq_id"] == 1
    assert step.end_time >= step.start_time
    assert made["tinker.optim_step"].parent.span_id == mine.span_id
    failed = made["tinker.load_weights"]
    assert failed.parent is None
    assert not failed.status.is_ok
    assert "nobody" not in str(failed.status.description)
    counts = numbers(metrics)
    assert counts[("tinker.tokens", "forward_backward", "train")] == 4
    assert counts[("tinker.tokens", "asample", "prefill")] == 3
    assert counts[("tinker.operation.duration", "optim_step")] == 1
    assert counts[("tinker.requests", "200", "forward_backward", "train")] == 1


def test_retries_and_waits_are_counted(tracing):
    """M34 M26: requests sent again and queue reports are metrics."""
    _, meter_provider, _, metrics = tracing
    app = server(latency=1.0, pause=Pause(state="paused_capacity", seconds=70.0))
    app.faults.add({"kind": "status", "path": "optim_step", "status": 503, "times": 2})

    async def scenario():
        observer = opentelemetry_observer(None, meter_provider)
        async with client(app, observer=observer) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            await (await training.optim_step_async(adam()))

    run(scenario)
    counts = numbers(metrics)
    assert counts[("tinker.retries", "503", "optim_step")] == 2
    assert counts[("tinker.queue.waits", "optim_step", "paused_capacity")] >= 2
