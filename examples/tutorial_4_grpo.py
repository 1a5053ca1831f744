"""# 4. Reinforcement learning: GRPO

Here the training data has no answers, only a reward. For each prompt the model samples a group of
answers, and each answer is compared with its own group (*group relative policy optimisation*):
answers better than the group's mean become more likely, worse ones less likely.

The reward is one that a tiny model can learn in seconds: the share of neighbouring letters that
alternate between consonant and vowel, so that `batamelo` is worth 1 and `xqqz 9` nothing.
"""

# %%
from itertools import pairwise
from pathlib import Path

import numpy as np

from tinker_ext import AdamParams, Datum, ModelInput, SamplingParams, ServiceClient
from tinker_ext.quickstart.picture import svg

STEPS = 25
GROUP = 24
LENGTH = 10

service = ServiceClient(base_url="embedded")
training = service.create_lora_training_client("tinker-ext/tiny", rank=16, seed=1)
tokenizer = training.get_tokenizer()
prompts = [tokenizer.encode(text) for text in ("word: ", "name: ", "say: ")]


def reward(text: str) -> float:
    """Return the share of neighbouring letters that alternate between consonant and vowel."""
    pairs = pairwise(text)
    good = [a.isalpha() and b.isalpha() and (a in "aeiou") != (b in "aeiou") for a, b in pairs]
    return sum(good) / (LENGTH - 1)


# %% [markdown]
# ## From samples to data
#
# A sample becomes a datum: its tokens, their logprobs under the policy that sampled them, and the
# sample's advantage at each of its positions. The positions of the prompt get advantage 0 and do
# not train. A group whose samples all got the same reward carries no information and is left out.


# %%
def to_datum(prompt: list[int], sequence, advantage: float) -> Datum:
    """Return one sample as training data."""
    tokens = prompt + list(sequence.tokens)
    silent = [0.0] * (len(prompt) - 1)
    return Datum(
        ModelInput.from_ints(tokens[:-1]),
        {
            "target_tokens": tokens[1:],
            "logprobs": silent + list(sequence.logprobs),
            "advantages": silent + [advantage] * len(sequence.tokens),
        },
    )


def rollout(step: int) -> tuple[list[Datum], list[float], str]:
    """Draw a group for each prompt; return the data, the rewards, and one sample."""
    sampler = training.save_weights_and_get_sampling_client()
    # Without stop conditions every sample has its full length.
    futures = [
        sampler.sample(
            ModelInput.from_ints(prompt),
            GROUP,
            SamplingParams(max_tokens=LENGTH, temperature=1.0, stop=[], seed=100 * step + number),
        )
        for number, prompt in enumerate(prompts)
    ]
    data, rewards, shown = [], [], ""
    for prompt, future in zip(prompts, futures, strict=True):
        group = future.result().sequences
        texts = [tokenizer.decode(sequence.tokens) for sequence in group]
        scores = np.array([reward(text) for text in texts])
        rewards += scores.tolist()
        shown = texts[int(scores.argmax())]
        if scores.std() > 0:
            advantages = (scores - scores.mean()) / scores.std()
            data += [to_datum(prompt, s, float(a)) for s, a in zip(group, advantages, strict=True)]
    return data, rewards, shown


# %% [markdown]
# ## The loop
#
# `ppo` is the clipped policy gradient. [Training](../training.md#losses) has the formulas of all
# losses and their settings.

# %%
history = []
for step in range(STEPS):
    data, rewards, shown = rollout(step)
    history.append(float(np.mean(rewards)))
    if not data:
        print(f"step {step:>2}  every sample got reward {rewards[0]:.0f}: nothing left to learn")
        break
    result = training.forward_backward(data, "ppo", {"clip_high_threshold": 1.2})
    training.optim_step(AdamParams(learning_rate=0.006)).result()
    if step % 5 == 0:
        print(f"step {step:>2}  reward {history[-1]:.2f}  best of the last group {shown!r}")

# %%
Path("reward.svg").write_text(svg(history, "Mean reward"), encoding="utf-8")
print(f"reward {history[0]:.2f} → {history[-1]:.2f}")
service.close("success").result()
