"""# Reinforcement learning on a toy reward

The model writes twelve characters. The reward is the share of neighbours that alternate between
consonant and vowel, so `batamelo` is worth 1 and `xqqz 9` nothing. Each step samples a group,
compares every sample with its group, and trains with `importance_sampling`.

Runs offline on the embedded server in well under a minute.
"""

# %%
import time

import numpy as np

from tinker_ext import AdamParams, Datum, ModelInput, SamplingParams, ServiceClient
from tinker_ext.quickstart.chart import chart

STEPS = 30
GROUP = 64
LENGTH = 12
LEARNING_RATE = 0.004

# %% [markdown]
# ## The reward


# %%
def reward(text: str) -> float:
    """Return the share of neighbouring letters that alternate between consonant and vowel."""
    vowel = [letter in "aeiou" for letter in text]
    pairs = zip(text, text[1:], vowel, vowel[1:], strict=False)
    good = sum(a.isalpha() and b.isalpha() and x != y for a, b, x, y in pairs)
    return good / (LENGTH - 1)


# %% [markdown]
# ## The loop
#
# A sample becomes a datum: its tokens, the logprobs under the policy that drew them, and its
# advantage. The prompt's own positions get advantage 0 and so do not train.

# %%
service = ServiceClient(base_url="embedded")
trainer = service.create_lora_training_client("tinker-ext/tiny", rank=16, seed=1)
tokenizer = trainer.get_tokenizer()
prompt = tokenizer.encode("word: ")


def sample(step: int) -> list[tuple[list[int], list[float], str]]:
    """Draw a group from the policy as it is now."""
    sampler = trainer.save_weights_and_get_sampling_client()
    # An empty list of stops lets every sample have its full length.
    params = SamplingParams(max_tokens=LENGTH, temperature=1.0, stop=[], seed=step * GROUP)
    reply = sampler.sample(ModelInput.from_ints(prompt), GROUP, params).result()
    return [(list(s.tokens), list(s.logprobs), tokenizer.decode(s.tokens)) for s in reply.sequences]


def datum(tokens: list[int], logprobs: list[float], advantage: float) -> Datum:
    """Return one sample as training data."""
    row = prompt + tokens
    silent = [0.0] * (len(prompt) - 1)
    return Datum(
        ModelInput.from_ints(row[:-1]),
        {
            "target_tokens": row[1:],
            "logprobs": silent + logprobs,
            "advantages": silent + [advantage] * len(tokens),
        },
    )


# %%
begin = time.monotonic()
history = []
for step in range(STEPS):
    group = sample(step)
    rewards = np.array([reward(text) for _, _, text in group])
    history.append(float(rewards.mean()))
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
    data = [
        datum(tokens, logprobs, float(advantage))
        for (tokens, logprobs, _), advantage in zip(group, advantages, strict=True)
    ]
    trainer.forward_backward(data, "importance_sampling")
    trainer.optim_step(AdamParams(learning_rate=LEARNING_RATE)).result()
    if step % 5 == 0 or step == STEPS - 1:
        print(f"step {step:>3}  reward {history[-1]:.2f}  for example {group[0][2]!r}", flush=True)

# %%
print(chart(history, label="reward"))
print(f"reward {history[0]:.2f} → {history[-1]:.2f} in {time.monotonic() - begin:.1f} s")
service.close("success").result()
