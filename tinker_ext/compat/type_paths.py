"""Which names each module below `tinker.types` shows; read off the installed official packages.

Keys are paths below `tinker.types`, values are names separated by white space. Every name is the
class or alias of that name in `tinker_ext.types`.
"""

from __future__ import annotations

TYPE_PATHS = {
    "audit_log_entry": "AuditLogEntry",
    "audit_log_response": "AuditLogEntry AuditLogResponse",
    "auth_token_response": "AuthTokenResponse",
    "billing_usage_request": "GetBillingUsageRequest",
    "billing_usage_response": """
        BillingEventInfo BillingUsageEvent BillingUsageResponse BillingUsageSession
        CheckpointBillingEvent SamplingPrefillBillingEvent SamplingSampleBillingEvent
        StorageBillingEvent TrainingBillingEvent
    """,
    "checkpoint": "Checkpoint CheckpointType ParsedCheckpointTinkerPath",
    "checkpoint_archive_url_response": "CheckpointArchiveUrlResponse",
    "checkpoints_list_response": "Checkpoint CheckpointsListResponse Cursor",
    "client_config_request": "ClientConfigRequest",
    "client_config_response": "ClientConfigResponse",
    "client_dynamic_config_response": "ClientDynamicConfigResponse",
    "copy_weights_request": "CopyWeightsRequest",
    "copy_weights_response": "CopyWeightsResponse",
    "create_custom_loss_request": "CreateCustomLossRequest CustomLossGraph CustomLossInput",
    "create_custom_loss_response": "CreateCustomLossResponse",
    "create_model_request": "AdamOptimizerConfig CreateModelRequest LoraConfig OptimizerConfig",
    "create_model_response": "CreateModelResponse ModelID",
    "create_sampling_session_request": "CreateSamplingSessionRequest",
    "create_sampling_session_response": "CreateSamplingSessionResponse",
    "create_session_request": "CreateSessionRequest",
    "create_session_response": "CreateSessionResponse",
    "current_checkpoint_storage_usage_request": "GetCurrentCheckpointStorageUsageRequest",
    "current_checkpoint_storage_usage_response": """
        CurrentCheckpointStorageUsageItem CurrentCheckpointStorageUsageResponse
    """,
    "cursor": "Cursor",
    "custom_loss_graph": "CustomLossGraph CustomLossNode",
    "custom_loss_input": "CustomLossInput CustomLossInputRank",
    "datum": """
        Datum LossFnInputs ModelInput PromptProvenanceSpan ProvenanceSpans
        SampledProvenanceSpan TensorData
    """,
    "dmel_chunk": "DmelChunk",
    "encoded_text_chunk": "EncodedTextChunk",
    "event_type": "EventType",
    "external_weights_urls_response": "ExternalWeightsUrlsResponse",
    "forward_backward_input": "Datum ForwardBackwardInput LossFnType",
    "forward_backward_output": "ForwardBackwardOutput LossFnOutput",
    "forward_backward_request": "ForwardBackwardInput ForwardBackwardRequest ModelID",
    "forward_request": "ForwardBackwardInput ForwardRequest ModelID",
    "future_completion": "FutureCompletion FutureFailed FutureFinished RequestID",
    "future_retrieve_request": "FutureRetrieveRequest RequestID",
    "future_retrieve_response": """
        CreateModelResponse ForwardBackwardOutput FutureRetrieveResponse
        LoadWeightsResponse OptimStepResponse RequestFailedResponse
        SaveWeightsExternalResponse SaveWeightsForSamplerResponse SaveWeightsResponse
        TryAgainResponse UnloadModelResponse
    """,
    "futures_retrieve_request": "FuturesRetrieveRequest SamplingSessionFuturesTarget",
    "futures_retrieve_response": "FutureCompletion FuturesRetrieveResponse",
    "generic_event": "EventType GenericEvent Severity",
    "get_info_request": "GetInfoRequest ModelID",
    "get_info_response": "GetInfoResponse ModelData ModelID",
    "get_sampler_response": "GetSamplerResponse",
    "get_server_capabilities_response": "GetServerCapabilitiesResponse SupportedModel",
    "get_session_response": "GetSessionResponse ModelID",
    "health_response": "HealthResponse",
    "image_asset_pointer_chunk": "ImageAssetPointerChunk",
    "image_chunk": "ImageChunk",
    "join_sampling_session_request": "JoinSamplingSessionRequest",
    "join_sampling_session_response": "JoinSamplingSessionResponse",
    "list_sessions_response": "ListSessionsResponse",
    "load_weights_request": "LoadWeightsRequest ModelID OptimizerConfig",
    "load_weights_response": "LoadWeightsResponse",
    "lora_config": "LoraConfig",
    "loss_fn_inputs": "LossFnInputs TensorData",
    "loss_fn_output": "LossFnOutput TensorData",
    "loss_fn_type": "LossFnType",
    "model_id": "ModelID",
    "model_input": "EncodedTextChunk ModelInput ModelInputChunk",
    "model_input_chunk": """
        DmelChunk EncodedTextChunk ImageAssetPointerChunk ImageChunk ModelInputChunk
    """,
    "optim_step_request": "AdamParams ModelID OptimParams OptimStepRequest",
    "optim_step_response": "OptimStepResponse",
    "optimizer": """
        AdamOptimizerConfig AdamParams DimuonOptimizerConfig DimuonParams OptimParams
        OptimParamsBase OptimizerConfig OptimizerConfigBase
    """,
    "prompt_alt_tokens": "PromptAltTokens TensorData",
    "provenance_spans": "PromptProvenanceSpan ProvenanceSpans SampledProvenanceSpan",
    "request_error_category": "RequestErrorCategory",
    "request_failed_response": "RequestErrorCategory RequestFailedResponse",
    "request_id": "RequestID",
    "sample_request": "ModelInput SampleRequest SamplingParams",
    "sample_response": "PromptAltTokens SampleResponse SampledSequence TensorData TopkLogprobs",
    "sampled_sequence": "SampledSequence StopReason TopkLogprobs",
    "sampling_params": "SamplingParams",
    "save_weights_external_request": "ModelID SaveWeightsExternalRequest",
    "save_weights_external_response": """
        SaveWeightsExternalResponse SaveWeightsExternalResponseInternal
    """,
    "save_weights_for_sampler_request": "ModelID SaveWeightsForSamplerRequest",
    "save_weights_for_sampler_response": """
        SaveWeightsForSamplerResponse SaveWeightsForSamplerResponseInternal
    """,
    "save_weights_request": "ModelID SaveWeightsRequest",
    "save_weights_response": "ParsedCheckpointTinkerPath SaveWeightsResponse",
    "search_owner": "AccessibleSearchOwner OwnSearchOwner SearchOwner UserSearchOwner",
    "session_end_event": "EventType SessionEndEvent Severity",
    "session_heartbeat_request": "SessionHeartbeatRequest",
    "session_heartbeat_response": "SessionHeartbeatResponse",
    "session_search_cursor": "SessionSearchCursor",
    "session_search_request": """
        OwnSearchOwner SearchOwner SessionSearchCursor SessionSearchRequest
        SessionStatusQuery
    """,
    "session_search_response": "SessionSearchCursor SessionSearchResponse SessionSummary",
    "session_start_event": "EventType SessionStartEvent Severity",
    "session_status": """
        ClientSessionFinishErrored ClientSessionFinishInterrupted
        ClientSessionFinishReason ClientSessionFinishSuccess ClientSessionFinished
        SessionActive SessionCancelled SessionFailed SessionFailedReason
        SessionFailedRequestReason SessionFailedSamplingSessionReason
        SessionFailedTrainingRunReason SessionStatus
    """,
    "session_status_query": """
        ActiveSessionStatusQuery CancelledSessionStatusQuery
        ClientFinishedSessionStatusQuery ClientSessionFinishReasonType
        FailedSessionStatusQuery SessionStatusQuery
    """,
    "session_summary": "SessionStatus SessionSummary",
    "severity": "Severity",
    "shared": "UntypedAPIFuture",
    "shared.untyped_api_future": "ModelID RequestID UntypedAPIFuture",
    "stop_reason": "StopReason",
    "telemetry_batch": "TelemetryBatch TelemetryEvent",
    "telemetry_event": """
        GenericEvent SessionEndEvent SessionStartEvent TelemetryEvent
        UnhandledExceptionEvent
    """,
    "telemetry_response": "TelemetryResponse",
    "telemetry_send_request": "TelemetryEvent TelemetrySendRequest",
    "tensor_data": "TensorData TensorDtype",
    "tensor_dtype": "TensorDtype",
    "topk_logprobs": "TopkLogprobs",
    "training_run": "Checkpoint TrainingRun",
    "training_runs_response": "Cursor TrainingRun TrainingRunsResponse",
    "try_again_response": "TryAgainResponse",
    "unhandled_exception_event": "EventType Severity UnhandledExceptionEvent",
    "unload_model_request": "ModelID UnloadModelRequest",
    "unload_model_response": "ModelID UnloadModelResponse",
    "weights_info_response": "AdamOptimizerConfig OptimizerConfig WeightsInfoResponse",
    "whoami_response": "WhoamiResponse",
}
