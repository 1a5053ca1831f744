"""One server as the clients reach it: what it speaks, and the one way to call an operation."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import attrs
import orjson
from tinker_api import operations as api
from tinker_api.errors import ApiError, ArgumentError
from tinker_api.operations import Operation, Prepared

import tinker_ext._statuses as statuses
from tinker_ext._transport.connection import Connection
from tinker_ext._transport.limits import ByteBudget, PollPace
from tinker_ext._transport.messages import Call, Reply, RetryRule
from tinker_ext._transport.retry import DEFAULT_TIMING, Timing
from tinker_ext._wire import dialect as dialects
from tinker_ext._wire.dialect import Ability, Dialect, DialectFile, Seq, Wire
from tinker_ext._wire.json_codec import dumps, json_form
from tinker_ext._wire.results import check_promise
from tinker_ext.auth import Credentials, ExchangedToken
from tinker_ext.config import Config
from tinker_ext.core.in_flight import InFlight
from tinker_ext.core.loop import Runtime, Shared
from tinker_ext.errors import (
    PAGE_HINT,
    APIError,
    APIResponseValidationError,
    APIStatusError,
    ClientClosedError,
    FeatureMissingError,
    InvalidInputError,
    NotFoundError,
    ReplyParts,
    describe_body,
    is_page,
    printable,
)
from tinker_ext.telemetry import Observer, Observers

if TYPE_CHECKING:
    import httpx

SDK_VERSION = "0.36.0"
"""Level of the API that this package speaks; servers choose features by it."""

R = TypeVar("R")
_RESPONSE_BYTES = attrs.fields(Config).response_bytes_in_flight.default


class Server:
    """A server with its dialect; everything here runs on the core loop."""

    def __init__(
        self,
        base_url: str,
        credentials: Credentials,
        *,
        config: Config,
        runtime: Runtime,
        headers: tuple[tuple[str, str], ...] = (),
        transport: Callable[[], httpx.AsyncBaseTransport] | None = None,
        wire: str | None = None,
        rng: random.Random | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.base_url = base_url
        self.config = config
        self.runtime = runtime
        self.rng = rng or random.Random()
        self.observers = Observers.of(observer)
        self.in_flight = InFlight(
            config.stall_warning_period, config.queue_log_period, self.observers
        )
        self.wire_confirmed = False
        self._is_one = False
        self._key = self._credentials = credentials
        self._headers = headers
        self._transport = transport
        self._wire = wire
        file = config.dialect_file
        self._file = DialectFile() if file is None else DialectFile.read(file, base_url)
        self._generation = -1
        self._connection: Connection | None = None
        self._probe: Shared[Dialect] = Shared(self._ask_config)
        self.dialect: Dialect | None = None
        """What the server speaks; None before the first request."""
        self.seconds = {op.name: self._seconds_of(op) for op in api.OPERATIONS.values()}
        """Time for one attempt of each operation."""
        self.response_bytes = ByteBudget(config.response_bytes_in_flight)
        self.poll_pace = PollPace()
        self.sample_timing = self.poll_timing = DEFAULT_TIMING

    @property
    def connection(self) -> Connection:
        """The connection of this process's loop; a forked child makes its own."""
        if self._connection is None or self._generation != self.runtime.generation:
            self._generation = self.runtime.generation
            self._connection = Connection(
                self.base_url,
                self._credentials,
                config=self.config,
                headers=self._headers,
                transport=self._transport() if self._transport is not None else None,
                rng=self.rng,
                observer=self.observers,
            )
            self._probe = Shared(self._ask_config)
            self.response_bytes = ByteBudget(self.config.response_bytes_in_flight)
            self.poll_pace = PollPace()
            self._set_timing(self._connection.timing, self.dialect)
        return self._connection

    @property
    def fingerprint(self) -> str:
        """Digest that tells credentials apart."""
        return self._key.fingerprint

    async def credential(self) -> str | None:
        """The credential that is sent now: the user's key, or a token it was exchanged for."""
        return await self._credentials.header()

    # -- what the server is ----------------------------------------------------------------

    async def ready(self) -> Dialect:
        """The dialect; asks the server the first time."""
        if self.dialect is None or self._generation != self.runtime.generation:
            _ = self.connection
            self.dialect = self.dialect or await self._probe.get()
        return self.dialect

    async def _ask_config(self) -> Dialect:
        op = api.GET_CLIENT_CONFIG
        said: Mapping[str, Any] | None = None
        try:
            if op.name not in self._file.lacks:
                reply = await self.send(op, op.prepare(sdk_version=SDK_VERSION))
                body = orjson.loads(reply.content)
                said = body if isinstance(body, dict) else {}
        except (FeatureMissingError, orjson.JSONDecodeError):
            pass
        except APIStatusError as error:
            if error.status_code not in statuses.NO_SETTINGS:
                raise
        chosen = dialects.choose(
            self.base_url,
            said,
            argument=self._wire,
            environment=self.config.wire,
            seq=None if self.config.seq == "auto" else self.config.seq,
            protobuf=dialects.has_protobuf(),
            file=self._file,
        )
        if said is None:
            chosen = chosen.without(op.name)
        elif dialects.is_config(said):
            self._is_one = True
        self.wire_confirmed = chosen.chosen_by != "probe"
        if self.config.response_bytes_in_flight == _RESPONSE_BYTES:
            self.response_bytes.resize(chosen.config.inflight_response_bytes_semaphore_size)
        self._set_timing(self.connection.timing, chosen)
        if chosen.config.pjwt_auth_enabled:
            self._credentials = ExchangedToken(self._key, self._exchange)
            self.connection.use_credentials(self._credentials)
        return chosen

    async def _exchange(self, credential: str) -> str:
        reply = await self.call(api.CREATE_AUTH_TOKEN, headers=(("X-API-Key", credential),))
        return str(reply.jwt)

    def use_wire(self, wire: Wire) -> None:
        """Note that the server has accepted a body on this wire."""
        assert self.dialect is not None
        if wire is not self.dialect.wire:
            self.dialect = self.dialect.found(wire=wire)
        self.wire_confirmed = True

    def use_seq(self, seq: Seq) -> None:
        """Note what was found out about repeated seq ids."""
        assert self.dialect is not None
        self.dialect = self.dialect.found(seq=seq)

    def use_ability(self, ability: Ability) -> None:
        """Note that the server can do something that others of its era cannot."""
        assert self.dialect is not None
        abilities = self.dialect.abilities | {ability}
        self.dialect = attrs.evolve(self.dialect, abilities=abilities)

    def bytes_allowed(self, name: str, flag: str) -> int:
        """Bytes that may be under way: what the user set, else what the server says."""
        own: int = getattr(self.config, name)
        if self.dialect is None or own != attrs.fields_dict(Config)[name].default:
            return own
        allowed: int = getattr(self.dialect.config, flag)
        return allowed

    def lacks(self, op: Operation[Any, Any]) -> bool:
        """Whether the server is known to lack an operation."""
        return self.dialect is not None and op.name in self.dialect.lacks

    def missing(self, op: Operation[Any, Any], error: BaseException) -> FeatureMissingError | None:
        """What to say instead of an error that means "no such endpoint"; None for any other."""
        if not isinstance(error, APIStatusError) or not is_missing_endpoint(error):
            return None
        if self.dialect is not None:
            self.dialect = self.dialect.without(op.name)
        made = FeatureMissingError(op.feature, self.base_url)
        if isinstance(error.body, dict) and not isinstance(error, NotFoundError):
            made.message += f" It says: {error.status_code} {describe_body(error.body)}"
        return made.with_context(operation=op.name, attempts=error.attempts)

    def _set_timing(self, timing: Timing, dialect: Dialect | None) -> None:
        """Choose the delays of samples and polls: 402 is waited out as long as the server allows.

        Polls go on as long as their owner waits.
        """
        if dialect is not None:
            most = dialect.config.billing_exception_max_pause_duration_sec
            timing = attrs.evolve(timing, billing=min(timing.billing, most))
        self.sample_timing = timing
        self.poll_timing = attrs.evolve(timing, attempts=None)

    async def _unpaid_timing(self) -> Timing:
        """Delays of a look-up that met 402, which alone would not need the server's settings."""
        with contextlib.suppress(APIError):
            await self.ready()
        return self.sample_timing

    # -- the one call ----------------------------------------------------------------------

    async def call(
        self,
        op: Operation[R, Any],
        /,
        *,
        headers: tuple[tuple[str, str], ...] = (),
        deadline: float | None = None,
        idempotency_key: str | None = None,
        pending: Callable[[Any], float | None] | None = None,
        **arguments: Any,
    ) -> R:
        """Send one operation by the retry table and return its reply.

        Its arguments, for path, query and body, are checked by the generated model. `pending` says
        in how many seconds to ask again when a reply is not the answer yet.

        Raises:
            InvalidInputError: An argument does not fit the document; nothing was sent.
            FeatureMissingError: The server has no such endpoint.
            APIError: Whatever else went wrong.
        """
        prepared = prepare(op, arguments)
        try:
            reply = await self.send(
                op,
                prepared,
                headers=headers,
                deadline=deadline,
                idempotency_key=idempotency_key,
                pending=None if pending is None else lambda reply: pending(self.read(op, reply)),
            )
            value = self.read(op, reply)
        except (FeatureMissingError, NotFoundError, APIResponseValidationError) as error:
            await self._check_it_is_one(error)
            raise
        self._is_one = True
        return value

    async def _check_it_is_one(self, error: Exception) -> None:
        """After a failure that any web server gives, raise if this is not a Tinker server."""
        if self._is_one:
            return
        op = api.GET_SERVER_CAPABILITIES
        call = Call(op.name, op.method, op.prepare().path, lane=op.lane, timeout=_LOOK_SECONDS)
        try:
            reply = await self.connection.once(call)
        except APIError:
            return
        try:
            self._is_one = reply.status in statuses.CREDENTIAL_REFUSED or bool(self.read(op, reply))
        except APIResponseValidationError as unread:
            unread.message = foreign(self.base_url, reply.status, reply.headers, reply.content)
            unread.hint = "Check base_url: it ends before /api/v1."
            raise unread from error

    async def send(
        self,
        op: Operation[Any, Any],
        prepared: Prepared,
        *,
        headers: tuple[tuple[str, str], ...] = (),
        deadline: float | None = None,
        idempotency_key: str | None = None,
        redirect_is_answer: bool = False,
        retry: RetryRule | None = None,
        pending: Callable[[Reply], float | None] | None = None,
    ) -> Reply:
        """Do what `call` does with checked arguments, and return the reply as it came."""
        path = prepared.path
        if prepared.query:
            path = f"{path}?{urlencode(prepared.query)}"
        call = Call(
            operation=op.name,
            method=op.method,
            path=path,
            content=None if prepared.body is None else dumps(prepared.body),
            headers=headers,
            lane=op.lane,
            timeout=self.seconds[op.name],
            retry=retry or RetryRule(op.retry),
            idempotency_key=idempotency_key,
            redirect_is_answer=redirect_is_answer,
        )
        try:
            return await self.connection.exchange(
                call,
                deadline=deadline,
                ask_unpaid=None if op is api.GET_CLIENT_CONFIG else self._unpaid_timing,
                pending=pending,
            )
        except APIStatusError as error:
            missing = self.missing(op, error)
            if missing is None:
                raise
            raise missing from error

    def _seconds_of(self, op: Operation[Any, Any]) -> float:
        """Time for one attempt: of the configuration, unless the operation has its own."""
        if op is api.RETRIEVE_FUTURE or op is api.RETRIEVE_FUTURES:
            return self.config.poll_timeout
        if op is api.SESSION_HEARTBEAT:
            return self.config.heartbeat_timeout
        # The document counts where it allows an operation less than the usual minute.
        own = op.seconds if op.seconds < _USUAL_SECONDS else float("inf")
        return min(self.config.request_timeout, own)

    def read(self, op: Operation[R, Any], reply: Reply) -> R:
        """Read a direct reply; what does not fit becomes one of our errors."""
        try:
            record = op.parse(reply.status, reply.headers, reply.content)
            check_promise(record)
            return record
        except (ApiError, ValueError, TypeError, KeyError) as error:
            raise unreadable(reply, op.reply, None, error) from error

    async def aclose(self) -> None:
        """Close the connections."""
        self._probe.forget(ClientClosedError("The client was closed while this was under way."))
        if self._connection is not None and self._generation == self.runtime.generation:
            await self._connection.aclose()


_USUAL_SECONDS = 60.0
_LOOK_SECONDS = 3.0


def foreign(base_url: str, status: int, headers: Mapping[str, str], content: bytes) -> str:
    """The sentence about a server whose list of capabilities is not one."""
    kind = headers.get("content-type", "no content type").partition(";")[0]
    text = " ".join(content[:500].decode("utf-8", "replace").split())[:80]
    if status in statuses.FAILED:
        what = "the server behind it is down or unwell"
    elif status in statuses.CREDENTIAL_REFUSED:
        what = "a gateway in front of the server refuses the request"
    else:
        what = "it is not a Tinker server"
    return printable(
        f"{base_url} answers, but {what}: GET api/v1/get_server_capabilities gave "
        f"HTTP {status} ({kind}) {text}".rstrip()
        + "."
    )


def prepare(op: Operation[Any, Any], arguments: Mapping[str, Any]) -> Prepared:
    """Check the arguments of an operation by its generated model; public types are taken too.

    Raises:
        InvalidInputError: A name, a type or a value does not fit; it says what is allowed.
    """
    try:
        prepared = op.prepare(**{name: json_form(value) for name, value in arguments.items()})
    except ArgumentError as error:
        raise InvalidInputError(str(error)).with_context(operation=op.name) from None
    except RecursionError:
        raise InvalidInputError(
            f"An argument of {op.name} contains itself, or is nested too deeply for JSON."
        ).with_context(operation=op.name) from None
    for name, text in prepared.query:
        _check_query(op, name, text)
    return prepared


def _check_query(op: Operation[Any, Any], name: str, text: str) -> None:
    """Refuse what no server can read: half a character, or a number beyond 64 bits."""
    why = None
    if text.lstrip("-").isdecimal() and not -(1 << 63) <= int(text) < 1 << 63:
        why = "a whole number of at most 64 bits"
    elif not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        why = "text that can be written as UTF-8"
    if why is not None:
        raise InvalidInputError(f"{name} must be {why}, not {text!r:.50}.").with_context(
            operation=op.name
        )


def unreadable(
    reply: Reply, expected: str, request_id: str | None, cause: Exception
) -> APIResponseValidationError:
    """The error for a reply that cannot be read, with the start of its body."""
    said = reply.content[:200].decode("utf-8", "replace")
    error = APIResponseValidationError(
        ReplyParts.of(reply.status, reply.headers, reply.content[:2000], None),
        said,
        f"The reply does not read as {expected}: {type(cause).__name__}: {str(cause)[:300]}. "
        f"It starts with {said!r}.",
    )
    error.__cause__ = cause
    if is_page(reply.content):
        error.hint = PAGE_HINT
    return error.with_context(request_id=request_id)


def is_missing_endpoint(error: APIStatusError) -> bool:
    """Whether an error status means "no such endpoint" rather than "no such object".

    Frameworks answer an unknown path with a bare "Not Found" text; objects come with a reason. A
    web page was written by a gateway, which does not know what the server has.
    """
    if error.status_code not in statuses.MISSING or is_page(error.body):
        return False
    if not isinstance(error, NotFoundError):
        return True
    body = error.body
    if isinstance(body, dict):
        return body.get("detail") in ("Not Found", "Not found")
    return not isinstance(body, str) or body.strip() in ("", "Not Found")


__all__ = ["SDK_VERSION", "Server", "foreign", "is_missing_endpoint", "prepare", "unreadable"]
