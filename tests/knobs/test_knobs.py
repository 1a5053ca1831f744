"""Every setting does something: changing it changes what is sent, waited for or written down.

One row a setting: a small scenario that is run with two values of it, on a virtual clock and a
scripted server. What the wire, the clock and the log show must differ between the two values, and
must not differ between two runs with the same one. A field without a row fails, so a knob that
nothing reads cannot stay.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from contract.document import load_document
from in_process import MODEL, adam, client, datum, run, server
from scripted import Scripted, lost, reply

from tinker_ext import Config, ModelInput, RetryConfig, SamplingParams, ServiceClient
from tinker_ext.config import HOSTED_BASE_URL
from tinker_ext.errors import RequestFailedError, TinkerError
from tinker_ext.mock import Pause

ROOT = Path(__file__).parents[2]
PROMPT = ModelInput.from_ints([1, 2])
ONE = SamplingParams(max_tokens=1)
SHOWN = ("host", "content-type", "content-encoding", "x-api-key", "cf-access-client-id")
SHOWN += ("cf-access-client-secret", "authorization", "x-tinker-request-type")
_urls = itertools.count()

Scenario = Callable[[ServiceClient], Awaitable[Any]]


@attrs.frozen
class Knob:
    """One setting under test.

    Attributes:
        values: Two values it is run with.
        scenario: What the user does.
        script: What the server does; called per run, so that it can count.
        settings: Of the embedded server.
        config: Other settings that bring this one to bear.
        options: Arguments of the client.
    """

    values: tuple[Any, Any]
    scenario: Scenario
    script: Callable[[], Any] | None = None
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    config: Mapping[str, Any] = attrs.field(factory=dict)
    options: Mapping[str, Any] = attrs.field(factory=dict)
    retry: Mapping[str, Any] | None = None


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.INFO:
            self.lines.append(f"{record.levelname} {record.getMessage()}")


def observed(
    knob: Knob,
    config: Mapping[str, Any],
    retry: Mapping[str, Any] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Any:
    """Run a scenario; returns everything that can be seen from outside."""
    lines = _Lines()
    log = logging.getLogger("tinker_ext")
    level, handlers, propagate = log.level, list(log.handlers), log.propagate
    log.handlers = [lines]
    log.propagate = False

    async def scenario() -> Any:
        settings = dict(knob.settings)
        if flags is not None:
            settings["client_config"] = {**settings.get("client_config", {}), **flags}
        app = server(**settings)
        network = Scripted(app, knob.script() if knob.script is not None else None)
        url = f"http://knob-{next(_urls)}.test"
        options = dict(knob.options)
        given = {"base_url": url, **knob.config, **config}
        loop = asyncio.get_running_loop()
        end: Any = None
        async with client(
            network, base_url=given["base_url"], config=Config(**given), **options
        ) as service:
            if retry is not None:
                service.retry_for_test = RetryConfig(**retry)  # type: ignore[attr-defined]
            try:
                end = await knob.scenario(service)
            except TinkerError as error:
                end = type(error).__name__
        await asyncio.sleep(0)
        sent = [
            (
                round(s.when, 2),
                s.name,
                [_shown(s.headers.get(name)) for name in SHOWN],
                None if s.name == "telemetry" else repr(s.body),
            )
            for s in network.sent
        ]
        hide = url.removeprefix("http://")
        text = repr(sent).replace(hide, "HOST")
        said = [line.replace(hide, "HOST") for line in lines.lines]
        shown = end if isinstance(end, (str, int, float)) else None
        return text, shown, round(loop.time(), 2), said

    try:
        return (*run(scenario), log.level)
    finally:
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)


def _shown(value: str | None) -> str | None:
    """A header; of a token, which says when it was made, only that it is one."""
    return "a token" if value is not None and value.count(".") == 2 else value


# -- what the user does ------------------------------------------------------------------------


async def _ask(service: ServiceClient) -> Any:
    await service.get_server_capabilities_async()


async def _train(service: ServiceClient) -> Any:
    training = await service.create_lora_training_client_async(MODEL, rank=1)
    await (await training.forward_backward_async([datum(), datum(first=3)], "cross_entropy"))
    return training


async def _step(service: ServiceClient) -> Any:
    training = await service.create_lora_training_client_async(MODEL, rank=1)
    await (await training.optim_step_async(adam()))


async def _many_chunks(service: ServiceClient) -> Any:
    training = await service.create_lora_training_client_async(MODEL, rank=1)
    await (await training.forward_backward_async([datum(first=9)], "cross_entropy"))
    calls = [
        await training.forward_backward_async([datum(first=i)], "cross_entropy") for i in range(8)
    ]
    await asyncio.gather(*calls)


async def _idle(service: ServiceClient) -> Any:
    await service.create_lora_training_client_async(MODEL, rank=1)
    await asyncio.sleep(150.0)


async def _sampler(service: ServiceClient) -> Any:
    retry = getattr(service, "retry_for_test", None)
    return await service.create_sampling_client_async(base_model=MODEL, retry_config=retry)


async def _sample(service: ServiceClient) -> Any:
    sampling = await _sampler(service)
    await sampling.sample_async(PROMPT, 1, ONE)


async def _samples(service: ServiceClient, count: int = 24) -> Any:
    sampling = await _sampler(service)
    calls = [sampling.sample_async(PROMPT, 1, ONE) for _ in range(count)]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    return "".join(sorted(type(end).__name__ for end in ends))


async def _many_samples(service: ServiceClient) -> Any:
    return await _samples(service, 200)


async def _asks_in_turn(service: ServiceClient) -> Any:
    for _ in range(60):
        await service.get_server_capabilities_async()


async def _cancelled(service: ServiceClient) -> Any:
    sampling = await _sampler(service)
    future = sampling.sample(PROMPT, 1, ONE)
    await asyncio.sleep(1.0)
    future.cancel()
    await asyncio.sleep(5.0)


async def _saved_and_resumed(service: ServiceClient) -> Any:
    training = await service.create_lora_training_client_async(MODEL, rank=1)
    saved = await (await training.save_state_async("s"))
    await service.create_training_client_from_state_async(saved.path)


# -- what the server does ----------------------------------------------------------------------


def answering(name: str, answer: Any, times: int | None = None) -> Callable[[], Any]:
    """A script that answers an operation, so many times or always."""

    def make() -> Any:
        left = times

        async def script(sent: Any, deliver: Any) -> Any:
            nonlocal left
            if sent.name != name or left == 0:
                return None
            if left is not None:
                left -= 1
            return answer() if callable(answer) else answer

        return script

    return make


def holding(name: str, seconds: float, *, loses: bool = False) -> Callable[[], Any]:
    """A script that lets requests of an operation wait before they are answered."""

    def make() -> Any:
        async def script(sent: Any, deliver: Any) -> Any:
            if sent.name == name:
                await asyncio.sleep(seconds)

        return script

    return make


def losing(name: str) -> Callable[[], Any]:
    """A script that loses the first answer to an operation."""

    def make() -> Any:
        left = 1

        async def script(sent: Any, deliver: Any) -> Any:
            nonlocal left
            if sent.name == name and left:
                left -= 1
                await deliver()
                raise lost()

        return script

    return make


def every_second_fails() -> Any:
    count = itertools.count()

    async def script(sent: Any, deliver: Any) -> Any:
        if sent.name == "get_server_capabilities" and next(count) % 2 == 0:
            return 503, {"detail": "down"}
        return None

    return script


def _refuse() -> Any:
    raise httpx.ConnectError("connection refused")


DOWN = (503, {"detail": "down"})
BUSY = (429, {"detail": "busy"}, {"retry-after": "50"})
PENDING = (408, {"type": "try_again", "request_id": "r", "queue_state": "active"})
FAILED = (200, {"error": "no", "category": "server"})


async def _closed(service: ServiceClient) -> Any:
    await service.create_lora_training_client_async(MODEL, rank=1)


def _ending() -> Any:
    async def script(sent: Any, deliver: Any) -> Any:
        if sent.name.startswith("sessions/"):
            await asyncio.sleep(3600.0)

    return script


CONFIG: dict[str, Knob] = {
    "base_url": Knob(("http://one.test", "http://two.test"), _ask),
    "api_key": Knob(("tml-a", "tml-b"), _ask, options={"api_key": None}),
    "credential_cmd": Knob(("echo tml-from-a", "echo tml-from-b"), _ask, options={"api_key": None}),
    "project_id": Knob(("p1", "p2"), _train),
    "tags": Knob((("a",), ("b",)), _train),
    "telemetry": Knob((True, False), _train),
    "telemetry_consent": Knob(
        (True, False), _train, config={"base_url": HOSTED_BASE_URL, "telemetry": None}
    ),
    "log_level": Knob(("debug", "info"), _ask),
    "cloudflare_client_id": Knob(("a", "b"), _ask),
    "cloudflare_client_secret": Knob(("a", "b"), _ask),
    "request_timeout": Knob(
        (3.0, 7.0),
        _ask,
        holding("get_server_capabilities", 3600.0),
        config={"retry_attempts": 1},
    ),
    "poll_timeout": Knob(
        (5.0, 9.0), _step, holding("retrieve_future", 20.0), config={"wait_deadline": 100.0}
    ),
    "heartbeat_timeout": Knob((3.0, 8.0), _idle, holding("session_heartbeat", 3600.0)),
    "close_timeout": Knob((3.0, 8.0), _closed, _ending),
    "wait_deadline": Knob((50.0, 90.0), _step, answering("retrieve_future", PENDING)),
    "stall_warning_period": Knob(
        (20.0, 70.0),
        _step,
        answering("retrieve_future", PENDING),
        config={"wait_deadline": 200.0},
    ),
    "billing_pause": Knob(
        (20.0, 60.0),
        _step,
        answering("retrieve_future", (402, {})),
        config={"wait_deadline": 500.0},
    ),
    "heartbeat_interval": Knob((5.0, 20.0), _idle),
    "heartbeat_warn_after": Knob((30.0, 100.0), _idle, answering("session_heartbeat", (500, {}))),
    "queue_log_period": Knob(
        (10.0, 100.0),
        _step,
        settings={"pause": Pause("paused_capacity", 150.0, operations={"optim_step"})},
    ),
    "retry_attempts": Knob((3, 6), _ask, answering("get_server_capabilities", DOWN)),
    "retry_base": Knob((0.1, 2.0), _ask, answering("get_server_capabilities", (429, {}), times=4)),
    "retry_cap": Knob((0.2, 20.0), _ask, answering("get_server_capabilities", (429, {}), times=9)),
    "retry_after_cap": Knob((2.0, 8.0), _ask, answering("get_server_capabilities", BUSY, times=2)),
    "retry_window": Knob(
        (20.0, 60.0),
        _ask,
        answering("get_server_capabilities", DOWN),
        config={"retry_attempts": 10_000},
    ),
    "retry_budget": Knob((0.01, 1.0), _asks_in_turn, every_second_fails),
    "wire": Knob(("json", "proto"), _train),
    "seq": Knob(("ignore", "dedupe"), _step, losing("optim_step")),
    "dialect_file": Knob(
        tuple(ROOT / "tests" / "data" / "dialects" / f"{wire}.json" for wire in ("json", "proto")),
        _train,
        config={"base_url": "http://remembered.test"},
    ),
    "chunk_datums": Knob((1, 2), _train),
    "chunk_size": Knob((40, 4000), _train),
    "train_bytes_in_flight": Knob(
        (100, 1_000_000),
        _many_chunks,
        holding("forward_backward", 1.0),
        settings={"seq": "gap"},
        config={"wire": "json"},
    ),
    "sample_concurrency": Knob((2, 20), _samples, holding("asample", 1.0)),
    "poll_connections": Knob((70, 150), _many_samples, holding("retrieve_future", 1.0)),
    "sample_bytes_in_flight": Knob((20, 1_000_000), _samples, holding("asample", 1.0)),
    "response_bytes_in_flight": Knob(
        (10, 1_000_000),
        _samples,
        holding("retrieve_future", 1.0),
        settings={"metadata_threshold": 1},
    ),
    "progress_timeout": Knob((60.0, 200.0), _sample, answering("retrieve_future", PENDING)),
}

FAST = {"retry_delay_base": 1.0, "retry_delay_max": 1.0, "jitter_factor": 0.0}
RETRY: dict[str, Knob] = {
    "max_connections": Knob((2, 8), _samples, holding("asample", 1.0)),
    "progress_timeout": Knob((60.0, 200.0), _sample, answering("retrieve_future", PENDING)),
    "retry_delay_base": Knob(
        (1.0, 3.0),
        _sample,
        answering("asample", DOWN, times=2),
        retry={"retry_delay_max": 50.0},
    ),
    "retry_delay_max": Knob((2.0, 50.0), _sample, answering("asample", DOWN, times=6)),
    "jitter_factor": Knob((0.0, 0.9), _sample, answering("asample", DOWN, times=3)),
    "enable_retry_logic": Knob((True, False), _sample, answering("asample", DOWN, times=1)),
    "enable_stuck_detection": Knob(
        (True, False),
        _sample,
        answering("retrieve_future", PENDING),
        config={"wait_deadline": 300.0},
        retry={"progress_timeout": 100.0},
    ),
    "retryable_exceptions": Knob(
        ((RequestFailedError,), (TimeoutError,)),
        _sample,
        answering("retrieve_future", FAILED, times=1),
    ),
}

FLAGS: dict[str, Knob] = {
    "pjwt_auth_enabled": Knob((True, False), _ask),
    "inflight_response_bytes_semaphore_size": Knob(
        (10, 1_000_000),
        _samples,
        holding("retrieve_future", 1.0),
        settings={"metadata_threshold": 1},
    ),
    "sample_dispatch_bytes_semaphore_size": Knob(
        (20, 1_000_000), _samples, holding("asample", 1.0)
    ),
    "fwdbwd_dispatch_bytes_semaphore_size": Knob(
        (100, 1_000_000),
        _many_chunks,
        holding("forward_backward", 1.0),
        settings={"seq": "gap"},
        config={"wire": "json"},
    ),
    "parallel_fwdbwd_chunks": Knob(
        (True, False),
        _many_chunks,
        holding("forward_backward", 1.0),
        settings={"client_config": {"seq_ids": None}},
        config={"wire": "json"},
    ),
    "proto_compress_fwdbwd": Knob((True, False), _train, config={"wire": "proto"}),
    "fwdbwd_max_chunk_len": Knob((1, 2), _train),
    "fwdbwd_max_chunk_bytes_count": Knob((40, 4000), _train),
    "billing_exception_max_pause_duration_sec": Knob(
        (20, 60), _step, answering("retrieve_future", (402, {})), config={"wait_deadline": 500.0}
    ),
    "sample_no_retries": Knob(
        (True, False),
        _sample,
        answering("retrieve_future", (410, {"detail": "expired"}), times=1),
    ),
    "sample_enable_stuck_detection": Knob(
        (True, False),
        _sample,
        answering("retrieve_future", PENDING),
        config={"wait_deadline": 300.0, "progress_timeout": 100.0},
    ),
    "sample_max_concurrent_requests": Knob((2, 20), _samples, holding("asample", 1.0)),
    "create_model_via_load_weights": Knob((True, False), _saved_and_resumed),
    "sample_use_retrieve_futures": Knob((True, False), _sample),
    "seq_ids": Knob(("ignore", "dedupe"), _step, losing("optim_step")),
}
# Flag of the server → why it does nothing here, or where it is shown to do something.
ELSEWHERE = {
    "use_pyqwest_transport": "chooses between two HTTP stacks of the official client",
    "credential_default_source": "which credential to look for; the client has one already when it "
    "can ask",
    "custom_loss_server_side": "tests/torch/test_loss_handle.py (needs torch)",
    "sample_join_sampling_session": "tests/contract/test_client_copies.py (needs a second process)",
}
# Flag of client/dynamic_config → why it does nothing here.
DYNAMIC_ELSEWHERE = {
    "refresh_interval_sec": "the settings are asked for when the first sample is cancelled, once",
    "sample_cancel_max_batch_size": "cancel_future takes one id",
}
# Config field → why it has no row here, or where it is shown to do something.
CONFIG_ELSEWHERE = {
    "connect_timeout": "needs a real socket: test_connect_timeout below",
    "fleet": "needs a second process: tests/fleet/test_clients.py",
}


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch, tmp_path):
    for name in ("TINKER_API_KEY", "TINKER_BASE_URL", "TINKER_CREDENTIAL_CMD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_every_field_has_a_row():
    """F22: a new setting needs a scenario in which it shows."""
    fields = {field.name for field in attrs.fields(Config)}
    assert fields == set(CONFIG) | set(CONFIG_ELSEWHERE)
    assert {field.name for field in attrs.fields(RetryConfig)} == set(RETRY)
    schemas = load_document()["components"]["schemas"]
    flags = set(schemas["ClientConfigResponse"]["properties"])
    assert flags | {"seq_ids"} == set(FLAGS) | set(ELSEWHERE)  # which our own server sends
    dynamic = set(schemas["ClientDynamicConfigResponse"]["properties"])
    assert dynamic == {"sample_cancel_enabled", *DYNAMIC_ELSEWHERE}


@pytest.mark.parametrize(("name", "where"), [*ELSEWHERE.items(), *CONFIG_ELSEWHERE.items()])
def test_what_is_shown_elsewhere_is_shown_there(name, where):
    """F22: a test that was moved or dropped leaves no knob behind without one."""
    for path in re.findall(r"tests/\S+\.py", where):
        assert name in (ROOT / path).read_text()


@pytest.mark.parametrize("name", CONFIG)
def test_a_setting_of_the_client(name):
    """F22: changing it changes what is sent, waited for or written down."""
    knob = CONFIG[name]
    first, again, other = (
        observed(knob, {name: value}) for value in (knob.values[0], *knob.values)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", RETRY)
def test_a_setting_of_one_sampling_client(name):
    """F22: the same for `RetryConfig`."""
    knob = RETRY[name]
    first, again, other = (
        observed(knob, {}, {**FAST, **(knob.retry or {}), name: value})
        for value in (knob.values[0], *knob.values)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_of_the_server(name):
    """F22: a flag we read has an effect."""
    knob = FLAGS[name]
    first, again, other = (
        observed(knob, {}, None, {name: value}) for value in (knob.values[0], *knob.values)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("value", [True, False])
def test_the_dynamic_flag(value):
    """F22: `sample_cancel_enabled` of client/dynamic_config decides about cancel_future."""
    knob = Knob(
        (), _cancelled, settings={"dynamic_config": {"sample_cancel_enabled": value}, "latency": 9}
    )
    assert ("'cancel_future'" in observed(knob, {})[0]) is value


def test_connect_timeout():
    """F22: a server that does not take the connection is given up after `connect_timeout`."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    port = listener.getsockname()[1]
    fillers = []
    for _ in range(4):  # fill the queue of the listener; further handshakes go unanswered
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(("127.0.0.1", port))
        fillers.append(filler)
    try:
        for seconds in (0.2, 0.3):
            config = Config(
                base_url=f"http://127.0.0.1:{port}",
                api_key="x",
                connect_timeout=seconds,
                retry_attempts=1,
                close_timeout=0.1,
            )
            with (
                ServiceClient(config=config) as service,
                pytest.raises(TinkerError, match=rf"no connection to \S+ within {seconds} s"),
            ):
                service.get_server_capabilities()
    finally:
        for each in (*fillers, listener):
            each.close()


def test_none_is_a_value():
    """F22: `Config.from_env(wait_deadline=None)` waits for ever, also against the environment."""
    assert Config.from_env({}, wait_deadline=None).wait_deadline is None
    set_here = {"TINKER_EXT_WAIT_DEADLINE": "5"}
    assert Config.from_env(set_here, wait_deadline=None).wait_deadline is None
    assert Config.from_env(set_here).wait_deadline == 5
    assert Config.from_env({}).wait_deadline == 86_400.0


def test_a_page_is_shown():
    """The scenarios see what a scripted server answers."""
    knob = Knob((), _ask, answering("get_server_capabilities", reply(401, {"detail": "no"})))
    assert observed(knob, {})[1] == "AuthenticationError"
