"""Every knob of the embedded server, with its unit and default, as one frozen record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs

ERAS = ("0.4.1", "0.36.0", "both")
SEQ_PROFILES = ("dedupe", "strict", "ignore", "gap", "late")
PROFILES = ("default", "hosted")
WIRES = ("json", "proto", "both")
PENDING_STYLES = ("408", "try_again")
QUEUE_STATES = ("active", "paused_capacity", "paused_rate_limit")

# Mistakes a conformance suite must find; each is off unless named in `Settings.bugs`.
BUGS = {
    "loss_scale": "loss:sum is reported twice as large as it is",
    "chunk_mean": "weights are divided by the number of datums of the request",
    "adam_bias": "Adam's bias correction is left out",
    "seq_double": "every third training operation takes effect twice",
    "seed_ignored": "the sampling seed has no effect",
    "logprob_shift": "sampled logprobs are shifted by one position",
    "prompt_logprob_shift": "prompt logprobs are shifted by one position",
    "checkpoint_no_optimizer": "a saved state forgets the optimizer",
    "error_shape": "a failed request has no `error` key",
    "category_case": "error categories are capitalised",
    "weights_ignored": "every weight of cross_entropy counts as 1",
    "negative_weight_clamped": "negative weights count as 0",
    "forward_trains": "forward leaves gradients behind",
    "no_accumulate": "a second forward_backward forgets the first",
    "lr_ignored": "every optimizer step uses learning rate 1e-4",
    "stop_ignored": "stop strings and tokens have no effect",
    "temperature_ignored": "temperature always counts as 1",
    "max_tokens_plus_one": "a sample is one token longer than asked",
    "num_samples_one": "num_samples always counts as 1",
    "sequence_ids_missing": "asample replies carry no sample_sequence_ids",
    "metric_suffix": "metric names carry no reduction suffix",
    "metrics_empty": "metrics are left out",
    "outputs_reversed": "loss_fn_outputs come in reverse order",
    "dedupe_any_body": "a repeated seq_id with another body is accepted silently",
    "load_ignored": "load_weights answers and loads nothing",
    "sampler_stale": "a sampler keeps the weights of the model's creation",
    "publish_no_conflict": "publishing twice is accepted",
    "ttl_ignored": "checkpoints never expire",
    "delete_ignored": "a deleted checkpoint stays listed",
    "pagination_off": "limit and offset have no effect",
    "grad_clip_ignored": "grad_clip_norm has no effect",
    "weight_decay_ignored": "weight_decay has no effect",
    "lora_seed_ignored": "the seed of lora_config has no effect",
    "unknown_model_accepted": "any base model name is accepted",
    "heartbeat_gone": "heartbeats of a living session answer 410",
    "capability_missing": "the served models are not listed",
}


@attrs.frozen
class Pause:
    """A queue state every new operation reports for a while before it runs.

    Attributes:
        state: `paused_capacity` or `paused_rate_limit`.
        seconds: How long each operation stays paused.
        reason: Text for `queue_state_reason`.
        operations: Operation names that pause; empty means all.
    """

    state: str = attrs.field(validator=attrs.validators.in_(QUEUE_STATES))
    seconds: float = 5.0
    reason: str | None = None
    operations: frozenset[str] = attrs.field(factory=frozenset, converter=frozenset)


def _models(value: Mapping[str, str | Path | None] | Sequence[str]) -> dict[str, str | None]:
    """Accept `{"name": tokenizer}` or `["name", "name=tokenizer"]`."""
    if isinstance(value, Mapping):
        return {name: str(path) if path is not None else None for name, path in value.items()}
    pairs = (item.partition("=") for item in value)
    return {name: path or None for name, _, path in pairs}


def _bugs(value: Sequence[str] | set[str] | frozenset[str]) -> frozenset[str]:
    unknown = sorted(set(value) - set(BUGS))
    if unknown:
        raise ValueError(f"unknown bugs {unknown}; known: {', '.join(sorted(BUGS))}")
    return frozenset(value)


@attrs.frozen(kw_only=True)
class Settings:
    """How the embedded server behaves; the default is a well-behaved server of both eras.

    Attributes:
        era: Which server generation to be: `0.4.1`, `0.36.0` or `both`.
        seq: What a repeated or early seq_id means: `dedupe` answers a repeat with the first
            request id (another body is a 409), `strict` answers 409, `ignore` trains again,
            `gap` is `dedupe` that waits for missing numbers for ever, `late` accepts the repeat
            and answers its poll with 409, and does not use up the number of a load that fails, as
            TuFT does.
        declared: Whether client/config says which of these it is, which no other server does.
        created_status: Status of what is created; 201 on TuFT.
        future_status: Status of a future; 202 on TuFT and on the hosted service.
        load_first: Refuse load_weights unless it is a model's first request.
        taken_names: Refuse save_weights under a taken name at once, with 409.
        rank_limit: Largest LoRA rank.
        moe_rank_limit: Largest LoRA rank of mixture-of-experts models, told by their names.
        wire: Bodies of training and sampling: `json`, `proto`, `both`; None follows the era.
        without: Paths (with or without `/api/v1/`) that answer 404.
        models: Extra base models, name → tokenizer.json file, directory or None (bytes).
        seed: Seed of ids, weights, faults and unseeded samples.
        ids: Mixed into ids. A server that forgets everything at its end and gives the same ids when
            it is started again would let clients go on with what is something else by then.
        state: Directory that survives restarts; None keeps everything in memory.
        host: Interface to bind.
        port: Port to bind; 0 takes any free one.
        hosts: Names beside those of this machine under which a loopback server may be asked for,
            when it is behind a proxy.
        root_path: Prefix printed in self-made URLs when behind a proxy.
        body_limit: Bytes of a request body, before and after decompression.
        json_depth: Levels of nesting of a JSON body.
        long_poll: Seconds a poll waits for a result.
        pending: Answer of an idle poll: `408`, or `try_again` with status 200.
        session_ttl: Seconds without a sign of life after which a session is gone.
        future_ttl: Seconds an unread result is kept.
        delivered_ttl: Seconds a delivered result is kept for repeated reads.
        reorder_wait: Seconds an operation waits for a missing smaller seq_id (not `gap`).
        latency: Seconds between an operation's end and its result being visible.
        request_latency: Seconds added to each request.
        sample_limit: Samples in flight above which asample answers 429.
        models_limit: Loaded models above which create_model stays paused.
        models_limit_state: The queue state it reports: `paused_capacity` or `paused_rate_limit`.
        rate_limit: Requests a second above which training and sampling answer 429.
        retry_after: Seconds announced with 429.
        pause: Queue state new operations report first.
        faults: Rules of :mod:`tinker_ext.mock.faults` in force from the start.
        bugs: Names of :data:`BUGS` to plant.
        inline_engine: Compute inside the request, for deterministic simulation.
        validate: Check requests and responses against the document.
        api_keys: Keys that are let in; None lets any caller in.
        client_config: Overrides of the client/config reply.
        dynamic_config: Overrides of the client/dynamic_config reply.
        messages: `info`, `warning`, `error` texts of create_session.
        metadata_threshold: Result bytes from which a metadata-only reply is given first.
        token_lifetime: Seconds a JWT of auth/token lives.
        signed_url_lifetime: Seconds an archive URL lives.
        snapshot_every: Accepted requests between two snapshots of `state`.
        fsync: Wait for the disk before acknowledging; False suits simulations only.
        log_size: Requests the log remembers.
        epoch: Unix time at which the server's calendar starts; None is now.
    """

    era: str = attrs.field(default="both", validator=attrs.validators.in_(ERAS))
    seq: str = attrs.field(default="dedupe", validator=attrs.validators.in_(SEQ_PROFILES))
    wire: str | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.in_(WIRES))
    )
    without: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    models: Mapping[str, str | None] = attrs.field(factory=dict, converter=_models)
    seed: int = 0
    ids: str = ""
    state: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path))
    declared: bool = True
    created_status: int = 200
    future_status: int = 200
    load_first: bool = False
    taken_names: bool = False
    rank_limit: int = 512
    moe_rank_limit: int | None = None
    host: str = "127.0.0.1"
    port: int = 0
    hosts: frozenset[str] = attrs.field(default=frozenset(), converter=frozenset)
    root_path: str = ""
    body_limit: int = 64 << 20
    json_depth: int = 64
    long_poll: float = 30.0
    pending: str = attrs.field(default="408", validator=attrs.validators.in_(PENDING_STYLES))
    session_ttl: float = 600.0
    future_ttl: float = 3600.0
    delivered_ttl: float = 60.0
    reorder_wait: float = 10.0
    latency: float = 0.0
    request_latency: float = 0.0
    sample_limit: int | None = None
    models_limit: int | None = None
    models_limit_state: str = attrs.field(
        default="paused_capacity", validator=attrs.validators.in_(QUEUE_STATES)
    )
    rate_limit: float | None = None
    retry_after: float = 1.0
    pause: Pause | None = None
    faults: tuple[Any, ...] = attrs.field(default=(), converter=tuple)
    bugs: frozenset[str] = attrs.field(factory=frozenset, converter=_bugs)
    inline_engine: bool = False
    validate: bool = True
    api_keys: frozenset[str] | None = attrs.field(
        default=None, converter=attrs.converters.optional(frozenset), repr=False
    )
    client_config: Mapping[str, Any] = attrs.field(factory=dict)
    dynamic_config: Mapping[str, Any] = attrs.field(factory=dict)
    messages: Mapping[str, str] = attrs.field(factory=dict)
    metadata_threshold: int = 1 << 20
    token_lifetime: float = 3600.0
    signed_url_lifetime: float = 900.0
    snapshot_every: int = 200
    fsync: bool = True
    log_size: int = 20_000
    epoch: float | None = None

    @classmethod
    def of_profile(cls, profile: str, **given: Any) -> Self:
        """Return the settings of a named profile.

        Args:
            profile: `default`, or `hosted` for the published rules of the hosted service.
            **given: Settings that differ from the profile.

        Example:
            >>> Settings.of_profile("hosted", seed=3).load_first
            True
        """
        if profile not in PROFILES:
            raise ValueError(f"there is no profile {profile!r}; profiles: {', '.join(PROFILES)}")
        if profile == "hosted":
            from tinker_ext.mock import hosted

            given = {**hosted.overrides(), **given}
        return cls(**given)

    def status(self, kind: str) -> int:
        """Return the status of a success: of a `future`, of something `created`, or of a `read`."""
        return {"future": self.future_status, "created": self.created_status}.get(kind, 200)

    @property
    def bodies(self) -> str:
        """Return the wire in force: `json`, `proto` or `both`."""
        if self.wire is not None:
            return self.wire
        return {"0.4.1": "json", "0.36.0": "proto", "both": "both"}[self.era]
