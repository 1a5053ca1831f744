"""Public types, loaded on first use.

Types with behaviour are written by hand in the modules of this package; plain records are the
generated classes of `tinker_api.models`.

Example:
    >>> from tinker_ext import types
    >>> types.ModelInput.from_ints([1, 2]).length
    2
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # fmt: off
    # isort: off
    from tinker_api.models import (
        AccessibleSearchOwner, ActiveSessionStatusQuery, AuditLogEntry, AuditLogResponse,
        AuthTokenResponse, BillingEventInfo, BillingUsageEvent, BillingUsageResponse,
        BillingUsageSession, CancelledSessionStatusQuery, Checkpoint, CheckpointArchiveUrlResponse,
        CheckpointBillingEvent, CheckpointsListResponse, ClientConfigRequest, ClientConfigResponse,
        ClientDynamicConfigResponse, ClientFinishedSessionStatusQuery, ClientSessionFinished,
        ClientSessionFinishErrored, ClientSessionFinishInterrupted, ClientSessionFinishReason,
        ClientSessionFinishSuccess, CopyWeightsRequest, CopyWeightsResponse,
        CreateCustomLossRequest, CreateCustomLossResponse, CreateModelRequest, CreateModelResponse,
        CreateSamplingSessionRequest, CreateSamplingSessionResponse, CreateSessionRequest,
        CreateSessionResponse, CurrentCheckpointStorageUsageItem,
        CurrentCheckpointStorageUsageResponse, Cursor, CustomLossGraph, CustomLossInput,
        CustomLossInputRank, CustomLossNode, EventType, ExternalWeightsUrlsResponse,
        FailedSessionStatusQuery, FutureCompletion, FutureFailed, FutureFinished,
        FutureRetrieveRequest, FuturesRetrieveRequest, FuturesRetrieveResponse, GenericEvent,
        GetBillingUsageRequest, GetCurrentCheckpointStorageUsageRequest, GetInfoRequest,
        GetInfoResponse, GetSamplerResponse, GetServerCapabilitiesResponse, GetSessionResponse,
        HealthResponse, JoinSamplingSessionRequest, JoinSamplingSessionResponse,
        ListSessionsResponse, LoadWeightsRequest, LoadWeightsResponse, ModelData, OptimStepResponse,
        OwnSearchOwner, RequestFailedResponse, SamplingPrefillBillingEvent,
        SamplingSampleBillingEvent, SamplingSessionFuturesTarget, SaveWeightsExternalRequest,
        SaveWeightsExternalResponse, SaveWeightsExternalResponseInternal,
        SaveWeightsForSamplerRequest, SaveWeightsForSamplerResponseInternal, SaveWeightsRequest,
        SearchOwner, SessionActive, SessionCancelled, SessionEndEvent, SessionFailed,
        SessionFailedReason, SessionFailedRequestReason, SessionFailedSamplingSessionReason,
        SessionFailedTrainingRunReason, SessionHeartbeatRequest, SessionHeartbeatResponse,
        SessionSearchCursor, SessionSearchRequest, SessionSearchResponse, SessionStartEvent,
        SessionStatus, SessionStatusQuery, SessionSummary, Severity, StorageBillingEvent,
        SupportedModel, TelemetryBatch, TelemetryEvent, TelemetryResponse, TelemetrySendRequest,
        TrainingBillingEvent, TrainingRun, TrainingRunsResponse, TryAgainResponse,
        UnhandledExceptionEvent, UnloadModelRequest, UnloadModelResponse, UntypedAPIFuture,
        UserSearchOwner, WeightsInfoResponse, WhoamiResponse,
    )
    from tinker_ext.types.checkpoints import (
        ParsedCheckpointTinkerPath, SaveWeightsForSamplerResponse, SaveWeightsResponse,
    )
    from tinker_ext.types.chunks import (
        DmelChunk, EncodedTextChunk, ImageAssetPointerChunk, ImageChunk, ModelInputChunk,
    )
    from tinker_ext.types.datum import (
        Datum, LossFnInputs, PromptProvenanceSpan, ProvenanceSpans, SampledProvenanceSpan,
    )
    from tinker_ext.types.enums import (
        CheckpointType, ClientSessionFinishReasonType, LossFnType, ModelID, QueueState,
        RequestErrorCategory, RequestID, StopReason, TensorDtype,
    )
    from tinker_ext.types.model_input import ModelInput
    from tinker_ext.types.optimizer import (
        AdamOptimizerConfig, AdamParams, DimuonOptimizerConfig, DimuonParams, LoraConfig,
        OptimizerConfig, OptimizerConfigBase, OptimParams, OptimParamsBase,
    )
    from tinker_ext.types.outputs import ForwardBackwardOutput, LossFnOutput
    from tinker_ext.types.requests import (
        ForwardBackwardInput, ForwardBackwardRequest, ForwardRequest, FutureRetrieveResponse,
        OptimStepRequest, SampleRequest,
    )
    from tinker_ext.types.sampling import (
        PromptAltTokens, SampledSequence, SampleResponse, SamplingParams, TopkLogprobs,
    )
    from tinker_ext.types.tensor_data import TensorData
    # isort: on
    # fmt: on

# fmt: off
# Where a name is looked for; what is not written by hand is a generated record.
_HOMES = (
    ".checkpoints", ".chunks", ".datum", ".enums", ".model_input", ".optimizer", ".outputs",
    ".requests", ".sampling", ".tensor_data", "tinker_api.models",
)

__all__ = [
    "AccessibleSearchOwner", "ActiveSessionStatusQuery", "AdamOptimizerConfig", "AdamParams",
    "AuditLogEntry", "AuditLogResponse", "AuthTokenResponse", "BillingEventInfo",
    "BillingUsageEvent", "BillingUsageResponse", "BillingUsageSession",
    "CancelledSessionStatusQuery", "Checkpoint", "CheckpointArchiveUrlResponse",
    "CheckpointBillingEvent", "CheckpointType", "CheckpointsListResponse", "ClientConfigRequest",
    "ClientConfigResponse", "ClientDynamicConfigResponse", "ClientFinishedSessionStatusQuery",
    "ClientSessionFinishErrored", "ClientSessionFinishInterrupted", "ClientSessionFinishReason",
    "ClientSessionFinishReasonType", "ClientSessionFinishSuccess", "ClientSessionFinished",
    "CopyWeightsRequest", "CopyWeightsResponse", "CreateCustomLossRequest",
    "CreateCustomLossResponse", "CreateModelRequest", "CreateModelResponse",
    "CreateSamplingSessionRequest", "CreateSamplingSessionResponse", "CreateSessionRequest",
    "CreateSessionResponse", "CurrentCheckpointStorageUsageItem",
    "CurrentCheckpointStorageUsageResponse", "Cursor", "CustomLossGraph", "CustomLossInput",
    "CustomLossInputRank", "CustomLossNode", "Datum", "DimuonOptimizerConfig", "DimuonParams",
    "DmelChunk", "EncodedTextChunk", "EventType", "ExternalWeightsUrlsResponse",
    "FailedSessionStatusQuery", "ForwardBackwardInput", "ForwardBackwardOutput",
    "ForwardBackwardRequest", "ForwardRequest", "FutureCompletion", "FutureFailed",
    "FutureFinished", "FutureRetrieveRequest", "FutureRetrieveResponse", "FuturesRetrieveRequest",
    "FuturesRetrieveResponse", "GenericEvent", "GetBillingUsageRequest",
    "GetCurrentCheckpointStorageUsageRequest", "GetInfoRequest", "GetInfoResponse",
    "GetSamplerResponse", "GetServerCapabilitiesResponse", "GetSessionResponse", "HealthResponse",
    "ImageAssetPointerChunk", "ImageChunk", "JoinSamplingSessionRequest",
    "JoinSamplingSessionResponse", "ListSessionsResponse", "LoadWeightsRequest",
    "LoadWeightsResponse", "LoraConfig", "LossFnInputs", "LossFnOutput", "LossFnType", "ModelData",
    "ModelID", "ModelInput", "ModelInputChunk", "OptimParams", "OptimParamsBase",
    "OptimStepRequest", "OptimStepResponse", "OptimizerConfig", "OptimizerConfigBase",
    "OwnSearchOwner", "ParsedCheckpointTinkerPath", "PromptAltTokens", "PromptProvenanceSpan",
    "ProvenanceSpans", "QueueState", "RequestErrorCategory", "RequestFailedResponse", "RequestID",
    "SampleRequest", "SampleResponse", "SampledProvenanceSpan", "SampledSequence", "SamplingParams",
    "SamplingPrefillBillingEvent", "SamplingSampleBillingEvent", "SamplingSessionFuturesTarget",
    "SaveWeightsExternalRequest", "SaveWeightsExternalResponse",
    "SaveWeightsExternalResponseInternal", "SaveWeightsForSamplerRequest",
    "SaveWeightsForSamplerResponse", "SaveWeightsForSamplerResponseInternal", "SaveWeightsRequest",
    "SaveWeightsResponse", "SearchOwner", "SessionActive", "SessionCancelled", "SessionEndEvent",
    "SessionFailed", "SessionFailedReason", "SessionFailedRequestReason",
    "SessionFailedSamplingSessionReason", "SessionFailedTrainingRunReason",
    "SessionHeartbeatRequest", "SessionHeartbeatResponse", "SessionSearchCursor",
    "SessionSearchRequest", "SessionSearchResponse", "SessionStartEvent", "SessionStatus",
    "SessionStatusQuery", "SessionSummary", "Severity", "StopReason", "StorageBillingEvent",
    "SupportedModel", "TelemetryBatch", "TelemetryEvent", "TelemetryResponse",
    "TelemetrySendRequest", "TensorData", "TensorDtype", "TopkLogprobs", "TrainingBillingEvent",
    "TrainingRun", "TrainingRunsResponse", "TryAgainResponse", "UnhandledExceptionEvent",
    "UnloadModelRequest", "UnloadModelResponse", "UntypedAPIFuture", "UserSearchOwner",
    "WeightsInfoResponse", "WhoamiResponse",
]
# fmt: on


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for home in _HOMES:
        module = importlib.import_module(home, __name__)
        if hasattr(module, name):
            break
    globals()[name] = value = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
