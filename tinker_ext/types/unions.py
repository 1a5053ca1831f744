"""Unions of generated records, under the names users annotate with."""

from __future__ import annotations

from typing import TypeAlias, Union

from tinker_api.models import (
    AccessibleSearchOwner,
    ActiveSessionStatusQuery,
    CancelledSessionStatusQuery,
    CheckpointBillingEvent,
    ClientFinishedSessionStatusQuery,
    ClientSessionFinished,
    ClientSessionFinishErrored,
    ClientSessionFinishInterrupted,
    ClientSessionFinishSuccess,
    CreateModelResponse,
    FailedSessionStatusQuery,
    FutureFailed,
    FutureFinished,
    GenericEvent,
    LoadWeightsResponse,
    OptimStepResponse,
    OwnSearchOwner,
    RequestFailedResponse,
    SamplingPrefillBillingEvent,
    SamplingSampleBillingEvent,
    SaveWeightsExternalResponse,
    SessionActive,
    SessionCancelled,
    SessionEndEvent,
    SessionFailed,
    SessionFailedRequestReason,
    SessionFailedSamplingSessionReason,
    SessionFailedTrainingRunReason,
    SessionStartEvent,
    StorageBillingEvent,
    TrainingBillingEvent,
    TryAgainResponse,
    UnhandledExceptionEvent,
    UnloadModelResponse,
    UserSearchOwner,
)

from tinker_ext.types.checkpoints import SaveWeightsForSamplerResponse, SaveWeightsResponse
from tinker_ext.types.outputs import ForwardBackwardOutput

# ruff: noqa: UP007 - users read the members of these aliases with typing.get_args
BillingEventInfo: TypeAlias = Union[
    TrainingBillingEvent,
    SamplingPrefillBillingEvent,
    SamplingSampleBillingEvent,
    CheckpointBillingEvent,
    StorageBillingEvent,
]
ClientSessionFinishReason: TypeAlias = Union[
    ClientSessionFinishSuccess, ClientSessionFinishErrored, ClientSessionFinishInterrupted
]
FutureCompletion: TypeAlias = Union[FutureFinished, FutureFailed]
FutureRetrieveResponse: TypeAlias = Union[
    TryAgainResponse,
    ForwardBackwardOutput,
    OptimStepResponse,
    SaveWeightsResponse,
    LoadWeightsResponse,
    SaveWeightsForSamplerResponse,
    SaveWeightsExternalResponse,
    CreateModelResponse,
    UnloadModelResponse,
    RequestFailedResponse,
]
SearchOwner: TypeAlias = Union[OwnSearchOwner, AccessibleSearchOwner, UserSearchOwner]
SessionFailedReason: TypeAlias = Union[
    SessionFailedRequestReason, SessionFailedTrainingRunReason, SessionFailedSamplingSessionReason
]
SessionStatus: TypeAlias = Union[
    SessionFailed, SessionCancelled, ClientSessionFinished, SessionActive
]
SessionStatusQuery: TypeAlias = Union[
    ActiveSessionStatusQuery,
    CancelledSessionStatusQuery,
    FailedSessionStatusQuery,
    ClientFinishedSessionStatusQuery,
]
TelemetryEvent: TypeAlias = Union[
    SessionStartEvent, SessionEndEvent, UnhandledExceptionEvent, GenericEvent
]
