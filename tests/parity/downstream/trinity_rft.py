"""The smallest path of trinity-rft: experiences to data with its own code, then one step."""

import logging
import os

import tinker
import torch
from trinity.common.experience import EID, Experience
from trinity.trainer.tinker.utils import to_tinker_input

service = tinker.ServiceClient()
client = service.create_lora_training_client(base_model=os.environ["TINKER_MODEL"], rank=4, seed=1)
experience = Experience(
    eid=EID(batch=0, task=0, run=0, step=0),
    tokens=torch.tensor(list(b"say yes: yes"), dtype=torch.int32),
    prompt_length=9,
    logprobs=torch.full((3,), -1.0),
    reward=1.0,
    action_mask=torch.ones(3, dtype=torch.bool),
)
datums, inputs, _ = to_tinker_input([experience], logging.getLogger())
output = client.forward_backward(datums, "cross_entropy").result()
client.optim_step(tinker.AdamParams(learning_rate=1e-3)).result()
sampler = client.save_weights_and_get_sampling_client()
# As its model class calls it: the parameters of sampling are a plain dict.
params = {"max_tokens": 4, "seed": 1, "temperature": 1.0, "top_k": -1, "top_p": 1}
reply = sampler.sample(prompt=inputs[0], sampling_params=params, num_samples=1).result()
print("loss", output.metrics["loss:sum"], "tokens", len(reply.sequences[0].tokens))
