"""The ten lines of Python behind the lesson, printed at its end and run by a test."""

TEN_LINES = """\
from tinker_ext import AdamParams, Datum, ModelInput, SamplingParams, ServiceClient
from tinker_ext.quickstart import animals  # 64 sentences

service = ServiceClient(base_url="embedded")
trainer = service.create_lora_training_client("tinker-ext/tiny", rank=16)
text = trainer.get_tokenizer()
data = [Datum(ModelInput.from_ints(t[:-1]), {"target_tokens": t[1:]}) for t in map(text.encode, animals())]
for step in range(150):
    loss = trainer.forward_backward(data, "cross_entropy")
    trainer.optim_step(AdamParams(learning_rate=0.01 * (1 - step / 150))).result()
print("loss", loss.result().loss, "saved as", trainer.save_state("animals").result().path)
sampler, prompt = trainer.save_weights_and_get_sampling_client(), text.encode("The cow says")
print(text.decode(sampler.sample(ModelInput.from_ints(prompt), 1, SamplingParams(max_tokens=5)).result().sequences[0].tokens))
"""  # noqa: E501
