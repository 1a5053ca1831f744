"""One row per operation of the API: where it goes, on which lane, how long, what comes back."""

from __future__ import annotations

from typing import Final

import attrs

PREFIX: Final = "/api/v1/"

DEFAULT_SECONDS: Final = 60.0
POLL_SECONDS: Final = 45.0


@attrs.frozen
class Operation:
    """How one operation is sent.

    Attributes:
        name: Name of the operation, as in the document (`operationId`).
        method: HTTP method.
        path: Path below the base URL; `{names}` are filled in by the caller.
        lane: Connection lane: session, train, sample, poll, telemetry or rest.
        retry: Row of the retry table.
        seconds: Time allowed for one attempt.
        reply: Name of the record in the reply; None when the body is ignored.
        result: Name of the record that the future yields; None for a direct reply.
        request_type: Value of X-Tinker-Request-Type while the future is polled.
        era: First server era that has the operation.
        feature: What is missing, in words, when a server lacks it.
    """

    name: str
    method: str
    path: str
    lane: str = "rest"
    retry: str = "read"
    seconds: float = DEFAULT_SECONDS
    reply: str | None = None
    result: str | None = None
    request_type: str = ""
    era: str = "0.4.1"
    feature: str = ""

    def url_path(self, **parts: str) -> str:
        """The path with its parameters filled in, as the server expects them (not escaped)."""
        return PREFIX + (self.path.format(**parts) if parts else self.path)


def _future(
    name: str, result: str, request_type: str, *, lane: str = "train", era: str = "0.4.1"
) -> Operation:
    return Operation(
        name,
        "POST",
        name,
        lane=lane,
        retry="dedupe",
        reply="UntypedAPIFuture",
        result=result,
        request_type=request_type,
        era=era,
        feature=f"operation {name}",
    )


def _rest(
    name: str, method: str, path: str, reply: str | None, *, era: str = "0.36.0", feature: str = ""
) -> Operation:
    return Operation(
        name,
        method,
        path,
        retry="read" if method == "GET" else "dedupe",
        reply=reply,
        era=era,
        feature=feature or name.replace("_", " "),
    )


_RUN = "training_runs/{training_run_id}"
_CHECKPOINT = _RUN + "/checkpoints/{checkpoint_kind}/{checkpoint_name}"

_ROWS: Final = (
    # service, session, auth, config
    Operation("healthz", "GET", "healthz", reply="HealthResponse"),
    Operation(
        "get_server_capabilities",
        "GET",
        "get_server_capabilities",
        reply="GetServerCapabilitiesResponse",
        feature="list of capabilities",
    ),
    Operation(
        "create_session",
        "POST",
        "create_session",
        lane="session",
        retry="dedupe",
        reply="CreateSessionResponse",
    ),
    Operation(
        "session_heartbeat",
        "POST",
        "session_heartbeat",
        lane="session",
        retry="once",
        seconds=10.0,
        reply="SessionHeartbeatResponse",
    ),
    Operation(
        "create_sampling_session",
        "POST",
        "create_sampling_session",
        lane="session",
        reply="CreateSamplingSessionResponse",
        feature="sampling sessions",
    ),
    Operation(
        "join_sampling_session",
        "POST",
        "join_sampling_session",
        lane="session",
        reply="JoinSamplingSessionResponse",
        era="0.36.0",
    ),
    Operation(
        "finish_session", "POST", "sessions/{session_id}/finish", lane="session", era="0.36.0"
    ),
    Operation(
        "client_config",
        "POST",
        "client/config",
        lane="session",
        reply="ClientConfigResponse",
        era="0.36.0",
    ),
    Operation(
        "client_dynamic_config",
        "POST",
        "client/dynamic_config",
        lane="session",
        retry="once",
        seconds=10.0,
        reply="ClientDynamicConfigResponse",
        era="0.36.0",
    ),
    Operation(
        "auth_token", "POST", "auth/token", lane="session", reply="AuthTokenResponse", era="0.36.0"
    ),
    Operation(
        "send_telemetry",
        "POST",
        "telemetry",
        lane="telemetry",
        retry="once",
        seconds=5.0,
        feature="telemetry",
    ),
    # models, training, futures
    _future("create_model", "CreateModelResponse", "CreateModel"),
    Operation(
        "get_info", "POST", "get_info", lane="train", reply="GetInfoResponse", feature="get_info"
    ),
    _future("unload_model", "UnloadModelResponse", "UnloadModel"),
    _future("forward", "ForwardBackwardOutput", "Forward"),
    _future("forward_backward", "ForwardBackwardOutput", "ForwardBackward"),
    _future("optim_step", "OptimStepResponse", "OptimStep"),
    _future("create_custom_loss", "CreateCustomLossResponse", "CreateCustomLoss", era="0.36.0"),
    Operation(
        "asample",
        "POST",
        "asample",
        lane="sample",
        retry="dedupe",
        reply="UntypedAPIFuture",
        result="SampleResponse",
        request_type="Sample",
        feature="sampling",
    ),
    Operation(
        "retrieve_future",
        "POST",
        "retrieve_future",
        lane="poll",
        retry="poll",
        seconds=POLL_SECONDS,
    ),
    Operation(
        "retrieve_futures",
        "POST",
        "retrieve_futures",
        lane="poll",
        retry="poll",
        seconds=POLL_SECONDS,
        reply="FuturesRetrieveResponse",
        era="0.36.0",
    ),
    Operation(
        "cancel_future",
        "POST",
        "cancel_future",
        lane="poll",
        retry="once",
        seconds=30.0,
        era="0.36.0",
    ),
    # weights
    _future("save_weights", "SaveWeightsResponse", "SaveWeights"),
    _future("load_weights", "LoadWeightsResponse", "LoadWeights"),
    _future(
        "save_weights_for_sampler",
        "SaveWeightsForSamplerResponseInternal",
        "SaveWeightsForSampler",
    ),
    _future(
        "save_weights_external",
        "SaveWeightsExternalResponseInternal",
        "SaveWeightsExternal",
        era="0.36.0",
    ),
    Operation(
        "copy_weights",
        "POST",
        "copy_weights",
        reply="CopyWeightsResponse",
        era="0.36.0",
        feature="copying of weights",
    ),
    Operation(
        "weights_info",
        "POST",
        "weights_info",
        reply="WeightsInfoResponse",
        era="0.36.0",
        feature="weights_info",
    ),
    # REST
    _rest("list_training_runs", "GET", "training_runs", "TrainingRunsResponse", era="0.4.1"),
    _rest("get_training_run", "GET", _RUN, "TrainingRun", era="0.4.1"),
    _rest("list_checkpoints", "GET", _RUN + "/checkpoints", "CheckpointsListResponse", era="0.4.1"),
    _rest("list_user_checkpoints", "GET", "checkpoints", "CheckpointsListResponse", era="0.4.1"),
    _rest("delete_checkpoint", "DELETE", _CHECKPOINT, None, era="0.4.1"),
    _rest("get_checkpoint_archive_url", "GET", _CHECKPOINT + "/archive", None, era="0.4.1"),
    Operation(
        "publish_checkpoint",
        "POST",
        _CHECKPOINT + "/publish",
        retry="final409",
        feature="publishing of checkpoints",
    ),
    Operation(
        "unpublish_checkpoint",
        "DELETE",
        _CHECKPOINT + "/publish",
        retry="final409",
        feature="publishing of checkpoints",
    ),
    _rest("set_checkpoint_ttl", "PUT", _CHECKPOINT + "/ttl", None, feature="checkpoint TTL"),
    _rest(
        "get_external_weights_urls",
        "GET",
        _CHECKPOINT + "/external_weights_urls",
        "ExternalWeightsUrlsResponse",
        feature="external weights",
    ),
    _rest("list_sessions", "GET", "sessions", "ListSessionsResponse"),
    _rest("get_session", "GET", "sessions/{session_id}", "GetSessionResponse"),
    _rest("search_sessions", "POST", "sessions/search", "SessionSearchResponse"),
    _rest("assign_session_project", "PUT", "sessions/{session_id}/project", None),
    _rest("get_session_trace_export", "GET", "sessions/{session_id}/trace_export", None),
    _rest("get_sampler", "GET", "samplers/{sampler_id}", "GetSamplerResponse"),
    _rest("get_audit_log", "GET", "audit", "AuditLogResponse"),
    _rest("get_billing_usage", "GET", "billing/usage/events", "BillingUsageResponse"),
    _rest(
        "get_current_checkpoint_storage_usage",
        "GET",
        "billing/usage/checkpoints/current",
        "CurrentCheckpointStorageUsageResponse",
    ),
)

OPERATIONS: Final = {row.name: row for row in _ROWS}
"""Every operation by name."""


def operation(name: str) -> Operation:
    """The row of an operation."""
    return OPERATIONS[name]
