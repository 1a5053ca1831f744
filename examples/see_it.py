"""# See it: displays, progress bars, and the live page

A client, a future and what is pending show themselves in a notebook; `progress` puts a bar around
many calls or a loop; a run log and a sample log let `tinker-ext ui` show the run in a browser.
"""

# %%
import tempfile
from pathlib import Path

from tinker_ext import (
    AdamParams,
    Datum,
    ModelInput,
    SampleLog,
    SamplingParams,
    ServiceClient,
    progress,
)
from tinker_ext.quickstart import animals

STEPS = 30
runs = Path(tempfile.mkdtemp()) / "animals"

# %% [markdown]
# ## A run that writes down what it does
#
# `run_log` takes a folder. Open a terminal and start `tinker-ext ui` there: the curve grows while
# this notebook works.

# %%
service = ServiceClient(base_url="embedded", run_log=runs)
trainer = service.create_lora_training_client("tinker-ext/tiny", rank=16, seed=1)
tokenizer = trainer.get_tokenizer()
rows = [tokenizer.encode(line) for line in animals()]
data = [Datum(ModelInput.from_ints(row[:-1]), {"target_tokens": row[1:]}) for row in rows]

# %% [markdown]
# ## A progress bar, in one line
#
# Around a loop it counts the steps. Around a list of futures it counts what is done, and says why
# when the server holds work back.

# %%
for _ in progress(range(STEPS), desc="train", disable=None):
    output = trainer.forward_backward(data, "cross_entropy")
    trainer.optim_step(AdamParams(learning_rate=0.01)).result()
print(f"loss per token {output.result().loss / sum(d.model_input.length for d in data):.2f}")

# %%
sampler = trainer.save_weights_and_get_sampling_client()
prompts = [ModelInput.from_ints(row[:8]) for row in rows[:16]]
asked = [sampler.sample(p, 2, SamplingParams(max_tokens=16, seed=1)) for p in prompts]
replies = list(progress(asked, desc="sample", disable=None))

# %% [markdown]
# ## Samples to read
#
# Recording is off unless it is asked for, and stays within a bound on this disk. The page shows the
# same prompt across checkpoints side by side, unlikely tokens shaded.

# %%
samples = SampleLog(runs, tokenizer=tokenizer)
for prompt, reply in zip(prompts, replies, strict=True):
    rewards = [float(len(set(sequence.tokens))) for sequence in reply.sequences]
    samples.record(prompt, reply, rewards=rewards, step=STEPS, checkpoint=sampler)
print(f"{len(list(runs.glob('*.jsonl')))} files; see them with: tinker-ext ui FOLDER")

# %% [markdown]
# ## What a notebook shows
#
# Clients, futures, pending work and samples, without asking the server for anything.

# %%
service

# %%
replies[0]

# %%
service.close("success").result()
