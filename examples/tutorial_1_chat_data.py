"""# 1. Chat data

This tutorial goes from chat data to a deployed adapter. It uses the embedded server, so it needs no
key and no network, and every page runs in seconds. For another server, change `base_url` and the
name of the model.

This page turns conversations into training data: the chat template turns them into tokens, and the
loss mask says which of those tokens the model learns to write.
"""

# %%
from pathlib import Path

from tinker_ext import Datum, ModelInput, ServiceClient
from tinker_ext.quickstart import conversations

chats = conversations()
print(len(chats), "conversations; the first:")
for message in chats[0]:
    print(f"  {message['role']}: {message['content']}")

# %% [markdown]
# ## The chat template
#
# A chat model was trained on conversations in one particular format. The tokenizer knows it.

# %%
service = ServiceClient(base_url="embedded")
training = service.create_lora_training_client("tinker-ext/tiny", rank=16, seed=1)
tokenizer = training.get_tokenizer()

print(tokenizer.apply_chat_template(chats[0], tokenize=False))

# %% [markdown]
# ## The loss mask
#
# The model should learn the answer, not the question, so the question's positions get weight 0.
# The model has to write everything after the *generation prompt*: the template up to where the
# assistant's message begins.


# %%
def to_datum(messages: list[dict[str, str]]) -> Datum:
    """Return a conversation as training data for its last message."""
    given = tokenizer.apply_chat_template(messages[:-1], add_generation_prompt=True)
    whole = tokenizer.apply_chat_template(messages)
    assert whole[: len(given)] == given
    # Position t predicts token t + 1, hence one zero less.
    weights = [0.0] * (len(given) - 1) + [1.0] * (len(whole) - len(given))
    return Datum(ModelInput.from_ints(whole[:-1]), {"target_tokens": whole[1:], "weights": weights})


datum = to_datum(chats[0])
learnt = datum.loss_fn_inputs["weights"].tolist().count(1.0)
print(f"{datum.model_input.length} positions, {learnt} of them learnt")

# %% [markdown]
# Look at the mask before you train: a mask that is off by one is a common mistake, and nothing else
# will show it.


# %%
def mask_picture(datum: Datum) -> str:
    """Return an SVG of the target tokens, those that train in colour."""
    targets = datum.loss_fn_inputs["target_tokens"].tolist()
    weights = datum.loss_fn_inputs["weights"].tolist()
    boxes, x, y = [], 8, 8
    for token, weight in zip(targets, weights, strict=True):
        text = tokenizer.decode([token]).replace("\n", "⏎").replace(" ", "␣")
        text = text.replace("<", "&lt;")
        width = 12 + 8 * len(tokenizer.decode([token]))
        if x + width > 712:
            x, y = 8, y + 34
        colour, ink = ("#1971c2", "#ffffff") if weight else ("#e9ecef", "#495057")
        boxes.append(
            f'<rect x="{x}" y="{y}" width="{width - 3}" height="28" rx="4" fill="{colour}"/>'
            f'<text x="{x + (width - 3) / 2}" y="{y + 19}" fill="{ink}" text-anchor="middle" '
            f'font-family="monospace" font-size="13">{text}</text>'
        )
        x += width
    size = f'viewBox="0 0 720 {y + 36}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(boxes)}</svg>'


Path("mask.svg").write_text(mask_picture(datum), encoding="utf-8")

# %% [markdown]
# Blue is what the model learns to write: the answer and the token that ends it, so that it learns
# to stop.
#
# ## The data set
#
# The last conversations are held out, to evaluate the model on questions it has not seen.

# %%
data = [to_datum(chat) for chat in chats]
train, held_out = data[:-8], data[-8:]
tokens = sum(datum.model_input.length for datum in train)
learnt = sum(sum(datum.loss_fn_inputs["weights"].tolist()) for datum in train)
print(f"{len(train)} for training, {len(held_out)} for evaluation")
print(f"{tokens} tokens, {learnt:.0f} of them learnt")
service.close("success").result()
