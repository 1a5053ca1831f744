"""The ASGI application: one request in, faults and checks applied, one reply out."""

from __future__ import annotations

import inspect
import logging
import re
from typing import Any
from urllib.parse import parse_qs

import orjson

from tinker_ext.mock import contract, handlers
from tinker_ext.mock.connection import TRANSPORT, Connection, strike_after, strike_before
from tinker_ext.mock.encoding import decoded
from tinker_ext.mock.faults import FaultPlan
from tinker_ext.mock.journal import Journal
from tinker_ext.mock.log import RequestLog
from tinker_ext.mock.messages import (
    JSON,
    Disconnected,
    HttpError,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    read_body,
    send_response,
)
from tinker_ext.mock.profiles import Gate
from tinker_ext.mock.routing import Endpoint, Router
from tinker_ext.mock.settings import Settings
from tinker_ext.mock.state.world import World
from tinker_ext.mock.training_input import TrainingBody

logger = logging.getLogger(__name__)
_ = handlers

TOKEN = re.compile(rb'("weights_access_token"\s*:\s*)"(?:[^"\\]|\\.)*"')
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Last part of a path → what its success is; everything else is read.
KINDS_OF_SUCCESS = {
    "create_session": "created",
    "create_sampling_session": "created",
    "create_model": "future",
    "unload_model": "future",
    "forward": "future",
    "forward_backward": "future",
    "optim_step": "future",
    "create_custom_loss": "future",
    "asample": "future",
    "save_weights": "future",
    "save_weights_for_sampler": "future",
    "save_weights_external": "future",
    "load_weights": "future",
}


class App:
    """A Tinker server as an ASGI application.

    Attributes:
        world: Everything the server remembers.
        log: What it saw and did.
        faults: The misbehaviour in force.

    Args:
        settings: How it behaves.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.world = World(settings)
        self._contract = contract.load()
        self._router = Router(self._contract.operations)
        self._gate = Gate(self.world, self._contract)
        self._journal = Journal(self, settings.state) if settings.state is not None else None
        if self._journal is not None:
            self._journal.recover()

    @property
    def log(self) -> RequestLog:
        """Return the request log."""
        return self.world.log

    @property
    def faults(self) -> FaultPlan:
        """Return the fault plan."""
        return self.world.faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = self.world.clock.now()
        request = _head(scope)
        try:
            self._check_host(scope, request)
            request.body = await read_body(receive, self.settings.body_limit)
        except Disconnected:
            return
        except HttpError as error:
            refused = Response.error(error)
            self._log(started, request, refused.status, len(refused.body))
            await send_response(send, refused)
            return
        control = request.path.startswith("/_mock/")
        chosen = (
            []
            if control
            else self.faults.choose(request.method, request.path, TrainingBody(request))
        )
        kinds = tuple(fault.kind for fault in chosen)
        status, size = 0, 0

        def log() -> None:
            if not control:
                self._log(started, request, 0 if connection.cut else status, size, kinds)

        connection = Connection(scope, receive, send, log)
        try:
            response = await strike_before(chosen, self.world, request, connection)
            if response is None:
                response = await self.respond(request)
                if "duplicate" in kinds:
                    await self.respond(request)
            status, size = response.status, len(response.body)
            response = await strike_after(chosen, response, connection)
            if response is not None:
                status, size = response.status, len(response.body)
        finally:
            # Before the reply leaves, so that whoever has it finds it in the log.
            connection.log()
        if response is not None:
            await send_response(send, response)

    def _log(
        self,
        started: float,
        request: Request,
        status: int,
        size: int,
        kinds: tuple[str, ...] = (),
    ) -> None:
        self.log.record(
            started,
            request.method,
            request.path,
            status,
            (request.wire_size or len(request.body), size),
            kinds,
            _public(request),
            body=TOKEN.sub(rb'\1"***"', request.body),
        )

    def _check_host(self, scope: Scope, request: Request) -> None:
        """Refuse what a web page of another site makes a browser send to this machine.

        A name of the attacker's that resolves to 127.0.0.1 reaches a loopback server; its Host
        header gives it away, as Origin does for plain cross-site requests.

        Raises:
            HttpError: 403.
        """
        if TRANSPORT not in (scope.get("extensions") or {}):
            return
        host = _host_name(request.headers.get("host", ""))
        own = host in LOOPBACK or host in self.settings.hosts
        if self.settings.host in LOOPBACK and not own:
            raise HttpError(
                403,
                f"this server listens on {self.settings.host} and is asked for as {host!r}; "
                "if that is meant, start it with --allow-host",
            )
        origin = request.headers.get("origin")
        if origin is not None:
            page = _host_name(origin.partition("://")[2])
            if page != host and page not in self.settings.hosts:
                raise HttpError(403, f"requests of pages of {origin} are not served")

    async def respond(self, request: Request) -> Response:
        """Answer one request, without faults."""
        found: Endpoint | None = None
        try:
            found, request.params = self._router.match(request.method, request.path)
            request.template = found.template
            await self._gate.admit(found, request)
            self._read(found, request)
            response = await self._handle(found, request)
        except HttpError as error:
            response = Response.error(error)
        except Exception as error:
            logger.exception("%s %s failed", request.method, request.path)
            self.log.violation(f"{request.method} {request.path}: {error!r}")
            response = Response.error(HttpError(500, f"{type(error).__name__}: {error}"))
        if found is not None and found.documented and self.settings.validate:
            self._check(found, response)
        return response

    def replay(self, request: Request) -> None:
        """Do again what a journal says was acknowledged."""
        found, request.params = self._router.match(request.method, request.path)
        request.template = found.template
        if found.documented:
            self._read(found, request, validate=False)
        with self.world.lock:
            found.handler(self.world, request)

    def _read(self, found: Endpoint, request: Request, validate: bool | None = None) -> None:
        """Decode body and query, and check them against the document."""
        if not found.documented:
            return
        check = self.settings.validate if validate is None else validate
        operation = self._contract.operations[found.method, found.template]
        request.wire_size = len(request.body)
        request.body = decoded(request, self.settings.body_limit)
        if check:
            self._contract.check_path(operation, request.params)
        if operation.query:
            values = parse_qs(request.query_string, keep_blank_values=True)
            request.query = self._contract.read_query(operation, values)
        if operation.body is None or request.content_type not in ("", JSON):
            if operation.body is not None and request.content_type not in operation.media:
                text = f"send {' or '.join(operation.media)}, not {request.content_type}"
                where = ["header", "content-type"]
                raise HttpError(422, [{"loc": where, "msg": text, "type": "media"}])
            return
        request.json = _parsed(request.body, self.settings.json_depth)
        if check:
            self._contract.check_body(operation, request.json)
            self._gate.check_era(operation, request.json)

    async def _handle(self, found: Endpoint, request: Request) -> Response:
        journal = self._journal if found.durable else None
        if inspect.iscoroutinefunction(found.handler):
            value = await found.handler(self.world, request)
        else:
            with self.world.lock:
                before = dict(self.world.ids.counts)
                value = found.handler(self.world, request)
                if journal is not None:
                    journal.append(request, before)
            if journal is not None:
                await journal.commit()
        if isinstance(value, Response):
            return value
        kind = KINDS_OF_SUCCESS.get(found.template.rpartition("/")[2], "read")
        status = self.settings.status(kind) if found.method == "POST" else 200
        return Response.of(value, status)

    def _check(self, found: Endpoint, response: Response) -> None:
        operation = self._contract.operations[found.method, found.template]
        schema = None
        if response.schema is not None:
            schema = {"$ref": f"#/components/schemas/{response.schema}"}
        body = response.body if response.content_type == JSON else None
        # The document's 200 stands for every success with a body.
        status = 200 if response.status in (201, 202) else response.status
        text = self._contract.violation(operation, status, body, schema)
        if text:
            logger.error("a reply breaks the document: %s", text)
            self.log.violation(text)

    def close(self) -> None:
        """Release waiting polls, finish queued work, close the journal."""
        self.world.close()
        if self._journal is not None:
            self._journal.close()


def create_app(settings: Settings | None = None) -> App:
    """Make a server as an ASGI application.

    Args:
        settings: How it behaves; None is the default server.

    Returns:
        An application for `httpx.ASGITransport`, uvicorn or the client's `embedded` base URL.

    Example:
        >>> app = create_app(Settings(seq="strict"))
        >>> app.log.training()
        []
    """
    return App(settings or Settings())


def _head(scope: Scope) -> Request:
    headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
    host = headers.get("host", "embedded")
    return Request(
        method=scope["method"],
        path=scope["path"],
        headers=headers,
        query_string=scope.get("query_string", b"").decode("latin-1"),
        origin=f"{scope.get('scheme', 'http')}://{host}{scope.get('root_path', '')}",
    )


def _host_name(host: str) -> str:
    """Return a Host header, or the part of an Origin after the scheme, without its port."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


def _parsed(body: bytes, depth: int) -> Any:
    try:
        value = orjson.loads(body)
    except ValueError as error:
        fault = {"loc": ["body"], "msg": f"not JSON: {error}", "type": "json_invalid"}
        raise HttpError(422, [fault]) from None
    if not _fits(value, depth):
        text = f"nested more than {depth} levels deep"
        raise HttpError(422, [{"loc": ["body"], "msg": text, "type": "json_too_deep"}])
    return value


def _fits(value: Any, depth: int) -> bool:
    """Whether a value is nested at most so deep; long lists of numbers cost no Python."""
    if isinstance(value, dict):
        items = list(value.values())
    elif isinstance(value, list):
        items = value
    else:
        return True
    if depth == 0:
        return False
    if not {dict, list} & set(map(type, items)):
        return True
    return all(_fits(item, depth - 1) for item in items if isinstance(item, (dict, list)))


def _public(request: Request) -> dict[str, str]:
    """Return the headers a log may show: the credentials stay out."""
    secret = ("x-api-key", "authorization", "cookie", "x-tinker-weights-access-token")
    return {
        name: "***" if name in secret or name.startswith("cf-access-") else value
        for name, value in request.headers.items()
    }
