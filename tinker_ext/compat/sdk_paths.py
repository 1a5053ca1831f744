"""Which names each other module of the official SDK shows, and where ours live.

`SDK_PATHS` lists the modules outside `tinker.types`; `ALIASES` says where a name is found when
that is not `tinker_ext.types`; `DROPPED` holds what 0.4.1 had and 0.36.0 dropped.
"""

from __future__ import annotations

ERRORS = """
    APIConnectionError APIError APIResponseValidationError APIStatusError APITimeoutError
    AuthenticationError BadRequestError BillingError ConflictError InternalServerError
    NotFoundError PermissionDeniedError RateLimitError RequestFailedError TinkerError
    UnprocessableEntityError
"""
CLIENTS = "AdminClient RestClient SamplingClient ServiceClient TrainingClient"
FUTURES = "APIFuture AwaitableConcurrentFuture"

TOP = f"""
    {CLIENTS} APIFuture LossHandle PerDatumLossFn auth AdamOptimizerConfig AdamParams
    DimuonOptimizerConfig DimuonParams OptimParams Checkpoint CheckpointType Datum DmelChunk
    EncodedTextChunk ForwardBackwardOutput SampledProvenanceSpan LoraConfig ModelID ModelInput
    ModelInputChunk OptimStepRequest OptimStepResponse ParsedCheckpointTinkerPath
    PromptProvenanceSpan SampledSequence SampleRequest SampleResponse SamplingParams StopReason
    TensorData TensorDtype TrainingRun Timeout RequestOptions {ERRORS} ExperimentalWarning types
"""

SDK_PATHS = {
    "tinker": TOP.replace(" auth ", " ").replace(" types\n", " "),
    "tinker._constants": """
        DEFAULT_CONNECTION_LIMITS DEFAULT_MAX_RETRIES DEFAULT_TIMEOUT INITIAL_RETRY_DELAY
        MAX_RETRY_DELAY
    """,
    "tinker._exceptions": ERRORS,
    "tinker._types": "NOT_GIVEN NoneType NotGiven Omit RequestOptions Timeout",
    "tinker._version": "__title__ __version__",
    "tinker.auth": "get_tinker_token raise_if_tinker_not_accessible tinker_has_credentials",
    "tinker.lib.api_future_impl": "APIFuture QueueState QueueStateObserver RetryableException",
    "tinker.lib.chunked_fwdbwd_helpers": "combine_fwd_bwd_output_results",
    "tinker.lib.console_urls": """
        api_key_console_url checkpoint_console_url checkpoint_playground_url
        new_api_key_console_url session_console_url sessions_console_url
        training_run_console_url
    """,
    "tinker.lib.experimental": "ExperimentalWarning",
    "tinker.lib.public_interfaces": f"{CLIENTS} {FUTURES} LossHandle PerDatumLossFn",
    "tinker.lib.public_interfaces.admin_client": f"AdminClient {FUTURES}",
    "tinker.lib.public_interfaces.api_future": FUTURES,
    "tinker.lib.public_interfaces.custom_loss": "LossHandle PerDatumLossFn",
    "tinker.lib.public_interfaces.rest_client": f"RestClient {FUTURES}",
    "tinker.lib.public_interfaces.sampling_client": f"""
        SamplingClient RetryConfig RetryHandler QueueState QueueStateObserver {FUTURES}
    """,
    "tinker.lib.public_interfaces.service_client": f"""
        ServiceClient TrainingClient SamplingClient RestClient RetryConfig LossHandle
        PerDatumLossFn {FUTURES}
    """,
    "tinker.lib.public_interfaces.training_client": f"""
        TrainingClient SamplingClient RetryConfig LossHandle OptimParamsBase
        combine_fwd_bwd_output_results {FUTURES}
    """,
    "tinker.lib.queue_state_logger": "QueueState QueueStateLogger QueueStateObserver",
    "tinker.lib.retry_handler": """
        DEFAULT_CONNECTION_LIMITS INITIAL_RETRY_DELAY MAX_RETRY_DELAY RetryConfig RetryHandler
        RetryableException is_retryable_status_code is_user_error
    """,
    "tinker.lib.retryable_exception": "RetryableException",
    "tinker.lib.telemetry": "is_user_error",
}

_HOMES = {
    "tinker_ext.errors": f"{ERRORS} ExperimentalWarning RetryableException",
    "tinker_ext.core.future": FUTURES,
    "tinker_ext.clients.losses": "LossHandle PerDatumLossFn",
    "tinker_ext.core.retry_config": "RetryConfig",
    "tinker_ext.compat.access": """
        get_tinker_token raise_if_tinker_not_accessible tinker_has_credentials
    """,
    "tinker_ext.compat.constants": """
        DEFAULT_CONNECTION_LIMITS DEFAULT_MAX_RETRIES DEFAULT_TIMEOUT INITIAL_RETRY_DELAY
        MAX_RETRY_DELAY NOT_GIVEN NotGiven Omit RequestOptions
    """,
    "tinker_ext.compat.console_urls": """
        api_key_console_url checkpoint_console_url checkpoint_playground_url
        new_api_key_console_url session_console_url sessions_console_url
        training_run_console_url
    """,
    "tinker_ext.compat.queueing": """
        QueueStateLogger QueueStateObserver RetryHandler is_retryable_status_code is_user_error
    """,
}

ALIASES = {name: f"{home}:{name}" for home, names in _HOMES.items() for name in names.split()} | {
    "AdminClient": "tinker_ext.clients.rest:AdminClient",
    "RestClient": "tinker_ext.clients.rest:RestClient",
    "SamplingClient": "tinker_ext.clients.sampling:SamplingClient",
    "ServiceClient": "tinker_ext.clients.service:ServiceClient",
    "TrainingClient": "tinker_ext.clients.training:TrainingClient",
    "NoneType": "types:NoneType",
    "Timeout": "httpx:Timeout",
    "__title__": "tinker_ext.compat:EMULATED_TITLE",
    "__version__": "tinker_ext.compat:EMULATED_VERSION",
    "combine_fwd_bwd_output_results": "tinker_ext.batch.merge:merge",
}

DROPPED = {
    "tinker": {
        "BaseModel": "pydantic:BaseModel",
        "DEFAULT_CONNECTION_LIMITS": "tinker_ext.compat.constants:DEFAULT_CONNECTION_LIMITS",
        "DEFAULT_MAX_RETRIES": "tinker_ext.compat.constants:DEFAULT_MAX_RETRIES",
        "DEFAULT_TIMEOUT": "tinker_ext.compat.constants:DEFAULT_TIMEOUT",
        "NOT_GIVEN": "tinker_ext.compat.constants:NOT_GIVEN",
        "NoneType": "types:NoneType",
        "NotGiven": "tinker_ext.compat.constants:NotGiven",
        "Omit": "tinker_ext.compat.constants:Omit",
        "ProxiesTypes": "tinker_ext.compat.constants:ProxiesTypes",
        "Transport": "httpx:BaseTransport",
        "file_from_path": "tinker_ext.compat.constants:file_from_path",
    },
    "tinker.types": {
        "CheckpointArchiveUrlResponse": "tinker_ext.types:CheckpointArchiveUrlResponse",
    },
}
"""What 0.4.1 showed and 0.36.0 no longer does; reading one warns."""

_LOW_LEVEL = "use tinker_api.Client, generated from the API document"
_MACHINERY = "it is machinery of the official SDK, and ours is built differently"
_INTERNAL = """
    _base_client _compat _files _models _qs _resource _response _streaming _utils
    lib._auth_token_provider lib._jwt_auth lib._pydantic_conv lib.async_tinker_provider
    lib.base_url lib.client_connection_pool_type lib.credentials lib.session_futures_poller
    lib.sync_only lib.telemetry_provider types._pydantic_types types._tensor_container
    types._torch_utils
"""
ABSENT = {f"tinker.{path}": _MACHINERY for path in _INTERNAL.split()} | {
    "tinker.APIResponse": _LOW_LEVEL,
    "tinker.AsyncAPIResponse": _LOW_LEVEL,
    "tinker._client": _LOW_LEVEL,
    "tinker.resources": _LOW_LEVEL,
    "tinker.proto": "use tinker_proto.tinker_pb2",
    "tinker.lib.internal_client_holder": "ServiceClient.holder exists and is opaque",
    "tinker.lib.telemetry.Telemetry": "telemetry is an observer of the connection here",
}
"""What the official SDK has and we leave out, with what to use instead (docs/migration.md)."""

# What `from module import *` gives, where the official list is shorter than the module.
PUBLIC = {"tinker": [*TOP.split(), "__title__", "__version__"]}
