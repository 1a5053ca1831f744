"""What one server speaks, can do and lacks: what it says of itself, and what was found out."""

from __future__ import annotations

import enum
import importlib.util
from collections.abc import Mapping
from typing import Any, Final

import attrs

from tinker_ext.auth import is_hosted
from tinker_ext.errors import ConfigurationError, FeatureMissingError

_MIB = 1 << 20


class Wire(enum.StrEnum):
    """Form of the forward and sample bodies."""

    JSON = "json"
    PROTO = "proto"


class Seq(enum.StrEnum):
    """What a server does with a training seq_id.

    ORDER: works in seq order, waits for missing numbers, answers a repeat with the first request.
    DEDUPE: answers a repeat with the first request; order is the order of arrival.
    STRICT: refuses a repeat with 409.
    LATE: takes a repeat, and refuses it with 409 when its result is asked for.
    IGNORE: does the work again.
    UNKNOWN: nobody has said, and it was not found out yet.
    """

    ORDER = "order"
    DEDUPE = "dedupe"
    STRICT = "strict"
    LATE = "late"
    IGNORE = "ignore"
    UNKNOWN = "unknown"


class Ability(enum.StrEnum):
    """What servers of the second era can do and those of the first cannot, in words."""

    RESULT_SIZES = "announcement of result sizes"
    DYNAMIC_CONFIG = "dynamic client configuration"
    ACCESS_SCOPES = "access scopes and projects"
    CHUNKS_BY_BYTES = "chunk limits in bytes"
    OPTIMIZER_RESTORE = "restoring of optimizer state (load_state_with_optimizer)"
    CHECKPOINT_TTL = "life time of checkpoints (ttl_seconds)"
    SAMPLE_TOPK = "likeliest tokens of sampled positions (topk_sample_logprobs)"
    UNSIZED_IMAGES = "images without their size"
    PROCESS_IDS = "process ids in telemetry"


@attrs.frozen
class ServerConfig:
    """Flags of client/config with the defaults of the 0.36.0 era; wrong types read as default."""

    pjwt_auth_enabled: bool = False
    credential_default_source: str = "api_key"
    sample_dispatch_bytes_semaphore_size: int = 10 * _MIB
    inflight_response_bytes_semaphore_size: int = 50 * _MIB
    parallel_fwdbwd_chunks: bool = True
    proto_compress_fwdbwd: bool = False
    fwdbwd_max_chunk_len: int = 1024
    fwdbwd_max_chunk_bytes_count: int = 5_000_000
    fwdbwd_dispatch_bytes_semaphore_size: int = 50_000_000
    billing_exception_max_pause_duration_sec: int = 3600
    sample_no_retries: bool = False
    sample_enable_stuck_detection: bool = True
    sample_max_concurrent_requests: int = 2000
    create_model_via_load_weights: bool = False
    sample_use_retrieve_futures: bool = False
    custom_loss_server_side: bool = False
    sample_join_sampling_session: bool = False

    @classmethod
    def read(cls, reply: Mapping[str, Any]) -> ServerConfig:
        """Take the known flags of a reply, each only with its documented type."""
        values: dict[str, Any] = {}
        for field in attrs.fields(cls):
            value: Any = reply.get(field.name)
            wanted = type(field.default)
            if type(value) is wanted and not (wanted is int and value <= 0):
                values[field.name] = value
        return cls(**values)


_ERA_FIELDS: Final = frozenset(
    field.name for field in attrs.fields(ServerConfig) if field.name != "pjwt_auth_enabled"
)

# Names of the embedded server's profiles for what Seq describes.
_SEQ_NAMES: Final = {**{seq.value: seq for seq in Seq}, "gap": Seq.ORDER}


@attrs.frozen
class Dialect:
    """One server as the clients see it.

    Attributes:
        base_url: The server.
        wire: Form of forward and sample bodies: `json` or `proto`.
        era: Server era: `0.36.0` when it has client/config with its flags, else `0.4.1`.
        seq: What it does with training seq ids.
        config: Flags of client/config.
        abilities: What it can do that not every server can.
        sorts: It invites requests out of order, so it must sort them by their seq_id.
        lacks: Names of operations the server answered with "no such endpoint".
        chosen_by: Who chose the wire: `argument`, `environment`, `probe` or `found`.
        seq_by: Who says what `seq` says: `configured`, `declared`, `hosted`, `found`, `assumed`.
    """

    base_url: str
    wire: Wire = Wire.JSON
    era: str = "0.4.1"
    seq: Seq = Seq.UNKNOWN
    config: ServerConfig = attrs.field(factory=ServerConfig)
    abilities: frozenset[Ability] = frozenset()
    sorts: bool = False
    lacks: frozenset[str] = frozenset()
    chosen_by: str = "probe"
    seq_by: str = "assumed"

    @property
    def pipelined(self) -> bool:
        """Whether training requests may be sent ahead of the answer to the previous one."""
        return self.seq is Seq.ORDER or (self.seq is Seq.UNKNOWN and self.sorts)

    @property
    def resends(self) -> bool:
        """Whether a training request whose answer was lost may be sent again."""
        return self.seq not in (Seq.IGNORE, Seq.UNKNOWN)

    @property
    def repeats_answers(self) -> bool:
        """Whether a repeated training request is answered like the first."""
        return self.seq in (Seq.ORDER, Seq.DEDUPE)

    @property
    def one_by_one(self) -> bool:
        """Whether a training call waits for the result of the call before it.

        Among the servers without client/config is an engine (skyrl-tx 0.3.0) that lets a queued
        optim_step overtake the forward_backward before it; steps are lost there without a word.
        """
        unsorted = self.seq in (Seq.IGNORE, Seq.UNKNOWN)
        return unsorted and "get_client_config" in self.lacks

    def can(self, ability: Ability) -> bool:
        """Whether the server can do this."""
        return ability in self.abilities

    def require(self, ability: Ability) -> None:
        """Refuse what the server cannot do, before anything is sent.

        Raises:
            FeatureMissingError: It cannot.
        """
        if ability not in self.abilities:
            raise FeatureMissingError(ability.value, self.base_url)

    def without(self, operation: str) -> Dialect:
        """The same server, known to lack one more operation."""
        return attrs.evolve(self, lacks=self.lacks | {operation})

    def found(self, *, wire: Wire | None = None, seq: Seq | None = None) -> Dialect:
        """The same server, after something was found out about it.

        The wire is remembered for later clients of this process: a wrong one is refused and costs
        nothing. What a server makes of repeats is not: a wrong memory of it would train twice.
        """
        changes: dict[str, Any] = {}
        if wire is not None:
            _wires[self.base_url] = wire
            changes |= {"wire": wire, "chosen_by": "found"}
        if seq is not None:
            changes |= {"seq": seq, "seq_by": "found"}
        return attrs.evolve(self, **changes)


_wires: dict[str, Wire] = {}
"""Wires that earlier clients of this process found out, per server."""


def forget(base_url: str) -> None:
    """Forget the wire that was found out for a server, for example after it was upgraded."""
    _wires.pop(base_url, None)


def has_protobuf() -> bool:
    """Whether the protobuf runtime is installed; does not import it."""
    try:
        return importlib.util.find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


def choose(
    base_url: str,
    reply: Mapping[str, Any] | None,
    *,
    argument: str | None = None,
    environment: str | None = None,
    seq: str | None = None,
    protobuf: bool = True,
) -> Dialect:
    """Decide how to talk to a server.

    Args:
        base_url: The server.
        reply: Its client/config reply, None when it has no such endpoint.
        argument: Wire the caller asked for: `json`, `proto` or None.
        environment: Wire of the configuration (TINKER_EXT_WIRE).
        seq: Rule of the configuration (TINKER_EXT_SEQ): what the server does with seq ids.
        protobuf: Whether the protobuf runtime is installed.

    Returns:
        The dialect to start with.

    Example:
        >>> choose("http://x", {"pjwt_auth_enabled": False}).wire
        <Wire.JSON: 'json'>
    """
    config = ServerConfig.read(reply or {})
    modern = reply is not None and (bool(_ERA_FIELDS & reply.keys()) or is_hosted(base_url))
    asked, chosen_by = argument, "argument"
    if asked in (None, "auto"):
        asked, chosen_by = environment, "environment"
    if asked in (None, "", "auto"):
        wire, chosen_by = (Wire.PROTO if modern and protobuf else Wire.JSON), "probe"
        found = _wires.get(base_url)
        if found is not None and (protobuf or found is Wire.JSON):
            wire, chosen_by = found, "found"
    else:
        wire = _wire(asked, chosen_by, protobuf)
    rule, seq_by = _seq(base_url, reply, seq)
    return Dialect(
        base_url=base_url,
        wire=wire,
        era="0.36.0" if modern else "0.4.1",
        seq=rule,
        config=config,
        abilities=frozenset(Ability) if modern else frozenset(),
        sorts=(reply or {}).get("parallel_fwdbwd_chunks") is True,
        chosen_by=chosen_by,
        seq_by=seq_by,
    )


def _wire(asked: str | None, source: str, protobuf: bool) -> Wire:
    try:
        wire = Wire(str(asked))
    except ValueError:
        raise ConfigurationError(
            f"unknown wire {asked!r} from the {source}; use 'json', 'proto' or 'auto'"
        ) from None
    if wire is Wire.PROTO and not protobuf:
        raise ConfigurationError(
            f"the {source} asks for the protobuf wire, and protobuf is not installed; "
            "install tinker-ext[proto]"
        )
    return wire


def _seq(base_url: str, reply: Mapping[str, Any] | None, asked: str | None) -> tuple[Seq, str]:
    declared = (reply or {}).get("seq_ids")
    for name, source in ((asked, "configured"), (declared, "declared")):
        if not (name and isinstance(name, str)):
            continue
        if name in _SEQ_NAMES:
            return _SEQ_NAMES[name], source
        if source == "configured":
            raise ConfigurationError(
                f"unknown seq rule {asked!r}; use one of {', '.join(sorted(_SEQ_NAMES))}"
            )
    # The hosted service receives chunk 1 last from the official client, so it sorts by seq_id and
    # waits for gaps. Of nobody else is anything assumed: one kind of server trains twice.
    return (Seq.ORDER, "hosted") if is_hosted(base_url) else (Seq.UNKNOWN, "assumed")
