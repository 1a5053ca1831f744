"""What one server speaks, can do and lacks: what it says of itself, and what was found out."""

from __future__ import annotations

import enum
import errno
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
from attrs.converters import optional as to_optional
from attrs.validators import deep_iterable, in_, instance_of, optional
from tinker_api.models import ClientConfigResponse

from tinker_ext.auth import is_hosted
from tinker_ext.config import normal_url
from tinker_ext.errors import ConfigurationError, FeatureMissingError

ERAS: Final = ("0.4.1", "0.36.0")
"""The generations of servers, older first."""


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


def read_config(reply: Mapping[str, Any]) -> ClientConfigResponse:
    """The flags of a client/config reply, each only with its documented type; else its default."""
    values: dict[str, Any] = {}
    for field in _FLAGS:
        value: Any = reply.get(field.name)
        if type(value) is type(field.default) and (type(value) is not int or value > 0):
            values[field.name] = value
    return ClientConfigResponse(**values)


_FLAGS: Final = [field for field in attrs.fields(ClientConfigResponse) if field.init]
_ERA_FIELDS: Final = {field.name for field in _FLAGS} - {"pjwt_auth_enabled"}


def is_config(reply: Mapping[str, Any]) -> bool:
    """Whether this is a client/config reply at all, and not a JSON object of another service."""
    return any(field.name in reply for field in _FLAGS)


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
        chosen_by: Who chose the wire: `argument`, `environment`, `file`, `probe` or `found`.
        seq_by: Who says what `seq` says: `configured`, `declared`, `file`, `hosted`, `found`,
            `assumed`.
        pipelined: Training requests may be sent ahead of the answer to the previous one.
        resends: A training request whose answer was lost may be sent again.
        repeats_answers: A repeated training request is answered like the first.
        one_by_one: A training call waits for the result of the call before it.
    """

    base_url: str
    wire: Wire = Wire.JSON
    era: str = "0.4.1"
    seq: Seq = Seq.UNKNOWN
    config: ClientConfigResponse = attrs.field(factory=ClientConfigResponse)
    abilities: frozenset[Ability] = frozenset()
    sorts: bool = False
    lacks: frozenset[str] = frozenset()
    chosen_by: str = "probe"
    seq_by: str = "assumed"

    # What follows from the above; computed once, since every training call asks.
    pipelined: bool = attrs.field(init=False)
    resends: bool = attrs.field(init=False)
    repeats_answers: bool = attrs.field(init=False)
    one_by_one: bool = attrs.field(init=False)

    @pipelined.default
    def _is_pipelined(self) -> bool:
        return self.seq is Seq.ORDER or (self.seq is Seq.UNKNOWN and self.sorts)

    @resends.default
    def _does_resend(self) -> bool:
        return self.seq not in (Seq.IGNORE, Seq.UNKNOWN)

    @repeats_answers.default
    def _does_repeat_answers(self) -> bool:
        return self.seq in (Seq.ORDER, Seq.DEDUPE)

    @one_by_one.default
    def _is_one_by_one(self) -> bool:
        # Among the servers without client/config is an engine (skyrl-tx 0.3.0) that lets a queued
        # optim_step overtake the forward_backward before it; steps are lost there without a word.
        return not self.resends and "get_client_config" in self.lacks

    def require(self, ability: Ability) -> None:
        """Refuse what the server cannot do, before anything is sent."""
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


FILE_FORMAT: Final = "tinker-ext-dialect/1"


@attrs.frozen
class DialectFile:
    """What `tinker-ext conform --remember` found out; None where it did not look."""

    era: str | None = attrs.field(default=None, validator=optional(in_(ERAS)))
    wire: Wire | None = attrs.field(default=None, converter=to_optional(Wire))
    seq: Seq | None = attrs.field(default=None, converter=to_optional(Seq))
    reorders: bool | None = attrs.field(default=None, validator=optional(instance_of(bool)))
    lacks: list[str] = attrs.field(
        factory=list, validator=deep_iterable(instance_of(str), instance_of(list))
    )

    @classmethod
    def read(cls, path: str, base_url: str) -> DialectFile:
        """Read a file; one that is missing, damaged, or not about this server is an error."""
        try:
            file = Path(path)
            if file.exists() and not file.is_file():
                # A pipe would be waited for, and a device may never end.
                raise OSError(errno.EINVAL, "it is not a regular file")
            value = json.loads(file.read_text(encoding="utf-8"))
            if value.get("format") != FILE_FORMAT:
                wrong = f"is of the format {value.get('format')!r}, not {FILE_FORMAT!r}"
            elif normal_url(value["server"]) != base_url:
                wrong = f"is about {value['server']}, not about {base_url}"
            else:
                names = [field.name for field in attrs.fields(cls)]
                return cls(**{name: value[name] for name in names if name in value})
        except OSError as error:
            wrong = f"cannot be read: {error.strerror}"
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            wrong = f"is damaged ({type(error).__name__}: {error.args[0] if error.args else ''})"
        raise ConfigurationError(
            f"The dialect file {path} {wrong}. Make it again with "
            f"`tinker-ext conform {base_url} --remember {path}`."
        )


_wires: dict[str, Wire] = {}
"""Wires that earlier clients of this process found out, per server."""


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
    file: DialectFile | None = None,
) -> Dialect:
    """Decide how to talk to a server.

    Args:
        base_url: The server.
        reply: Its client/config reply, None when it has no such endpoint.
        argument: Wire the caller asked for: `json`, `proto` or None.
        environment: Wire of the configuration (TINKER_EXT_WIRE).
        seq: Rule of the configuration (TINKER_EXT_SEQ): what the server does with seq ids.
        protobuf: Whether the protobuf runtime is installed.
        file: What was found out beforehand (TINKER_EXT_DIALECT_FILE).

    Example:
        >>> choose("http://x", {"pjwt_auth_enabled": False}).wire
        <Wire.JSON: 'json'>
    """
    config = read_config(reply or {})
    file = file or DialectFile()
    modern = reply is not None and (bool(_ERA_FIELDS & reply.keys()) or is_hosted(base_url))
    if file.era is not None:
        modern = file.era == ERAS[-1]
    asked, chosen_by = argument, "argument"
    if asked in (None, "auto"):
        asked, chosen_by = environment, "environment"
    if asked not in (None, "", "auto"):
        wire = _wire(asked, chosen_by, protobuf)
    else:
        guess = Wire.PROTO if modern else Wire.JSON
        known = ((file.wire, "file"), (_wires.get(base_url), "found"), (guess, "probe"))
        # Without the runtime the last one, a guess, gives way.
        wire, chosen_by = next(
            ((each, source) for each, source in known if each and (protobuf or each is Wire.JSON)),
            (Wire.JSON, "probe"),
        )
    rule, seq_by = _seq(base_url, reply, seq, file)
    sorts = (reply or {}).get("parallel_fwdbwd_chunks") is True
    return Dialect(
        base_url=base_url,
        wire=wire,
        era=ERAS[-1] if modern else ERAS[0],
        seq=rule,
        config=config,
        abilities=frozenset(Ability) if modern else frozenset(),
        sorts=sorts if file.reorders is None else file.reorders,
        lacks=frozenset(file.lacks),
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


def _seq(
    base_url: str, reply: Mapping[str, Any] | None, asked: str | None, file: DialectFile
) -> tuple[Seq, str]:
    if asked:
        return _SEQ_NAMES[asked], "configured"
    declared = _SEQ_NAMES.get(str((reply or {}).get("seq_ids")))
    told = ((declared, "declared"), (file.seq, "file"))
    known = [(each, source) for each, source in told if each is not None]
    if known:
        # Either may be out of date. The one under which nothing is sent again trains nothing twice.
        return min(known, key=lambda each: each[0] is not Seq.IGNORE)
    # The hosted service receives chunk 1 last from the official client, so it sorts by seq_id and
    # waits for gaps. Of nobody else is anything assumed: one kind of server trains twice.
    return (Seq.ORDER, "hosted") if is_hosted(base_url) else (Seq.UNKNOWN, "assumed")
