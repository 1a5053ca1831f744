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
    # fmt: off
    # isort: off
    from httpx import Timeout

    from tinker_ext import auth, compat, errors, mock, types
    from tinker_ext.clients.losses import LossHandle, PerDatumLossFn
    from tinker_ext.clients.rest import AdminClient, RestClient
    from tinker_ext.clients.sampling import SamplingClient
    from tinker_ext.clients.service import ServiceClient
    from tinker_ext.clients.training import TrainingClient
    from tinker_ext.compat.constants import RequestOptions
    from tinker_ext.config import Config
    from tinker_ext.core.future import APIFuture, AwaitableConcurrentFuture
    from tinker_ext.core.retry_config import RetryConfig
    from tinker_ext.displays import progress
    from tinker_ext.errors import (
        APIConnectionError, APIError, APIResponseValidationError, APIStatusError, APITimeoutError,
        AuthenticationError, BadRequestError, BillingError, BudgetExceededError, ClientClosedError,
        ConfigurationError, ConflictError, DeadlineExceededError, DeadlockError, DownloadError,
        ExperimentalWarning, FeatureMissingError, FutureExpiredError, InternalServerError,
        InvalidInputError, NotFoundError, PermissionDeniedError, RateLimitError, RequestFailedError,
        SessionEndedError, StallError, TinkerError, TokenizerError, UnprocessableEntityError,
        UnsafeToRetryError,
    )
    from tinker_ext.observe.loggers import log_to
    from tinker_ext.observe.sample_log import SampleLog
    from tinker_ext.runs import Run
    from tinker_ext.types import (
        AdamOptimizerConfig, AdamParams, Checkpoint, CheckpointType, Datum, DimuonOptimizerConfig,
        DimuonParams, DmelChunk, EncodedTextChunk, ForwardBackwardOutput, ImageAssetPointerChunk,
        ImageChunk, LoraConfig, LossFnType, ModelID, ModelInput, ModelInputChunk, OptimParams,
        OptimStepRequest, OptimStepResponse, ParsedCheckpointTinkerPath, PromptProvenanceSpan,
        SampledProvenanceSpan, SampledSequence, SampleRequest, SampleResponse, SamplingParams,
        StopReason, TensorData, TensorDtype, TrainingRun,
    )
    # isort: on
    # fmt: on

# fmt: off
__all__ = [
    "APIConnectionError", "APIError", "APIFuture", "APIResponseValidationError", "APIStatusError",
    "APITimeoutError", "AdamOptimizerConfig", "AdamParams", "AdminClient", "AuthenticationError",
    "AwaitableConcurrentFuture", "BadRequestError", "BillingError", "BudgetExceededError",
    "Checkpoint", "CheckpointType", "ClientClosedError", "Config", "ConfigurationError",
    "ConflictError", "Datum", "DeadlineExceededError", "DeadlockError", "DimuonOptimizerConfig",
    "DimuonParams", "DmelChunk", "DownloadError", "EncodedTextChunk", "ExperimentalWarning",
    "FeatureMissingError", "ForwardBackwardOutput", "FutureExpiredError", "ImageAssetPointerChunk",
    "ImageChunk", "InternalServerError", "InvalidInputError", "LoraConfig", "LossFnType",
    "LossHandle", "ModelID", "ModelInput", "ModelInputChunk", "NotFoundError", "OptimParams",
    "OptimStepRequest", "OptimStepResponse", "ParsedCheckpointTinkerPath", "PerDatumLossFn",
    "PermissionDeniedError", "PromptProvenanceSpan", "RateLimitError", "RequestFailedError",
    "RequestOptions", "RestClient", "RetryConfig", "Run", "SampleLog", "SampleRequest",
    "SampleResponse", "SampledProvenanceSpan", "SampledSequence", "SamplingClient",
    "SamplingParams", "ServiceClient", "SessionEndedError", "StallError", "StopReason",
    "TensorData", "TensorDtype", "Timeout", "TinkerError", "TokenizerError", "TrainingClient",
    "TrainingRun", "UnprocessableEntityError", "UnsafeToRetryError", "__version__", "auth",
    "compat", "errors", "log_to", "mock", "progress", "types",
]
# fmt: on

_SUBMODULES = {"auth", "compat", "errors", "mock", "types"}

# Errors live in `errors`, and what is not named here lives in `types`.
_HOMES = {
    "APIFuture": "core.future",
    "AdminClient": "clients.rest",
    "AwaitableConcurrentFuture": "core.future",
    "Config": "config",
    "LossHandle": "clients.losses",
    "PerDatumLossFn": "clients.losses",
    "RequestOptions": "compat.constants",
    "RestClient": "clients.rest",
    "RetryConfig": "core.retry_config",
    "Run": "runs",
    "SampleLog": "observe.sample_log",
    "SamplingClient": "clients.sampling",
    "ServiceClient": "clients.service",
    "TrainingClient": "clients.training",
    "log_to": "observe.loggers",
    "progress": "displays",
}


def __getattr__(name: str) -> Any:
    """Load the module that owns `name` and keep the name here for the next read."""
    if name in _SUBMODULES:
        value: Any = import_module(f"tinker_ext.{name}")
    elif name == "Timeout":
        value = import_module("httpx").Timeout
    elif name in __all__:
        home = _HOMES.get(name, "errors" if name.endswith(("Error", "Warning")) else "types")
        value = getattr(import_module(f"tinker_ext.{home}"), name)
    else:
        raise AttributeError(f"module 'tinker_ext' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
