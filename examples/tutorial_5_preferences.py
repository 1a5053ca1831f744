"""# 5. Preferences: DPO as a custom loss

*Direct preference optimisation* learns from pairs: of two answers to one question, which is better?
It is not one of the server's losses, so this page writes it as a custom loss: the client fetches
the logprobs, calls your function, and sends the gradient back.
"""

# %%
from pathlib import Path

import numpy as np

from tinker_ext import AdamParams, Datum, ModelInput, ServiceClient
from tinker_ext.quickstart.picture import svg

STEPS = 30
BETA = 0.2

service = ServiceClient(base_url="embedded")
training = service.create_lora_training_client("tinker-ext/tiny", rank=16, seed=1)
tokenizer = training.get_tokenizer()

# Short answers are better than long ones.
PAIRS = [
    ("What does the cow say?", "moo", "the cow says moo I think"),
    ("What does the dog say?", "woof", "the dog says woof I think"),
    ("What does the cat eat?", "fish", "the cat eats fish I think"),
    ("What does the hen eat?", "seeds", "the hen eats seeds I think"),
]


def to_datum(question: str, answer: str) -> Datum:
    """Return a question and an answer; only the answer counts."""
    messages = [{"role": "user", "content": question}]
    given = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    whole = given + tokenizer.encode(answer + "<|im_end|>")
    weights = [0.0] * (len(given) - 1) + [1.0] * (len(whole) - len(given))
    return Datum(ModelInput.from_ints(whole[:-1]), {"target_tokens": whole[1:], "weights": weights})


# Pairs stand side by side: better, worse, better, worse, …
data = [to_datum(question, answer) for question, *both in PAIRS for answer in both]

# %% [markdown]
# ## The reference
#
# DPO compares the model with the one it started from, whose logprobs are fetched once.


# %%
def total(datum: Datum, logprobs: np.ndarray) -> float:
    """Return the logprob of an answer."""
    return float((datum.loss_fn_inputs["weights"].to_numpy() * logprobs).sum())


start = training.forward(data, "cross_entropy").result()
reference = [
    total(datum, output["logprobs"].to_numpy())
    for datum, output in zip(data, start.loss_fn_outputs, strict=True)
]

# %% [markdown]
# ## The loss
#
# With `b` and `w` the logprobs of the better and the worse answer, each minus the reference, the
# loss of a pair is `−log σ(β (b − w))`. This version uses numpy, so the function also returns the
# gradients. With torch installed, leave out `backend="numpy"` and the gradients: the function
# receives tensors and returns the loss and the metrics.


# %%
def dpo(batch: list[Datum], logprobs: list[np.ndarray]):
    """Return the loss, metrics, and the gradient of each datum's logprobs."""
    gained = [
        total(datum, values) - base
        for datum, values, base in zip(batch, logprobs, reference, strict=True)
    ]
    margins = np.array(gained[0::2]) - np.array(gained[1::2])
    loss = float(np.log1p(np.exp(-BETA * margins)).sum())
    slope = -BETA / (1 + np.exp(BETA * margins))
    gradients = []
    for number, datum in enumerate(batch):
        sign = 1.0 if number % 2 == 0 else -1.0
        weights = datum.loss_fn_inputs["weights"].to_numpy()
        gradients.append(sign * slope[number // 2] * weights)
    metrics = {"margin:mean": float(margins.mean()), "right:mean": float((margins > 0).mean())}
    return loss, metrics, gradients


# %%
margins = []
for step in range(STEPS):
    result = training.forward_backward_custom(data, dpo, backend="numpy").result()
    training.optim_step(AdamParams(learning_rate=0.003)).result()
    margins.append(result.metrics["margin:mean"])
    if step % 6 == 0 or step == STEPS - 1:
        print(
            f"step {step:>2}  loss {result.loss:.3f}  margin {margins[-1]:.2f}  "
            f"prefers the better one in {result.metrics['right:mean']:.0%}"
        )

# %%
Path("margin.svg").write_text(svg(margins, "Margin of the better answer, nats"), encoding="utf-8")
service.close("success").result()

# %% [markdown]
# [Custom losses](../custom-losses.md) has more, including losses that the server runs itself.
