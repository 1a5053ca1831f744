"""Reading results: one promise, all promises of a sampler, and giving one up."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from tinker_ext.mock.futures import Nap, Promise
from tinker_ext.mock.messages import PROTOBUF, HttpError, Request, Response
from tinker_ext.mock.results import Failure, Refusal
from tinker_ext.mock.routing import endpoint
from tinker_ext.mock.state.world import World

# Operation → schema of its JSON result, closer than the document's union of all results.
RESULTS = {
    "create_model": "CreateModelResponse",
    "unload_model": "UnloadModelResponse",
    "forward": "ForwardBackwardOutput",
    "forward_backward": "ForwardBackwardOutput",
    "optim_step": "OptimStepResponse",
    "sample": "SampleResponse",
    "save_weights": "SaveWeightsResponse",
    "load_weights": "LoadWeightsResponse",
    "save_weights_for_sampler": "SaveWeightsForSamplerResponseInternal",
    "save_weights_external": "SaveWeightsExternalResponseInternal",
    "create_custom_loss": "CreateCustomLossResponse",
}


@endpoint("POST", "retrieve_future")
async def retrieve_future(world: World, request: Request) -> Any:
    """Answer with a result, or after a while with "still pending"."""
    promise = _promise(world, request.json["request_id"])
    if not await world.promises.wait(promise, world.settings.long_poll):
        return _pending(world, promise)
    if promise.state == "expired" or promise.outcome is None:
        raise _gone(promise.request_id)
    return _deliver(world, promise, request)


def _promise(world: World, request_id: str) -> Promise:
    promise = world.promises.find(request_id)
    if promise is not None:
        return promise
    if world.promises.is_gone(request_id) or _of_earlier_boot(world, request_id):
        raise _gone(request_id)
    raise HttpError(404, f"request {request_id} is unknown")


def _of_earlier_boot(world: World, request_id: str) -> bool:
    word, _, rest = request_id.partition("-")
    boot = rest.partition("-")[0]
    return word == "tmp" and boot.isdigit() and int(boot) < world.ids.boot


def _gone(request_id: str) -> HttpError:
    return HttpError(410, f"the result of request {request_id} has expired")


def _pending(world: World, promise: Promise) -> Response:
    paused = promise.paused_until > world.clock.now()
    value: dict[str, Any] = {
        "type": "try_again",
        "request_id": promise.request_id,
        "queue_state": promise.queue_state if paused else "active",
    }
    reason = promise.queue_reason if paused else _missing_number(world, promise)
    if reason is not None and world.settings.era != "0.4.1":
        value["queue_state_reason"] = reason
    return Response.of(value, 408 if world.settings.pending == "408" else 200)


def _missing_number(world: World, promise: Promise) -> str | None:
    model = world.models.get(promise.model_id or "")
    missing = model.sequencer.missing() if model is not None else None
    return None if missing is None else f"waiting for seq_id {missing}"


def _deliver(world: World, promise: Promise, request: Request) -> Response:
    outcome = promise.outcome
    assert outcome is not None
    if isinstance(outcome, Failure):
        world.promises.mark_read(promise)
        return Response.of(_failure(world, outcome))
    if isinstance(outcome, Refusal):
        world.promises.mark_read(promise)
        return Response.of(outcome.json(), outcome.status)
    wire = world.settings.bodies
    binary = request.accepts(PROTOBUF) and wire != "json"
    payload = outcome.proto() if binary else None
    if payload is not None:
        response = Response(200, payload, PROTOBUF)
    else:
        response = Response.of(outcome.json())
        response.schema = RESULTS[promise.kind]
    metadata = request.json.get("allow_metadata_only", False)
    if metadata and len(response.body) >= world.settings.metadata_threshold:
        size = len(response.body)
        return Response.of({"status": "complete_metadata", "response_payload_size": size})
    world.promises.mark_read(promise)
    return response


def _failure(world: World, failure: Failure) -> dict[str, str]:
    value = failure.json()
    if world.bug("category_case"):
        value["category"] = value["category"].capitalize()
    if world.bug("error_shape"):
        return {"message": value["error"], "code": value["category"]}
    return value


@endpoint("POST", "retrieve_futures")
async def retrieve_futures(world: World, request: Request) -> Any:
    """Answer with the samples of one sampler that finished since the cursor."""
    body = request.json
    target = body["target"]
    sampler = world.samplers.get(target["sampling_session_id"])
    if sampler is None:
        raise HttpError(404, f"sampler {target['sampling_session_id']} is unknown")
    clone = int(target.get("cloned_sampler_id", 0))
    cursor = max(0, int(body.get("prev_cursor", 0)))
    given = body.get("timeout")
    patience = world.settings.long_poll if given is None else min(given, world.settings.long_poll)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + max(0.0, patience)
    while True:
        with world.lock:
            done, last = sampler.completions.since(clone, cursor)
            if done or loop.time() >= deadline or world.promises.closing:
                return {
                    "completions": [_completion(world, *entry) for entry in done],
                    "cursor": last,
                }
            nap = Nap(sampler.waiters)
        await nap.until(deadline)


def _completion(world: World, request_id: str, state: str) -> dict[str, Any]:
    value: dict[str, Any] = {"state": state, "request_id": request_id}
    promise = world.promises.find(request_id)
    if state == "finished" and promise is not None and promise.outcome is not None:
        binary = promise.outcome.proto() if world.settings.bodies != "json" else None
        size = len(binary) if binary is not None else len(_encoded(promise.outcome.json()))
        value["response_payload_uncompressed_size"] = size
    return value


def _encoded(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


@endpoint("POST", "cancel_future")
def cancel_future(world: World, request: Request) -> Any:
    """Give up a pending sample."""
    promise = _promise(world, request.json["request_id"])
    if promise.kind != "sample":
        raise HttpError(400, f"{promise.request_id} is no sample; only samples are cancelled")
    world.promises.cancel(promise)
    return Response.empty()
