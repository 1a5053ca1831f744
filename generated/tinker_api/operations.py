"""One row for each operation of the API: how it is called, checked, sent and read.

A row is a constant named after its operationId, such as `OPTIM_STEP`, and `OPERATIONS` has all of
them by name. Importing this module loads neither the records nor httpx.

    >>> OPTIM_STEP.path, OPTIM_STEP.lane, OPTIM_STEP.result
    ('/api/v1/optim_step', 'train', 'OptimStepResponse')

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from attrs import field, frozen

from . import models
from .base import Model
from .codec import (
    INTEGER,
    MOMENT,
    NUMBER,
    TEXT,
    Choice,
    Codec,
    Object,
)
from .errors import ArgumentError, StatusError
from .exchange import (
    Answer,
    build_request,
    read_answer,
    refuse_unlisted,
    segment_of,
    text_of,
    unwrap,
)
from .types import Response, loads

__all__ = [
    "OPERATIONS",
    "Operation",
    "Parameter",
    "Prepared",
    "HEALTH_CHECK",
    "GET_SERVER_CAPABILITIES",
    "GET_CLIENT_CONFIG",
    "GET_CLIENT_DYNAMIC_CONFIG",
    "CREATE_AUTH_TOKEN",
    "GET_API_KEY",
    "DELETE_API_KEY",
    "CREATE_SESSION",
    "SESSION_HEARTBEAT",
    "FINISH_SESSION",
    "LIST_SESSIONS",
    "SEARCH_SESSIONS",
    "GET_SESSION",
    "SET_SESSION_PROJECT",
    "GET_SESSION_TRACE_EXPORT",
    "CREATE_MODEL",
    "GET_INFO",
    "UNLOAD_MODEL",
    "FORWARD",
    "FORWARD_BACKWARD",
    "OPTIM_STEP",
    "CREATE_CUSTOM_LOSS",
    "CREATE_SAMPLING_SESSION",
    "JOIN_SAMPLING_SESSION",
    "SAMPLE",
    "RETRIEVE_FUTURE",
    "RETRIEVE_FUTURES",
    "CANCEL_FUTURE",
    "SAVE_WEIGHTS",
    "LOAD_WEIGHTS",
    "SAVE_WEIGHTS_FOR_SAMPLER",
    "SAVE_WEIGHTS_EXTERNAL",
    "COPY_WEIGHTS",
    "GET_WEIGHTS_INFO",
    "LIST_TRAINING_RUNS",
    "GET_TRAINING_RUN",
    "LIST_TRAINING_RUN_CHECKPOINTS",
    "LIST_CHECKPOINTS",
    "DELETE_CHECKPOINT",
    "GET_CHECKPOINT_ARCHIVE",
    "PUBLISH_CHECKPOINT",
    "UNPUBLISH_CHECKPOINT",
    "SET_CHECKPOINT_TTL",
    "GET_EXTERNAL_WEIGHTS_URLS",
    "GET_SAMPLER",
    "LIST_AUDIT_LOG",
    "LIST_BILLING_USAGE_EVENTS",
    "GET_CURRENT_CHECKPOINT_STORAGE",
    "SEND_TELEMETRY",
]

Reply = TypeVar("Reply")
Result = TypeVar("Result")


@frozen
class Parameter:
    """One value in the path, the query, a header or a cookie.

    Attributes:
        name: Name of the argument.
        key: Name on the wire.
        codec: Reads and writes the value.
        required: Whether it must be given.
        values: The only values it may have; empty for any.
    """

    name: str
    key: str
    codec: Codec
    required: bool = False
    values: tuple[str | int, ...] = ()


@frozen
class Prepared:
    """A checked request: what is sent, apart from headers.

    Attributes:
        method: HTTP method in capitals.
        path: Path below the base URL, values filled in and quoted.
        query: Pairs of the query, not quoted; a list repeats its key.
        body: The JSON object, or None when the operation has no body.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: dict[str, Any] | None = field(default=None, repr=False)


@frozen(eq=False)
class Operation(Generic[Reply, Result]):
    """How one operation is called, checked, sent and read.

    `Reply` is what the operation answers, `Result` what the future yields that it answers with,
    or None.

    Attributes:
        name: The operationId.
        method: HTTP method in capitals.
        path: Path below the base URL with `{names}` of its values.
        tag: Module of `api` with its functions.
        lane: Group of connections that carries it.
        retry: When it may be sent again.
        seconds: Time allowed for one attempt.
        feature: What a server lacks that does not have it, in words.
        eras: Eras of the service that know it, oldest first.
        request: Name of the class of its body, or None.
        media_types: What a body may be encoded as, JSON first.
        path_fields: Values in the path.
        query_fields: Values in the query.
        header_fields: Headers of its own, which only the functions of `api` take by name.
        cookie_fields: Cookies of its own, likewise.
        reply: What it answers, as an annotation.
        result: Name of the member of FutureRetrieveResponse that its future yields, or None.
        request_type: X-Tinker-Request-Type while its future is polled.
        accept: Media type besides JSON that its future's result may have, or nothing.
    """

    name: str
    method: str
    path: str
    tag: str = field(repr=False)
    lane: str
    retry: str
    seconds: float
    feature: str
    eras: tuple[str, ...]
    reply: str
    _answers: Callable[[], tuple[Answer, ...]] = field(repr=False)
    request: str | None = None
    media_types: tuple[str, ...] = ()
    body_required: bool = False
    path_fields: tuple[Parameter, ...] = field(default=(), repr=False)
    query_fields: tuple[Parameter, ...] = field(default=(), repr=False)
    header_fields: tuple[Parameter, ...] = field(default=(), repr=False)
    cookie_fields: tuple[Parameter, ...] = field(default=(), repr=False)
    result: str | None = None
    request_type: str = ""
    accept: str = ""
    _loaded: list[tuple[Answer, ...]] = field(factory=list, init=False, repr=False)

    @property
    def since(self) -> str:
        """First era of the service that knows this operation."""
        return self.eras[0]

    @property
    def request_model(self) -> type[Model] | None:
        """Class of the body, or None."""
        return None if self.request is None else _model(self.request)

    @property
    def result_model(self) -> type[Model] | None:
        """Class that its future yields, or None."""
        return None if self.result is None else _model(self.result)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names that `prepare` takes: path, query, then body without its tags."""
        names = [item.name for item in (*self.path_fields, *self.query_fields)]
        model = self.request_model
        if model is not None:
            layout = model._layout()
            names += [item.name for item in layout.fields if item.key not in layout.tags]
        return tuple(names)

    def prepare(self, /, **arguments: Any) -> Prepared:
        """Check the arguments of a call and put them where they belong.

        What is not given stays absent, and so does None, except where null has a meaning of its
        own. A body value that is the default is left out, unless the document says that it is
        always sent. Tags are always sent.

        Args:
            arguments: Values of the path, the query and the body by name: plain JSON, generated
                records, or other objects with `to_dict`.

        Raises:
            ArgumentError: A name is unknown, a required one is missing, a type is wrong, or a value
                is not one of a closed list. It says what is allowed; nothing was sent.

        Example:
            >>> SET_CHECKPOINT_TTL.prepare(
            ...     training_run_id="s:train:0",
            ...     checkpoint_kind="weights",
            ...     checkpoint_name="last",
            ...     ttl_seconds=None,
            ... ).body
            {'ttl_seconds': None}
        """
        from . import arguments as checks

        rest = dict(arguments)
        segments = {}
        for item in self.path_fields:
            given = rest.pop(item.name, None)
            if given is None:
                raise ArgumentError(f"{item.name} is required", self.name, item.name, item.values)
            written = checks.value(self.name, item.name, item.codec, given, item.values)
            try:
                segments[item.key] = segment_of(written)
            except ValueError as error:
                raise ArgumentError(f"{item.name}: {error}", self.name, item.name) from None
        query: list[tuple[str, str]] = []
        for item in self.query_fields:
            given = rest.pop(item.name, None)
            if given is not None:
                written = checks.value(self.name, item.name, item.codec, given, item.values)
                many = written if isinstance(written, list) else [written]
                query += [(item.key, text_of(one)) for one in many]
            elif item.required:
                raise ArgumentError(f"{item.name} is required", self.name, item.name, item.values)
        model = self.request_model
        fields = () if model is None else model._layout().fields
        known = {name for item in fields for name in (item.name, item.key)}
        if rest.keys() - known:
            checks.refuse_names(self.name, sorted(rest.keys() - known), self.arguments)
        body = None
        if model is not None and (self.body_required or rest):
            body = checks.body(self.name, model, rest)
        return Prepared(self.method, _filled(self.path, segments), tuple(query), body)

    def build(self, /, body: Any = None, **values: Any) -> dict[str, Any]:
        """Return the parts of a request as keyword arguments of `httpx.Client.request`.

        Args:
            body: The request record, or its bytes when already encoded.
            values: Path, query, header and cookie values by name; None is left out.

        Raises:
            ValueError: A value is not one of a closed list, cannot be a part of a path, or the body
                has no JSON form.
        """

        def given(items: tuple[Parameter, ...]) -> dict[str, Any]:
            return {
                item.key: refuse_unlisted(item.name, values.get(item.name), item.values)
                for item in items
            }

        binary = next((kind for kind in self.media_types if "json" not in kind), None)
        segments = {key: segment_of(value) for key, value in given(self.path_fields).items()}
        return build_request(
            self.method,
            _filled(self.path, segments),
            query=given(self.query_fields),
            headers=given(self.header_fields),
            cookies=given(self.cookie_fields),
            body=body,
            binary_type=binary,
        )

    def read(self, status_code: int, headers: Mapping[str, str], content: bytes) -> Any:
        """Read the body of any documented status.

        Args:
            status_code: HTTP status; any 2xx is read as the documented one.
            headers: Response headers by lower-case name.
            content: The body, decompressed.

        Raises:
            UnexpectedStatus: The status is not documented.
            UnexpectedBody: The body is not what is documented.
        """
        if not self._loaded:
            self._loaded.append(self._answers())
        return read_answer(self._loaded[0], status_code, headers, content)

    def respond(self, answer: tuple[int, Mapping[str, str], bytes]) -> Response[Any]:
        """Return status, headers, content and the parsed body of any documented status."""
        return Response(*answer, self.read(*answer))

    def unwrap(self, answer: tuple[int, Mapping[str, str], bytes]) -> Any:
        """Return the parsed body of a 2xx answer, else raise StatusError."""
        return unwrap(self.respond(answer))

    def parse(self, status_code: int, headers: Mapping[str, str], content: bytes) -> Reply:
        """Return what the operation answers.

        Args:
            status_code: HTTP status; any 2xx is read as the documented one.
            headers: Response headers by lower-case name.
            content: The body, decompressed.

        Raises:
            StatusError: A documented status of 400 or more; `parsed` is its body.
            UnexpectedStatus: The status is not documented.
            UnexpectedBody: The body is not what is documented.
        """
        parsed: Reply = self.read(status_code, headers, content)
        if status_code >= 400:
            problem = "the server refused the request"
            raise StatusError(problem, status_code, headers, content, parsed)
        return parsed

    def parse_result(
        self, raw: Any
    ) -> (
        Result | models.TryAgainResponse | models.FutureMetadataOnly | models.RequestFailedResponse
    ):
        """Read a JSON body of `retrieve_future` for a future of this operation.

        Args:
            raw: The JSON value, or its bytes.

        Returns:
            The result, or the member that says that there is not one (yet).

        Raises:
            ParseError: The body is not one of them.
            TypeError: The operation answers directly, without a future.
        """
        if self.result is None:
            raise TypeError(f"{self.name} answers directly; there is no future to read")
        if isinstance(raw, (bytes, bytearray, memoryview)):
            raw = loads(bytes(raw))
        from .models.future_retrieve_response import parse_future_retrieve_response

        parsed: Any = parse_future_retrieve_response(raw, _model(self.result))
        return parsed  # type: ignore[no-any-return]

    def member_of(self, raw: Any) -> str:
        """Return which member a JSON body of `retrieve_future` is, without reading it.

        Args:
            raw: The JSON value.

        Returns:
            `self.result`, or the name of the member that says that there is no result (yet).

        Raises:
            ParseError: The body is not one of them.
            TypeError: The operation answers directly, without a future.
        """
        if self.result is None:
            raise TypeError(f"{self.name} answers directly; there is no future to read")
        from .models.future_retrieve_response import member_of

        return member_of(raw, self.result)

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_name, (self.name,)


def _model(name: str) -> type[Model]:
    found: type[Model] = getattr(models, name)
    return found


def _filled(path: str, segments: Mapping[str, str]) -> str:
    for key, segment in segments.items():
        path = path.replace("{" + key + "}", segment)
    return path


def _by_name(name: str) -> Operation[Any, Any]:
    return OPERATIONS[name]


def _union(name: str) -> Choice:
    from importlib import import_module

    codec: Choice = import_module(f".models.{name}", __package__)._codec()
    return codec


def _errors() -> tuple[Answer, ...]:
    return (
        Answer(400, 400, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(401, 401, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(402, 402, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(403, 403, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(404, 404, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(408, 408, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(409, 409, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(410, 410, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(422, 422, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(429, 429, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(500, 599, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
    )


HEALTH_CHECK: Final[Operation[models.HealthResponse, None]] = Operation(
    "health_check",
    "GET",
    "/api/v1/healthz",
    tag="service",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="health check",
    eras=("0.4.1", "0.36.0"),
    reply="HealthResponse",
    answers=lambda: (
        Answer(200, 200, json=Object(models.HealthResponse)),
        *_errors(),
    ),
)
"""Check that the service is up
"""

GET_SERVER_CAPABILITIES: Final[Operation[models.GetServerCapabilitiesResponse, None]] = Operation(
    "get_server_capabilities",
    "GET",
    "/api/v1/get_server_capabilities",
    tag="service",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="list of capabilities",
    eras=("0.4.1", "0.36.0"),
    reply="GetServerCapabilitiesResponse",
    answers=lambda: (
        Answer(200, 200, json=Object(models.GetServerCapabilitiesResponse)),
        *_errors(),
    ),
)
"""List the models the server offers
"""

GET_CLIENT_CONFIG: Final[Operation[models.ClientConfigResponse, None]] = Operation(
    "get_client_config",
    "POST",
    "/api/v1/client/config",
    tag="service",
    lane="session",
    retry="read",
    seconds=60.0,
    feature="client configuration",
    eras=("0.36.0",),
    reply="ClientConfigResponse",
    request="ClientConfigRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    answers=lambda: (
        Answer(200, 200, json=Object(models.ClientConfigResponse)),
        *_errors(),
    ),
)
"""Fetch the flags a client starts with
"""

GET_CLIENT_DYNAMIC_CONFIG: Final[Operation[models.ClientDynamicConfigResponse, None]] = Operation(
    "get_client_dynamic_config",
    "POST",
    "/api/v1/client/dynamic_config",
    tag="service",
    lane="session",
    retry="once",
    seconds=10.0,
    feature="dynamic client configuration",
    eras=("0.36.0",),
    reply="ClientDynamicConfigResponse",
    request="ClientConfigRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    answers=lambda: (
        Answer(200, 200, json=Object(models.ClientDynamicConfigResponse)),
        *_errors(),
    ),
)
"""Fetch the flags that may change while a client runs
"""

CREATE_AUTH_TOKEN: Final[Operation[models.AuthTokenResponse, None]] = Operation(
    "create_auth_token",
    "POST",
    "/api/v1/auth/token",
    tag="auth",
    lane="session",
    retry="read",
    seconds=60.0,
    feature="exchange of credentials",
    eras=("0.36.0",),
    reply="AuthTokenResponse",
    request="AuthTokenRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    answers=lambda: (
        Answer(200, 200, json=Object(models.AuthTokenResponse)),
        *_errors(),
    ),
)
"""Exchange a credential for a JWT
"""

GET_API_KEY: Final[Operation[models.ApiKeyInfoResponse, None]] = Operation(
    "get_api_key",
    "GET",
    "/api/v1/auth/apikey/me",
    tag="auth",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="description of API keys",
    eras=("0.36.0",),
    reply="ApiKeyInfoResponse",
    answers=lambda: (
        Answer(200, 200, json=Object(models.ApiKeyInfoResponse)),
        *_errors(),
    ),
)
"""Describe the API key in use
"""

DELETE_API_KEY: Final[Operation[None, None]] = Operation(
    "delete_api_key",
    "DELETE",
    "/api/v1/auth/apikey/me",
    tag="auth",
    lane="rest",
    retry="dedupe",
    seconds=60.0,
    feature="revocation of API keys",
    eras=("0.36.0",),
    reply="None",
    answers=lambda: (
        Answer(204, 204),
        Answer(200, 299),
        *_errors(),
    ),
)
"""Revoke the API key in use
"""

CREATE_SESSION: Final[Operation[models.CreateSessionResponse, None]] = Operation(
    "create_session",
    "POST",
    "/api/v1/create_session",
    tag="sessions",
    lane="session",
    retry="dedupe",
    seconds=60.0,
    feature="sessions",
    eras=("0.4.1", "0.36.0"),
    reply="CreateSessionResponse",
    request="CreateSessionRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    answers=lambda: (
        Answer(200, 200, json=Object(models.CreateSessionResponse)),
        *_errors(),
    ),
)
"""Start a session
"""

SESSION_HEARTBEAT: Final[Operation[models.SessionHeartbeatResponse, None]] = Operation(
    "session_heartbeat",
    "POST",
    "/api/v1/session_heartbeat",
    tag="sessions",
    lane="session",
    retry="once",
    seconds=10.0,
    feature="heartbeats",
    eras=("0.4.1", "0.36.0"),
    reply="SessionHeartbeatResponse",
    request="SessionHeartbeatRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    answers=lambda: (
        Answer(200, 200, json=Object(models.SessionHeartbeatResponse)),
        *_errors(),
    ),
)
"""Keep a session alive
"""

FINISH_SESSION: Final[Operation[None, None]] = Operation(
    "finish_session",
    "POST",
    "/api/v1/sessions/{session_id}/finish",
    tag="sessions",
    lane="session",
    retry="read",
    seconds=60.0,
    feature="report of a session's end",
    eras=("0.36.0",),
    reply="None",
    request="FinishSessionRequest",
    media_types=("application/json",),
    body_required=True,
    path_fields=(Parameter("session_id", "session_id", TEXT, required=True),),
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    answers=lambda: (
        Answer(204, 204),
        Answer(200, 299),
        *_errors(),
    ),
)
"""End a session and say why
"""

LIST_SESSIONS: Final[Operation[models.ListSessionsResponse, None]] = Operation(
    "list_sessions",
    "GET",
    "/api/v1/sessions",
    tag="sessions",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="list of sessions",
    eras=("0.36.0",),
    reply="ListSessionsResponse",
    query_fields=(
        Parameter("limit", "limit", INTEGER),
        Parameter("offset", "offset", INTEGER),
        Parameter("access_scope", "access_scope", TEXT, values=("owned", "accessible")),
    ),
    header_fields=(
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.ListSessionsResponse)),
        *_errors(),
    ),
)
"""List session ids
"""

SEARCH_SESSIONS: Final[Operation[models.SessionSearchResponse, None]] = Operation(
    "search_sessions",
    "POST",
    "/api/v1/sessions/search",
    tag="sessions",
    lane="rest",
    retry="dedupe",
    seconds=60.0,
    feature="search for sessions",
    eras=("0.36.0",),
    reply="SessionSearchResponse",
    request="SessionSearchRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(
        Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.SessionSearchResponse)),
        *_errors(),
    ),
)
"""Search sessions
"""

GET_SESSION: Final[Operation[models.GetSessionResponse, None]] = Operation(
    "get_session",
    "GET",
    "/api/v1/sessions/{session_id}",
    tag="sessions",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="description of sessions",
    eras=("0.36.0",),
    reply="GetSessionResponse",
    path_fields=(Parameter("session_id", "session_id", TEXT, required=True),),
    query_fields=(Parameter("access_scope", "access_scope", TEXT, values=("owned", "accessible")),),
    header_fields=(
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.GetSessionResponse)),
        *_errors(),
    ),
)
"""Describe a session
"""

SET_SESSION_PROJECT: Final[Operation[None, None]] = Operation(
    "set_session_project",
    "PUT",
    "/api/v1/sessions/{session_id}/project",
    tag="sessions",
    lane="rest",
    retry="dedupe",
    seconds=60.0,
    feature="projects of sessions",
    eras=("0.36.0",),
    reply="None",
    request="SetSessionProjectRequest",
    media_types=("application/json",),
    body_required=True,
    path_fields=(Parameter("session_id", "session_id", TEXT, required=True),),
    header_fields=(
        Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(204, 204),
        Answer(200, 299),
        *_errors(),
    ),
)
"""Move a session into a project
"""

GET_SESSION_TRACE_EXPORT: Final[Operation[models.TraceExportResponse, None]] = Operation(
    "get_session_trace_export",
    "GET",
    "/api/v1/sessions/{session_id}/trace_export",
    tag="sessions",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="export of session traces",
    eras=("0.36.0",),
    reply="TraceExportResponse",
    path_fields=(Parameter("session_id", "session_id", TEXT, required=True),),
    header_fields=(
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.TraceExportResponse)),
        *_errors(),
    ),
)
"""Ask for the trace of a session
"""

CREATE_MODEL: Final[Operation[models.UntypedAPIFuture, models.CreateModelResponse]] = Operation(
    "create_model",
    "POST",
    "/api/v1/create_model",
    tag="models",
    lane="train",
    retry="dedupe",
    seconds=60.0,
    feature="operation create_model",
    eras=("0.4.1", "0.36.0"),
    reply="UntypedAPIFuture",
    request="CreateModelRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    result="CreateModelResponse",
    request_type="CreateModel",
    answers=lambda: (
        Answer(200, 200, json=Object(models.UntypedAPIFuture)),
        *_errors(),
    ),
)
"""Create a model to train
"""

GET_INFO: Final[Operation[models.GetInfoResponse, None]] = Operation(
    "get_info",
    "POST",
    "/api/v1/get_info",
    tag="models",
    lane="train",
    retry="read",
    seconds=60.0,
    feature="get_info",
    eras=("0.4.1", "0.36.0"),
    reply="GetInfoResponse",
    request="GetInfoRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    answers=lambda: (
        Answer(200, 200, json=Object(models.GetInfoResponse)),
        *_errors(),
    ),
)
"""Describe a model
"""

UNLOAD_MODEL: Final[Operation[models.UntypedAPIFuture, models.UnloadModelResponse]] = Operation(
    "unload_model",
    "POST",
    "/api/v1/unload_model",
    tag="models",
    lane="train",
    retry="dedupe",
    seconds=60.0,
    feature="operation unload_model",
    eras=("0.4.1",),
    reply="UntypedAPIFuture",
    request="UnloadModelRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    result="UnloadModelResponse",
    request_type="UnloadModel",
    answers=lambda: (
        Answer(200, 200, json=Object(models.UntypedAPIFuture)),
        *_errors(),
    ),
)
"""Give a model's place back
"""

FORWARD: Final[Operation[models.UntypedAPIFuture, models.ForwardBackwardOutput]] = Operation(
    "forward",
    "POST",
    "/api/v1/forward",
    tag="training",
    lane="train",
    retry="dedupe",
    seconds=60.0,
    feature="operation forward",
    eras=("0.4.1",),
    reply="UntypedAPIFuture",
    request="ForwardRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    result="ForwardBackwardOutput",
    request_type="Forward",
    accept="application/x-protobuf",
    answers=lambda: (
        Answer(200, 200, json=Object(models.UntypedAPIFuture)),
        *_errors(),
    ),
)
"""Compute losses without gradients
"""

FORWARD_BACKWARD: Final[Operation[models.UntypedAPIFuture, models.ForwardBackwardOutput]] = (
    Operation(
        "forward_backward",
        "POST",
        "/api/v1/forward_backward",
        tag="training",
        lane="train",
        retry="dedupe",
        seconds=60.0,
        feature="operation forward_backward",
        eras=("0.4.1", "0.36.0"),
        reply="UntypedAPIFuture",
        request="ForwardBackwardRequest",
        media_types=("application/json", "application/x-protobuf"),
        body_required=True,
        header_fields=(
            Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),
            Parameter("content_encoding", "Content-Encoding", TEXT, values=("zstd",)),
        ),
        result="ForwardBackwardOutput",
        request_type="ForwardBackward",
        accept="application/x-protobuf",
        answers=lambda: (
            Answer(200, 200, json=Object(models.UntypedAPIFuture)),
            *_errors(),
        ),
    )
)
"""Compute losses and add up gradients
"""

OPTIM_STEP: Final[Operation[models.UntypedAPIFuture, models.OptimStepResponse]] = Operation(
    "optim_step",
    "POST",
    "/api/v1/optim_step",
    tag="training",
    lane="train",
    retry="dedupe",
    seconds=60.0,
    feature="operation optim_step",
    eras=("0.4.1", "0.36.0"),
    reply="UntypedAPIFuture",
    request="OptimStepRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    result="OptimStepResponse",
    request_type="OptimStep",
    answers=lambda: (
        Answer(200, 200, json=Object(models.UntypedAPIFuture)),
        *_errors(),
    ),
)
"""Apply the gradients
"""

CREATE_CUSTOM_LOSS: Final[Operation[models.UntypedAPIFuture, models.CreateCustomLossResponse]] = (
    Operation(
        "create_custom_loss",
        "POST",
        "/api/v1/create_custom_loss",
        tag="training",
        lane="train",
        retry="dedupe",
        seconds=60.0,
        feature="operation create_custom_loss",
        eras=("0.36.0",),
        reply="UntypedAPIFuture",
        request="CreateCustomLossRequest",
        media_types=("application/json",),
        body_required=True,
        header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
        result="CreateCustomLossResponse",
        request_type="CreateCustomLoss",
        answers=lambda: (
            Answer(200, 200, json=Object(models.UntypedAPIFuture)),
            *_errors(),
        ),
    )
)
"""Register a loss computed on the server
"""

CREATE_SAMPLING_SESSION: Final[Operation[models.CreateSamplingSessionResponse, None]] = Operation(
    "create_sampling_session",
    "POST",
    "/api/v1/create_sampling_session",
    tag="sampling",
    lane="session",
    retry="read",
    seconds=60.0,
    feature="sampling sessions",
    eras=("0.4.1", "0.36.0"),
    reply="CreateSamplingSessionResponse",
    request="CreateSamplingSessionRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    answers=lambda: (
        Answer(200, 200, json=Object(models.CreateSamplingSessionResponse)),
        *_errors(),
    ),
)
"""Open a sampler
"""

JOIN_SAMPLING_SESSION: Final[Operation[models.JoinSamplingSessionResponse, None]] = Operation(
    "join_sampling_session",
    "POST",
    "/api/v1/join_sampling_session",
    tag="sampling",
    lane="session",
    retry="read",
    seconds=60.0,
    feature="joining of sampling sessions",
    eras=("0.36.0",),
    reply="JoinSamplingSessionResponse",
    request="JoinSamplingSessionRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    answers=lambda: (
        Answer(200, 200, json=Object(models.JoinSamplingSessionResponse)),
        *_errors(),
    ),
)
"""Share an open sampler from another process
"""

SAMPLE: Final[Operation[models.UntypedAPIFuture, models.SampleResponse]] = Operation(
    "sample",
    "POST",
    "/api/v1/asample",
    tag="sampling",
    lane="sample",
    retry="dedupe",
    seconds=60.0,
    feature="sampling",
    eras=("0.4.1", "0.36.0"),
    reply="UntypedAPIFuture",
    request="SampleRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(
        Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),
        Parameter(
            "x_tinker_sampling_backpressure", "X-Tinker-Sampling-Backpressure", TEXT, values=("1",)
        ),
    ),
    result="SampleResponse",
    request_type="Sample",
    accept="application/x-protobuf",
    answers=lambda: (
        Answer(200, 200, json=Object(models.UntypedAPIFuture)),
        *_errors(),
    ),
)
"""Sample from a model
"""

RETRIEVE_FUTURE: Final[Operation[models.FutureRetrieveResponse | bytes, None]] = Operation(
    "retrieve_future",
    "POST",
    "/api/v1/retrieve_future",
    tag="futures",
    lane="poll",
    retry="poll",
    seconds=45.0,
    feature="polling of results",
    eras=("0.4.1", "0.36.0"),
    reply="FutureRetrieveResponse | bytes",
    request="FutureRetrieveRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(
        Parameter(
            "x_tinker_request_type",
            "X-Tinker-Request-Type",
            TEXT,
            values=(
                "CreateModel",
                "Forward",
                "ForwardBackward",
                "OptimStep",
                "SaveWeights",
                "LoadWeights",
                "SaveWeightsForSampler",
                "Sample",
                "SaveWeightsExternal",
                "CreateCustomLoss",
                "UnloadModel",
            ),
        ),
        Parameter("x_tinker_request_iteration", "X-Tinker-Request-Iteration", INTEGER),
        Parameter(
            "x_tinker_create_promise_roundtrip_time",
            "X-Tinker-Create-Promise-Roundtrip-Time",
            NUMBER,
        ),
        Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),
    ),
    answers=lambda: (
        Answer(
            200, 200, json=_union("future_retrieve_response"), binary=("application/x-protobuf",)
        ),
        Answer(400, 400, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(401, 401, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(402, 402, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(403, 403, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(404, 404, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(408, 408, json=Object(models.PendingFutureBody), binary=("text/plain", "text/html")),
        Answer(409, 409, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(410, 410, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(422, 422, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(429, 429, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
        Answer(500, 599, json=Object(models.ErrorBody), binary=("text/plain", "text/html")),
    ),
)
"""Wait for a result
"""

RETRIEVE_FUTURES: Final[Operation[models.FuturesRetrieveResponse, None]] = Operation(
    "retrieve_futures",
    "POST",
    "/api/v1/retrieve_futures",
    tag="futures",
    lane="poll",
    retry="poll",
    seconds=45.0,
    feature="batched completion",
    eras=("0.36.0",),
    reply="FuturesRetrieveResponse",
    request="FuturesRetrieveRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    answers=lambda: (
        Answer(200, 200, json=Object(models.FuturesRetrieveResponse)),
        *_errors(),
    ),
)
"""Wait for any result of a sampler
"""

CANCEL_FUTURE: Final[Operation[None, None]] = Operation(
    "cancel_future",
    "POST",
    "/api/v1/cancel_future",
    tag="futures",
    lane="poll",
    retry="once",
    seconds=30.0,
    feature="cancelling of requests",
    eras=("0.36.0",),
    reply="None",
    request="CancelFutureRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    answers=lambda: (
        Answer(204, 204),
        Answer(200, 299),
        *_errors(),
    ),
)
"""Give up on a sample
"""

SAVE_WEIGHTS: Final[Operation[models.UntypedAPIFuture, models.SaveWeightsResponse]] = Operation(
    "save_weights",
    "POST",
    "/api/v1/save_weights",
    tag="weights",
    lane="train",
    retry="dedupe",
    seconds=60.0,
    feature="operation save_weights",
    eras=("0.4.1", "0.36.0"),
    reply="UntypedAPIFuture",
    request="SaveWeightsRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    result="SaveWeightsResponse",
    request_type="SaveWeights",
    answers=lambda: (
        Answer(200, 200, json=Object(models.UntypedAPIFuture)),
        *_errors(),
    ),
)
"""Save training state
"""

LOAD_WEIGHTS: Final[Operation[models.UntypedAPIFuture, models.LoadWeightsResponse]] = Operation(
    "load_weights",
    "POST",
    "/api/v1/load_weights",
    tag="weights",
    lane="train",
    retry="dedupe",
    seconds=60.0,
    feature="operation load_weights",
    eras=("0.4.1", "0.36.0"),
    reply="UntypedAPIFuture",
    request="LoadWeightsRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    result="LoadWeightsResponse",
    request_type="LoadWeights",
    answers=lambda: (
        Answer(200, 200, json=Object(models.UntypedAPIFuture)),
        *_errors(),
    ),
)
"""Load training state
"""

SAVE_WEIGHTS_FOR_SAMPLER: Final[
    Operation[models.UntypedAPIFuture, models.SaveWeightsForSamplerResponseInternal]
] = Operation(
    "save_weights_for_sampler",
    "POST",
    "/api/v1/save_weights_for_sampler",
    tag="weights",
    lane="train",
    retry="dedupe",
    seconds=60.0,
    feature="operation save_weights_for_sampler",
    eras=("0.4.1", "0.36.0"),
    reply="UntypedAPIFuture",
    request="SaveWeightsForSamplerRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    result="SaveWeightsForSamplerResponseInternal",
    request_type="SaveWeightsForSampler",
    answers=lambda: (
        Answer(200, 200, json=Object(models.UntypedAPIFuture)),
        *_errors(),
    ),
)
"""Save weights to sample from
"""

SAVE_WEIGHTS_EXTERNAL: Final[
    Operation[models.UntypedAPIFuture, models.SaveWeightsExternalResponseInternal]
] = Operation(
    "save_weights_external",
    "POST",
    "/api/v1/save_weights_external",
    tag="weights",
    lane="train",
    retry="dedupe",
    seconds=60.0,
    feature="operation save_weights_external",
    eras=("0.36.0",),
    reply="UntypedAPIFuture",
    request="SaveWeightsExternalRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    result="SaveWeightsExternalResponseInternal",
    request_type="SaveWeightsExternal",
    answers=lambda: (
        Answer(200, 200, json=Object(models.UntypedAPIFuture)),
        *_errors(),
    ),
)
"""Save weights to take away
"""

COPY_WEIGHTS: Final[Operation[models.CopyWeightsResponse, None]] = Operation(
    "copy_weights",
    "POST",
    "/api/v1/copy_weights",
    tag="weights",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="copying of weights",
    eras=("0.36.0",),
    reply="CopyWeightsResponse",
    request="CopyWeightsRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(
        Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),
        Parameter("x_tinker_weights_access_token", "X-Tinker-Weights-Access-Token", TEXT),
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.CopyWeightsResponse)),
        *_errors(),
    ),
)
"""Copy a checkpoint
"""

GET_WEIGHTS_INFO: Final[Operation[models.WeightsInfoResponse, None]] = Operation(
    "get_weights_info",
    "POST",
    "/api/v1/weights_info",
    tag="weights",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="weights_info",
    eras=("0.36.0",),
    reply="WeightsInfoResponse",
    request="WeightsInfoRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(
        Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.WeightsInfoResponse)),
        *_errors(),
    ),
)
"""Describe saved weights
"""

LIST_TRAINING_RUNS: Final[Operation[models.TrainingRunsResponse, None]] = Operation(
    "list_training_runs",
    "GET",
    "/api/v1/training_runs",
    tag="runs",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="list of training runs",
    eras=("0.4.1", "0.36.0"),
    reply="TrainingRunsResponse",
    query_fields=(
        Parameter("limit", "limit", INTEGER),
        Parameter("offset", "offset", INTEGER),
        Parameter("access_scope", "access_scope", TEXT, values=("owned", "accessible")),
        Parameter("project_id", "project_id", TEXT),
    ),
    header_fields=(
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.TrainingRunsResponse)),
        *_errors(),
    ),
)
"""List training runs
"""

GET_TRAINING_RUN: Final[Operation[models.TrainingRun, None]] = Operation(
    "get_training_run",
    "GET",
    "/api/v1/training_runs/{training_run_id}",
    tag="runs",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="description of training runs",
    eras=("0.4.1", "0.36.0"),
    reply="TrainingRun",
    path_fields=(Parameter("training_run_id", "training_run_id", TEXT, required=True),),
    query_fields=(Parameter("access_scope", "access_scope", TEXT, values=("owned", "accessible")),),
    header_fields=(
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.TrainingRun)),
        *_errors(),
    ),
)
"""Describe a training run
"""

LIST_TRAINING_RUN_CHECKPOINTS: Final[Operation[models.CheckpointsListResponse, None]] = Operation(
    "list_training_run_checkpoints",
    "GET",
    "/api/v1/training_runs/{training_run_id}/checkpoints",
    tag="checkpoints",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="list of a run's checkpoints",
    eras=("0.4.1", "0.36.0"),
    reply="CheckpointsListResponse",
    path_fields=(Parameter("training_run_id", "training_run_id", TEXT, required=True),),
    header_fields=(
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.CheckpointsListResponse)),
        *_errors(),
    ),
)
"""List the checkpoints of a run
"""

LIST_CHECKPOINTS: Final[Operation[models.CheckpointsListResponse, None]] = Operation(
    "list_checkpoints",
    "GET",
    "/api/v1/checkpoints",
    tag="checkpoints",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="list of checkpoints",
    eras=("0.4.1", "0.36.0"),
    reply="CheckpointsListResponse",
    query_fields=(
        Parameter("limit", "limit", INTEGER),
        Parameter("offset", "offset", INTEGER),
    ),
    header_fields=(
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.CheckpointsListResponse)),
        *_errors(),
    ),
)
"""List the caller's checkpoints
"""

DELETE_CHECKPOINT: Final[Operation[None, None]] = Operation(
    "delete_checkpoint",
    "DELETE",
    "/api/v1/training_runs/{training_run_id}/checkpoints/{checkpoint_kind}/{checkpoint_name}",
    tag="checkpoints",
    lane="rest",
    retry="dedupe",
    seconds=60.0,
    feature="deletion of checkpoints",
    eras=("0.4.1", "0.36.0"),
    reply="None",
    path_fields=(
        Parameter("training_run_id", "training_run_id", TEXT, required=True),
        Parameter(
            "checkpoint_kind",
            "checkpoint_kind",
            TEXT,
            required=True,
            values=("weights", "sampler_weights", "external_weights"),
        ),
        Parameter("checkpoint_name", "checkpoint_name", TEXT, required=True),
    ),
    header_fields=(
        Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(204, 204),
        Answer(200, 299),
        *_errors(),
    ),
)
"""Delete a checkpoint
"""

GET_CHECKPOINT_ARCHIVE: Final[Operation[None, None]] = Operation(
    "get_checkpoint_archive",
    "GET",
    "/api/v1/training_runs/{training_run_id}/checkpoints/{checkpoint_kind}/{checkpoint_name}/archive",
    tag="checkpoints",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="archives of checkpoints",
    eras=("0.4.1",),
    reply="None",
    path_fields=(
        Parameter("training_run_id", "training_run_id", TEXT, required=True),
        Parameter(
            "checkpoint_kind",
            "checkpoint_kind",
            TEXT,
            required=True,
            values=("weights", "sampler_weights", "external_weights"),
        ),
        Parameter("checkpoint_name", "checkpoint_name", TEXT, required=True),
    ),
    answers=lambda: (
        Answer(302, 302),
        *_errors(),
    ),
)
"""Find the archive of a checkpoint
"""

PUBLISH_CHECKPOINT: Final[Operation[None, None]] = Operation(
    "publish_checkpoint",
    "POST",
    "/api/v1/training_runs/{training_run_id}/checkpoints/{checkpoint_kind}/{checkpoint_name}/publish",
    tag="checkpoints",
    lane="rest",
    retry="final409",
    seconds=60.0,
    feature="publishing of checkpoints",
    eras=("0.4.1", "0.36.0"),
    reply="None",
    path_fields=(
        Parameter("training_run_id", "training_run_id", TEXT, required=True),
        Parameter(
            "checkpoint_kind",
            "checkpoint_kind",
            TEXT,
            required=True,
            values=("weights", "sampler_weights", "external_weights"),
        ),
        Parameter("checkpoint_name", "checkpoint_name", TEXT, required=True),
    ),
    header_fields=(
        Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(204, 204),
        Answer(200, 299),
        *_errors(),
    ),
)
"""Make a checkpoint public
"""

UNPUBLISH_CHECKPOINT: Final[Operation[None, None]] = Operation(
    "unpublish_checkpoint",
    "DELETE",
    "/api/v1/training_runs/{training_run_id}/checkpoints/{checkpoint_kind}/{checkpoint_name}/publish",
    tag="checkpoints",
    lane="rest",
    retry="final409",
    seconds=60.0,
    feature="publishing of checkpoints",
    eras=("0.4.1", "0.36.0"),
    reply="None",
    path_fields=(
        Parameter("training_run_id", "training_run_id", TEXT, required=True),
        Parameter(
            "checkpoint_kind",
            "checkpoint_kind",
            TEXT,
            required=True,
            values=("weights", "sampler_weights", "external_weights"),
        ),
        Parameter("checkpoint_name", "checkpoint_name", TEXT, required=True),
    ),
    header_fields=(
        Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(204, 204),
        Answer(200, 299),
        *_errors(),
    ),
)
"""Make a checkpoint private
"""

SET_CHECKPOINT_TTL: Final[Operation[None, None]] = Operation(
    "set_checkpoint_ttl",
    "PUT",
    "/api/v1/training_runs/{training_run_id}/checkpoints/{checkpoint_kind}/{checkpoint_name}/ttl",
    tag="checkpoints",
    lane="rest",
    retry="dedupe",
    seconds=60.0,
    feature="checkpoint TTL",
    eras=("0.36.0",),
    reply="None",
    request="SetCheckpointTtlRequest",
    media_types=("application/json",),
    body_required=True,
    path_fields=(
        Parameter("training_run_id", "training_run_id", TEXT, required=True),
        Parameter(
            "checkpoint_kind",
            "checkpoint_kind",
            TEXT,
            required=True,
            values=("weights", "sampler_weights", "external_weights"),
        ),
        Parameter("checkpoint_name", "checkpoint_name", TEXT, required=True),
    ),
    header_fields=(
        Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(204, 204),
        Answer(200, 299),
        *_errors(),
    ),
)
"""Set or remove the expiry of a checkpoint
"""

GET_EXTERNAL_WEIGHTS_URLS: Final[Operation[models.ExternalWeightsUrlsResponse, None]] = Operation(
    "get_external_weights_urls",
    "GET",
    "/api/v1/training_runs/{training_run_id}/checkpoints/{checkpoint_kind}/{checkpoint_name}/external_weights_urls",
    tag="checkpoints",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="external weights",
    eras=("0.36.0",),
    reply="ExternalWeightsUrlsResponse",
    path_fields=(
        Parameter("training_run_id", "training_run_id", TEXT, required=True),
        Parameter(
            "checkpoint_kind",
            "checkpoint_kind",
            TEXT,
            required=True,
            values=("weights", "sampler_weights", "external_weights"),
        ),
        Parameter("checkpoint_name", "checkpoint_name", TEXT, required=True),
    ),
    header_fields=(
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.ExternalWeightsUrlsResponse)),
        *_errors(),
    ),
)
"""Find the files of an external checkpoint
"""

GET_SAMPLER: Final[Operation[models.GetSamplerResponse, None]] = Operation(
    "get_sampler",
    "GET",
    "/api/v1/samplers/{sampler_id}",
    tag="samplers",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="description of samplers",
    eras=("0.36.0",),
    reply="GetSamplerResponse",
    path_fields=(Parameter("sampler_id", "sampler_id", TEXT, required=True),),
    header_fields=(
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.GetSamplerResponse)),
        *_errors(),
    ),
)
"""Describe a sampler
"""

LIST_AUDIT_LOG: Final[Operation[models.AuditLogResponse, None]] = Operation(
    "list_audit_log",
    "GET",
    "/api/v1/audit",
    tag="audit",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="audit log",
    eras=("0.36.0",),
    reply="AuditLogResponse",
    query_fields=(
        Parameter(
            "event_type",
            "event_type",
            TEXT,
            values=("all", "checkpoints", "projects", "teams", "organizations"),
        ),
        Parameter("day", "day", TEXT),
    ),
    header_fields=(
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.AuditLogResponse)),
        Answer(300, 399),
        *_errors(),
    ),
)
"""Read the audit log
"""

LIST_BILLING_USAGE_EVENTS: Final[Operation[models.BillingUsageResponse, None]] = Operation(
    "list_billing_usage_events",
    "GET",
    "/api/v1/billing/usage/events",
    tag="billing",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="billing usage",
    eras=("0.36.0",),
    reply="BillingUsageResponse",
    query_fields=(
        Parameter("starting_on", "starting_on", MOMENT, required=True),
        Parameter("ending_before", "ending_before", MOMENT, required=True),
    ),
    header_fields=(
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.BillingUsageResponse)),
        *_errors(),
    ),
)
"""Read usage over time
"""

GET_CURRENT_CHECKPOINT_STORAGE: Final[
    Operation[models.CurrentCheckpointStorageUsageResponse, None]
] = Operation(
    "get_current_checkpoint_storage",
    "GET",
    "/api/v1/billing/usage/checkpoints/current",
    tag="billing",
    lane="rest",
    retry="read",
    seconds=60.0,
    feature="billing of checkpoint storage",
    eras=("0.36.0",),
    reply="CurrentCheckpointStorageUsageResponse",
    query_fields=(Parameter("project_id", "project_id", TEXT),),
    header_fields=(
        Parameter("x_sdk_version", "x-sdk-version", TEXT),
        Parameter("x_sdk_method", "x-sdk-method", TEXT),
    ),
    answers=lambda: (
        Answer(200, 200, json=Object(models.CurrentCheckpointStorageUsageResponse)),
        *_errors(),
    ),
)
"""Read the storage checkpoints use now
"""

SEND_TELEMETRY: Final[Operation[models.TelemetryResponse, None]] = Operation(
    "send_telemetry",
    "POST",
    "/api/v1/telemetry",
    tag="telemetry",
    lane="telemetry",
    retry="once",
    seconds=5.0,
    feature="telemetry",
    eras=("0.4.1", "0.36.0"),
    reply="TelemetryResponse",
    request="TelemetrySendRequest",
    media_types=("application/json",),
    body_required=True,
    header_fields=(Parameter("x_idempotency_key", "X-Idempotency-Key", TEXT),),
    answers=lambda: (
        Answer(200, 200, json=Object(models.TelemetryResponse)),
        *_errors(),
    ),
)
"""Report client events
"""


OPERATIONS: Final[Mapping[str, Operation[Any, Any]]] = MappingProxyType(
    {
        row.name: row
        for row in (
            HEALTH_CHECK,
            GET_SERVER_CAPABILITIES,
            GET_CLIENT_CONFIG,
            GET_CLIENT_DYNAMIC_CONFIG,
            CREATE_AUTH_TOKEN,
            GET_API_KEY,
            DELETE_API_KEY,
            CREATE_SESSION,
            SESSION_HEARTBEAT,
            FINISH_SESSION,
            LIST_SESSIONS,
            SEARCH_SESSIONS,
            GET_SESSION,
            SET_SESSION_PROJECT,
            GET_SESSION_TRACE_EXPORT,
            CREATE_MODEL,
            GET_INFO,
            UNLOAD_MODEL,
            FORWARD,
            FORWARD_BACKWARD,
            OPTIM_STEP,
            CREATE_CUSTOM_LOSS,
            CREATE_SAMPLING_SESSION,
            JOIN_SAMPLING_SESSION,
            SAMPLE,
            RETRIEVE_FUTURE,
            RETRIEVE_FUTURES,
            CANCEL_FUTURE,
            SAVE_WEIGHTS,
            LOAD_WEIGHTS,
            SAVE_WEIGHTS_FOR_SAMPLER,
            SAVE_WEIGHTS_EXTERNAL,
            COPY_WEIGHTS,
            GET_WEIGHTS_INFO,
            LIST_TRAINING_RUNS,
            GET_TRAINING_RUN,
            LIST_TRAINING_RUN_CHECKPOINTS,
            LIST_CHECKPOINTS,
            DELETE_CHECKPOINT,
            GET_CHECKPOINT_ARCHIVE,
            PUBLISH_CHECKPOINT,
            UNPUBLISH_CHECKPOINT,
            SET_CHECKPOINT_TTL,
            GET_EXTERNAL_WEIGHTS_URLS,
            GET_SAMPLER,
            LIST_AUDIT_LOG,
            LIST_BILLING_USAGE_EVENTS,
            GET_CURRENT_CHECKPOINT_STORAGE,
            SEND_TELEMETRY,
        )
    }
)
"""Every operation by its operationId."""
