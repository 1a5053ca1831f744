"""# Keep the server busy: pipelines and many samples at once

Every method has an `_async` form. A training call returns its future after one `await`, the result
after a second one, so a whole step can be on its way before the last one is read. Samples are
independent: ask for all of them and let the client keep order, limits and retries.
"""

# %%
import asyncio
import time

from tinker_ext import AdamParams, Datum, ModelInput, SamplingParams, ServiceClient
from tinker_ext.mock import Server, Settings
from tinker_ext.quickstart import animals

STEPS = 40
SAMPLES = 200
LATENCY = 0.05

# %% [markdown]
# ## A server that is far away
#
# An embedded server on a port of this machine, told to hold every result back for 50 ms, as a
# network and a queue would.

# %%
server = Server(Settings(latency=LATENCY)).start()

# %% [markdown]
# ## One step after the other, and a pipeline


# %%
async def one_by_one(trainer, data) -> float:
    """Wait for every result before the next call."""
    begin = time.monotonic()
    for _ in range(STEPS):
        await (await trainer.forward_backward_async(data, "cross_entropy"))
        await (await trainer.optim_step_async(AdamParams(learning_rate=3e-3)))
    return time.monotonic() - begin


async def pipelined(trainer, data) -> float:
    """Send step after step; read the results afterwards, in order."""
    begin = time.monotonic()
    waiting = []
    for _ in range(STEPS):
        waiting.append(await trainer.forward_backward_async(data, "cross_entropy"))
        waiting.append(await trainer.optim_step_async(AdamParams(learning_rate=3e-3)))
    results = [await future for future in waiting]
    print(f"loss of the first and the last step: {results[0].loss:.0f}, {results[-2].loss:.0f}")
    return time.monotonic() - begin


async def many_samples(trainer, prompt) -> float:
    """Ask for all samples at once."""
    sampler = await trainer.save_weights_and_get_sampling_client_async()
    begin = time.monotonic()
    replies = await asyncio.gather(
        *(
            sampler.sample_async(prompt, 1, SamplingParams(max_tokens=16, seed=seed))
            for seed in range(SAMPLES)
        )
    )
    count = sum(len(sequence.tokens) for reply in replies for sequence in reply.sequences)
    print(f"{len(replies)} samples, {count} tokens")
    return time.monotonic() - begin


# %%
async def main() -> dict[str, float]:
    """Run all three and tell what each took."""
    with ServiceClient(base_url=server.url, api_key="tml-example") as service:
        trainer = await service.create_lora_training_client_async("tinker-ext/tiny", rank=8, seed=1)
        tokenizer = trainer.get_tokenizer()
        rows = [tokenizer.encode(line) for line in animals()[:8]]
        data = [Datum(ModelInput.from_ints(row[:-1]), {"target_tokens": row[1:]}) for row in rows]
        prompt = ModelInput.from_ints(tokenizer.encode("The"))
        return {
            "one by one": await one_by_one(trainer, data),
            "pipelined": await pipelined(trainer, data),
            "samples": await many_samples(trainer, prompt),
        }


# %%
seconds = asyncio.run(main())
server.stop()
print(f"{STEPS} steps one by one: {seconds['one by one']:.2f} s")
print(f"{STEPS} steps pipelined:  {seconds['pipelined']:.2f} s")
print(f"{SAMPLES} samples at once: {seconds['samples']:.2f} s")
