"""One server as the clients reach it: what it speaks, and the one way to call an operation."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

import attrs
import httpx
import orjson
from tinker_api import operations as api
from tinker_api.errors import ApiError, ArgumentError
from tinker_api.operations import Operation, Prepared

from tinker_ext._reply_parts import ReplyParts
from tinker_ext._transport import (
    ByteBudget,
    Call,
    Connection,
    Credentials,
    Observer,
    Observers,
    Reply,
    RetryRule,
    Timing,
    statuses,
)
from tinker_ext._wire import dialect as dialects
from tinker_ext._wire.dialect import Dialect, Seq, Wire
from tinker_ext._wire.json_codec import dumps, json_form
from tinker_ext.auth import ExchangedToken
from tinker_ext.config import Config
from tinker_ext.core.in_flight import InFlight
from tinker_ext.core.loop import Runtime
from tinker_ext.core.once import Shared
from tinker_ext.errors import (
    APIError,
    APIResponseValidationError,
    APIStatusError,
    ClientClosedError,
    FeatureMissingError,
    InvalidInputError,
    NotFoundError,
)

SDK_VERSION = "0.36.0"
"""Level of the API that this package speaks; servers choose features by it."""

R = TypeVar("R")
_RESPONSE_BYTES = attrs.fields(Config).response_bytes_in_flight.default


class _SwitchableCredentials:
    """The user's credential, until the server asks for its exchange into a token."""

    def __init__(self, source: Credentials) -> None:
        self.source = source
        self.current: Credentials = source

    @property
    def fingerprint(self) -> str:
        return self.source.fingerprint

    async def header(self) -> str | None:
        return await self.current.header()

    def refused(self, value: str) -> None:
        refused = getattr(self.current, "refused", None)
        if refused is not None:
            refused(value)


class Server:
    """A server with its dialect; everything here runs on the core loop.

    Args:
        base_url: The server.
        credentials: Gives the API key.
        config: Settings.
        runtime: Where the core runs.
        headers: Extra headers of every request.
        transport: Makes a transport that replaces our own (the embedded server, tests).
        wire: `json`, `proto` or None to find out.
        rng: Source of jitter.
        observer: Told about every attempt.
    """

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
        self._credentials = _SwitchableCredentials(credentials)
        self._headers = (*config.extra_headers().items(), *headers)
        self._transport = transport
        self._wire = wire
        self._generation = -1
        self._connection: Connection | None = None
        self._probe: Shared[Dialect] = Shared(self._ask_config)
        self._dialect: Dialect | None = None
        self._poll_timing: Timing | None = None
        self._sample_timing: Timing | None = None
        self.response_bytes = ByteBudget(config.response_bytes_in_flight)

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
        return self._connection

    @property
    def fingerprint(self) -> str:
        """Digest that tells credentials apart."""
        return self._credentials.fingerprint

    async def credential(self) -> str | None:
        """The credential that is sent now: the user's key, or a token it was exchanged for."""
        return await self._credentials.header()

    # -- what the server is ----------------------------------------------------------------

    @property
    def dialect(self) -> Dialect | None:
        """What the server speaks; None before the first request."""
        return self._dialect

    async def ready(self) -> Dialect:
        """The dialect; asks the server the first time."""
        if self._dialect is None or self._generation != self.runtime.generation:
            _ = self.connection
            self._dialect = self._dialect or await self._probe.get()
        return self._dialect

    async def _ask_config(self) -> Dialect:
        op = api.GET_CLIENT_CONFIG
        said: Mapping[str, Any] | None = None
        try:
            reply = await self.send(op, op.prepare(sdk_version=SDK_VERSION))
            body = orjson.loads(reply.content)
            said = body if isinstance(body, dict) else {}
        except FeatureMissingError:
            pass
        except APIStatusError as error:
            if error.status_code not in statuses.NO_SETTINGS:
                raise
        except orjson.JSONDecodeError:
            said = None
        chosen = dialects.choose(
            self.base_url,
            said,
            argument=self._wire,
            environment=self.config.wire,
            seq=None if self.config.seq == "auto" else self.config.seq,
            protobuf=dialects.has_protobuf(),
        )
        if said is None:
            chosen = chosen.without(op.name)
        self.wire_confirmed = chosen.chosen_by in ("argument", "environment", "found")
        if self.config.response_bytes_in_flight == _RESPONSE_BYTES:
            self.response_bytes.resize(chosen.config.inflight_response_bytes_semaphore_size)
        if chosen.config.pjwt_auth_enabled:
            self._credentials.current = ExchangedToken(self._credentials.source, self._exchange)
        return chosen

    async def _exchange(self, credential: str) -> str:
        reply = await self.call(api.CREATE_AUTH_TOKEN, headers=(("X-API-Key", credential),))
        return str(reply.jwt)

    def use_wire(self, wire: Wire) -> None:
        """Note that the server has accepted a body on this wire."""
        assert self._dialect is not None
        if wire is not self._dialect.wire:
            self._dialect = self._dialect.found(wire=wire)
        self.wire_confirmed = True

    def use_seq(self, seq: Seq) -> None:
        """Note what was found out about repeated seq ids."""
        assert self._dialect is not None
        self._dialect = self._dialect.found(seq=seq)

    def bytes_allowed(self, name: str, flag: str) -> int:
        """Bytes that may be under way: what the user set, else what the server says."""
        own: int = getattr(self.config, name)
        if self._dialect is None or own != attrs.fields_dict(Config)[name].default:
            return own
        allowed: int = getattr(self._dialect.config, flag)
        return allowed

    def lacks(self, op: Operation[Any, Any]) -> bool:
        """Whether the server is known to lack an operation."""
        return self._dialect is not None and op.name in self._dialect.lacks

    def missing(self, op: Operation[Any, Any], error: BaseException) -> FeatureMissingError | None:
        """What to say instead of an error that means "no such endpoint"; None for any other."""
        if not isinstance(error, APIStatusError) or error.status_code not in statuses.MISSING:
            return None
        if not is_missing_endpoint(error):
            return None
        if self._dialect is not None:
            self._dialect = self._dialect.without(op.name)
        made = FeatureMissingError(op.feature, self.base_url)
        return made.with_context(operation=op.name, attempts=error.attempts)

    @property
    def sample_timing(self) -> Timing:
        """Delays of samples; 402 is waited out as long as the server allows."""
        if self._sample_timing is None:
            timing = self.connection.timing
            if self._dialect is None:
                return timing
            most = self._dialect.config.billing_exception_max_pause_duration_sec
            self._sample_timing = attrs.evolve(timing, billing=min(timing.billing, most))
        return self._sample_timing

    async def _unpaid_timing(self) -> Timing:
        """Delays of a look-up that met 402, which alone would not need the server's settings."""
        with contextlib.suppress(APIError):
            await self.ready()
        return self.sample_timing

    @property
    def poll_timing(self) -> Timing:
        """Delays of polls, which go on as long as their owner waits."""
        if self._poll_timing is None:
            timing = attrs.evolve(self.sample_timing, attempts=None)
            if self._dialect is None:
                return timing
            self._poll_timing = timing
        return self._poll_timing

    # -- the one call ----------------------------------------------------------------------

    async def call(
        self,
        op: Operation[R, Any],
        /,
        *,
        headers: tuple[tuple[str, str], ...] = (),
        deadline: float | None = None,
        idempotency_key: str | None = None,
        **arguments: Any,
    ) -> R:
        """Send one operation by the retry table and return its reply.

        Args:
            op: Row of the generated table.
            headers: Headers of this call only.
            deadline: Loop time after which nothing more is tried.
            idempotency_key: Kept over all attempts; made up by default.
            **arguments: Path, query and body by name, checked by the generated model.

        Raises:
            InvalidInputError: An argument does not fit the document; nothing was sent.
            FeatureMissingError: The server has no such endpoint.
            APIError: Whatever else went wrong.
        """
        reply = await self.send(
            op,
            prepare(op, arguments),
            headers=headers,
            deadline=deadline,
            idempotency_key=idempotency_key,
        )
        return self.read(op, reply)

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
            timeout=self.seconds(op),
            retry=retry or RetryRule(op.retry),
            idempotency_key=idempotency_key,
            redirect_is_answer=redirect_is_answer,
        )
        try:
            return await self.connection.exchange(
                call,
                deadline=deadline,
                ask_unpaid=None if op is api.GET_CLIENT_CONFIG else self._unpaid_timing,
            )
        except APIStatusError as error:
            missing = self.missing(op, error)
            if missing is None:
                raise
            raise missing from error

    def seconds(self, op: Operation[Any, Any]) -> float:
        """Time for one attempt: of the configuration, unless the operation has its own."""
        return {
            "retrieve_future": self.config.poll_timeout,
            "retrieve_futures": self.config.poll_timeout,
            "session_heartbeat": self.config.heartbeat_timeout,
        }.get(op.name) or min(self.config.request_timeout, _longest(op))

    def read(self, op: Operation[R, Any], reply: Reply) -> R:
        """Read a direct reply; what does not fit becomes one of our errors."""
        try:
            return op.parse(reply.status, reply.headers, reply.content)
        except (ApiError, ValueError, TypeError, KeyError) as error:
            raise unreadable(reply, op.reply, None, error) from error

    async def aclose(self) -> None:
        """Close the connections and stop the watchdog."""
        self.in_flight.close()
        self._probe.forget(ClientClosedError("The client was closed while this was under way."))
        if self._connection is not None and self._generation == self.runtime.generation:
            await self._connection.aclose()


def _longest(op: Operation[Any, Any]) -> float:
    """Seconds of the document, where it allows an operation less than the usual minute."""
    return op.seconds if op.seconds < _USUAL_SECONDS else float("inf")


_USUAL_SECONDS = 60.0


def prepare(op: Operation[Any, Any], arguments: Mapping[str, Any]) -> Prepared:
    """Check the arguments of an operation by its generated model; public types are taken too.

    Raises:
        InvalidInputError: A name, a type or a value does not fit; it says what is allowed.
    """
    try:
        return op.prepare(**{name: json_form(value) for name, value in arguments.items()})
    except ArgumentError as error:
        raise InvalidInputError(str(error)).with_context(operation=op.name) from None


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
    return error.with_context(request_id=request_id)


def is_missing_endpoint(error: APIStatusError) -> bool:
    """Whether an error status means "no such endpoint" rather than "no such object".

    Frameworks answer an unknown path with a bare "Not Found" text; objects come with a reason.
    """
    if not isinstance(error, NotFoundError):
        return True
    body = error.body
    if isinstance(body, dict):
        return body.get("detail") in ("Not Found", "Not found")
    return not isinstance(body, str) or body.strip() in ("", "Not Found") or "<" in body


__all__ = ["SDK_VERSION", "Server", "is_missing_endpoint", "prepare", "unreadable"]
