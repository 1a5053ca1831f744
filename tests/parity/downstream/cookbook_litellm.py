"""The cookbook's litellm adapter: a completion through litellm's own interface."""

import asyncio
import os

import litellm
import tinker
from tinker_cookbook.third_party.litellm.provider import register_litellm_provider

service = tinker.ServiceClient()
client = service.create_sampling_client(base_model=os.environ["TINKER_MODEL"])
provider = register_litellm_provider()
provider.set_client(client)
reply = asyncio.run(
    litellm.acompletion(
        model=f"tinker/{os.environ['TINKER_MODEL']}",
        base_model=os.environ["TINKER_MODEL"],
        messages=[{"role": "user", "content": "hello"}],
        max_tokens=4,
    )
)
print("finish", reply.choices[0].finish_reason)
