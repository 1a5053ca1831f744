"""# Quickstart: fine-tune, sample, save and restore

Sixty-four sentences about animals, a tiny model, a LoRA adapter, and the embedded server inside
this process: nothing to set up and nothing leaves this machine. `tinker-ext quickstart` is the
same with a live display.
"""

# %%
import time

import numpy as np

from tinker_ext import AdamParams, Datum, ModelInput, SamplingParams, ServiceClient
from tinker_ext.quickstart import animals
from tinker_ext.quickstart.chart import chart

STEPS = 150
LEARNING_RATE = 0.01

# %% [markdown]
# ## A client, a model, data
#
# Replace `base_url="embedded"` by the URL of a server, and the model by one it offers, and the
# rest stays as it is. A datum is what goes in and what should come out: here, each token predicts
# the next one.

# %%
service = ServiceClient(base_url="embedded")
trainer = service.create_lora_training_client("tinker-ext/tiny", rank=16, seed=1)
tokenizer = trainer.get_tokenizer()
rows = [tokenizer.encode(line) for line in animals()]
data = [Datum(ModelInput.from_ints(row[:-1]), {"target_tokens": row[1:]}) for row in rows]
tokens = sum(datum.model_input.length for datum in data)
print(f"{len(data)} sentences, {tokens} tokens; the first is {animals()[0]!r}")

# %% [markdown]
# ## Ask before


# %%
def finish(start: str) -> str:
    """Let the model, as it is now, finish a sentence."""
    sampler = trainer.save_weights_and_get_sampling_client()
    params = SamplingParams(max_tokens=8, temperature=0, stop=["\n"])
    reply = sampler.sample(ModelInput.from_ints(tokenizer.encode(start)), 1, params).result()
    return tokenizer.decode(reply.sequences[0].tokens).strip()


starts = ["The cow says", "The dog eats", "The duck lives in the", "The cat likes to"]
before = {start: finish(start) for start in starts}

# %% [markdown]
# ## Train
#
# Calls return futures at once and take effect in the order they are made, so the next step can be
# sent before the last one is read.

# %%
begin = time.monotonic()
futures = []
for step in range(STEPS):
    futures.append(trainer.forward_backward(data, "cross_entropy"))
    rate = LEARNING_RATE * (1 - step / STEPS)
    update = trainer.optim_step(AdamParams(learning_rate=rate))
    if step % 10 == 9:
        update.result()
        print(f"step {step + 1:>3}  loss {futures[-1].result().loss / tokens:.3f}", flush=True)
losses = [future.result().loss / tokens for future in futures]
print(f"{STEPS * tokens / (time.monotonic() - begin):,.0f} tokens a second")
print(chart(losses))

# %% [markdown]
# ## Ask after

# %%
for start in starts:
    print(f"{start} …   before: {before[start]!r}   after: {finish(start)!r}")

# %% [markdown]
# ## Save, restore, compare
#
# A checkpoint loads into a new client, and every logprob is the same to the last bit.

# %%
path = trainer.save_state("animals").result().path
twin = service.create_training_client_from_state(path)
mine = trainer.forward(data, "cross_entropy").result().loss_fn_outputs
theirs = twin.forward(data, "cross_entropy").result().loss_fn_outputs
same = all(
    np.array_equal(a["logprobs"].to_numpy(), b["logprobs"].to_numpy())
    for a, b in zip(mine, theirs, strict=True)
)
print(f"{path} restored; all logprobs equal: {same}")
service.close("success").result()
