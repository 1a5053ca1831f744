"""tinker-ext: the public names of one client for every Tinker server; each loads on first use.

Importing this package runs nothing and loads no third-party module. Names resolve through
:pep:`562`, so ``tinker_ext.ServiceClient`` pays for the client stack and ``tinker_ext.TensorData``
only for numpy.

Example:
    >>> import tinker_ext
    >>> tinker_ext.AdamParams(learning_rate=1e-3).beta2
    0.95
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinker_ext._version import __version__

if TYPE_CHECKING:
    from tinker_ext import auth, compat, errors, mock, types
    from tinker_ext.clients.admin import AdminClient
    from tinker_ext.clients.rest import RestClient
    from tinker_ext.clients.sampling import SamplingClient
    from tinker_ext.clients.service import ServiceClient
    from tinker_ext.clients.training import TrainingClient
    from tinker_ext.config import Config
    from tinker_ext.errors import (
        APIConnectionError,
        APIError,
        APIResponseValidationError,
        APIStatusError,
        APITimeoutError,
        AuthenticationError,
        BadRequestError,
        BillingError,
        ConflictError,
        ExperimentalWarning,
        FeatureMissingError,
        FutureExpiredError,
        InternalServerError,
        NotFoundError,
        PermissionDeniedError,
        RateLimitError,
        RequestFailedError,
        TinkerError,
        UnprocessableEntityError,
    )
    from tinker_ext.futures.future import APIFuture, AwaitableConcurrentFuture
    from tinker_ext.types import (
        AdamOptimizerConfig,
        AdamParams,
        Checkpoint,
        CheckpointType,
        Datum,
        DimuonOptimizerConfig,
        DimuonParams,
        DmelChunk,
        EncodedTextChunk,
        ForwardBackwardOutput,
        ImageAssetPointerChunk,
        ImageChunk,
        LoraConfig,
        LossFnType,
        ModelID,
        ModelInput,
        ModelInputChunk,
        OptimParams,
        OptimStepResponse,
        ParsedCheckpointTinkerPath,
        PromptProvenanceSpan,
        SampledProvenanceSpan,
        SampledSequence,
        SampleResponse,
        SamplingParams,
        StopReason,
        TensorData,
        TensorDtype,
        TrainingRun,
    )

_SUBMODULES = ("auth", "compat", "errors", "mock", "types")

_HOMES = {
    "tinker_ext.clients.admin": ("AdminClient",),
    "tinker_ext.clients.rest": ("RestClient",),
    "tinker_ext.clients.sampling": ("SamplingClient",),
    "tinker_ext.clients.service": ("ServiceClient",),
    "tinker_ext.clients.training": ("TrainingClient",),
    "tinker_ext.config": ("Config",),
    "tinker_ext.errors": (
        "APIConnectionError",
        "APIError",
        "APIResponseValidationError",
        "APIStatusError",
        "APITimeoutError",
        "AuthenticationError",
        "BadRequestError",
        "BillingError",
        "ConflictError",
        "ExperimentalWarning",
        "FeatureMissingError",
        "FutureExpiredError",
        "InternalServerError",
        "NotFoundError",
        "PermissionDeniedError",
        "RateLimitError",
        "RequestFailedError",
        "TinkerError",
        "UnprocessableEntityError",
    ),
    "tinker_ext.futures.future": ("APIFuture", "AwaitableConcurrentFuture"),
    "tinker_ext.types": (
        "AdamOptimizerConfig",
        "AdamParams",
        "Checkpoint",
        "CheckpointType",
        "Datum",
        "DimuonOptimizerConfig",
        "DimuonParams",
        "DmelChunk",
        "EncodedTextChunk",
        "ForwardBackwardOutput",
        "ImageAssetPointerChunk",
        "ImageChunk",
        "LoraConfig",
        "LossFnType",
        "ModelID",
        "ModelInput",
        "ModelInputChunk",
        "OptimParams",
        "OptimStepResponse",
        "ParsedCheckpointTinkerPath",
        "PromptProvenanceSpan",
        "SampleResponse",
        "SampledProvenanceSpan",
        "SampledSequence",
        "SamplingParams",
        "StopReason",
        "TensorData",
        "TensorDtype",
        "TrainingRun",
    ),
}

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME_OF, *_SUBMODULES, "__version__"])


def __getattr__(name: str) -> Any:
    """Load the module that owns `name` and keep the name here for the next read."""
    if name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
    elif name in _SUBMODULES:
        value = import_module(f"tinker_ext.{name}")
    else:
        raise AttributeError(f"module 'tinker_ext' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
