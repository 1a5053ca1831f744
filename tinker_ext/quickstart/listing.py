"""The ten lines of Python behind the lesson, printed at its end and run by a test."""

TEN_LINES = """\
from tinker_ext import AdamParams, Datum, ModelInput, SamplingParams, ServiceClient
from tinker_ext.quickstart import animals  # 64 sentences

trainer = ServiceClient(base_url="embedded").create_lora_training_client("tinker-ext/tiny", rank=16)
text, ints = trainer.get_tokenizer(), ModelInput.from_ints
data = [Datum(ints(t[:-1]), {"target_tokens": t[1:]}) for t in map(text.encode, animals())]
for step in range(150):
    loss = trainer.forward_backward(data, "cross_entropy")
    trainer.optim_step(AdamParams(learning_rate=0.01 * (1 - step / 150))).result()
print("loss", loss.result().loss, "saved as", trainer.save_state("animals").result().path)
sampler = trainer.save_weights_and_get_sampling_client()
reply = sampler.sample(ints(text.encode("The cow says")), 1, SamplingParams(max_tokens=5)).result()
print(text.decode(reply.sequences[0].tokens))
"""
