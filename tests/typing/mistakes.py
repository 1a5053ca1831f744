"""Calls that a type checker must refuse, each marked with the code it must name; never run."""

from __future__ import annotations

from tinker_ext import Datum, ModelInput, SamplingParams, ServiceClient, TrainingClient

PROMPT = ModelInput.from_ints([1])


async def wrong(service: ServiceClient, client: TrainingClient, datum: Datum) -> None:
    """One mistake per line."""
    client.forward_backward(datum, "cross_entropy")  # refused: arg-type
    client.forward_backward([datum])  # refused: call-arg
    client.forward_backward([datum], "cross_entropie")  # refused: arg-type
    print(client.forward_backward([datum], "cross_entropy").loss)  # refused: attr-defined
    client.save_state(3)  # refused: arg-type
    client.optim_step("adam")  # refused: arg-type
    client.forward_backward_custom([datum], print, loss_type_input="x")  # refused: arg-type
    service.create_lora_training_client("m", rank="8")  # refused: arg-type
    service.create_sampling_client(base_model="m", retry_config={})  # refused: arg-type
    service.close("happily")  # refused: arg-type
    sampler = service.create_sampling_client(base_model="m")
    sampler.sample("text", 1, SamplingParams())  # refused: arg-type
    print(sampler.sample(PROMPT, 1, SamplingParams()).sequences)  # refused: attr-defined
    SamplingParams(max_token=1)  # refused: call-arg
    print((await client.forward_backward_async([datum], "ppo")).metrics)  # refused: attr-defined
