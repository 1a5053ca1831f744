"""The smallest path of openpipe-art: trajectories to data with its own code, then one RL step."""

import os

import tinker
from art import Trajectory, TrajectoryGroup
from art.tinker_native import data
from openai.types.chat.chat_completion import Choice
from tinker_cookbook import renderers

service = tinker.ServiceClient()
client = service.create_lora_training_client(base_model=os.environ["TINKER_MODEL"], rank=4, seed=1)
tokenizer = client.get_tokenizer()
renderer = renderers.get_renderer("role_colon", tokenizer)


def trajectory(text, reward):
    """One exchange with the log-probabilities of its answer, as an OpenAI client returns it."""
    content = [
        {"token": f"token_id:{token}", "logprob": -1.0, "bytes": None, "top_logprobs": []}
        for token in tokenizer.encode(text, add_special_tokens=False)
    ]
    choice = Choice.model_validate(
        {
            "finish_reason": "stop",
            "index": 0,
            "logprobs": {"content": content, "refusal": None},
            "message": {"role": "assistant", "content": text},
        }
    )
    question = {"role": "user", "content": "say yes or no"}
    return Trajectory(messages_and_choices=[question, choice], reward=reward)


group = TrajectoryGroup([trajectory("yes", 1.0), trajectory("no", 0.0)])
datums = data.trajectory_groups_to_datums([group], renderer, tokenizer)
assert len(datums) == 2
output = client.forward_backward(datums, "importance_sampling").result()
client.optim_step(tinker.AdamParams(learning_rate=1e-3)).result()
print("loss", output.metrics["loss:sum"])
