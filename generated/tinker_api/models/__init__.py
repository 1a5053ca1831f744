"""The records of the API. Each class is imported when it is first used.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from importlib import import_module

# Type checkers take this name as true; importing it would cost more than this whole package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .access_scope import ACCESS_SCOPE_VALUES, AccessScope
    from .accessible_search_owner import AccessibleSearchOwner
    from .active_session_status_query import ActiveSessionStatusQuery
    from .adam_optimizer_config import AdamOptimizerConfig
    from .adam_params import AdamParams
    from .api_key_details import ApiKeyDetails
    from .api_key_info_response import ApiKeyInfoResponse
    from .api_key_org_details import ApiKeyOrgDetails
    from .api_key_user_details import ApiKeyUserDetails
    from .audit_event_type import AUDIT_EVENT_TYPE_VALUES, AuditEventType
    from .audit_log_entry import AuditLogEntry
    from .audit_log_response import AuditLogResponse
    from .auth_token_request import AuthTokenRequest
    from .auth_token_response import AuthTokenResponse
    from .billing_event_info import BillingEventInfo, parse_billing_event_info
    from .billing_usage_event import BillingUsageEvent
    from .billing_usage_response import BillingUsageResponse
    from .billing_usage_session import BillingUsageSession
    from .cancel_future_request import CancelFutureRequest
    from .cancelled_session_status_query import CancelledSessionStatusQuery
    from .checkpoint import Checkpoint
    from .checkpoint_archive_url_response import CheckpointArchiveUrlResponse
    from .checkpoint_billing_event import CheckpointBillingEvent
    from .checkpoint_kind import CHECKPOINT_KIND_VALUES, CheckpointKind
    from .checkpoints_list_response import CheckpointsListResponse
    from .client_config_request import ClientConfigRequest
    from .client_config_response import ClientConfigResponse
    from .client_dynamic_config_response import ClientDynamicConfigResponse
    from .client_finished_session_status_query import ClientFinishedSessionStatusQuery
    from .client_session_finish_errored import ClientSessionFinishErrored
    from .client_session_finish_interrupted import ClientSessionFinishInterrupted
    from .client_session_finish_reason import (
        ClientSessionFinishReason,
        parse_client_session_finish_reason,
    )
    from .client_session_finish_success import ClientSessionFinishSuccess
    from .client_session_finished import ClientSessionFinished
    from .copy_weights_request import CopyWeightsRequest
    from .copy_weights_response import CopyWeightsResponse
    from .create_custom_loss_request import CreateCustomLossRequest
    from .create_custom_loss_response import CreateCustomLossResponse
    from .create_model_request import CreateModelRequest
    from .create_model_response import CreateModelResponse
    from .create_sampling_session_request import CreateSamplingSessionRequest
    from .create_sampling_session_response import CreateSamplingSessionResponse
    from .create_session_request import CreateSessionRequest
    from .create_session_response import CreateSessionResponse
    from .current_checkpoint_storage_usage_item import CurrentCheckpointStorageUsageItem
    from .current_checkpoint_storage_usage_response import CurrentCheckpointStorageUsageResponse
    from .cursor import Cursor
    from .custom_loss_graph import CustomLossGraph
    from .custom_loss_input import CustomLossInput
    from .custom_loss_input_rank import CUSTOM_LOSS_INPUT_RANK_VALUES, CustomLossInputRank
    from .custom_loss_node import CustomLossNode
    from .custom_loss_node_op import CUSTOM_LOSS_NODE_OP_VALUES, CustomLossNodeOp
    from .datum import Datum
    from .dimuon_optimizer_config import DimuonOptimizerConfig
    from .dimuon_params import DimuonParams
    from .dmel_chunk import DmelChunk
    from .encoded_text_chunk import EncodedTextChunk
    from .error_body import ErrorBody
    from .event_type import EVENT_TYPE_VALUES, EventType
    from .external_weights_urls_response import ExternalWeightsUrlsResponse
    from .failed_session_status_query import FailedSessionStatusQuery
    from .finish_session_request import FinishSessionRequest
    from .forward_backward_content_encoding import (
        FORWARD_BACKWARD_CONTENT_ENCODING_VALUES,
        ForwardBackwardContentEncoding,
    )
    from .forward_backward_input import ForwardBackwardInput
    from .forward_backward_output import ForwardBackwardOutput
    from .forward_backward_request import ForwardBackwardRequest
    from .forward_request import ForwardRequest
    from .future_completion import FutureCompletion, parse_future_completion
    from .future_failed import FutureFailed
    from .future_finished import FutureFinished
    from .future_metadata_only import FutureMetadataOnly
    from .future_retrieve_request import FutureRetrieveRequest
    from .future_retrieve_response import FutureRetrieveResponse, parse_future_retrieve_response
    from .futures_retrieve_request import FuturesRetrieveRequest
    from .futures_retrieve_response import FuturesRetrieveResponse
    from .generic_event import GenericEvent
    from .get_billing_usage_request import GetBillingUsageRequest
    from .get_current_checkpoint_storage_usage_request import (
        GetCurrentCheckpointStorageUsageRequest,
    )
    from .get_info_request import GetInfoRequest
    from .get_info_response import GetInfoResponse
    from .get_sampler_response import GetSamplerResponse
    from .get_server_capabilities_response import GetServerCapabilitiesResponse
    from .get_session_response import GetSessionResponse
    from .health_response import HealthResponse
    from .image_asset_pointer_chunk import ImageAssetPointerChunk
    from .image_chunk import ImageChunk
    from .image_format import IMAGE_FORMAT_VALUES, ImageFormat
    from .join_sampling_session_request import JoinSamplingSessionRequest
    from .join_sampling_session_response import JoinSamplingSessionResponse
    from .list_sessions_response import ListSessionsResponse
    from .load_weights_request import LoadWeightsRequest
    from .load_weights_response import LoadWeightsResponse
    from .lora_config import LoraConfig
    from .loss_fn_type import LOSS_FN_TYPE_VALUES, LossFnType
    from .model_data import ModelData
    from .model_input import ModelInput
    from .model_input_chunk import ModelInputChunk, parse_model_input_chunk
    from .optim_params import OptimParams, parse_optim_params
    from .optim_params_base import OptimParamsBase
    from .optim_step_request import OptimStepRequest
    from .optim_step_response import OptimStepResponse
    from .optimizer_config import OptimizerConfig, parse_optimizer_config
    from .optimizer_config_base import OptimizerConfigBase
    from .own_search_owner import OwnSearchOwner
    from .parsed_checkpoint_tinker_path import ParsedCheckpointTinkerPath
    from .pending_future_body import PendingFutureBody
    from .prompt_alt_tokens import PromptAltTokens
    from .prompt_provenance_span import PromptProvenanceSpan
    from .provenance_span import ProvenanceSpan
    from .request_failed_response import RequestFailedResponse
    from .retrieve_future_x_tinker_request_type import (
        RETRIEVE_FUTURE_X_TINKER_REQUEST_TYPE_VALUES,
        RetrieveFutureXTinkerRequestType,
    )
    from .sample_request import SampleRequest
    from .sample_response import SampleResponse
    from .sample_x_tinker_sampling_backpressure import (
        SAMPLE_X_TINKER_SAMPLING_BACKPRESSURE_VALUES,
        SampleXTinkerSamplingBackpressure,
    )
    from .sampled_provenance_span import SampledProvenanceSpan
    from .sampled_sequence import SampledSequence
    from .sampling_params import SamplingParams
    from .sampling_prefill_billing_event import SamplingPrefillBillingEvent
    from .sampling_sample_billing_event import SamplingSampleBillingEvent
    from .sampling_session_futures_target import SamplingSessionFuturesTarget
    from .save_weights_external_request import SaveWeightsExternalRequest
    from .save_weights_external_response import SaveWeightsExternalResponse
    from .save_weights_external_response_internal import SaveWeightsExternalResponseInternal
    from .save_weights_for_sampler_request import SaveWeightsForSamplerRequest
    from .save_weights_for_sampler_response import SaveWeightsForSamplerResponse
    from .save_weights_for_sampler_response_internal import SaveWeightsForSamplerResponseInternal
    from .save_weights_request import SaveWeightsRequest
    from .save_weights_response import SaveWeightsResponse
    from .search_owner import SearchOwner, parse_search_owner
    from .session_active import SessionActive
    from .session_cancelled import SessionCancelled
    from .session_end_event import SessionEndEvent
    from .session_failed import SessionFailed
    from .session_failed_reason import SessionFailedReason, parse_session_failed_reason
    from .session_failed_request_reason import SessionFailedRequestReason
    from .session_failed_sampling_session_reason import SessionFailedSamplingSessionReason
    from .session_failed_training_run_reason import SessionFailedTrainingRunReason
    from .session_finish_kind import SESSION_FINISH_KIND_VALUES, SessionFinishKind
    from .session_heartbeat_request import SessionHeartbeatRequest
    from .session_heartbeat_response import SessionHeartbeatResponse
    from .session_search_cursor import SessionSearchCursor
    from .session_search_request import SessionSearchRequest
    from .session_search_response import SessionSearchResponse
    from .session_start_event import SessionStartEvent
    from .session_status import SessionStatus, parse_session_status
    from .session_status_query import SessionStatusQuery, parse_session_status_query
    from .session_summary import SessionSummary
    from .set_checkpoint_ttl_request import SetCheckpointTtlRequest
    from .set_session_project_request import SetSessionProjectRequest
    from .severity import SEVERITY_VALUES, Severity
    from .storage_billing_event import StorageBillingEvent
    from .supported_model import SupportedModel
    from .telemetry_batch import TelemetryBatch
    from .telemetry_event import TelemetryEvent, parse_telemetry_event
    from .telemetry_response import TelemetryResponse
    from .telemetry_send_request import TelemetrySendRequest
    from .tensor_data import TensorData
    from .tensor_dtype import TENSOR_DTYPE_VALUES, TensorDtype
    from .topk_logprobs import TopkLogprobs
    from .trace_export_response import TraceExportResponse
    from .training_billing_event import TrainingBillingEvent
    from .training_run import TrainingRun
    from .training_runs_response import TrainingRunsResponse
    from .try_again_response import TryAgainResponse
    from .unhandled_exception_event import UnhandledExceptionEvent
    from .unload_model_request import UnloadModelRequest
    from .unload_model_response import UnloadModelResponse
    from .untyped_api_future import UntypedAPIFuture
    from .user_search_owner import UserSearchOwner
    from .validation_error_item import ValidationErrorItem
    from .weights_info_request import WeightsInfoRequest
    from .weights_info_response import WeightsInfoResponse
    from .whoami_response import WhoamiResponse

_MODULES = {
    "ACCESS_SCOPE_VALUES": "access_scope",
    "AccessScope": "access_scope",
    "AccessibleSearchOwner": "accessible_search_owner",
    "ActiveSessionStatusQuery": "active_session_status_query",
    "AdamOptimizerConfig": "adam_optimizer_config",
    "AdamParams": "adam_params",
    "ApiKeyDetails": "api_key_details",
    "ApiKeyInfoResponse": "api_key_info_response",
    "ApiKeyOrgDetails": "api_key_org_details",
    "ApiKeyUserDetails": "api_key_user_details",
    "AUDIT_EVENT_TYPE_VALUES": "audit_event_type",
    "AuditEventType": "audit_event_type",
    "AuditLogEntry": "audit_log_entry",
    "AuditLogResponse": "audit_log_response",
    "AuthTokenRequest": "auth_token_request",
    "AuthTokenResponse": "auth_token_response",
    "BillingEventInfo": "billing_event_info",
    "parse_billing_event_info": "billing_event_info",
    "BillingUsageEvent": "billing_usage_event",
    "BillingUsageResponse": "billing_usage_response",
    "BillingUsageSession": "billing_usage_session",
    "CancelFutureRequest": "cancel_future_request",
    "CancelledSessionStatusQuery": "cancelled_session_status_query",
    "Checkpoint": "checkpoint",
    "CheckpointArchiveUrlResponse": "checkpoint_archive_url_response",
    "CheckpointBillingEvent": "checkpoint_billing_event",
    "CHECKPOINT_KIND_VALUES": "checkpoint_kind",
    "CheckpointKind": "checkpoint_kind",
    "CheckpointsListResponse": "checkpoints_list_response",
    "ClientConfigRequest": "client_config_request",
    "ClientConfigResponse": "client_config_response",
    "ClientDynamicConfigResponse": "client_dynamic_config_response",
    "ClientFinishedSessionStatusQuery": "client_finished_session_status_query",
    "ClientSessionFinishErrored": "client_session_finish_errored",
    "ClientSessionFinishInterrupted": "client_session_finish_interrupted",
    "ClientSessionFinishReason": "client_session_finish_reason",
    "parse_client_session_finish_reason": "client_session_finish_reason",
    "ClientSessionFinishSuccess": "client_session_finish_success",
    "ClientSessionFinished": "client_session_finished",
    "CopyWeightsRequest": "copy_weights_request",
    "CopyWeightsResponse": "copy_weights_response",
    "CreateCustomLossRequest": "create_custom_loss_request",
    "CreateCustomLossResponse": "create_custom_loss_response",
    "CreateModelRequest": "create_model_request",
    "CreateModelResponse": "create_model_response",
    "CreateSamplingSessionRequest": "create_sampling_session_request",
    "CreateSamplingSessionResponse": "create_sampling_session_response",
    "CreateSessionRequest": "create_session_request",
    "CreateSessionResponse": "create_session_response",
    "CurrentCheckpointStorageUsageItem": "current_checkpoint_storage_usage_item",
    "CurrentCheckpointStorageUsageResponse": "current_checkpoint_storage_usage_response",
    "Cursor": "cursor",
    "CustomLossGraph": "custom_loss_graph",
    "CustomLossInput": "custom_loss_input",
    "CUSTOM_LOSS_INPUT_RANK_VALUES": "custom_loss_input_rank",
    "CustomLossInputRank": "custom_loss_input_rank",
    "CustomLossNode": "custom_loss_node",
    "CUSTOM_LOSS_NODE_OP_VALUES": "custom_loss_node_op",
    "CustomLossNodeOp": "custom_loss_node_op",
    "Datum": "datum",
    "DimuonOptimizerConfig": "dimuon_optimizer_config",
    "DimuonParams": "dimuon_params",
    "DmelChunk": "dmel_chunk",
    "EncodedTextChunk": "encoded_text_chunk",
    "ErrorBody": "error_body",
    "EVENT_TYPE_VALUES": "event_type",
    "EventType": "event_type",
    "ExternalWeightsUrlsResponse": "external_weights_urls_response",
    "FailedSessionStatusQuery": "failed_session_status_query",
    "FinishSessionRequest": "finish_session_request",
    "FORWARD_BACKWARD_CONTENT_ENCODING_VALUES": "forward_backward_content_encoding",
    "ForwardBackwardContentEncoding": "forward_backward_content_encoding",
    "ForwardBackwardInput": "forward_backward_input",
    "ForwardBackwardOutput": "forward_backward_output",
    "ForwardBackwardRequest": "forward_backward_request",
    "ForwardRequest": "forward_request",
    "FutureCompletion": "future_completion",
    "parse_future_completion": "future_completion",
    "FutureFailed": "future_failed",
    "FutureFinished": "future_finished",
    "FutureMetadataOnly": "future_metadata_only",
    "FutureRetrieveRequest": "future_retrieve_request",
    "FutureRetrieveResponse": "future_retrieve_response",
    "parse_future_retrieve_response": "future_retrieve_response",
    "FuturesRetrieveRequest": "futures_retrieve_request",
    "FuturesRetrieveResponse": "futures_retrieve_response",
    "GenericEvent": "generic_event",
    "GetBillingUsageRequest": "get_billing_usage_request",
    "GetCurrentCheckpointStorageUsageRequest": "get_current_checkpoint_storage_usage_request",
    "GetInfoRequest": "get_info_request",
    "GetInfoResponse": "get_info_response",
    "GetSamplerResponse": "get_sampler_response",
    "GetServerCapabilitiesResponse": "get_server_capabilities_response",
    "GetSessionResponse": "get_session_response",
    "HealthResponse": "health_response",
    "ImageAssetPointerChunk": "image_asset_pointer_chunk",
    "ImageChunk": "image_chunk",
    "IMAGE_FORMAT_VALUES": "image_format",
    "ImageFormat": "image_format",
    "JoinSamplingSessionRequest": "join_sampling_session_request",
    "JoinSamplingSessionResponse": "join_sampling_session_response",
    "ListSessionsResponse": "list_sessions_response",
    "LoadWeightsRequest": "load_weights_request",
    "LoadWeightsResponse": "load_weights_response",
    "LoraConfig": "lora_config",
    "LOSS_FN_TYPE_VALUES": "loss_fn_type",
    "LossFnType": "loss_fn_type",
    "ModelData": "model_data",
    "ModelInput": "model_input",
    "ModelInputChunk": "model_input_chunk",
    "parse_model_input_chunk": "model_input_chunk",
    "OptimParams": "optim_params",
    "parse_optim_params": "optim_params",
    "OptimParamsBase": "optim_params_base",
    "OptimStepRequest": "optim_step_request",
    "OptimStepResponse": "optim_step_response",
    "OptimizerConfig": "optimizer_config",
    "parse_optimizer_config": "optimizer_config",
    "OptimizerConfigBase": "optimizer_config_base",
    "OwnSearchOwner": "own_search_owner",
    "ParsedCheckpointTinkerPath": "parsed_checkpoint_tinker_path",
    "PendingFutureBody": "pending_future_body",
    "PromptAltTokens": "prompt_alt_tokens",
    "PromptProvenanceSpan": "prompt_provenance_span",
    "ProvenanceSpan": "provenance_span",
    "RequestFailedResponse": "request_failed_response",
    "RETRIEVE_FUTURE_X_TINKER_REQUEST_TYPE_VALUES": "retrieve_future_x_tinker_request_type",
    "RetrieveFutureXTinkerRequestType": "retrieve_future_x_tinker_request_type",
    "SampleRequest": "sample_request",
    "SampleResponse": "sample_response",
    "SAMPLE_X_TINKER_SAMPLING_BACKPRESSURE_VALUES": "sample_x_tinker_sampling_backpressure",
    "SampleXTinkerSamplingBackpressure": "sample_x_tinker_sampling_backpressure",
    "SampledProvenanceSpan": "sampled_provenance_span",
    "SampledSequence": "sampled_sequence",
    "SamplingParams": "sampling_params",
    "SamplingPrefillBillingEvent": "sampling_prefill_billing_event",
    "SamplingSampleBillingEvent": "sampling_sample_billing_event",
    "SamplingSessionFuturesTarget": "sampling_session_futures_target",
    "SaveWeightsExternalRequest": "save_weights_external_request",
    "SaveWeightsExternalResponse": "save_weights_external_response",
    "SaveWeightsExternalResponseInternal": "save_weights_external_response_internal",
    "SaveWeightsForSamplerRequest": "save_weights_for_sampler_request",
    "SaveWeightsForSamplerResponse": "save_weights_for_sampler_response",
    "SaveWeightsForSamplerResponseInternal": "save_weights_for_sampler_response_internal",
    "SaveWeightsRequest": "save_weights_request",
    "SaveWeightsResponse": "save_weights_response",
    "SearchOwner": "search_owner",
    "parse_search_owner": "search_owner",
    "SessionActive": "session_active",
    "SessionCancelled": "session_cancelled",
    "SessionEndEvent": "session_end_event",
    "SessionFailed": "session_failed",
    "SessionFailedReason": "session_failed_reason",
    "parse_session_failed_reason": "session_failed_reason",
    "SessionFailedRequestReason": "session_failed_request_reason",
    "SessionFailedSamplingSessionReason": "session_failed_sampling_session_reason",
    "SessionFailedTrainingRunReason": "session_failed_training_run_reason",
    "SESSION_FINISH_KIND_VALUES": "session_finish_kind",
    "SessionFinishKind": "session_finish_kind",
    "SessionHeartbeatRequest": "session_heartbeat_request",
    "SessionHeartbeatResponse": "session_heartbeat_response",
    "SessionSearchCursor": "session_search_cursor",
    "SessionSearchRequest": "session_search_request",
    "SessionSearchResponse": "session_search_response",
    "SessionStartEvent": "session_start_event",
    "SessionStatus": "session_status",
    "parse_session_status": "session_status",
    "SessionStatusQuery": "session_status_query",
    "parse_session_status_query": "session_status_query",
    "SessionSummary": "session_summary",
    "SetCheckpointTtlRequest": "set_checkpoint_ttl_request",
    "SetSessionProjectRequest": "set_session_project_request",
    "SEVERITY_VALUES": "severity",
    "Severity": "severity",
    "StorageBillingEvent": "storage_billing_event",
    "SupportedModel": "supported_model",
    "TelemetryBatch": "telemetry_batch",
    "TelemetryEvent": "telemetry_event",
    "parse_telemetry_event": "telemetry_event",
    "TelemetryResponse": "telemetry_response",
    "TelemetrySendRequest": "telemetry_send_request",
    "TensorData": "tensor_data",
    "TENSOR_DTYPE_VALUES": "tensor_dtype",
    "TensorDtype": "tensor_dtype",
    "TopkLogprobs": "topk_logprobs",
    "TraceExportResponse": "trace_export_response",
    "TrainingBillingEvent": "training_billing_event",
    "TrainingRun": "training_run",
    "TrainingRunsResponse": "training_runs_response",
    "TryAgainResponse": "try_again_response",
    "UnhandledExceptionEvent": "unhandled_exception_event",
    "UnloadModelRequest": "unload_model_request",
    "UnloadModelResponse": "unload_model_response",
    "UntypedAPIFuture": "untyped_api_future",
    "UserSearchOwner": "user_search_owner",
    "ValidationErrorItem": "validation_error_item",
    "WeightsInfoRequest": "weights_info_request",
    "WeightsInfoResponse": "weights_info_response",
    "WhoamiResponse": "whoami_response",
}

__all__ = (
    "ACCESS_SCOPE_VALUES",
    "AUDIT_EVENT_TYPE_VALUES",
    "AccessScope",
    "AccessibleSearchOwner",
    "ActiveSessionStatusQuery",
    "AdamOptimizerConfig",
    "AdamParams",
    "ApiKeyDetails",
    "ApiKeyInfoResponse",
    "ApiKeyOrgDetails",
    "ApiKeyUserDetails",
    "AuditEventType",
    "AuditLogEntry",
    "AuditLogResponse",
    "AuthTokenRequest",
    "AuthTokenResponse",
    "BillingEventInfo",
    "BillingUsageEvent",
    "BillingUsageResponse",
    "BillingUsageSession",
    "CHECKPOINT_KIND_VALUES",
    "CUSTOM_LOSS_INPUT_RANK_VALUES",
    "CUSTOM_LOSS_NODE_OP_VALUES",
    "CancelFutureRequest",
    "CancelledSessionStatusQuery",
    "Checkpoint",
    "CheckpointArchiveUrlResponse",
    "CheckpointBillingEvent",
    "CheckpointKind",
    "CheckpointsListResponse",
    "ClientConfigRequest",
    "ClientConfigResponse",
    "ClientDynamicConfigResponse",
    "ClientFinishedSessionStatusQuery",
    "ClientSessionFinishErrored",
    "ClientSessionFinishInterrupted",
    "ClientSessionFinishReason",
    "ClientSessionFinishSuccess",
    "ClientSessionFinished",
    "CopyWeightsRequest",
    "CopyWeightsResponse",
    "CreateCustomLossRequest",
    "CreateCustomLossResponse",
    "CreateModelRequest",
    "CreateModelResponse",
    "CreateSamplingSessionRequest",
    "CreateSamplingSessionResponse",
    "CreateSessionRequest",
    "CreateSessionResponse",
    "CurrentCheckpointStorageUsageItem",
    "CurrentCheckpointStorageUsageResponse",
    "Cursor",
    "CustomLossGraph",
    "CustomLossInput",
    "CustomLossInputRank",
    "CustomLossNode",
    "CustomLossNodeOp",
    "Datum",
    "DimuonOptimizerConfig",
    "DimuonParams",
    "DmelChunk",
    "EVENT_TYPE_VALUES",
    "EncodedTextChunk",
    "ErrorBody",
    "EventType",
    "ExternalWeightsUrlsResponse",
    "FORWARD_BACKWARD_CONTENT_ENCODING_VALUES",
    "FailedSessionStatusQuery",
    "FinishSessionRequest",
    "ForwardBackwardContentEncoding",
    "ForwardBackwardInput",
    "ForwardBackwardOutput",
    "ForwardBackwardRequest",
    "ForwardRequest",
    "FutureCompletion",
    "FutureFailed",
    "FutureFinished",
    "FutureMetadataOnly",
    "FutureRetrieveRequest",
    "FutureRetrieveResponse",
    "FuturesRetrieveRequest",
    "FuturesRetrieveResponse",
    "GenericEvent",
    "GetBillingUsageRequest",
    "GetCurrentCheckpointStorageUsageRequest",
    "GetInfoRequest",
    "GetInfoResponse",
    "GetSamplerResponse",
    "GetServerCapabilitiesResponse",
    "GetSessionResponse",
    "HealthResponse",
    "IMAGE_FORMAT_VALUES",
    "ImageAssetPointerChunk",
    "ImageChunk",
    "ImageFormat",
    "JoinSamplingSessionRequest",
    "JoinSamplingSessionResponse",
    "LOSS_FN_TYPE_VALUES",
    "ListSessionsResponse",
    "LoadWeightsRequest",
    "LoadWeightsResponse",
    "LoraConfig",
    "LossFnType",
    "ModelData",
    "ModelInput",
    "ModelInputChunk",
    "OptimParams",
    "OptimParamsBase",
    "OptimStepRequest",
    "OptimStepResponse",
    "OptimizerConfig",
    "OptimizerConfigBase",
    "OwnSearchOwner",
    "ParsedCheckpointTinkerPath",
    "PendingFutureBody",
    "PromptAltTokens",
    "PromptProvenanceSpan",
    "ProvenanceSpan",
    "RETRIEVE_FUTURE_X_TINKER_REQUEST_TYPE_VALUES",
    "RequestFailedResponse",
    "RetrieveFutureXTinkerRequestType",
    "SAMPLE_X_TINKER_SAMPLING_BACKPRESSURE_VALUES",
    "SESSION_FINISH_KIND_VALUES",
    "SEVERITY_VALUES",
    "SampleRequest",
    "SampleResponse",
    "SampleXTinkerSamplingBackpressure",
    "SampledProvenanceSpan",
    "SampledSequence",
    "SamplingParams",
    "SamplingPrefillBillingEvent",
    "SamplingSampleBillingEvent",
    "SamplingSessionFuturesTarget",
    "SaveWeightsExternalRequest",
    "SaveWeightsExternalResponse",
    "SaveWeightsExternalResponseInternal",
    "SaveWeightsForSamplerRequest",
    "SaveWeightsForSamplerResponse",
    "SaveWeightsForSamplerResponseInternal",
    "SaveWeightsRequest",
    "SaveWeightsResponse",
    "SearchOwner",
    "SessionActive",
    "SessionCancelled",
    "SessionEndEvent",
    "SessionFailed",
    "SessionFailedReason",
    "SessionFailedRequestReason",
    "SessionFailedSamplingSessionReason",
    "SessionFailedTrainingRunReason",
    "SessionFinishKind",
    "SessionHeartbeatRequest",
    "SessionHeartbeatResponse",
    "SessionSearchCursor",
    "SessionSearchRequest",
    "SessionSearchResponse",
    "SessionStartEvent",
    "SessionStatus",
    "SessionStatusQuery",
    "SessionSummary",
    "SetCheckpointTtlRequest",
    "SetSessionProjectRequest",
    "Severity",
    "StorageBillingEvent",
    "SupportedModel",
    "TENSOR_DTYPE_VALUES",
    "TelemetryBatch",
    "TelemetryEvent",
    "TelemetryResponse",
    "TelemetrySendRequest",
    "TensorData",
    "TensorDtype",
    "TopkLogprobs",
    "TraceExportResponse",
    "TrainingBillingEvent",
    "TrainingRun",
    "TrainingRunsResponse",
    "TryAgainResponse",
    "UnhandledExceptionEvent",
    "UnloadModelRequest",
    "UnloadModelResponse",
    "UntypedAPIFuture",
    "UserSearchOwner",
    "ValidationErrorItem",
    "WeightsInfoRequest",
    "WeightsInfoResponse",
    "WhoamiResponse",
    "parse_billing_event_info",
    "parse_client_session_finish_reason",
    "parse_future_completion",
    "parse_future_retrieve_response",
    "parse_model_input_chunk",
    "parse_optim_params",
    "parse_optimizer_config",
    "parse_search_owner",
    "parse_session_failed_reason",
    "parse_session_status",
    "parse_session_status_query",
    "parse_telemetry_event",
)


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
