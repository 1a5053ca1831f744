"""What one server speaks and lacks, decided from its client/config reply and what it refuses."""

from __future__ import annotations

import enum
import importlib.util
from collections.abc import Mapping
from typing import Any, Final

import attrs

from tinker_ext.auth import is_hosted
from tinker_ext.errors import ConfigurationError

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
    IGNORE: does the work again.
    """

    ORDER = "order"
    DEDUPE = "dedupe"
    STRICT = "strict"
    IGNORE = "ignore"


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
        lacks: Names of operations the server answered with "no such endpoint".
        chosen_by: `argument`, `environment`, `probe` or `refusal`.
    """

    base_url: str
    wire: Wire = Wire.JSON
    era: str = "0.4.1"
    seq: Seq = Seq.IGNORE
    config: ServerConfig = attrs.field(factory=ServerConfig)
    lacks: frozenset[str] = frozenset()
    chosen_by: str = "probe"

    @property
    def pipelined(self) -> bool:
        """Whether training posts may be sent ahead of the answer to the previous one."""
        return self.seq is Seq.ORDER

    @property
    def resends(self) -> bool:
        """Whether a training post whose answer was lost may be sent again."""
        return self.seq is not Seq.IGNORE

    @property
    def one_by_one(self) -> bool:
        """Whether a training call waits for the result of the call before it.

        Among the servers without client/config is an engine (skyrl-tx 0.3.0) that lets a queued
        optim_step overtake the forward_backward before it; steps are lost there without a word.
        """
        return self.seq is Seq.IGNORE and "client_config" in self.lacks

    def without(self, operation: str) -> Dialect:
        """The same server, known to lack one more operation."""
        return attrs.evolve(self, lacks=self.lacks | {operation})


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
    refused: frozenset[Wire] = frozenset(),
    protobuf: bool = True,
) -> Dialect:
    """Decide how to talk to a server.

    Args:
        base_url: The server.
        reply: Its client/config reply, None when it has no such endpoint.
        argument: Wire the caller asked for: `json`, `proto` or None.
        environment: Wire of the configuration (TINKER_EXT_WIRE).
        seq: Rule of the configuration (TINKER_EXT_SEQ): what the server does with seq ids.
        refused: Wires this server refused before.
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
        wire = Wire.PROTO if modern and protobuf else Wire.JSON
        other = Wire.JSON if wire is Wire.PROTO else Wire.PROTO
        chosen_by = "probe"
        if wire in refused and other not in refused and (protobuf or other is Wire.JSON):
            wire, chosen_by = other, "refusal"
    else:
        wire = _wire(asked, chosen_by, protobuf)
    return Dialect(
        base_url=base_url,
        wire=wire,
        era="0.36.0" if modern else "0.4.1",
        seq=_seq(base_url, reply, seq, modern),
        config=config,
        chosen_by=chosen_by,
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


def _seq(base_url: str, reply: Mapping[str, Any] | None, asked: str | None, modern: bool) -> Seq:
    name = asked or (reply or {}).get("seq_ids")
    if name and isinstance(name, str):
        if name in _SEQ_NAMES:
            return _SEQ_NAMES[name]
        if asked:
            raise ConfigurationError(
                f"unknown seq rule {asked!r}; use one of {', '.join(sorted(_SEQ_NAMES))}"
            )
    if not modern:
        # Unknown servers are taken for the worst kind: one of them trains twice on a repeat.
        return Seq.IGNORE
    # A server that invites parallel chunks receives chunk 1 last from the official client, so
    # it must sort by seq_id and wait for gaps.
    parallel = (reply or {}).get("parallel_fwdbwd_chunks", is_hosted(base_url))
    return Seq.ORDER if parallel is True else Seq.DEDUPE


_refusals: dict[str, frozenset[Wire]] = {}


def refusals(base_url: str) -> frozenset[Wire]:
    """Wires that this server refused earlier in this process."""
    return _refusals.get(base_url, frozenset())


def remember_refusal(base_url: str, wire: Wire) -> None:
    """Note that a server refused a wire, so that nobody tries it again."""
    _refusals[base_url] = refusals(base_url) | {wire}


def forget_refusals(base_url: str) -> None:
    """Forget what a server refused, for example after it was upgraded."""
    _refusals.pop(base_url, None)
