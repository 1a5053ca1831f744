"""The body of asample, written without the generated model: one is made for every sample.

A test holds it equal to what the model of the document gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tinker_ext._wire.json_codec import dumps, model_input_json, tensor_json
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.sampling import SamplingParams
from tinker_ext.types.tensor_data import TensorData


@attrs.frozen
class SampleOptions:
    """What a sample call asks for beside prompt and parameters; the default asks for nothing."""

    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: int = 0
    topk_sample_logprobs: int = 0
    target_prompt_logprobs: TensorData | None = None
    prompt_alt_tokens_k: int = 0
    prompt_logprobs_last_n: int | None = None
    record_stability_info: bool = False


PLAIN = SampleOptions()


def sample_body(
    address: Mapping[str, str],
    seq_id: int | None,
    prompt: ModelInput,
    num_samples: int,
    params: SamplingParams,
    options: SampleOptions = PLAIN,
    sized_images: bool | None = None,
) -> bytes:
    """Body of asample."""
    body: dict[str, Any] = {
        "num_samples": num_samples,
        "prompt": model_input_json(prompt, sized_images),
        "sampling_params": _params(params),
        **address,
    }
    if seq_id is not None:
        body["seq_id"] = seq_id
    if options is not PLAIN:
        _add_options(body, options)
    body["type"] = "sample"
    return dumps(body)


_known: tuple[SamplingParams | None, dict[str, Any]] = (None, {})


def _params(params: SamplingParams) -> dict[str, Any]:
    """The parameters as JSON; a loop passes the same ones to thousands of samples."""
    global _known
    last, written = _known
    if last is not params:
        written = params.to_dict()
        # Nothing in it may change; what a list of stops holds can.
        if type(params) is SamplingParams and not isinstance(params.stop, list):
            _known = params, written
    return written


def _add_options(body: dict[str, Any], options: SampleOptions) -> None:
    if options.target_prompt_logprobs is not None:
        body["target_prompt_logprobs"] = tensor_json(options.target_prompt_logprobs)
    if options.prompt_logprobs is not None:
        body["prompt_logprobs"] = options.prompt_logprobs
    for name in (
        "topk_prompt_logprobs",
        "topk_sample_logprobs",
        "prompt_alt_tokens_k",
        "prompt_logprobs_last_n",
        "record_stability_info",
    ):
        value = getattr(options, name)
        if value:
            body[name] = value
