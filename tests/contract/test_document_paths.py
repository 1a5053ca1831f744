"""The document lists every endpoint of both eras, with its parameters, bodies and errors."""

from __future__ import annotations

import keyword

from contract import document as doc
from rows import for_each

BOTH, OLD, NEW = ("0.4.1", "0.36.0"), ("0.4.1",), ("0.36.0",)
CHECKPOINT = "/training_runs/{training_run_id}/checkpoints/{checkpoint_kind}/{checkpoint_name}"
FUTURE, NOTHING = "UntypedAPIFuture", None

# operationId: method, path below /api/v1, eras, request schema, schema of the 200 reply
ENDPOINTS = {
    "health_check": ("GET", "/healthz", BOTH, None, "HealthResponse"),
    "get_server_capabilities": (
        "GET", "/get_server_capabilities", BOTH, None, "GetServerCapabilitiesResponse"),
    "create_session": (
        "POST", "/create_session", BOTH, "CreateSessionRequest", "CreateSessionResponse"),
    "session_heartbeat": (
        "POST", "/session_heartbeat", BOTH, "SessionHeartbeatRequest", "SessionHeartbeatResponse"),
    "create_sampling_session": (
        "POST", "/create_sampling_session", BOTH,
        "CreateSamplingSessionRequest", "CreateSamplingSessionResponse"),
    "join_sampling_session": (
        "POST", "/join_sampling_session", NEW,
        "JoinSamplingSessionRequest", "JoinSamplingSessionResponse"),
    "finish_session": (
        "POST", "/sessions/{session_id}/finish", NEW, "FinishSessionRequest", NOTHING),
    "get_client_config": (
        "POST", "/client/config", NEW, "ClientConfigRequest", "ClientConfigResponse"),
    "get_client_dynamic_config": (
        "POST", "/client/dynamic_config", NEW,
        "ClientConfigRequest", "ClientDynamicConfigResponse"),
    "create_auth_token": (
        "POST", "/auth/token", NEW, "AuthTokenRequest", "AuthTokenResponse"),
    "get_api_key": ("GET", "/auth/apikey/me", NEW, None, "ApiKeyInfoResponse"),
    "delete_api_key": ("DELETE", "/auth/apikey/me", NEW, None, NOTHING),
    "send_telemetry": (
        "POST", "/telemetry", BOTH, "TelemetrySendRequest", "TelemetryResponse"),
    "create_model": ("POST", "/create_model", BOTH, "CreateModelRequest", FUTURE),
    "get_info": ("POST", "/get_info", BOTH, "GetInfoRequest", "GetInfoResponse"),
    "unload_model": ("POST", "/unload_model", OLD, "UnloadModelRequest", FUTURE),
    "forward": ("POST", "/forward", OLD, "ForwardRequest", FUTURE),
    "forward_backward": ("POST", "/forward_backward", BOTH, "ForwardBackwardRequest", FUTURE),
    "optim_step": ("POST", "/optim_step", BOTH, "OptimStepRequest", FUTURE),
    "create_custom_loss": ("POST", "/create_custom_loss", NEW, "CreateCustomLossRequest", FUTURE),
    "sample": ("POST", "/asample", BOTH, "SampleRequest", FUTURE),
    "retrieve_future": (
        "POST", "/retrieve_future", BOTH, "FutureRetrieveRequest", "FutureRetrieveResponse"),
    "retrieve_futures": (
        "POST", "/retrieve_futures", NEW, "FuturesRetrieveRequest", "FuturesRetrieveResponse"),
    "cancel_future": ("POST", "/cancel_future", NEW, "CancelFutureRequest", NOTHING),
    "save_weights": ("POST", "/save_weights", BOTH, "SaveWeightsRequest", FUTURE),
    "load_weights": ("POST", "/load_weights", BOTH, "LoadWeightsRequest", FUTURE),
    "save_weights_for_sampler": (
        "POST", "/save_weights_for_sampler", BOTH, "SaveWeightsForSamplerRequest", FUTURE),
    "save_weights_external": (
        "POST", "/save_weights_external", NEW, "SaveWeightsExternalRequest", FUTURE),
    "copy_weights": ("POST", "/copy_weights", NEW, "CopyWeightsRequest", "CopyWeightsResponse"),
    "get_weights_info": (
        "POST", "/weights_info", NEW, "WeightsInfoRequest", "WeightsInfoResponse"),
    "list_training_runs": ("GET", "/training_runs", BOTH, None, "TrainingRunsResponse"),
    "get_training_run": ("GET", "/training_runs/{training_run_id}", BOTH, None, "TrainingRun"),
    "list_training_run_checkpoints": (
        "GET", "/training_runs/{training_run_id}/checkpoints", BOTH,
        None, "CheckpointsListResponse"),
    "list_checkpoints": ("GET", "/checkpoints", BOTH, None, "CheckpointsListResponse"),
    "delete_checkpoint": ("DELETE", CHECKPOINT, BOTH, None, NOTHING),
    "get_checkpoint_archive": ("GET", CHECKPOINT + "/archive", OLD, None, NOTHING),
    "publish_checkpoint": ("POST", CHECKPOINT + "/publish", BOTH, None, NOTHING),
    "unpublish_checkpoint": ("DELETE", CHECKPOINT + "/publish", BOTH, None, NOTHING),
    "set_checkpoint_ttl": ("PUT", CHECKPOINT + "/ttl", NEW, "SetCheckpointTtlRequest", NOTHING),
    "get_external_weights_urls": (
        "GET", CHECKPOINT + "/external_weights_urls", NEW, None, "ExternalWeightsUrlsResponse"),
    "list_sessions": ("GET", "/sessions", NEW, None, "ListSessionsResponse"),
    "get_session": ("GET", "/sessions/{session_id}", NEW, None, "GetSessionResponse"),
    "search_sessions": (
        "POST", "/sessions/search", NEW, "SessionSearchRequest", "SessionSearchResponse"),
    "set_session_project": (
        "PUT", "/sessions/{session_id}/project", NEW, "SetSessionProjectRequest", NOTHING),
    "get_session_trace_export": (
        "GET", "/sessions/{session_id}/trace_export", NEW, None, "TraceExportResponse"),
    "get_sampler": ("GET", "/samplers/{sampler_id}", NEW, None, "GetSamplerResponse"),
    "list_audit_log": ("GET", "/audit", NEW, None, "AuditLogResponse"),
    "list_billing_usage_events": (
        "GET", "/billing/usage/events", NEW, None, "BillingUsageResponse"),
    "get_current_checkpoint_storage": (
        "GET", "/billing/usage/checkpoints/current", NEW,
        None, "CurrentCheckpointStorageUsageResponse"),
}  # fmt: skip
# Query parameters and their defaults; "!" marks a required one.
QUERIES = {
    "list_training_runs": {
        "limit": 20, "offset": 0, "access_scope": "owned", "project_id": None},
    "get_training_run": {"access_scope": "owned"},
    "list_checkpoints": {"limit": 100, "offset": 0},
    "list_sessions": {"limit": 20, "offset": 0, "access_scope": "owned"},
    "get_session": {"access_scope": "owned"},
    "list_audit_log": {"event_type": "all", "day": None},
    "list_billing_usage_events": {"starting_on": "!", "ending_before": "!"},
    "get_current_checkpoint_storage": {"project_id": None},
}  # fmt: skip
ERRORS = ["400", "401", "402", "403", "404", "408", "409", "410", "422", "429", "5XX"]
RETRY_HEADERS = {"retry-after-ms", "retry-after", "x-should-retry"}
DEPRECATION_HEADERS = {"x-deprecation-note", "x-deprecation-level"}
OPERATIONS = {operation.id: operation for operation in doc.operations()}
each_operation = for_each(OPERATIONS.values(), lambda operation: operation.id)


def test_endpoints_are_those_of_both_eras():
    """M1: every endpoint of W§1 is in the document, marked with its eras, and no other."""
    found = {
        operation.id: (operation.method, operation.template, operation.eras)
        for operation in doc.operations()
    }
    assert found == {
        name: (method, "/api/v1" + path, eras)
        for name, (method, path, eras, _, _) in ENDPOINTS.items()
    }


@each_operation
def test_bodies_are_those_of_the_table(operation):
    """M1: each operation takes and gives the schemas of W§1.2."""
    _, _, _, request, reply = ENDPOINTS[operation.id]
    json_body = operation.request_content.get("application/json", {})
    assert doc.schema_name(json_body) == request
    content = operation.responses.get("200", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    assert doc.schema_name(schema) == reply


@for_each(name for name in ENDPOINTS if ENDPOINTS[name][4] is NOTHING)
def test_ignored_bodies_are_not_documented(name):
    """M1: where clients ignore the reply, any 2xx without a body is documented."""
    responses = OPERATIONS[name].responses
    if name == "get_checkpoint_archive":
        assert set(responses["302"]["headers"]) == {"Location", "Expires"}
        assert not any(status.startswith("2") for status in responses)
    else:
        assert not responses["204"].get("content")
        assert not responses["2XX"].get("content")


@each_operation
def test_operation_ids_make_good_python(operation):
    """M5: operationIds are unique snake_case names with one tag that the document describes."""
    name = operation.id
    assert name.isidentifier()
    assert name == name.lower()
    assert not keyword.iskeyword(name)
    described = {tag["name"] for tag in doc.load_document()["tags"]}
    assert len(operation.raw["tags"]) == 1
    assert operation.tag in described
    assert operation.tag.isidentifier()


def test_operation_ids_are_unique():
    """M5: no two operations share an operationId."""
    names = [operation.id for operation in doc.operations()]
    assert len(names) == len(set(names)) == len(ENDPOINTS)


@each_operation
def test_path_parameters_match_the_template(operation):
    """M1: each braced name is a required path parameter, and there are no others."""
    named = {name for place, name in operation.parameters if place == "path"}
    assert named == {part[1:-1] for part in operation.template.split("/") if part[:1] == "{"}
    assert all(
        parameter.get("required")
        for (place, _), parameter in operation.parameters.items()
        if place == "path"
    )


def test_checkpoint_id_is_two_parameters():
    """M35: the slash of a checkpoint id separates a closed kind from a free name."""
    with_checkpoint = [o for o in doc.operations() if "{checkpoint_name}" in o.template]
    assert len(with_checkpoint) == 6
    for operation in with_checkpoint:
        assert "{checkpoint_kind}/{checkpoint_name}" in operation.template
        kind = operation.parameters["path", "checkpoint_kind"]["schema"]
        assert doc.resolve(operation.document, kind)["enum"] == [
            "weights",
            "sampler_weights",
            "external_weights",
        ]


@each_operation
def test_query_parameters_and_defaults(operation):
    """M35: query parameters carry the defaults of W§1.2."""
    found = {
        name: "!" if parameter.get("required") else parameter["schema"].get("default")
        for (place, name), parameter in operation.parameters.items()
        if place == "query"
    }
    assert found == QUERIES.get(operation.id, {})


@each_operation
def test_header_parameters(operation):
    """M20, M35: who sends an idempotency key and who tells the SDK's method."""
    headers = {name for place, name in operation.parameters if place == "header"}
    plain_http = operation.tag == "auth" and "apikey" in operation.template
    assert ("x-idempotency-key" in headers) == (operation.method != "GET" and not plain_http)
    assert ("x-sdk-method" in headers) == ("x-sdk-version" in headers)


def test_special_headers():
    """M22, M23, M33: headers with a meaning are documented where they are sent."""
    poll = OPERATIONS["retrieve_future"].parameters
    assert poll["header", "x-tinker-request-iteration"]["schema"]["type"] == "integer"
    assert poll["header", "x-tinker-create-promise-roundtrip-time"]["schema"]["type"] == "number"
    assert "SaveWeightsExternal" in poll["header", "x-tinker-request-type"]["schema"]["enum"]
    sample = OPERATIONS["sample"].parameters
    assert sample["header", "x-tinker-sampling-backpressure"]["schema"]["enum"] == ["1"]
    token = OPERATIONS["copy_weights"].parameters["header", "x-tinker-weights-access-token"]
    assert token["x-secret"] is True
    assert token["schema"]["format"] == "password"


@each_operation
def test_errors_and_retry_headers(operation):
    """M24, M38: every operation documents each error, its body and when to try again."""
    responses = operation.responses
    assert "default" not in responses
    assert [status for status in responses if status[0] in "45"] == ERRORS
    for status in ERRORS:
        assert "application/json" in responses[status]["content"]
        assert set(responses[status]["headers"]) == RETRY_HEADERS | DEPRECATION_HEADERS
    for status, response in responses.items():
        if status[0] == "2":
            assert set(response["headers"]) == DEPRECATION_HEADERS


@each_operation
def test_security(operation):
    """M33: all but the health check need the key, said on the operation itself."""
    wanted = [] if operation.id == "health_check" else [{"ApiKeyAuth": []}]
    assert operation.raw["security"] == wanted
    scheme = doc.load_document()["components"]["securitySchemes"]["ApiKeyAuth"]
    assert (scheme["in"], scheme["name"]) == ("header", "X-API-Key")


def test_both_wires():
    """M27: training data and results travel as JSON or protobuf, JSON listed first."""
    media = ["application/json", "application/x-protobuf"]
    assert list(OPERATIONS["forward_backward"].request_content) == media
    assert list(OPERATIONS["retrieve_future"].responses["200"]["content"]) == media
    encoding = OPERATIONS["forward_backward"].parameters["header", "content-encoding"]
    assert encoding["schema"]["enum"] == ["zstd"]


def test_component_references_resolve():
    """M1: every component that an operation names is there."""

    def walk(node):
        if isinstance(node, dict):
            if "$ref" in node:
                assert doc.resolve(doc.load_document(), node)
            for child in node.values():
                walk(child)
        elif isinstance(node, list):
            for child in node:
                walk(child)

    walk(doc.load_document()["paths"])
    walk(doc.load_document()["components"])
