"""Traffic that no recording holds but both eras may send: nulls, absences, errors, rare calls."""

from __future__ import annotations

import base64
import json

import pytest
import zstandard
from contract import document as doc
from contract import golden
from tinker_proto import tinker_pb2

OLD, NEW = "0.4.1", "0.36.0"
TICKET = {"request_id": "r"}
TIME = "2026-01-02T03:04:05.123456Z"
CHECKPOINT = {
    "checkpoint_id": "external_weights/x",
    "checkpoint_type": "external",
    "time": "2026-01-02T03:04:05+00:00",
    "tinker_path": "tinker://a:train:0/external_weights/x",
}
RUN = {
    "training_run_id": "a:train:0",
    "base_model": "B",
    "model_owner": "me",
    "is_lora": False,
    "last_request_time": TIME,
}
EVENT = {"event_id": "e", "event_session_index": 3, "severity": "ERROR", "timestamp": TIME}
TEXT = {"chunks": [{"tokens": [], "type": "encoded_text"}]}
OLD_IMAGE = {"data": "iVBORw==", "format": "jpeg", "height": 1, "width": 2, "tokens": 3}
OLD_POINTER = {"location": "s3://x", "format": "png", "height": 1, "width": 2, "tokens": 3}
SPARSE = {
    "data": [1, 2],
    "dtype": "int64",
    "shape": [2, 3],
    "sparse_crow_indices": [0, 1, 2],
    "sparse_col_indices": [0, 2],
}
NODE = {"op": "call_function", "name": "n", "target": "t", "args": [1, None], "kwargs": {"k": None}}
RUN_PATH = "training_runs/a:train:0"
OLD_CHECKPOINT = RUN_PATH + "/checkpoints/sampler_weights/n"
EXTERNAL = RUN_PATH + "/checkpoints/external_weights/x.y"


def datum(**tensors):
    return {"model_input": {"chunks": [{"tokens": [1]}]}, "loss_fn_inputs": tensors}


def train(data, loss="cross_entropy", **config):
    given = {"data": data, "loss_fn": loss, **config}
    return {"forward_backward_input": given, "model_id": "m", "seq_id": None}


# era, request line, body, status, reply
TRAFFIC = [
    # -- explicit nulls of 0.4.1, absent nulls and sent defaults of 0.36.0
    (OLD, "POST create_session", {"tags": [""], "user_metadata": None, "sdk_version": "0.4.1"},
     200, {"session_id": "s", "warning_message": "w"}),
    (NEW, "POST create_session",
     {"tags": [], "user_metadata": {"a": {"b": [None]}}, "sdk_version": "x",
      "type": "create_session"},
     200, {"session_id": "s", "new_field": {"x": None}}),
    (OLD, "POST create_model",
     {"session_id": "s", "model_seq_id": 0, "base_model": "B", "user_metadata": None,
      "lora_config": None}, 200, {"request_id": "r", "model_id": "m"}),
    (NEW, "POST create_model",
     {"session_id": "s", "model_seq_id": 4, "base_model": "B", "type": "create_model",
      "user_metadata": {"a": 1, "n": None}, "optimizer_config": {"type": "sophia", "rho": 0.1},
      "lora_config": {"rank": 1, "train_unembed": False, "train_mlp": False, "train_attn": False}},
     200, TICKET),
    (OLD, "POST create_sampling_session",
     {"session_id": "s", "sampling_session_seq_id": 1, "base_model": None, "model_path": None},
     200, {"sampling_session_id": "s:sample:1"}),
    (OLD, "POST save_weights", {"model_id": "m", "path": None, "seq_id": None}, 200, TICKET),
    (NEW, "POST save_weights",
     {"model_id": "m", "seq_id": 2, "overwrite": True, "type": "save_weights",
      "user_metadata": {}, "ttl_seconds": 315360000}, 200, TICKET),
    (OLD, "POST save_weights_for_sampler",
     {"model_id": "m", "path": None, "sampling_session_seq_id": 0, "seq_id": 1}, 200, TICKET),
    (NEW, "POST save_weights_for_sampler",
     {"model_id": "m", "path": "p", "seq_id": 1, "ttl_seconds": 3600, "user_metadata": {"a": "b"},
      "type": "save_weights_for_sampler"}, 200, TICKET),
    (NEW, "POST save_weights_external",
     {"model_id": "m", "path": "p", "seq_id": 1, "age_encryption_recipients": ["age1"],
      "ttl_seconds": 3600, "type": "save_weights_external"}, 200, TICKET),
    (NEW, "POST load_weights",
     {"session_id": "s", "model_seq_id": 2, "base_model": "B", "path": "p", "optimizer": True,
      "user_metadata": {"x": 1}, "optimizer_config": {"type": "dimuon", "version": 1},
      "weights_access_token": "t", "type": "load_weights"}, 200, TICKET),
    (OLD, "POST unload_model", {"model_id": "m", "type": "unload_model"}, 200, TICKET),
    # -- training
    (OLD, "POST forward_backward", train([]), 200, TICKET),
    (OLD, "POST forward_backward",
     train([datum(target_tokens={"data": [1], "dtype": "int64", "shape": None})], "ppo",
           loss_fn_config={"clip": 1, "low": 0.5}), 200, TICKET),
    (OLD, "POST forward_backward",
     train([datum(weights={"data": [1, 2.5], "dtype": "float32"})], "importance_sampling",
           loss_fn_config=None), 200, TICKET),
    (OLD, "POST forward_backward",
     train([{"model_input": {"chunks": [OLD_IMAGE, OLD_POINTER]}, "loss_fn_inputs": {}}]),
     200, TICKET),
    (OLD, "POST forward",
     {"forward_input": {"data": [datum()], "loss_fn": "cross_entropy"}, "model_id": "m"},
     200, TICKET),
    (OLD, "POST optim_step",
     {"adam_params": {"learning_rate": 1, "beta1": 0, "beta2": 0.5, "eps": 1e-8},
      "model_id": "m", "seq_id": None}, 200, TICKET),
    (NEW, "POST optim_step",
     {"model_id": "m", "seq_id": 1, "type": "optim_step",
      "optimizer_params": {"type": "sophia", "rho": [1, None]}}, 200, TICKET),
    (NEW, "POST create_custom_loss",
     {"session_id": "s", "custom_loss_seq_id": 0, "name": "l", "type": "create_custom_loss",
      "inputs": [{"name": "logprobs", "rank": 0}, {"name": "x", "rank": 2}],
      "graph": {"format": 1, "nodes": [NODE]}}, 200, TICKET),
    # -- sampling
    (OLD, "POST asample",
     {"prompt": {"chunks": []}, "base_model": "B", "model_path": None, "seq_id": None,
      "sampling_session_id": None, "prompt_logprobs": None,
      "sampling_params": {"stop": None, "max_tokens": None, "seed": None}}, 200, TICKET),
    (OLD, "POST asample",
     {"prompt": {"chunks": [{"tokens": [1], "type": "encoded_text"}]}, "model_path": "p",
      "sampling_params": {"stop": "x", "temperature": 0, "top_p": 1, "top_k": 5}},
     200, {"request_id": "r", "model_id": None, "sample_sequence_ids": None}),
    (NEW, "POST asample",
     {"num_samples": 2, "prompt": TEXT, "sampling_session_id": "x", "seq_id": 1000000000,
      "sampling_params": {"stop": [1, 2], "temperature": 0.0, "top_k": -1, "top_p": 1.0},
      "target_prompt_logprobs": SPARSE, "prompt_logprobs": True, "topk_prompt_logprobs": 0,
      "topk_sample_logprobs": 2, "prompt_alt_tokens_k": 3, "prompt_logprobs_last_n": 1,
      "record_stability_info": True, "type": "sample"},
     200, {"request_id": "r", "sample_sequence_ids": ["a", "b"]}),
    (NEW, "POST join_sampling_session",
     {"sampling_session_id": "x", "type": "join_sampling_session"}, 200, {"client_counter": 3}),
    # -- futures
    (NEW, "POST retrieve_future", {"request_id": "r", "allow_metadata_only": True},
     200, {"status": "complete_metadata", "response_payload_size": 10}),
    (OLD, "POST retrieve_future", {"request_id": "r"}, 200, {"error": "e", "category": "user"}),
    (OLD, "POST retrieve_future", {"request_id": "r"}, 200, {"error": "e", "category": "other"}),
    (NEW, "POST retrieve_future", {"request_id": "r", "allow_metadata_only": False},
     200, {"type": "try_again", "request_id": "r", "queue_state": "paused_new",
           "queue_state_reason": "why"}),
    (NEW, "POST retrieve_future", {"request_id": "r"}, 408, {"queue_state": "paused_capacity"}),
    (NEW, "POST retrieve_future", {"request_id": "r"},
     408, {"type": "try_again", "request_id": "r", "queue_state": "x", "queue_state_reason": "y"}),
    (OLD, "POST retrieve_future", {"request_id": "r"}, 408, {}),
    (OLD, "POST retrieve_future", {"request_id": "r"}, 410, {"detail": "gone"}),
    (NEW, "POST retrieve_futures",
     {"target": {"type": "sampling_session", "sampling_session_id": "x", "cloned_sampler_id": 0},
      "prev_cursor": 0, "retrieved_request_ids": ["r"]},
     200, {"completions": [
         {"state": "finished", "request_id": "r", "response_payload_uncompressed_size": 5},
         {"state": "finished", "request_id": "q", "response_payload_uncompressed_size": None},
         {"state": "failed", "request_id": "p"}], "cursor": 7}),
    (NEW, "POST cancel_future", {"request_id": "r"}, 200, {"anything": 1}),
    # -- errors
    (OLD, "POST create_model", {"session_id": "s", "model_seq_id": 0, "base_model": "B"},
     422, {"detail": [{"loc": ["body", "x", 0], "msg": "m", "type": "missing", "input": None}]}),
    (NEW, "POST session_heartbeat", {"session_id": "s"}, 410, {"error": "ended"}),
    (NEW, "POST asample", {"prompt": TEXT, "sampling_params": {}}, 429, {"detail": "slow down"}),
    (NEW, "POST asample", {"prompt": TEXT, "sampling_params": {}}, 402, {"detail": {"code": 1}}),
    (OLD, "GET get_server_capabilities", None, 401, {"message": "no", "code": 5}),
    (OLD, "GET get_server_capabilities", None, 524, {"detail": None}),
    (NEW, "POST " + OLD_CHECKPOINT + "/publish", None, 409, {"detail": "already public"}),
    (NEW, "GET auth/apikey/me", None, 403, {"detail": None}),
    (NEW, "PUT sessions/s/project", {"project_id": "p"}, 404, {}),
    # -- service and REST
    (NEW, "GET healthz", None, 200, {"status": "ok"}),
    (OLD, "GET get_server_capabilities", None, 200, {"supported_models": []}),
    (NEW, "GET get_server_capabilities", None,
     200, {"supported_models": [{}, {"model_name": None, "max_context_length": None}]}),
    (NEW, "POST client/config", {"sdk_version": "x"},
     200, {"parallel_fwdbwd_chunks": False, "fwdbwd_max_chunk_len": 7, "unheard_of": 1}),
    (NEW, "POST client/dynamic_config", {"sdk_version": "x"}, 200, {"refresh_interval_sec": 10}),
    (OLD, "POST get_info", {"model_id": "m"},
     200, {"model_id": "m", "model_data": {}, "type": None, "is_lora": None, "lora_rank": None}),
    (NEW, "POST get_info", {"model_id": "m", "type": "get_info"},
     200, {"model_id": "m", "model_data": {"arch": None, "extra": 1},
           "optimizer_config": {"type": "dimuon", "version": 1}}),
    (OLD, "GET training_runs?limit=1&offset=0", None,
     200, {"training_runs": [], "cursor": {"offset": 0, "limit": 1, "total_count": 0}}),
    (NEW, "GET training_runs?limit=1&offset=0&access_scope=accessible&project_id=p", None,
     200, {"training_runs": [{**RUN, "last_checkpoint": CHECKPOINT, "corrupted": True}],
           "cursor": {"offset": 0, "limit": 1, "total_count": 1}}),
    (OLD, "GET " + RUN_PATH, None,
     200, {**RUN, "lora_rank": None, "user_metadata": None, "last_sampler_checkpoint": None}),
    (NEW, f"GET {RUN_PATH}/checkpoints", None,
     200, {"checkpoints": [{**CHECKPOINT, "expires_at": TIME, "user_metadata": {"a": "b"}},
                           {**CHECKPOINT, "expires_at": None, "size_bytes": None}],
           "cursor": None}),
    (OLD, "GET checkpoints?limit=1&offset=5", None, 200, {"checkpoints": []}),
    (OLD, f"GET {OLD_CHECKPOINT}/archive", None, 302, None),
    (OLD, f"DELETE {OLD_CHECKPOINT}/publish", None, 200, None),
    (NEW, f"PUT {EXTERNAL}/ttl", {"ttl_seconds": None}, 202, None),
    (NEW, f"GET {EXTERNAL}/external_weights_urls", None,
     200, {"urls": {}, "expires": "2026-01-02T03:04:05.5Z"}),
    (NEW, "POST copy_weights",
     {"session_id": "s", "model_seq_id": 1, "source_path": "p", "weights_access_token": "t"},
     200, {"tinker_path": "q"}),
    (NEW, "POST weights_info", {"tinker_path": "p"},
     200, {"base_model": "B", "is_lora": False, "optimizer_config": {"type": "new", "x": 1}}),
    (NEW, "POST sessions/s/finish", {"reason": {"type": "errored"}, "detail": "why"}, 204, None),
    (NEW, "GET sessions/s?access_scope=accessible", None,
     200, {"training_run_ids": [], "sampler_ids": [], "user_metadata": {"a": "b"}}),
    (NEW, "GET sessions?limit=5&offset=5&access_scope=owned", None, 200, {"sessions": []}),
    (NEW, "GET sessions/s/trace_export", None, 200, {"status": "pending"}),
    (NEW, "GET sessions/s/trace_export", None, 200, {"status": "failed", "error": "e"}),
    (NEW, "GET samplers/s:sample:0", None,
     200, {"sampler_id": "s:sample:0", "base_model": "B", "model_path": "p"}),
    (NEW, "GET audit?event_type=teams", None,
     200, {"entries": [{"timestamp": TIME, "event": "x_y", "model_id": None, "purpose": "p"}]}),
    (NEW, "GET audit?event_type=all&day=2026-02-28", None, 307, None),
    (NEW, "GET auth/apikey/me", None,
     200, {"key_id": 1, "name": "n", "note": "", "details":
           {"org_details": {"name": "o"}, "user_details": {"email": "e"}}}),
    (NEW, "DELETE auth/apikey/me", None, 204, None),
    (NEW, "GET billing/usage/checkpoints/current", None,
     200, {"data": [{"checkpoint_count": 0, "size_bytes": 0, "size_gigabytes": 0,
                     "estimated_monthly_cost_usd": None, "user_email": "e"}]}),
    (NEW, "POST telemetry",
     {"events": [
         {**EVENT, "event": "SESSION_END", "duration": "1 day, 0:00:00"},
         {**EVENT, "event": "UNHANDLED_EXCEPTION", "error_type": "E", "error_message": "m",
          "traceback": None},
         {**EVENT, "event": "GENERIC_EVENT", "event_name": "n", "event_data": {"a": None}}],
      "platform": "Linux", "sdk_version": "x", "session_id": "s", "process_uuid": "u"},
     200, {"status": "accepted"}),
    (OLD, "POST telemetry",
     {"events": [], "platform": "Linux", "sdk_version": "x", "session_id": "s"},
     200, {"status": "accepted"}),
]  # fmt: skip
RESULTS = [
    ("CreateModel", {"model_id": "m"}),
    ("CreateCustomLoss", {"loss_id": "l", "type": "create_custom_loss"}),
    ("ForwardBackward", {"loss_fn_output_type": "", "loss_fn_outputs": [], "metrics": {}}),
    ("Forward", {"loss_fn_output_type": "T", "metrics": {"loss:sum": 1, "x": 2.5},
                 "loss_fn_outputs": [{}, {"logprobs": {"data": [0], "dtype": "float32"}}]}),
    ("OptimStep", {"metrics": None}),
    ("OptimStep", {"metrics": {}}),
    ("OptimStep", {}),
    ("Sample", {"sequences": [{"stop_reason": "stop", "tokens": [], "logprobs": None}],
                "prompt_logprobs": None, "topk_prompt_logprobs": None, "type": "sample"}),
    ("Sample", {"sequences": [], "topk_prompt_logprobs": [None, [], [[1, -1], [2, -2.5]]]}),
    ("SaveWeights", {"path": "p"}),
    ("SaveWeights", {"path": "p", "type": None}),
    ("LoadWeights", {"path": None, "model_id": "m"}),
    ("LoadWeights", {}),
    ("SaveWeightsForSampler", {"sampling_session_id": "x"}),
    ("SaveWeightsForSampler", {"path": "p", "sampling_session_id": None, "type": None}),
    ("SaveWeightsExternal", {"path": "p", "size_bytes": None}),
    ("UnloadModel", {"model_id": "m", "type": None}),
]  # fmt: skip
BILLING = [
    {"type": "sampling_prefill", "cached": True, "token_count": 0},
    {"type": "sampling_sample", "token_count": 1},
    {"type": "checkpoint", "count": 2},
    {"type": "storage", "gigabyte_hours": 1},
    {"token_count": 1},
]
STATUSES = [
    None,
    {"type": "active"},
    {"type": "cancelled", "detail": None},
    {"type": "client_finished", "reason": {"type": "interrupted"}, "detail": "d"},
    {"type": "failed", "category": "internal", "message": "m",
     "reason": {"type": "request", "request_id": "r", "request_type": "Sample"}},
    {"type": "failed", "category": "user", "message": "m",
     "reason": {"type": "sampling_session", "sampling_session_id": "x"}},
]  # fmt: skip


def record(era, line, body, status, reply, **headers):
    method, path = line.split(" ")
    sent = {"Content-Type": "application/json", **headers}
    return {
        "version": era,
        "method": method,
        "path": "/services/tinker-prod/api/v1/" + path,
        "headers": [[name.replace("_", "-"), value] for name, value in sent.items()],
        "body": None if body is None else json.dumps(body),
        "response_status": status,
        "response_content_type": None if reply is None else "application/json",
        "response_body": None if reply is None else json.dumps(reply),
    }


def problems(*records):
    return golden.check_records(records).failures


@pytest.mark.parametrize("traffic", TRAFFIC, ids=lambda t: f"{t[0]} {t[1].split('?')[0]} {t[3]}")
def test_traffic_of_either_era_fits(traffic):
    """M1, M4: what either era may send fits the document and survives the generated code."""
    assert problems(record(*traffic)) == []


def test_every_operation_has_been_seen():
    """M1: recordings and variants together exercise every operation of the document."""
    seen = golden.check_records(record(*traffic) for traffic in TRAFFIC).operations
    for path in (doc.REPOSITORY / "tests" / "data" / "golden").glob("wire-*.jsonl"):
        seen |= golden.check_file(path).operations
    assert seen == {operation.id for operation in doc.operations()}


@pytest.mark.parametrize(("kind", "reply"), RESULTS)
def test_results_of_every_kind_fit(kind, reply):
    """M2: each result, tagged or not, is read back whole as the type its poll asked for."""
    poll = record(
        OLD if kind == "UnloadModel" else NEW,
        "POST retrieve_future",
        {"request_id": "r"},
        200,
        reply,
        X_Tinker_Request_Type=kind,
        X_Tinker_Request_Iteration="3",
    )
    assert problems(poll) == []


@pytest.mark.parametrize("kind", ["Sample", "ForwardBackward"])
def test_protobuf_results_fit(kind):
    """M27: a binary result is the same message after a round trip."""
    result = tinker_pb2.ForwardBackwardOutput(loss_fn_output_type="T", metrics={"loss:sum": 1.5})
    if kind == "Sample":
        sequence = tinker_pb2.SampledSequence(tokens=b"\x01\0\0\0", logprobs=b"")
        result = tinker_pb2.SampleResponse(sequences=[sequence], prompt_cache_hit_tokens=3)
    poll = record(NEW, "POST retrieve_future", {"request_id": "r"}, 200, None,
                  X_Tinker_Request_Type=kind)  # fmt: skip
    poll["response_content_type"] = "application/x-protobuf"
    poll["response_body_b64"] = base64.b64encode(result.SerializeToString()).decode()
    outcome = golden.check_records([poll])
    assert outcome.failures == []
    assert outcome.counts["protobuf replies"] == 1


def test_compressed_training_request_fits():
    """M27: a request body packed with zstd is unpacked before it is checked."""
    body = tinker_pb2.ForwardBackwardRequest(model_id="m", seq_id=1, forward_only=True)
    body.loss_fn_config_v2["kind"].text = "x"
    sent = record(NEW, "POST forward_backward", None, 200, TICKET, Content_Encoding="zstd")
    sent["headers"][0][1] = "application/x-protobuf"
    packed = zstandard.ZstdCompressor().compress(body.SerializeToString())
    sent["body_b64"] = base64.b64encode(packed).decode()
    sent["body_decoded"] = str(body)
    outcome = golden.check_records([sent])
    assert outcome.failures == []
    assert outcome.counts["protobuf requests"] == 1


@pytest.mark.parametrize("info", BILLING, ids=json.dumps)
def test_billing_events_fit(info):
    """M3: every kind of usage, tagged or not, is kept as it is."""
    event = {"bucket_start": TIME, "bucket_end": TIME, "event_info": info, "base_model": None}
    line = f"GET billing/usage/events?starting_on={TIME}&ending_before={TIME}"
    reply = {"data": [event], "sessions": {"s": {"user_metadata": {"a": "b"}}, "t": {}}}
    assert problems(record(NEW, line, None, 200, reply)) == []


@pytest.mark.parametrize("status", STATUSES, ids=json.dumps)
def test_session_states_fit(status):
    """M3: every state of a session is kept as it is."""
    session = {"session_id": "s", "created_at": TIME, "owner": "o", "project_id": "p",
               "checkpoints_count": 1, "status": status}  # fmt: skip
    query = {"user_metadata": {}, "owner": {"type": "accessible"}, "limit": 200,
             "statuses": [{"type": "cancelled"}, {"type": "failed"}]}  # fmt: skip
    cursor = {"last_created_at": TIME, "last_session_id": "s"}
    reply = {"sessions": [session], "next_cursor": cursor}
    assert problems(record(NEW, "POST sessions/search", query, 200, reply)) == []
