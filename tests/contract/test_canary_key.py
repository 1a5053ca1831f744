"""M33: one canary key through every endpoint and every error, searched for everywhere after."""

from __future__ import annotations

import asyncio
import base64
import gc
import io
import json
import logging
import pickle
import traceback
import urllib.parse
import warnings

import httpx
import pytest
from in_process import MODEL, adam, client, datum, run, server
from tinker_api.operations import OPERATIONS, Prepared

from tinker_ext import ModelInput, SamplingParams, auth
from tinker_ext.config import Config, Secret
from tinker_ext.errors import TinkerError
from tinker_ext.observe.reporter import BACKGROUND
from tinker_ext.telemetry import describe

KEY = "tml-canary-7f3a91c2d4e8b605-0123456789abcdef"
# Half of the key is a leak too, and so is a coded one.
TRACES = (
    KEY[4:28],
    KEY[-24:],
    base64.b64encode(KEY.encode()).decode()[8:40],
    urllib.parse.quote(KEY, safe="")[6:],
)
ORIGIN = "http://server.test"
ERRORS = [400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 415, 418, 422, 429]
ERRORS += [500, 501, 502, 503, 504, 301, 302, 307, 308]
PROMPT = ModelInput.from_ints([1, 2, 3])


class Wiretap(httpx.AsyncBaseTransport):
    """Answers by a function of the request, and remembers every request."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []

    async def handle_async_request(self, request):
        await request.aread()
        self.requests.append(request)
        reply = self.answer(request)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, httpx.Response) else await reply

    def check(self):
        """The key is in X-API-Key to its own origin and nowhere else in any request."""
        assert self.requests
        for request in self.requests:
            assert str(request.url).startswith(f"{ORIGIN}/"), request.url
            shown = [str(request.url).encode(), request.content]
            names = []
            for name, value in request.headers.raw:
                if name.lower() == b"x-api-key":
                    names.append(value.decode())
                else:
                    shown.append(value)
            assert len(names) <= 1
            assert not found_in(b" ".join(shown)), request.url


def found_in(*things):
    """The traces of the key in texts, bytes and reprs."""
    text = " ".join(
        thing.decode("latin-1") if isinstance(thing, bytes) else str(thing) for thing in things
    )
    return [trace for trace in TRACES if trace in text]


def shown(error):
    """Everything a program may print, log or keep of an exception."""
    yield f"{error} {error!r} {error.args!r}"
    yield "".join(traceback.format_exception(error))
    # Crash reporters print local variables; the test's own frames are left out.
    for each in _chain(error):
        for frame, _ in traceback.walk_tb(each.__traceback__):
            if frame.f_globals.get("__name__", "").startswith("tinker_ext"):
                for name, value in frame.f_locals.items():
                    yield f"{frame.f_code.co_qualname}: {name} = {reprlib_of(value)}"
    yield repr(vars(error))
    yield pickle.dumps(error)
    yield repr(vars(pickle.loads(pickle.dumps(error))))
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.emit(logging.LogRecord("x", 40, "f", 1, "%r", (error,), (type(error), error, None)))
    yield stream.getvalue()


def reprlib_of(value):
    try:
        return repr(value)
    except AttributeError:
        return "a thing that was not finished"


def _chain(error):
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def hostile(status):
    """An error that repeats the key in its headers and its body, as some proxies do."""
    return httpx.Response(
        status,
        headers={"x-echo": KEY, "location": f"http://elsewhere.test/{KEY}", "retry-after": "0"},
        json={"detail": f"the key {KEY} is not good", "error": KEY},
    )


def not_json():
    return httpx.Response(200, text=f"<html>you sent X-API-Key: {KEY}</html>")


@pytest.fixture
def everything(caplog, capfd, tmp_path):
    """All logs at debug level, both output streams, warnings, events and the run log."""
    events = []
    caplog.set_level(logging.DEBUG)
    for name in ("tinker_ext", "httpx", "httpcore", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    options = {
        "api_key": KEY,
        "telemetry": True,
        "on_event": events.append,
        "run_log": tmp_path / "metrics.jsonl",
        "config": Config(
            base_url=ORIGIN,
            api_key=KEY,
            retry_attempts=2,
            retry_window=2.0,
            billing_pause=1.0,
            wait_deadline=60.0,
            log_level="debug",
        ),
    }
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield options
    out, err = capfd.readouterr()
    log = tmp_path / "metrics.jsonl"
    assert not found_in(out, err)
    records = caplog.get_records("call")
    assert records
    assert not found_in(*(f"{record.getMessage()} {record.__dict__}" for record in records))
    assert not found_in(*warned)
    assert not found_in(*(f"{event!r} {describe(event)}" for event in events))
    assert events
    assert not found_in(log.read_bytes() if log.exists() else b"")


def path_of(op):
    names = ("training_run_id", "checkpoint_kind", "checkpoint_name", "session_id", "sampler_id")
    return op.path.format(**dict.fromkeys(names, "x"))


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_endpoint_and_every_error(name, everything):
    """M33: each operation × each error status × echo, HTML, a cut connection: no trace."""
    op = OPERATIONS[name]
    body = None if op.method == "GET" else {}
    reports = []
    kind = None

    def answer(request):
        if request.url.path.endswith("/telemetry") and name != "send_telemetry":
            reports.append(request.content)
            return httpx.Response(200, json={"status": "accepted"})
        if kind == "html":
            return not_json()
        if kind == "cut":
            return httpx.RemoteProtocolError("cut", request=request)
        if kind == "refused":
            return httpx.ConnectError("refused", request=request)
        return hostile(kind)

    async def scenario():
        nonlocal kind
        wire = Wiretap(answer)
        service = client(wire, **everything)
        link = service.holder.server
        for kind in [*ERRORS, "html", "cut", "refused"]:
            failed = None
            try:
                reply = await link.send(op, Prepared(op.method, path_of(op), (), body))
                link.read(op, reply)
            except TinkerError as error:
                failed = error
            # Of a reply without content nothing is read.
            assert failed is not None or (kind == "html" and op.reply == "None"), kind
            for text in () if failed is None else shown(failed):
                assert not found_in(text), f"{name} {kind}: {text!r}"
        await asyncio.sleep(11.0)  # telemetry that is not urgent leaves every ten seconds
        assert not found_in(repr(service), repr(link), repr(link.connection), link.fingerprint)
        await service.close("errored", "TinkerError")
        wire.check()
        assert {request.headers["x-api-key"] for request in wire.requests} == {KEY}

    run(scenario)
    assert reports or name in BACKGROUND
    assert not found_in(*reports)


USES = {
    "create_session": lambda s: s.create_lora_training_client_async(MODEL, rank=4),
    "create_model": lambda s: s.create_lora_training_client_async(MODEL, rank=4),
    "forward_backward": lambda s: _train(s),
    "optim_step": lambda s: _train(s),
    "save_weights": lambda s: _train(s),
    "retrieve_future": lambda s: _train(s),
    "create_sampling_session": lambda s: _sample(s),
    "asample": lambda s: _sample(s),
    "training_runs": lambda s: s.create_rest_client().list_training_runs_async(),
    "checkpoints": lambda s: s.create_rest_client().list_user_checkpoints_async(),
    "sessions": lambda s: s.create_rest_client().list_sessions_async(),
}


async def _train(service):
    training = await service.create_lora_training_client_async(MODEL, rank=4)
    step = await training.forward_backward_async([datum()], "cross_entropy")
    update = await training.optim_step_async(adam())
    saved = await training.save_state_async("one")
    for future in (step, update, saved):
        await future


async def _sample(service):
    sampler = await service.create_sampling_client_async(base_model=MODEL)
    await sampler.sample_async(PROMPT, 1, SamplingParams(max_tokens=2))


@pytest.fixture(scope="module")
def app():
    return server()


@pytest.mark.parametrize("broken", sorted(USES))
def test_whole_calls_that_fail_inside(broken, everything, app):
    """M33: the same for users' calls that fail at one of their requests, and their pickles."""
    inner = httpx.ASGITransport(app)
    kind = None

    def answer(request):
        if not request.url.path.endswith(f"/{broken}"):
            return inner.handle_async_request(request)
        if kind == "html":
            return not_json()
        if kind == "failed":
            return httpx.Response(200, json={"error": f"bad key {KEY}", "category": "user"})
        return hostile(kind)

    async def scenario():
        nonlocal kind
        for kind in (401, 404, 422, 500, 307, "html", "failed"):
            wire = Wiretap(answer)
            service = client(wire, **everything)
            failed = None
            try:
                await USES[broken](service)
            except TinkerError as error:
                failed = error
            assert failed is not None, kind
            for text in shown(failed):
                assert not found_in(text), f"{broken} {kind}: {text!r}"
            await service.close("errored", type(failed).__name__)
            wire.check()

    run(scenario)
    assert not found_in(json.dumps(app.world.telemetry))


def test_a_run_that_works_leaves_no_trace_either(everything):
    """M33: logs, events, run log, telemetry, pickles and handles of a healthy run."""
    app = server()

    async def scenario():
        wire = Wiretap(httpx.ASGITransport(app).handle_async_request)
        service = client(wire, **everything)
        await _train(service)
        sampler = await service.create_sampling_client_async(base_model=MODEL)
        await sampler.sample_async(PROMPT, 1, SamplingParams(max_tokens=2))
        assert not found_in(pickle.dumps(sampler), sampler.get_sampler_handle(), repr(sampler))
        config = service.holder.server.config
        assert config.api_key.reveal() == KEY
        assert not found_in(repr(config), str(config), pickle.dumps(config), repr([config]))
        assert not found_in(repr(service.holder.description), repr(service.pending()))
        await service.close()
        wire.check()
        assert {request.headers["x-api-key"] for request in wire.requests} == {KEY}

    run(scenario)
    assert app.world.telemetry
    assert not found_in(json.dumps(app.world.telemetry))


def test_an_exchanged_token_is_guarded_like_the_key(everything):
    """M33: the key goes to auth/token, the token everywhere else; neither is seen elsewhere."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 4e9, "sub": KEY}).encode()).decode()
    token = f"eyJhbGciOiJub25lIn0.{claims.rstrip('=')}.signature-of-the-token"
    app = server(client_config={"pjwt_auth_enabled": True})
    inner = httpx.ASGITransport(app)

    def answer(request):
        if request.url.path.endswith("/auth/token"):
            return httpx.Response(200, json={"jwt": token})
        if request.url.path.endswith("/optim_step"):
            return httpx.Response(401, json={"detail": f"{token} has ended"})
        return inner.handle_async_request(request)

    async def scenario():
        wire = Wiretap(answer)
        service = client(wire, **everything)
        failed = None
        try:
            await _train(service)
        except TinkerError as error:
            failed = error
        assert failed is not None
        for text in shown(failed):
            assert not found_in(text)
            assert token not in str(text)
        await service.close()
        wire.check()
        for request in wire.requests:
            own = request.url.path.endswith(("/auth/token", "/client/config"))
            assert request.headers["x-api-key"] == (KEY if own else token)

    run(scenario)
    assert token not in json.dumps(app.world.telemetry)


@pytest.mark.parametrize(
    "thing",
    [
        Secret(KEY),
        auth.StaticKey(KEY),
        auth.CommandKey(f"echo {KEY}"),
        Config(api_key=KEY, credential_cmd=f"echo {KEY}", cloudflare_client_secret=KEY),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_objects_that_hold_the_key_do_not_show_it(thing):
    """M33: repr, str, format and pickle of everything that holds a credential."""
    assert not found_in(f"{thing!r} {thing!s} {thing} {[thing]!r}")
    try:
        data = pickle.dumps(thing)
    except TypeError:
        data = b""
    assert not found_in(data)


@pytest.mark.parametrize("key", [f"{KEY}\r\nX-Evil: 1", f"{KEY}\x00", f"{KEY}\u2603"])
def test_a_key_that_is_no_header_fails_without_being_shown(key):
    """M33: a broken key is refused by the constructor, before a byte is sent, and not quoted."""
    wire = Wiretap(lambda request: httpx.Response(200, json={}))

    async def scenario():
        failed = None
        try:
            client(wire, api_key=key)
        except TinkerError as error:
            failed = error
        assert failed is not None
        for text in shown(failed):
            assert not found_in(text), text

    run(scenario)
    assert wire.requests == []


def test_wrong_arguments_next_to_a_key_do_not_show_it():
    """M33: a constructor that fails has the key in none of its frames."""
    from tinker_ext import ServiceClient

    def fail(options):
        failed = None
        try:
            service = ServiceClient(api_key=KEY, **options)
            service.get_server_capabilities()
        except TinkerError as error:
            failed = error
        assert failed is not None
        for text in shown(failed):
            assert not found_in(text), text

    fail({"base_url": "no url"})
    with pytest.warns(UserWarning, match="unencrypted"):
        fail({"base_url": ORIGIN, "budget": {"x": 1}})
    # The error and the frame that holds the client refer to each other.
    gc.collect()
