"""Samplers and the samples drawn from them."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

import attrs
import numpy as np

from tinker_ext.mock.base_models import CONTEXT
from tinker_ext.mock.compute import SampleOrder
from tinker_ext.mock.futures import Promise, wake
from tinker_ext.mock.handlers.training import digest, seq_of
from tinker_ext.mock.messages import HttpError, Request
from tinker_ext.mock.results import Failure, SampleResult
from tinker_ext.mock.routing import endpoint
from tinker_ext.mock.seq import Seen
from tinker_ext.mock.state.checkpoints import parse_path
from tinker_ext.mock.state.records import Checkpoint, Sampler
from tinker_ext.mock.state.world import World, guarded
from tinker_ext.mock.training_input import model_input_tokens

CLONE = 1_000_000_000
MAX_SAMPLES = 1024
MAX_TOPK = 128


@endpoint("POST", "create_sampling_session", durable=True)
def create_sampling_session(world: World, request: Request) -> Any:
    """Open a sampler under the client's number; the same number names the same sampler."""
    body = request.json
    session = world.session(body["session_id"])
    number = int(body["sampling_session_seq_id"])
    known = session.samplers.get(number)
    if known is not None:
        if world.settings.seq == "strict":
            raise HttpError(409, f"sampler {known} exists already")
        return {"type": "create_sampling_session", "sampling_session_id": known}
    base_model, path, weights = _source(world, body.get("base_model"), body.get("model_path"))
    sampler = world.add_sampler(session, number, base_model, path, weights)
    return {"type": "create_sampling_session", "sampling_session_id": sampler.sampler_id}


@endpoint("POST", "join_sampling_session", durable=True)
def join_sampling_session(world: World, request: Request) -> Any:
    """Give another process of the same client a number of its own."""
    sampler = _sampler(world, request.json["sampling_session_id"])
    sampler.clones += 1
    return {"type": "join_sampling_session", "client_counter": sampler.clones}


@endpoint("GET", "samplers/{sampler_id}")
def get_sampler(world: World, request: Request) -> Any:
    """Describe a sampler."""
    sampler = _sampler(world, request.params["sampler_id"])
    value = {"sampler_id": sampler.sampler_id, "base_model": sampler.base_model}
    if sampler.model_path is not None:
        value["model_path"] = sampler.model_path
    return value


@endpoint("POST", "asample")
def asample(world: World, request: Request) -> Any:
    """Queue a sample; 429 when too many are under way."""
    body = request.json
    sampler = _addressed(world, body)
    count = int(body.get("num_samples", 1))
    if not 1 <= count <= MAX_SAMPLES:
        raise HttpError(400, f"num_samples must lie in 1…{MAX_SAMPLES}, got {count}")
    seq, fingerprint = seq_of(body.get("seq_id")), digest(request)
    repeated = _repeat(world, sampler, seq, fingerprint)
    if repeated is not None:
        return _ticket(world, repeated, count)
    limit = world.settings.sample_limit
    if limit is not None and world.promises.in_flight("sample") >= limit:
        raise HttpError(
            429,
            f"{limit} samples are under way already",
            {"retry-after": f"{world.settings.retry_after:g}"},
        )
    promise = world.promise(
        "sample",
        durable=False,
        session_id=sampler.session_id,
        sampler_id=sampler.sampler_id,
        clone=(seq or 0) // CLONE,
    )
    if seq is not None:
        sampler.remember(seq, Seen(fingerprint, promise.request_id))
    world.worker.submit("sample", partial(_sample, world, sampler, promise, body))
    return _ticket(world, promise.request_id, count)


def _ticket(world: World, request_id: str, count: int) -> dict[str, Any]:
    value: dict[str, Any] = {"request_id": request_id}
    if world.settings.era != "0.4.1" and not world.bug("sequence_ids_missing"):
        value["sample_sequence_ids"] = [f"{request_id}:{i}" for i in range(count)]
    return value


def _repeat(world: World, sampler: Sampler, seq: int | None, fingerprint: str) -> str | None:
    """Return the request a repeated number stands for; one that has expired runs again."""
    seen = sampler.seen.get(seq) if seq is not None else None
    if seen is None or world.settings.seq in ("ignore", "late"):
        return None
    if world.settings.seq == "strict":
        raise HttpError(409, f"seq_id {seq} was already used by request {seen.request_id}")
    if seen.digest != fingerprint and not world.bug("dedupe_any_body"):
        raise HttpError(409, f"seq_id {seq} was already used with another body")
    if world.promises.find(seen.request_id) is None:
        return None
    return seen.request_id


def _sample(world: World, sampler: Sampler, promise: Promise, body: dict[str, Any]) -> None:
    if promise.state != "pending":
        return
    outcome = guarded(partial(_draw, world, sampler, promise.request_id, body))
    with world.lock:
        world.promises.settle(promise, outcome)
        state = "failed" if isinstance(outcome, Failure) else "finished"
        sampler.completions.add(promise.clone, promise.request_id, state)
        wake(sampler.waiters)


def _draw(world: World, sampler: Sampler, request_id: str, body: dict[str, Any]) -> SampleResult:
    params = body["sampling_params"]
    seed = params.get("seed")
    if seed is None:
        text = f"{world.settings.seed}/{request_id.removesuffix(world.ids.suffix)}".encode()
        seed = int.from_bytes(hashlib.blake2b(text, digest_size=6).digest())
    last_n = body.get("prompt_logprobs_last_n")
    order = SampleOrder(
        prompt=model_input_tokens(body["prompt"]),
        seed=int(seed),
        num_samples=int(body.get("num_samples", 1)),
        params=_integers(params),
        prompt_logprobs=bool(body.get("prompt_logprobs")),
        last_n=None if last_n is None else int(last_n),
        topk_prompt=_topk(body, "topk_prompt_logprobs"),
        topk_sample=_topk(body, "topk_sample_logprobs"),
        targets=_targets(body.get("target_prompt_logprobs")),
        alternatives=_topk(body, "prompt_alt_tokens_k"),
    )
    room = CONTEXT - len(order.prompt)
    if room < 0:
        raise ValueError(f"the prompt has {len(order.prompt)} tokens; at most {CONTEXT} fit")
    if (order.params.get("max_tokens") or 0) > room:
        order = attrs.evolve(order, params={**order.params, "max_tokens": room})
    base = world.base_model(sampler.base_model)
    result = world.compute.sample(base, sampler.weights, order)
    session = world.sessions.get(sampler.session_id or "")
    generated = sum(len(sequence.tokens) for sequence in result.sequences)
    for kind, amount in (("sampling_prefill", len(order.prompt)), ("sampling_sample", generated)):
        with world.lock:
            world.ledger.count(
                kind,
                amount,
                session=sampler.session_id or "",
                project=session.project_id if session else "",
                model=sampler.base_model,
            )
    return result


def _integers(params: dict[str, Any]) -> dict[str, Any]:
    whole = ("max_tokens", "top_k", "seed")
    return {k: int(v) if k in whole and v is not None else v for k, v in params.items()}


def _topk(body: dict[str, Any], name: str) -> int:
    value = int(body.get(name) or 0)
    if not 0 <= value <= MAX_TOPK:
        raise ValueError(f"{name} must lie in 0…{MAX_TOPK}, got {value}")
    return value


def _targets(tensor: dict[str, Any] | None) -> Any:
    if tensor is None:
        return None
    if tensor["dtype"] != "int64":
        raise ValueError("target_prompt_logprobs must hold int64 token ids")
    values = np.asarray(tensor["data"], dtype=np.int64)
    return values.reshape([int(n) for n in tensor.get("shape") or values.shape])


def _addressed(world: World, body: dict[str, Any]) -> Sampler:
    """Return the sampler a request names: a session, a checkpoint or a base model."""
    sampler_id = body.get("sampling_session_id")
    if sampler_id is not None:
        sampler = _sampler(world, sampler_id)
        if sampler.session_id is not None:
            world.session(sampler.session_id)
        return sampler
    base_model, path = body.get("base_model"), body.get("model_path")
    key = f"direct:{path or base_model}"
    known = world.samplers.get(key)
    if known is None:
        name, path, weights = _source(world, base_model, path)
        known = world.samplers[key] = Sampler(key, None, name, path, weights)
    return known


def _sampler(world: World, sampler_id: str) -> Sampler:
    sampler = world.samplers.get(sampler_id)
    if sampler is None:
        raise HttpError(404, f"sampler {sampler_id} is unknown; open one first")
    return sampler


def _source(world: World, base_model: str | None, path: str | None) -> tuple[str, str | None, Any]:
    if path is not None:
        saved = _sampler_checkpoint(world, path)
        base = world.base_model(saved.base_model)
        weights = world.compute.saved_weights(base, saved.lora_config, saved.blob)
        return base.name, path, weights
    if base_model is None:
        raise HttpError(400, "give one of sampling_session_id, model_path and base_model")
    base = world.base_model(base_model)
    return base.name, None, world.compute.base_weights(base)


def _sampler_checkpoint(world: World, path: str) -> Checkpoint:
    try:
        _, kind, _ = parse_path(path)
        if kind != "sampler_weights":
            raise ValueError(f"{path} holds {kind}; sample from a path of save_weights_for_sampler")
    except ValueError as error:
        raise HttpError(400, str(error)) from None
    found = world.checkpoints.find(path)
    if found is None:
        raise HttpError(404, f"no checkpoint at {path}; it was deleted, expired or never saved")
    return found
