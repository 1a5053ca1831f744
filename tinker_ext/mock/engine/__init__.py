"""A tiny decoder-only transformer in numpy that trains LoRA adapters and samples from them.

No I/O, no event loop and nothing of the rest of the package: the server calls it from a worker
thread. Start with `BaseModel.create`, `Adapter` and `Sampler`.
"""

from __future__ import annotations

from tinker_ext.mock.engine.base import BaseModel, byte_log_prior
from tinker_ext.mock.engine.config import ModelConfig, config_for
from tinker_ext.mock.engine.data import Datum, Outputs, csr_to_dense, media_tokens
from tinker_ext.mock.engine.lora import LoraSpec
from tinker_ext.mock.engine.losses import LOSSES, LossFunction
from tinker_ext.mock.engine.optim import AdamW, Dimuon, OptimParams
from tinker_ext.mock.engine.sampling import Sample, SampleParams, Sampler
from tinker_ext.mock.engine.scoring import EMPTY_LOGPROB, PromptScores
from tinker_ext.mock.engine.training import Adapter
from tinker_ext.mock.engine.weights import adapter_config, from_safetensors, to_safetensors

__all__ = [
    "EMPTY_LOGPROB",
    "LOSSES",
    "AdamW",
    "Adapter",
    "BaseModel",
    "Datum",
    "Dimuon",
    "LoraSpec",
    "LossFunction",
    "ModelConfig",
    "OptimParams",
    "Outputs",
    "PromptScores",
    "Sample",
    "SampleParams",
    "Sampler",
    "adapter_config",
    "byte_log_prior",
    "config_for",
    "csr_to_dense",
    "from_safetensors",
    "media_tokens",
    "to_safetensors",
]
