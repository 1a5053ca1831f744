"""`Config`: every setting of the client with its unit, default and environment variable."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, Literal, Self

import attrs

from tinker_ext.errors import ConfigurationError

HOSTED_BASE_URL = "https://tinker.thinkingmachines.dev/services/tinker-prod"

_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"0", "false", "no", "off", ""})


class Concealed(str):
    """A string with a secret in it, on its way to a header.

    It is an ordinary string for code. Its repr hides it from crash reporters, which print the
    local variables of a traceback.

    Example:
        >>> key = Concealed("tml-abc")
        >>> [key], key + "!"
        (['***'], 'tml-abc!')
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class Secret:
    """A value that is shown, logged and compared without being revealed.

    Example:
        >>> key = Secret("tml-abc")
        >>> key, key.reveal()
        (Secret('***'), 'tml-abc')
    """

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = Concealed(value)

    def reveal(self) -> Concealed:
        """The value itself; for the one place that puts it into a header."""
        return self.__value

    @property
    def fingerprint(self) -> str:
        """A short one-way mark, equal for equal values; safe as a dictionary key or in a log."""
        return hashlib.sha256(self.__value.encode()).hexdigest()[:16]

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.__value == other.__value

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "A Secret does not pickle; let the receiving process read its own environment."
        )


def _secret(value: str | Secret | None, name: str) -> Secret | None:
    if value is None or isinstance(value, Secret):
        return value or None
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be text or None, not {type(value).__name__}.")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ConfigurationError(f"{name} must be text that can be written as UTF-8.")
    return Secret(value) if value else None


def _api_key(value: str | Secret | None) -> Secret | None:
    return _secret(value, "api_key")


def _cloudflare_secret(value: str | Secret | None) -> Secret | None:
    return _secret(value, "cloudflare_client_secret")


def _tags(value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    try:
        items = tuple(items) if isinstance(items, Iterable) else (items,)
    except TypeError:  # numpy's array of one number
        items = (items,)
    for item in items:
        if not isinstance(item, str):
            raise ConfigurationError(f"tags must be a list of texts, got {item!r:.50} among them.")
    return tuple(dict.fromkeys(tag.strip() for tag in items if tag.strip()))


def normal_url(value: str) -> str:
    """A base URL in its one form: lower-case host, no default port, no slash too many.

    Raises:
        ConfigurationError: It is not text, has a line break or another control character, or ends
            in the path that every request adds.
    """
    if not isinstance(value, str):
        raise ConfigurationError(f"base_url must be text, not {type(value).__name__}.")
    text = value.strip()
    if not text.isprintable():
        # Raw, it could write lines of its own into logs and, as a header, into requests.
        raise ConfigurationError(
            f"The base URL {text!r:.200} has a line break or another control character; leave it "
            "out."
        )
    scheme, mark, rest = text.partition("://")
    scheme = scheme.lower()
    if not mark or scheme not in _DEFAULT_PORTS:
        return text.rstrip("/") or HOSTED_BASE_URL
    authority, slash, path = rest.partition("/")
    path = "/".join(part for part in (slash + path).split("/") if part)
    if path == "api/v1" or path.endswith("/api/v1"):
        raise ConfigurationError(
            "The base URL must not end in /api/v1: every request adds that itself. Leave it out."
        )
    authority = authority.lower().removesuffix(_DEFAULT_PORTS[scheme])
    return f"{scheme}://{authority}/{path}".rstrip("/")


_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def _path(value: str | os.PathLike[str] | None) -> str | None:
    if value is not None and not isinstance(value, str | os.PathLike):
        raise ConfigurationError(
            f"dialect_file must be text or a path, not {type(value).__name__}."
        )
    return os.fspath(value) if value else None


def fleet_address(value: str | os.PathLike[str] | None) -> str | None:
    """The folder or URL of a fleet as text.

    Raises:
        ConfigurationError: It is neither text nor a path, or cannot be the name of a folder.
    """
    form = "fleet must be a folder or a redis:// URL"
    if value is not None and not isinstance(value, str | os.PathLike):
        raise ConfigurationError(f"{form}, not {type(value).__name__}.")
    text = str(value) if value else None
    # Not shown: a URL may contain a password.
    if text is not None and not text.strip():
        raise ConfigurationError(f"{form}, not blanks alone.")
    if text is not None and "\0" in text:
        raise ConfigurationError(f"{form}, without a NUL in it.")
    return text


def _number(
    kind: Any, what: str, *, optional: bool, least: float = 0.0
) -> Callable[[object, attrs.Attribute[Any], Any], None]:
    allowed = f"{what} above 0" if not least else f"{what}, {least:g} or more"
    if optional:
        allowed += ", or None"

    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is None and optional:
            return
        # True is 1 to Python, and not what anybody means here.
        sound = isinstance(value, kind) and not isinstance(value, bool)
        # Of the integers, those that no float can hold; infinity is one.
        huge = isinstance(value, int) and value > sys.float_info.max
        if not sound or huge or not value > 0 or value < least:
            raise ConfigurationError(f"{attribute.name} must be {allowed}, got {value!r:.50}.")

    return check


def _is_a(*kinds: type, allowed: str) -> Callable[[object, attrs.Attribute[Any], Any], None]:
    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, kinds):
            # What was given is not shown: it may be a secret.
            raise ConfigurationError(
                f"{attribute.name} must be {allowed}, not {type(value).__name__}."
            )

    return check


_TEXT = _is_a(str, type(None), allowed="text or None")


def _knob(
    default: Any,
    env: str | None = None,
    *,
    read: Callable[[str], Any] = str,
    converter: Callable[[Any], Any] | None = None,
    validator: Any = None,
    show: bool = True,
) -> Any:
    metadata = {"env": env, "read": read}
    return attrs.field(
        default=default, converter=converter, validator=validator, metadata=metadata, repr=show
    )


def _name_variables(_: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """Where a field states no variable of its own, it is `TINKER_EXT_` and the field's name."""
    named = []
    for field in fields:
        variable = field.metadata["env"] or f"TINKER_EXT_{field.name.upper()}"
        named.append(field.evolve(metadata={**field.metadata, "env": variable}))
    return named


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word in _ON or word in _OFF:
        return word in _ON
    raise ValueError(f"expected 1/true/yes/on or 0/false/no/off, got {text!r}")


def _switch(default: bool | None, env: str | None = None) -> Any:
    check = _is_a(bool, allowed="True or False")
    if default is None:
        check = _is_a(bool, type(None), allowed="True, False or None")
    return _knob(default, env, read=_flag, validator=check)


def _choice(default: str, *others: str) -> Any:
    allowed = (default, *others)

    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, str) or value not in allowed:
            raise ConfigurationError(
                f"{attribute.name} must be one of {', '.join(allowed)}, not {value!r}."
            )

    return _knob(default, read=str.lower, validator=check)


def _seconds(default: float, *, never: bool = False, least: float = 0.0) -> Any:
    def read(text: str) -> float | None:
        return None if text.strip().lower() in {"none", "never"} else float(text)

    check = _number(Real, "a number of seconds", optional=never, least=least)
    return _knob(default, read=read, validator=check)


def _count(default: int | None) -> Any:
    check = _number(Integral, "a whole number", optional=default is None)
    return _knob(default, read=int, validator=check)


SHORTEST_PERIOD = 0.05
"""Something sent or logged again and again more often than this would be a storm."""


@attrs.frozen(kw_only=True, field_transformer=_name_variables)
class Config:
    """All settings of a client. Times are in seconds, sizes in bytes.

    The variable that sets a field is `TINKER_EXT_` and its name, unless the field states another.
    Frozen; change a copy with `attrs.evolve`. A pickled Config carries no secret: the process
    that unpickles it reads secrets from its own environment.

    Example:
        >>> Config.from_env({"TINKER_API_KEY": "tml-abc"}, heartbeat_interval=5).api_key
        Secret('***')
    """

    base_url: str = _knob(HOSTED_BASE_URL, "TINKER_BASE_URL", converter=normal_url)
    """Where the server is; `embedded` runs one inside this process."""
    api_key: Secret | None = attrs.field(
        default=None,
        converter=_api_key,
        metadata={"env": "TINKER_API_KEY", "read": str},
    )
    """Credential sent as X-API-Key, to this base URL only."""
    credential_cmd: str | None = _knob(None, "TINKER_CREDENTIAL_CMD", validator=_TEXT, show=False)
    """Command that prints a credential; hidden, since it may contain one."""
    project_id: str | None = _knob(None, "TINKER_PROJECT_ID", validator=_TEXT)
    """Project of new sessions and copied weights."""
    tags: tuple[str, ...] = _knob((), "TINKER_TAGS", converter=_tags)
    """Tags of new sessions; separated by commas in the environment."""
    telemetry: bool | None = _switch(None, "TINKER_TELEMETRY")
    """True on, False off, None off unless consent was given for the hosted service."""
    telemetry_consent: bool = _switch(False)
    """Whether the hosted service may be sent telemetry while the switch above is unset."""
    log_level: str | None = _knob(None, "TINKER_LOG", read=str.lower, validator=_TEXT)
    """`debug` or `info`; anything else leaves logging as it is."""
    cloudflare_client_id: str | None = _knob(
        None, "CLOUDFLARE_ACCESS_CLIENT_ID", validator=_TEXT, show=False
    )
    """Sent as CF-Access-Client-Id."""
    cloudflare_client_secret: Secret | None = attrs.field(
        default=None,
        converter=_cloudflare_secret,
        metadata={"env": "CLOUDFLARE_ACCESS_CLIENT_SECRET", "read": str},
    )
    """Sent as CF-Access-Client-Secret."""

    fleet: str | None = _knob(None, converter=fleet_address, show=False)
    """Folder or `redis://` URL over which processes share limit, back-off and budget; hidden,
    since a URL may contain a password."""

    connect_timeout: float = _seconds(30.0)
    """Time to open a connection."""
    request_timeout: float = _seconds(60.0)
    """Time for one attempt of an ordinary request."""
    poll_timeout: float = _seconds(45.0)
    """Time for one long poll; servers are expected to answer after about 30 s."""
    heartbeat_timeout: float = _seconds(10.0)
    """Time for one heartbeat."""
    close_timeout: float = _seconds(30.0)
    """Time that closing may take."""
    wait_deadline: float | None = _seconds(86_400.0, never=True)
    """Longest wait for one result when the caller names none; None waits forever."""
    stall_warning_period: float = _seconds(60.0, least=SHORTEST_PERIOD)
    """A wait without news for this long is reported, then again once per period; 0.05 or more."""
    billing_pause: float = _seconds(3600.0)
    """How long 402 is waited out before it becomes an error, unless `retry_attempts` ends it."""

    heartbeat_interval: float = _seconds(10.0, least=SHORTEST_PERIOD)
    """Time between heartbeats of a session; 0.05 or more."""
    heartbeat_warn_after: float = _seconds(120.0)
    """Silence of the server after which a warning is logged."""
    queue_log_period: float = _seconds(60.0)
    """At most one line about a waiting queue in this time."""

    retry_attempts: int | None = _count(None)
    """Most times one request is sent, refusals for now (402, 429) included; None leaves it to
    `retry_window` and `billing_pause`. Polls go on as long as their owner waits."""
    retry_base: float = _seconds(0.5)
    """First step of the exponential back-off; full jitter is applied."""
    retry_cap: float = _seconds(10.0)
    """Longest back-off step."""
    retry_after_cap: float = _seconds(60.0)
    """Longest delay accepted from a server; a longer one is cut to this."""
    retry_window: float = _seconds(300.0)
    """No attempt starts later than this after the first one."""
    retry_budget: float = _knob(
        0.2, read=float, validator=_number(Real, "a number", optional=False)
    )
    """Retries earned per successful request, so that an unhealthy server is not hammered."""

    wire: Literal["auto", "json", "proto"] = _choice("auto", "json", "proto")
    """Encoding of training and sampling bodies; `auto` asks the server."""
    seq: Literal["auto", "order", "gap", "dedupe", "strict", "ignore"] = _choice(
        "auto", "order", "gap", "dedupe", "strict", "ignore"
    )
    """What the server does with a repeated seq_id, when you know better than `auto` can find out;
    on `ignore` a training request whose answer was lost is never sent again."""
    dialect_file: str | None = _knob(None, converter=_path)
    """File that `tinker-ext conform --remember` wrote about this server: its wire, what it does
    with a repeated seq_id, what it lacks. `wire` and `seq` win over it."""
    chunk_datums: int | None = _count(None)
    """Most datums per request; None takes the limit of the server's era."""
    chunk_size: int | None = _count(None)
    """Largest request in the unit of the era (numbers or bytes); None as above."""
    train_bytes_in_flight: int = _count(50_000_000)
    """Training request bytes on their way at once."""
    sample_concurrency: int = _count(2000)
    """Samples waited for at once."""
    poll_connections: int = _count(512)
    """Most connections on which results are waited for, on servers without batched completion."""
    sample_bytes_in_flight: int = _count(10_485_760)
    """Sample request bytes on their way at once."""
    response_bytes_in_flight: int = _count(52_428_800)
    """Result bytes being received at once."""
    progress_timeout: float = _seconds(7200.0)
    """Sampling without a single success for this long is an error."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None, **overrides: Any) -> Self:
        """Read the environment; arguments that are given win over it.

        None counts as not given, except for `wait_deadline`, where it means forever.

        Args:
            env: Variables to read; the environment of the process by default. A variable that
                is set to the empty string counts as not set.
            **overrides: Fields by name.

        Raises:
            ConfigurationError: A variable cannot be read; says which one.
            TypeError: There is no such field.
        """
        source = os.environ if env is None else env
        values: dict[str, Any] = {}
        for field in attrs.fields(cls):
            name = field.metadata["env"]
            text = source.get(name)
            if text:
                try:
                    values[field.name] = field.metadata["read"](text)
                except ValueError as error:
                    shown = "" if field.name in _SECRETS else f": {error}"
                    raise ConfigurationError(f"Cannot read {name}{shown}.") from None
        values.update(
            (name, value)
            for name, value in overrides.items()
            if value is not None or name in _NONE_COUNTS
        )
        return cls(**values)

    def extra_headers(self) -> dict[str, str]:
        """Headers every request carries because of the environment (Cloudflare Access)."""
        headers = {}
        if self.cloudflare_client_id:
            headers["CF-Access-Client-Id"] = self.cloudflare_client_id
        if self.cloudflare_client_secret:
            headers["CF-Access-Client-Secret"] = self.cloudflare_client_secret.reveal()
        return headers

    def portable(self) -> dict[str, Any]:
        """What was set here, as JSON values, for a client of the same server elsewhere.

        No secret is among it, nor the base URL, which travels beside it. A field that has its
        default is left out: the other process may have set it.
        """
        given = ((field, getattr(self, field.name)) for field in attrs.fields(type(self)))
        return {
            field.name: list(value) if isinstance(value, tuple) else value
            for field, value in given
            if field.name not in _STAY and value != field.default
        }

    @classmethod
    def from_portable(cls, values: Mapping[str, Any], base_url: str | None = None) -> Self:
        """The environment of this process, under what `portable` gave elsewhere.

        Args:
            values: What it gave; fields of another version and secrets are passed over.
            base_url: The server.

        Raises:
            ConfigurationError: A value does not fit its field.
        """
        known = {field.name for field in attrs.fields(cls)} - _STAY
        own = cls.from_env(base_url=base_url)
        try:
            return attrs.evolve(own, **{k: v for k, v in values.items() if k in known})
        except (TypeError, AttributeError) as error:
            raise ConfigurationError(f"The settings do not read: {error}.") from None

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (attrs.asdict(self, recurse=False, filter=_is_public),)


_NONE_COUNTS = frozenset({"wait_deadline"})
_SECRETS = frozenset(
    {"api_key", "credential_cmd", "cloudflare_client_id", "cloudflare_client_secret", "fleet"}
)
_STAY = _SECRETS | {"base_url", "dialect_file"}


def _is_public(field: attrs.Attribute[Any], _: Any) -> bool:
    return field.name not in _SECRETS


def _unpickle(public: dict[str, Any]) -> Config:
    return attrs.evolve(Config.from_env(), **public)
