"""The cookbook's inspect adapter: one generation through inspect's model interface."""

import asyncio
import os

import tinker
from inspect_ai.model import ChatMessageUser, GenerateConfig, Model
from tinker_cookbook.eval.inspect_utils import InspectAPIFromTinkerSampling

service = tinker.ServiceClient()
api = InspectAPIFromTinkerSampling(
    renderer_name="role_colon",
    model_name=os.environ["TINKER_MODEL"],
    sampling_client=service.create_sampling_client(base_model=os.environ["TINKER_MODEL"]),
    verbose=False,
)
model = Model(api=api, config=GenerateConfig(temperature=1.0, max_tokens=4))
reply = asyncio.run(model.generate([ChatMessageUser(content="hello")]))
print("stop", reply.choices[0].stop_reason)
