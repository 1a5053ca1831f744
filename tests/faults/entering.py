"""Scenarios that enter the `try` blocks of the core, each as quick as it can be."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import importlib
import random
import sys
import tarfile
import threading
import zlib
from collections.abc import Callable
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import numpy as np
import pytest
import zstandard
from in_process import MODEL, InlineRuntime, adam, client, datum, run, server
from simulation.conduct import conduct
from sockets.loopback import ThreadedServer, reply, serving

import tinker_ext
from tinker_ext import (
    Config,
    Datum,
    ModelInput,
    RetryConfig,
    Run,
    SamplingParams,
    ServiceClient,
    TensorData,
)
from tinker_ext._transport.connection import Connection
from tinker_ext._transport.messages import Call
from tinker_ext.downloads import FetchLimits, fetch


def _journal(tmp_path: Path) -> None:
    file = _of("journal.file", "JournalFile")(tmp_path / "journal")
    file.append({"t": "x"})
    file.rewrite({"t": "y"})
    file.close()
    _of("journal.file", "JournalFile")(tmp_path / "journal").close()


def _virtual(
    scenario: Callable[..., Any], settings: dict[str, Any] | None = None, **options: Any
) -> Callable[[Path], None]:
    def play(tmp_path: Path) -> None:
        async def main() -> None:
            app = server(**(settings or {}))
            async with asyncio.timeout(600.0), client(app, **options) as service:
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

    with ThreadedServer(Archive) as archive:
        threading.Thread(target=archive.serve_forever, args=(0.01,), daemon=True).start()
        try:
            url = f"http://127.0.0.1:{archive.server_address[1]}/a"
            for _ in range(2):
                fetch(url, tmp_path / "a", limits=FetchLimits(attempts=1, stall_seconds=5))
        finally:
            archive.shutdown()


def _of(module: str, name: str) -> Any:
    """Something that has no public name; one that has moved is not taken for a scenario's end."""
    try:
        return getattr(importlib.import_module(f"tinker_ext.{module}"), name)
    except (ImportError, AttributeError):
        pytest.fail(f"tinker_ext.{module} has no {name}")


def _done() -> Any:
    future = _of("core.future", "LightFuture")()
    future.settle(1)
    return future


def _store(tmp_path: Path) -> None:
    store = _of("auth", "CredentialStore")(tmp_path / "keys")
    store.add("tml-1", key_id="k", name="n")
    store.keys()


def _log(tmp_path: Path) -> None:
    log = _of("runlog", "RunLog")(tmp_path / "log.jsonl")
    log.write("step", target="m", step=1, other=object())
    log.close()
    _of("runlog", "last_steps")(tmp_path / "log.jsonl")
    index = _of("observe.index", "LogIndex")(tmp_path / "log.jsonl")
    index.advance()
    index.save()


def _notes(tmp_path: Path) -> None:
    _of("observe.loggers", "_read_notes")(tmp_path / "none")


def _waits(tmp_path: Path) -> None:
    for name in ("result", "exception"):
        with contextlib.suppress(TimeoutError):
            getattr(_of("core.future", "LightFuture")(), name)(0.001)


def _dialect(tmp_path: Path) -> None:
    _of("_wire.dialect", "DialectFile").read(tmp_path / "none", "http://a.test")


def _prices(tmp_path: Path) -> None:
    _of("ledger", "Prices").load(tmp_path / "none")


def _limits(tmp_path: Path) -> None:
    """Two wait for a slot and for bytes: one gets them, one is too late; an alarm rings."""

    async def main() -> None:
        queue = _of("_transport.limits", "FairQueue")(1)
        budget = _of("_transport.limits", "ByteBudget")(0)
        await queue.acquire()
        await budget.acquire(1)
        now = asyncio.get_running_loop().time()
        waits = (queue.acquire(deadline=now + 0.01), asyncio.wait_for(budget.acquire(1), 0.01))
        async with asyncio.timeout(0.2):
            await asyncio.gather(*waits, return_exceptions=True)

    asyncio.run(main())


def _beside(tmp_path: Path) -> None:
    """A job in a thread beside the loop, and a loop that ends."""
    loop = _of("core.loop", "CoreLoop")()
    try:
        loop.run_until_complete(asyncio.wait_for(loop.run_in_executor(None, len, "ab"), 0.5))
    finally:
        loop.close()


def _loop_end(tmp_path: Path) -> None:
    loop = _of("core.loop", "CoreLoop")()
    try:
        loop.call_soon(loop.stop)
        _of("core.loop", "_run_to_the_end")(loop)
        loop.run_until_complete(loop._here(len, "ab"))
    finally:
        loop.close()


def _thread(tmp_path: Path) -> None:
    thread = _of("core.loop", "LoopThread")()
    thread.call(len, "ab")
    thread.at_exit()


def _forked(tmp_path: Path) -> None:
    """What a forked child does, for one thing that is registered."""

    class Kept:
        def after_fork(self) -> None:
            pass

    kept = Kept()
    forks = importlib.import_module("tinker_ext.forks")
    with (
        mock.patch.object(forks, "_locks", []),
        mock.patch.object(forks, "_registered", {1: lambda: kept}),
    ):
        forks._in_child()


def _long_journal(tmp_path: Path) -> None:
    journal = _of("journal", "Journal")(tmp_path / "journal")
    try:
        journal.long_bytes = 0
        journal.step_done(0, 1, {})
    finally:
        journal.close()


def _unpacked(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "a", "a")
    _of("downloads", "unpack")(tmp_path / "a.tar", tmp_path / "out")


def _kept_download(tmp_path: Path) -> None:
    """A file that is still there is asked about, not fetched again."""

    def answer(request: httpx.Request) -> httpx.Response:
        status = 304 if "If-None-Match" in request.headers else 200
        headers = {"ETag": '"one"', "Content-Length": "50"}
        return httpx.Response(status, stream=httpx.ByteStream(b"x" * 50), headers=headers)

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        for _ in range(2):
            fetch("http://a.test/a", tmp_path / "a", client=http)


def _sampled(tmp_path: Path) -> None:
    _of("observe.sample_log", "SampleLog")(tmp_path)._write({"a": 1})


def _forwarded(tmp_path: Path) -> None:
    class Taker:
        def log(self, step: int, values: Any, time: float) -> None:
            pass

        def flush(self) -> None:
            pass

        def close(self) -> None:
            pass

    log = tinker_ext.log_to(tmp_path / "run", Taker())
    log.write("step", step=1, loss=1.0)
    log.close()


def _reported(tmp_path: Path) -> None:
    events = importlib.import_module("tinker_ext.telemetry")

    async def send(body: Any) -> None:
        pass

    async def main() -> None:
        runtime = InlineRuntime(asyncio.get_running_loop())
        reporter = _of("observe.reporter", "Reporter")(send, runtime, sdk_version="1")
        reporter.notice(events.SessionStarted("s"))
        await reporter.deliver()

    asyncio.run(main())


def _tokenizer(tmp_path: Path) -> None:
    tokenizers = importlib.import_module("tinker_ext.tokenizers")
    loaded = tokenizers.Tokenizer.from_file(tokenizers.SHIPPED / tokenizers.FILE)
    with mock.patch.object(tokenizers.Tokenizer, "chat_template", "x"):
        loaded.apply_chat_template([], tokenize=False)


def _no_tokenizer(tmp_path: Path) -> None:
    tokenizers = importlib.import_module("tinker_ext.tokenizers")
    name = tokenizers.TokenizerName("nobody/nothing")
    with mock.patch.dict(sys.modules, {"huggingface_hub": None, "transformers": None}):
        for load in (tokenizers.fetch, tokenizers._load_transformers):
            with contextlib.suppress(tokenizers.TokenizerError):
                load(name)


def _untraced(tmp_path: Path) -> None:
    with mock.patch.dict(sys.modules, {"torch": None}):
        _of("clients.losses", "trace")(len, "x")


def _uploaded(tmp_path: Path) -> None:
    """A custom loss that the server runs, without what traces it."""

    async def scenario(service: ServiceClient) -> None:
        registry = _of("clients.losses", "LossRegistry")(service.holder)
        handle = _of("clients.losses", "LossHandle")("loss", (), "S", mock.Mock(code=""))
        with mock.patch("tinker_ext.clients.losses.encode", return_value=[]):
            await registry.finish(handle)

    _virtual(scenario, {"client_config": {"custom_loss_server_side": True}})(tmp_path)


def _resumed(tmp_path: Path) -> None:
    """A run that was left after a step, went on with, and closed; then with its server gone.

    The first process is left as if it was killed: its session goes on, and so does the model.
    """
    address = {"base_url": "http://server.test", "api_key": "tml-x"}
    app = server(session_ttl=3600)
    for again in range(3):
        if again == 2:
            app = server()
        run_ = Run(
            tmp_path / "run",
            base_model=MODEL,
            rank=1,
            transport=httpx.ASGITransport(app),
            **address,
        )
        for step in run_.steps(4 + again):
            run_.training.forward_backward([datum()], "cross_entropy")
            run_.training.optim_step(adam()).result(20)
            if step == 1:
                run_.save("kept")
            if again == 0 and step == 1:
                run_.service.holder.session._owned = False
                run_.close("errored")
                break
        asyncio.run(run_.close_async())


def _no_server(tmp_path: Path) -> None:
    """A web server that is no Tinker server."""

    async def main() -> None:
        page = httpx.MockTransport(lambda request: httpx.Response(404, html="<html></html>"))
        async with asyncio.timeout(60.0), client(page, base_url="http://page.test") as service:
            await service.create_lora_training_client_async(MODEL, rank=1)

    run(main)


async def _cancelled(service: ServiceClient) -> None:
    """A sample that nobody waits for any more, on a server that wants to know."""
    await service.holder._ask_about_cancels()


async def _watched(service: ServiceClient) -> None:
    """Somebody who is told of the state of a queue."""

    class Listener:
        def on_queue_state_change(self, state: Any, reason: str | None = None) -> None:
            pass

    listener = Listener()
    in_flight = service.holder.server.in_flight
    in_flight.observers.append(lambda operation, state, reason: None)
    in_flight.listen("target", listener)
    entry = _of("core.in_flight", "Entry")("sample", "target", 0.0, 9.0)
    in_flight.report(entry, "paused_rate_limit", "why", 0.0)


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
    "misses": lambda: _of("core.training_queue", "_is_about_optimizer")(
        mock.Mock(operation="load_weights"), 422, b"{}", "missing"
    ),
    "plain": lambda: _of("runlog", "_plain")(1),
    "chained": lambda: _of("clients.arguments", "chained")(_done(), lambda done: done.result()),
    "ends": lambda: asyncio.run(_of("journal.recorder", "_ends")(_done())),
    "attribute": lambda: tinker_ext.types.NoSuchType,
    "loggers": lambda: _of("observe.loggers", "_package")("json", "json"),
    "embedded": lambda: _of("mock.embedded", "application")("embedded"),
    "installed": lambda: _of("telemetry", "is_installed")(),
    "json": lambda: _of("_wire.json_codec", "check_json")({"a": 1}, "x"),
    "tls": lambda: _of("_transport.bridge", "client_context")(),
    "redirected": lambda: _of("_transport.origin", "refusal")(
        Call("get_thing", "GET", "/"), _of("_transport.messages", "Reply")(302, {}, b"", 0.0)
    ),
    "list": lambda: _of("batch.checks", "_check_list")([]),
    "request": lambda: _of("errors", "request_of")(httpx.Response(200)),
    "span": lambda: tinker_ext.types.PromptProvenanceSpan(sequence_id="a", offset=0, length=1),
    "result_async": lambda: asyncio.run(
        _of("core.future", "AwaitableConcurrentFuture")(
            _of("core.future", "LightFuture")()
        ).result_async(0.001)
    ),
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
    "watched": _virtual(_watched),
    "cancelled": _virtual(_cancelled, {"client_config": {"sample_join_sampling_session": True}}),
    "uploaded": _uploaded,
    "untraced": _untraced,
    "no server": _no_server,
    "resumed": _resumed,
    "limits": _limits,
    "beside": _beside,
    "loop end": _loop_end,
    "thread": _thread,
    "forked": _forked,
    "long journal": _long_journal,
    "unpacked": _unpacked,
    "kept download": _kept_download,
    "sampled": _sampled,
    "forwarded": _forwarded,
    "reported": _reported,
    "tokenizer": _tokenizer,
    "no tokenizer": _no_tokenizer,
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
