"""The lines of Python behind the lesson, with its options; printed at its end and run by a test."""

from __future__ import annotations

_LINES = """\
from tinker_ext import AdamParams, Datum, ModelInput, SamplingParams, ServiceClient
from tinker_ext.quickstart import animals  # 64 sentences

service = ServiceClient(base_url={url!r})
trainer = service.create_lora_training_client({model!r}, rank={rank}, seed={seed})
text, ints = trainer.get_tokenizer(), ModelInput.from_ints
data = [Datum(ints(t[:-1]), {{"target_tokens": t[1:]}}) for t in map(text.encode, animals())]
for step in range({steps}):
    result = trainer.forward_backward(data, "cross_entropy")
    trainer.optim_step(AdamParams(learning_rate={rate} * (1 - step / {steps}))).result()
print(f"loss per token {{result.result().loss_per_token:.3f}}")  # .loss is the sum over all tokens
sampler = trainer.save_weights_and_get_sampling_client()
params = SamplingParams(max_tokens={answer_tokens}, temperature=0, stop=["\\n"], seed=0)
reply = sampler.sample(ints(text.encode("The cow says")), 1, params).result()
print("The cow says", text.decode(reply.sequences[0].tokens).strip())
print("saved as", trainer.save_state("quickstart").result().path)
service.close("success").result()
"""


def lines(
    *, url: str, model: str, steps: int, seed: int, rank: int, rate: float, answer_tokens: int
) -> str:
    """Return the program that does what a lesson with these options did."""
    program = _LINES.format(
        url=url,
        model=model,
        steps=steps,
        seed=seed,
        rank=rank,
        rate=rate,
        answer_tokens=answer_tokens,
    )
    return program.replace("'", '"')
