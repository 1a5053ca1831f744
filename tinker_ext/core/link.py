"""One server as the clients reach it: its connection, its dialect, and direct calls to it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import attrs
import httpx
import orjson

from tinker_ext._transport import (
    ByteBudget,
    Call,
    Connection,
    Credentials,
    Lane,
    Observer,
    Observers,
    Reply,
    RetryRule,
)
from tinker_ext._wire import dialects
from tinker_ext._wire.dialects import Dialect, Wire
from tinker_ext._wire.json_codec import dumps
from tinker_ext._wire.operations import DEFAULT_SECONDS, Operation, operation
from tinker_ext._wire.records import decoder
from tinker_ext.auth import ExchangedToken
from tinker_ext.config import Config
from tinker_ext.core.in_flight import Book
from tinker_ext.core.loop import Runtime
from tinker_ext.core.once import Shared
from tinker_ext.core.outcome import broken
from tinker_ext.errors import (
    APIStatusError,
    ClientClosedError,
    FeatureMissingError,
    NotFoundError,
)

SDK_VERSION = "0.36.0"
"""Level of the API that this package speaks; servers choose features by it."""

_MISSING = frozenset({404, 405, 501})
_BAD_BODY = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)


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


class Link:
    """A server with its dialect; everything here runs on the core loop.

    Args:
        base_url: The server.
        credentials: Gives the API key.
        config: Settings.
        runtime: Where the core runs.
        headers: Extra headers of every request.
        transport: Makes a transport that replaces our own (the embedded server, tests).
        wire: `json`, `proto` or None to choose by probing.
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
        self.book = Book(config.stall_warning_period, config.queue_log_period, self.observers)
        self.wire_confirmed = False
        self._credentials = _SwitchableCredentials(credentials)
        self._headers = (*config.extra_headers().items(), *headers)
        self._transport = transport
        self._wire = wire
        self._generation = -1
        self._connection: Connection | None = None
        self._probe: Shared[Dialect] = Shared(self._ask_config)
        self._dialect: Dialect | None = None
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
        op = operation("client_config")
        reply: Mapping[str, Any] | None = None
        try:
            answer = await self.send(op, dumps({"sdk_version": SDK_VERSION}))
            body = orjson.loads(answer.content)
            reply = body if isinstance(body, dict) else {}
        except APIStatusError as error:
            if error.status_code not in (400, 404, 405, 415, 422, 501):
                raise
        except orjson.JSONDecodeError:
            reply = None
        chosen = dialects.choose(
            self.base_url,
            reply,
            argument=self._wire,
            environment=self.config.wire,
            seq=None if self.config.seq == "auto" else self.config.seq,
            refused=dialects.refusals(self.base_url),
            protobuf=dialects.has_protobuf(),
        )
        if reply is None:
            chosen = chosen.without(op.name)
        self.wire_confirmed = chosen.chosen_by in ("argument", "environment")
        if chosen.config.pjwt_auth_enabled:
            self._credentials.current = ExchangedToken(self._credentials.source, self._exchange)
        return chosen

    async def _exchange(self, credential: str) -> str:
        reply = await self.send(
            operation("auth_token"), b"{}", headers=(("X-API-Key", credential),)
        )
        body = self.decode("AuthTokenResponse", reply)
        return str(body.jwt)

    def refuse_wire(self, wire: Wire) -> None:
        """Note that the server does not take this wire and use the other one from now on."""
        assert self._dialect is not None
        dialects.remember_refusal(self.base_url, wire)
        other = Wire.JSON if wire is Wire.PROTO else Wire.PROTO
        self._dialect = attrs.evolve(self._dialect, wire=other, chosen_by="refusal")

    def readmit_wire(self, wire: Wire) -> None:
        """Take a refusal back: the server understood this wire after all."""
        assert self._dialect is not None
        dialects.forget_refusals(self.base_url)
        self._dialect = attrs.evolve(self._dialect, wire=wire, chosen_by="probe")
        self.wire_confirmed = True

    def seconds(self, op: Operation) -> float:
        """Time for one attempt: of the configuration, unless the operation has its own."""
        return self.config.request_timeout if op.seconds == DEFAULT_SECONDS else op.seconds

    def lacks(self, name: str) -> bool:
        """Whether the server is known to lack an operation."""
        return self._dialect is not None and name in self._dialect.lacks

    def note_missing(self, name: str) -> None:
        """Remember that the server lacks an operation."""
        if self._dialect is not None:
            self._dialect = self._dialect.without(name)

    def missing(self, op: Operation, error: BaseException) -> FeatureMissingError | None:
        """What to say instead of an error that means "no such endpoint"; None for any other."""
        if not isinstance(error, APIStatusError) or not op.feature:
            return None
        if error.status_code not in _MISSING or not is_missing_endpoint(error):
            return None
        self.note_missing(op.name)
        return FeatureMissingError(op.feature, self.base_url).with_context(operation=op.name)

    async def send(
        self,
        op: Operation,
        content: bytes | None = None,
        *,
        path: str | None = None,
        query: Mapping[str, object] | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        retry: RetryRule | None = None,
        deadline: float | None = None,
        idempotency_key: str | None = None,
        redirect_is_answer: bool = False,
    ) -> Reply:
        """Send one operation by the retry table and return its 2xx reply.

        Raises:
            FeatureMissingError: The server has no such endpoint.
            APIError: Whatever else went wrong.
        """
        where = path or op.url_path()
        if query:
            where = f"{where}?{urlencode(_flat(query))}"
        call = Call(
            operation=op.name,
            method=op.method,
            path=where,
            content=content,
            headers=headers,
            lane=Lane(op.lane),
            timeout=self.seconds(op),
            retry=retry or RetryRule(op.retry),
            idempotency_key=idempotency_key,
            redirect_is_answer=redirect_is_answer,
        )
        try:
            return await self.connection.exchange(call, deadline=deadline)
        except APIStatusError as error:
            missing = self.missing(op, error)
            if missing is None:
                raise
            raise missing from error

    async def ask(self, name: str, body: Any = None, **options: Any) -> Any:
        """Send an operation with a JSON body and return its decoded reply."""
        op = operation(name)
        reply = await self.send(op, None if body is None else dumps(body), **options)
        return None if op.reply is None else self.decode(op.reply, reply)

    def decode(self, name: str, reply: Reply) -> Any:
        """Read a direct reply; what does not fit becomes one of our errors."""
        try:
            return decoder(name).from_json(orjson.loads(reply.content))
        except _BAD_BODY as error:
            raise broken(reply.status, reply.headers, reply.content, name, None, error) from error

    async def aclose(self) -> None:
        """Close the connections and stop the watchdog."""
        self.book.close()
        self._probe.forget(ClientClosedError("The client was closed while this was under way."))
        if self._connection is not None and self._generation == self.runtime.generation:
            await self._connection.aclose()


def _flat(query: Mapping[str, object]) -> dict[str, str]:
    flat = {}
    for name, value in query.items():
        if isinstance(value, bool):
            flat[name] = str(value).lower()
        elif value is not None:
            flat[name] = str(value)
    return flat


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


__all__ = ["SDK_VERSION", "Link", "is_missing_endpoint"]
