"""# 2. Fine-tune, evaluate, save

Supervised fine-tuning on the conversations of the [first page](1-chat-data.md), with a loss on
held-out data beside the training loss, answers before and after, and a checkpoint at the end.
"""

# %%
from pathlib import Path

from tinker_ext import AdamParams, Datum, ModelInput, SamplingParams, ServiceClient
from tinker_ext.quickstart import conversations
from tinker_ext.quickstart.picture import svg

STEPS = 150

service = ServiceClient(base_url="embedded")
training = service.create_lora_training_client("tinker-ext/tiny", rank=16, seed=1)
tokenizer = training.get_tokenizer()


def to_datum(messages: list[dict[str, str]]) -> Datum:
    """Return a conversation as training data for its last message."""
    given = tokenizer.apply_chat_template(messages[:-1], add_generation_prompt=True)
    whole = tokenizer.apply_chat_template(messages)
    weights = [0.0] * (len(given) - 1) + [1.0] * (len(whole) - len(given))
    return Datum(ModelInput.from_ints(whole[:-1]), {"target_tokens": whole[1:], "weights": weights})


# What sixteen animals say and eat; two of the answers are held out.
chats = [chat for chat in conversations() if chat[0]["content"].endswith(("say?", "eat?"))]
train = [to_datum(chat) for chat in chats[:-2]]
held_out = [to_datum(chat) for chat in chats[-2:]]

# %% [markdown]
# ## Before


# %%
def ask(question: str) -> str:
    """Return the answer of the model as it is now."""
    sampler = training.save_weights_and_get_sampling_client()
    tokens = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], add_generation_prompt=True
    )
    params = SamplingParams(max_tokens=12, temperature=0.0, stop=["<|im_end|>"])
    reply = sampler.sample(ModelInput.from_ints(tokens), 1, params).result()
    return tokenizer.decode(reply.sequences[0].tokens, skip_special_tokens=True).strip()


questions = [chat[0]["content"] for chat in chats[:4]]
before = [ask(question) for question in questions]
for question, answer in zip(questions, before, strict=True):
    print(f"{question:<28} {answer!r}")

# %% [markdown]
# ## Train
#
# Both calls of a step return at once. Results are read one step behind, so that the server always
# has the next step when it finishes one. `.loss` is a sum over all positions (`loss:sum` in the
# metrics) and grows with the batch; `loss_per_token` divides it by the tokens that are learnt.

# %%
losses, judged = [], []
waiting = []
for step in range(STEPS):
    rate = 0.01 * (1 - step / STEPS)
    waiting.append(training.forward_backward(train, "cross_entropy"))
    training.optim_step(AdamParams(learning_rate=rate))
    if step % 25 == 0 or step == STEPS - 1:
        # A forward pass without gradients, on data that the model does not train on.
        judged.append((step, training.forward(held_out, "cross_entropy")))
    if step > 0:
        losses.append(waiting[step - 1].result().loss_per_token)
losses.append(waiting[-1].result().loss_per_token)

for step, result in judged:
    print(
        f"step {step:>3}  train {losses[step]:.3f}  held out {result.result().loss_per_token:.3f}"
    )

# %%
Path("loss.svg").write_text(svg(losses, "Loss per token, training"), encoding="utf-8")

# %% [markdown]
# What an unseen animal says cannot be inferred: the model has memorised the answers, and the
# held-out loss shows it. That is what held-out data is for.
#
# ## After

# %%
right = 0
for chat, old in zip(chats[:4], before, strict=True):
    answer = ask(chat[0]["content"])
    right += answer == chat[1]["content"]
    print(f"{chat[0]['content']:<28} before {old!r:<16} after {answer!r}")
print(right, "of 4 right")

# %% [markdown]
# ## Save
#
# `save_state` saves the weights and the optimizer, to continue training; `save_weights_for_sampler`
# saves only the weights, to sample from. Both return a path that any client of the server can use.

# %%
checkpoint = training.save_state("animals").result().path
print(checkpoint)

again = service.create_training_client_from_state_with_optimizer(checkpoint)
here = training.forward(train, "cross_entropy").result().loss
there = again.forward(train, "cross_entropy").result().loss
print("restored:", here == there)
service.close("success").result()
