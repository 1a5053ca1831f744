"""An error that nobody expects is nobody's to handle: a mistake of ours is never taken for theirs.

Every `try` of the core that a scenario enters is broken once, at its start, by an error of a class
that no handler can name. It must leave the block as it is. Places that take whatever comes are
listed here, each with the reason; nothing else may join them unseen.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import importlib
import pkgutil
import random
import threading
import time
import zlib
from collections.abc import Callable
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import zstandard
from breaking import NOT_CORE, Broken, Stopped, core_files, installed
from in_process import MODEL, adam, client, datum, run, server
from simulation.conduct import conduct
from sockets.loopback import reply, serving

import tinker_ext
from tinker_ext import (
    Config,
    Datum,
    ModelInput,
    RetryConfig,
    SamplingParams,
    ServiceClient,
    TensorData,
)
from tinker_ext._transport.connection import Connection
from tinker_ext._transport.messages import Call
from tinker_ext.downloads import FetchLimits, fetch

# Given to whoever waits, as the error of the call; or cleaned up after, and raised again.
ANY = {
    "_transport/connection.py Connection._attempt": "told to observers, then judged or raised",
    "auth.py CredentialStore._write": "half a file is removed",
    "clients/arguments.py awaited_or_given_up.twin": "the call is given up",
    "clients/arguments.py chained.done": "given to who waits",
    "clients/losses.py LossRegistry.finish": "the upload is forgotten",
    "clients/submission.py Submission._reserve": "the budget is given back",
    "clients/service.py ServiceClient.__init__": "its place in a fleet is given back",
    "clients/submission.py Submission._place": "the place is given up, and the budget given back",
    "core/future.py LightFuture.settle": "callbacks of the user raise what they like",
    "core/loop.py CoreLoop._beside.work": "given to who waits",
    "core/loop.py Runtime.submit": "the coroutine is closed",
    "core/training_queue.py TrainingQueue._post": "what becomes of its number is decided",
    "core/workspace.py Workspace.open": "what was opened is closed",
    "core/workspace.py Workspace.submit": "the coroutine is closed",
    "core/workspace.py Workspace.run": "given to who waits",
    "journal/file.py JournalFile.__init__": "the file is closed",
    "journal/file.py JournalFile._replace": "half a file is removed",
    "journal/file.py JournalFile._open 2": "the file is closed",
    "runs.py Run.__init__": "the run is closed",
    "runs.py Run.close": "the journal is closed",
    "runs.py Run.close_async": "the journal is closed",
}
# The same, but for what ends a program or a task.
ERRORS = {
    "_transport/bridge.py send_foreign": "a transport of the user raises what it likes",
    "_transport/connection.py Connection.conclude": "the reply is shown although it does not read",
    "_transport/limits.py Alarms._ring": "told to the loop; the other alarms ring",
    "clients/losses.py trace 2": "a loss of the user raises what it likes",
    "core/loop.py CoreLoop._here": "given to who waits",
    "core/sample_pool.py SamplePool._run": "given to who waits",
    "core/training_queue.py TrainingQueue._drive": "given to all who wait",
    "core/training_queue.py TrainingQueue._carry": "given to who waits",
    "core/training_queue.py TrainingQueue._carry 2": "given to who waits",
    "core/training_queue.py TrainingQueue._fill_number": "given to who waits",
    "core/training_queue.py _Delivery._other_wire": "the other wire cannot carry it",
    "forks.py _in_child": "the other clients of the child are reset",
    "journal/recorder.py _ends": "the end of a request is noted",
    "observe/loggers.py _Forwarding._guard": "a logger of another package raises what it likes",
    "observe/watchers.py Watch._ended": "what watches never hurts what it watches",
    "runs.py Run._finish": "what was trained and saved before stays",
    "tokenizers.py fetch": "a package raises what it likes",
    "tokenizers.py Tokenizer.from_file": "a package raises what it likes",
    "_transport/events.py Observers.notice": "an observer of the user raises what it likes",
    "core/in_flight.py InFlight.report": "an observer of the user raises what it likes",
    "core/in_flight.py InFlight._tell_clients": "an observer of the user raises what it likes",
}


def _journal(tmp_path: Path) -> None:
    file = _of("journal.file", "JournalFile")(tmp_path / "journal")
    file.append({"t": "x"})
    file.rewrite({"t": "y"})
    file.close()
    _of("journal.file", "JournalFile")(tmp_path / "journal").close()


def _virtual(scenario: Callable[..., Any], **options: Any) -> Callable[[Path], None]:
    def play(tmp_path: Path) -> None:
        async def main() -> None:
            async with asyncio.timeout(600.0), client(server(), **options) as service:
                await scenario(service)

        run(main)

    return play


async def _rest(service: ServiceClient) -> None:
    training = await service.create_lora_training_client_async(MODEL, rank=1)
    saved = await (await training.save_weights_for_sampler_async("w"))
    rest = service.create_rest_client()
    await rest.publish_checkpoint_from_tinker_path_async(saved.path)
    await rest.unpublish_checkpoint_from_tinker_path_async(saved.path)
    await rest.get_checkpoint_archive_url_from_tinker_path_async(saved.path)
    sampler = await service.create_sampling_client_async(model_path=saved.path)
    await sampler.get_base_model_async()
    await sampler.sample_async(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=1))


async def _filled(service: ServiceClient) -> None:
    """A refused number with others behind it, and a lost answer before more is sent."""
    training = await service.create_lora_training_client_async(MODEL, rank=1)
    bad = Datum(ModelInput.from_ints([1]), {"target_tokens": [99_999], "weights": [1.0]})
    futures = [await training.forward_backward_async([d], "cross_entropy") for d in (bad, datum())]
    await asyncio.gather(*futures, return_exceptions=True)


def _sockets(answer: bytes) -> Callable[[Path], None]:
    def play(tmp_path: Path) -> None:
        async def main() -> None:
            async with serving(answer) as there, asyncio.timeout(10.0):
                made = Connection(there.url, None, rng=random.Random(1))
                try:
                    await made.once(Call("get_thing", "GET", "/api/v1/thing", timeout=3.0))
                finally:
                    await made.aclose()

        asyncio.run(main())

    return play


def _recorded(tmp_path: Path) -> None:
    """A journal, a run log, a budget and an observer, on a server in this process."""

    async def scenario(service: ServiceClient) -> None:
        training = await service.create_lora_training_client_async(MODEL, rank=1)
        forward = await training.forward_backward_async([datum()], "cross_entropy")
        step = await training.optim_step_async(adam())
        await forward
        await step
        await asyncio.sleep(0.1)
        await _of("clients.models", "complete_step")(service.holder, 0, {"a": 1})
        await training.forward([datum()], "cross_entropy")

    _virtual(
        scenario,
        journal=tmp_path / "journal",
        run_log=tmp_path / "log",
        budget={"tokens": 100_000},
        observer=lambda event: None,
    )(tmp_path)


def _download(tmp_path: Path) -> None:
    data = b"x" * 5000

    class Archive(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.send_response(304 if self.headers.get("If-None-Match") else 200)
            self.send_header("ETag", '"one"')
            self.send_header("x-goog-hash", "md5=1B2M2Y8AsgTpgAmY7PhCfg==")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    class Shop(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Say nothing: clients are cut off here on purpose."""

    with Shop(("127.0.0.1", 0), Archive) as archive:
        threading.Thread(target=archive.serve_forever, args=(0.01,), daemon=True).start()
        try:
            url = f"http://127.0.0.1:{archive.server_address[1]}/a"
            for _ in range(2):
                fetch(url, tmp_path / "a", limits=FetchLimits(attempts=1, stall_seconds=5))
        finally:
            archive.shutdown()


def _of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"tinker_ext.{module}"), name)


def _store(tmp_path: Path) -> None:
    store = _of("auth", "CredentialStore")(tmp_path / "keys")
    store.add("tml-1", key_id="k", name="n")
    store.keys()


def _log(tmp_path: Path) -> None:
    log = _of("runlog", "RunLog")(tmp_path / "log.jsonl")
    log.write("step", target="m", step=1, other=object())
    log.close()
    _of("runlog", "last_steps")(tmp_path / "log.jsonl")


def _notes(tmp_path: Path) -> None:
    _of("observe.loggers", "_read_notes")(tmp_path / "none")
    _of("observe.loggers", "_steps")(tmp_path / "none", 0)


def _waits(tmp_path: Path) -> None:
    for name in ("result", "exception"):
        with contextlib.suppress(TimeoutError):
            getattr(_of("core.future", "LightFuture")(), name)(0.001)


def _dialect(tmp_path: Path) -> None:
    _of("_wire.dialect", "DialectFile").read(tmp_path / "none", "http://a.test")


def _prices(tmp_path: Path) -> None:
    _of("observe.ledger", "Prices").load(tmp_path / "none")


HEADERS = httpx.Headers(
    {"date": "Wed, 21 Oct 2015 07:28:00 GMT", "last-modified": "Wed, 21 Oct 2015 07:00:00 GMT"}
)
TOKEN = "e30." + base64.urlsafe_b64encode(b'{"exp": 9999999999}').decode() + ".x"
# Calls of one function: whatever else they do, they enter its block.
DIRECT: dict[str, Callable[[], Any]] = {
    "Retry-After": lambda: _of("_transport.retry", "_date")("Wed, 21 Oct 2015 07:28:00 GMT"),
    "handle": lambda: _of("clients.handles", "decode_handle")("e30="),
    "instant": lambda: _of("clients.rest", "_instant")(datetime.now(UTC)),
    "day": lambda: _of("clients.rest", "_instant")(date(2026, 1, 1)),
    "params": lambda: _of("clients.sampling", "_params_of")({"max_tokens": 1}),
    "portable": lambda: Config.from_portable({}),
    "from_env": lambda: Config.from_env({"TINKER_MAX_IN_FLIGHT": "1", "TINKER_BASE_URL": "x"}),
    "ledger": lambda: _of("clients.service", "_ledger")({"tokens": 1}, None),
    "validator": lambda: _of("downloads.fetch", "validator_of")(HEADERS),
    "hex": lambda: _of("downloads.fetch", "_hex")("AAAA"),
    "bar": lambda: _of("displays", "_bar_class")(),
    "data": lambda: _of("types.requests", "_data")([]),
    "listed": lambda: _of("types.model_input", "_listed")([]),
    "chunk": lambda: ModelInput(chunks=[{"type": "encoded_text", "tokens": [1]}]),
    "base64": lambda: _of("types.chunks", "decode_bytes")("AAAA", "x"),
    "stop": lambda: SamplingParams(stop=[1]),
    "record": lambda: SamplingParams(max_tokens=3, seed=1),
    "adam": lambda: adam(),
    "sparse": lambda: TensorData(data=[0.5], dtype="float32", shape=[1, 1]),
    "array": lambda: TensorData.from_numpy(np.array([0.5])),
    "numbers": lambda: _of("tensors", "to_array")([0.5, 1], "float32"),
    "source": lambda: _of("tensors", "_source")((1, 2), "x"),
    "retry": lambda: RetryConfig(max_connections=3, progress_timeout=5.0),
    "deadline": lambda: _of("core.workspace", "deadline")(5.0).__enter__(),
    "within": lambda: asyncio.run(_of("core.workspace", "_within")(asyncio.sleep(0), 1.0)),
    "exposed": lambda: _of("auth", "is_exposed")("http://a.test"),
    "claims": lambda: _of("auth", "jwt_claims")(TOKEN),
    "command": lambda: _of("auth", "run_credential_command")("echo tml-x"),
    "command key": lambda: asyncio.run(_of("auth", "CommandKey")(f"echo {TOKEN}")._get_anew()),
    "metric": lambda: _of("batch.custom_loss", "_number")("x", 1.0),
    "length": lambda: _of("core.sample_pool", "_text_length")(ModelInput.from_ints([1])),
    "proxy": lambda: _of("_transport.origin", "_check_proxy")("http://a.test", "X"),
    "proxied": lambda: _of("_transport.bridge", "proxy_transport")("http://a.test"),
    "misses": lambda: _of("core.training_queue", "_misses")(
        _of("_transport.messages", "Reply")(422, {}, b"{}", 0.0), "x"
    ),
    "plain": lambda: _of("runlog", "_plain")(1),
    "attribute": lambda: tinker_ext.types.NoSuchType,
    "loggers": lambda: _of("observe.loggers", "_package")("json", "json"),
    "embedded": lambda: _of("clients.embedded", "application")("embedded"),
    "installed": lambda: _of("telemetry", "is_installed")(),
    "json": lambda: _of("_wire.json_codec", "check_json")({"a": 1}, "x"),
    "tls": lambda: _of("_transport.bridge", "client_context")(),
    "spans": lambda: Datum(
        ModelInput.from_ints([1, 2]), {"target_tokens": [2, 3]}, loss_fn_input_spans=[]
    ),
}
# Seeds and behaviours of the simulation that enter most blocks of the queue and the retry loop.
ODD = (
    (0, "cut"),
    (0, "a body refused"),
    (0, "404, 405, 501 that pass"),
    (0, "pages at polls"),
    (0, "polls not held"),
    (0, "completions repeat"),
    (0, "absurd delays"),
    (1, "seq undeclared"),
    (1, "fillers refused"),
    (1, "refused late, undeclared"),
)
SCENARIOS: dict[str, Callable[[Path], Any]] = {
    **{name: lambda _, call=call: call() for name, call in DIRECT.items()},
    **{name: lambda _, seed=seed, name=name: conduct(seed, name) for seed, name in ODD},
    "rest": _virtual(_rest),
    "filled": _virtual(_filled),
    "store": _store,
    "notes": _notes,
    "waits": _waits,
    "log": _log,
    "dialect": _dialect,
    "prices": _prices,
    "download": _download,
    "journal": _journal,
    "recorded": _recorded,
    "plain reply": _sockets(reply()),
    "redirect": _sockets(reply(status=302, headers=("Location: /x",))),
    "gzip": _sockets(reply(gzip.compress(b"{}"), headers=("Content-Encoding: gzip",))),
    "deflate": _sockets(reply(zlib.compress(b"{}")[2:-4], headers=("Content-Encoding: deflate",))),
    "zstd": _sockets(
        reply(zstandard.ZstdCompressor().compress(b"{}"), headers=("Content-Encoding: zstd",))
    ),
}


@pytest.fixture(scope="module")
def breaks():
    for module in pkgutil.walk_packages(tinker_ext.__path__, "tinker_ext."):
        if module.name.split(".")[1] not in (*NOT_CORE, "__main__"):
            importlib.import_module(module.name)
    with installed() as made:
        yield made


@pytest.fixture(scope="module")
def scenario_of(breaks, tmp_path_factory):
    """The quickest scenario that enters each block."""
    found: dict[Any, tuple[float, str]] = {}
    for name, play in SCENARIOS.items():
        breaks.entered.clear()
        began = time.process_time()
        with contextlib.suppress(Exception):
            play(tmp_path_factory.mktemp("scenario"))
        took = time.process_time() - began
        for block in breaks.entered:
            found[block] = min(found.get(block, (took, name)), (took, name))
    return {block: name for block, (_, name) in found.items()}


@pytest.mark.keeps
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", core_files())
def test_an_error_nobody_expects_passes_every_handler(breaks, scenario_of, tmp_path_factory, path):
    """M15: a mistake of ours is shown as what it is, not read as a refusal or a lost connection."""
    wrong = []

    def broken(block, error):
        breaks.arm(block, error)
        with contextlib.suppress(BaseException):
            SCENARIOS[scenario_of[block]](tmp_path_factory.mktemp("broken"))
        return breaks.raised is not None

    for block in [block for block in scenario_of if block.path == path]:
        last = block.handlers - 1
        if block.name in ANY or block.name in ERRORS:
            # The handler for everything is the last one; those before it name what they take.
            if broken(block, Broken) and breaks.taken_by not in (last, None):
                wrong.append(f"{block.name}: handler {breaks.taken_by + 1} took it")
        elif broken(block, Broken) and not breaks.passed:
            wrong.append(f"{block.name}: handler {breaks.taken_by} took it, {breaks.left_by!r}")
        if block.name in ERRORS and broken(block, Stopped) and not breaks.passed:
            wrong.append(f"{block.name} took the end of a program")
    assert wrong == [], "\n".join(wrong)


def test_most_blocks_are_entered(breaks, scenario_of):
    """The scenarios reach the core, and the lists of places name no place that is gone."""
    names = {block.name for block in breaks.blocks}
    assert {*ANY, *ERRORS} <= names
    missed = sorted(names - {block.name for block in scenario_of})
    assert len(missed) <= 52, "\n".join(missed)
