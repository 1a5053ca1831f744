"""# A loss of your own

The server gives you the logprob of every target token; you give back a loss. With torch installed
return `(loss, metrics)` and autograd does the rest. Without it, as here, also return the gradient
with respect to the logprobs.

The loss is a preference: of two sentences the first should be likelier than the second,
`-log sigmoid(beta * (logprob(first) - logprob(second)))`.
"""

# %%
import numpy as np

from tinker_ext import AdamParams, Datum, ModelInput, ServiceClient

STEPS = 25
BETA = 0.1
PAIRS = [
    ("Thank you, that helps.", "No. Read it again."),
    ("Please wait a moment.", "Wait your turn."),
    ("I am glad you asked.", "Why do you ask me?"),
    ("Let us try it together.", "Do it on your own."),
]

# %% [markdown]
# ## Data
#
# Preferred and rejected sentences alternate, so that the loss finds its pairs.

# %%
service = ServiceClient(base_url="embedded")
trainer = service.create_lora_training_client("tinker-ext/tiny", rank=8, seed=1)
tokenizer = trainer.get_tokenizer()
rows = [tokenizer.encode(text) for pair in PAIRS for text in pair]
data = [Datum(ModelInput.from_ints(row[:-1]), {"target_tokens": row[1:]}) for row in rows]

# %% [markdown]
# ## The loss and its gradient
#
# With `x = beta * (chosen - rejected)`, the derivative of `-log sigmoid(x)` is `sigmoid(x) - 1`;
# each logprob of the chosen sentence gets `beta` times that, each of the rejected one the negative.


# %%
def preference(data: list, logprobs: list) -> tuple:
    """Return loss, metrics and one gradient per datum."""
    # With torch installed the logprobs are tensors.
    arrays = [np.asarray(item.detach() if hasattr(item, "detach") else item) for item in logprobs]
    scores = np.array([array.sum() for array in arrays])
    margin = scores[0::2] - scores[1::2]
    sigmoid = 1 / (1 + np.exp(-BETA * margin))
    slope = BETA * (sigmoid - 1)
    gradients = []
    for index, array in enumerate(arrays):
        sign = 1.0 if index % 2 == 0 else -1.0
        gradients.append(np.full(array.shape, sign * slope[index // 2], dtype=np.float32))
    metrics = {"margin:mean": float(margin.mean()), "accuracy:mean": float((margin > 0).mean())}
    return float(-np.log(sigmoid).sum()), metrics, gradients


# %%
history = []
for step in range(STEPS):
    result = trainer.forward_backward_custom(data, preference).result()
    trainer.optim_step(AdamParams(learning_rate=2e-3)).result()
    history.append(result.loss)
    if step % 4 == 0:
        margin, right = result.metrics["margin:mean"], result.metrics["accuracy:mean"]
        print(f"step {step:>2}  loss {result.loss:.3f}  margin {margin:6.1f}  right {right:.0%}")

# %%
print(f"loss {history[0]:.3f} → {history[-1]:.3f}; the server's own loss is kept beside it as")
print({name: round(value, 3) for name, value in result.metrics.items() if "surrogate" in name})
service.close("success").result()
