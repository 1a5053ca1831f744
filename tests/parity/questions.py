"""Questions about behaviour, asked in the same words of the official SDK and of ours.

`python questions.py tinker` (or `tinker_ext`, which asks the stand-in) prints the answers as JSON.
The environment names the server. An answer is what a program sees: a value, or the error's classes.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

QUESTIONS: dict[str, Callable[[], Any]] = {}


def question(function: Callable[[], Any]) -> Callable[[], Any]:
    """Ask this of both packages; its docstring is the question."""
    QUESTIONS[function.__name__] = function
    return function


PATIENCE = 30.0
"""Seconds for one answer; some calls of either package retry for minutes."""
SLOW = ("F57", "F55, torch")
"""Questions that start a process or load torch."""


def _outcome(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:
        known = (ValueError, TypeError, KeyError, AttributeError, RuntimeError, AssertionError)
        names = {cls.__name__ for cls in known if isinstance(error, cls)}
        return {"raises": sorted(names | set(_kinds(error)))}


def _is_about_tinker(warning: warnings.WarningMessage) -> bool:
    mine = "tinker" in warning.filename or __file__ == warning.filename
    return mine and not issubclass(warning.category, ResourceWarning)


def answer(ask: Callable[[], Any]) -> Any:
    """What a program sees: warnings, and the value or the built-in classes of the error."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        box: list[Any] = []
        thread = threading.Thread(target=lambda: box.append(_outcome(ask)), daemon=True)
        thread.start()
        thread.join(100.0 if ask.__doc__ in SLOW else PATIENCE)
        value = box[0] if box else "no answer"
    told = [w.category.__name__ for w in seen if _is_about_tinker(w)]
    return {"value": value, "warns": sorted(set(told))}


def _input() -> Any:
    import tinker

    return tinker.ModelInput.from_ints([1, 2, 3])


@question
def status_of_a_class() -> Any:
    """F54"""
    import tinker

    return [tinker.RateLimitError.status_code, tinker.BillingError.status_code]


@question
def sampler_is_an_observer() -> Any:
    """F54"""
    import tinker
    from tinker.lib.queue_state_logger import QueueStateObserver

    return issubclass(tinker.SamplingClient, QueueStateObserver)


@question
def optimizer_families() -> Any:
    """F54"""
    import tinker
    from tinker.types.optimizer import OptimizerConfigBase, OptimParamsBase

    return [
        issubclass(tinker.DimuonOptimizerConfig, OptimizerConfigBase),
        issubclass(tinker.AdamOptimizerConfig, OptimizerConfigBase),
        issubclass(tinker.DimuonParams, OptimParamsBase),
    ]


@question
def console_pages() -> Any:
    """F53"""
    from tinker.lib import console_urls

    return [
        console_urls.checkpoint_console_url("r:train:0", "weights/1"),
        console_urls.new_api_key_console_url("my key"),
        console_urls.training_run_console_url("r:train:0"),
        console_urls.session_console_url("s"),
        console_urls.sessions_console_url(),
        console_urls.api_key_console_url("a/b"),
        console_urls.checkpoint_playground_url("tinker://r/x"),
    ]


@question
def private_names() -> Any:
    """F53"""
    from tinker._types import NoneType
    from tinker._version import __title__, __version__

    return [__title__, __version__, NoneType is type(None)]


@question
def a_span_without_a_sequence() -> Any:
    """F55"""
    import tinker

    return tinker.PromptProvenanceSpan(sequence_id="", length=1).length


@question
def a_span_that_is_not_one() -> Any:
    """F51"""
    import tinker

    return repr(tinker.Datum(_input(), {}, loss_fn_input_spans=[("prompt", 3)]))


@question
def a_fraction_as_padding() -> Any:
    """F52"""
    import tinker

    tensor = tinker.TensorData(
        data=[1.0],
        dtype="float32",
        shape=[1, 2],
        sparse_crow_indices=[0, 1],
        sparse_col_indices=[0],
    )
    return tensor.to_numpy(pad_value=0.5).tolist()


@question
def unknown_keyword_of_a_service() -> Any:
    """F49"""
    import tinker

    tinker.ServiceClient(frobnicate=1)
    return "made"


@question
def rest_client_of_a_service() -> Any:
    """F55"""
    import tinker

    service = tinker.ServiceClient()
    return type(service.create_rest_client()).__name__


@question
def nothing_to_combine() -> Any:
    """F56"""
    from tinker.lib.chunked_fwdbwd_helpers import combine_fwd_bwd_output_results

    made = combine_fwd_bwd_output_results([])
    return [list(made.loss_fn_outputs), dict(made.metrics)]


@question
def a_writable_array_changed_later() -> Any:
    """F56"""
    import numpy as np
    import tinker

    array = np.array([1.0, 2.0], dtype=np.float32)
    datum = tinker.Datum(_input(), {"weights": array})
    array[0] = 9.0
    return datum.loss_fn_inputs["weights"].tolist()


@question
def unordered_hashes_of_chunks() -> Any:
    """F56"""
    from tinker.lib.chunked_fwdbwd_helpers import combine_fwd_bwd_output_results
    from tinker.types import ForwardBackwardOutput

    parts = [
        ForwardBackwardOutput(
            loss_fn_output_type="x", loss_fn_outputs=[{}], metrics={"a:hash_unordered": 3.0}
        )
        for _ in range(2)
    ]
    return "a:hash_unordered" in combine_fwd_bwd_output_results(parts).metrics


@question
def a_negative_temperature() -> Any:
    """M30"""
    import tinker

    return tinker.SamplingParams(temperature=-1).temperature


@question
def an_unknown_field() -> Any:
    """M30"""
    import tinker

    tinker.AdamParams(lr=3)
    return "made"


@question
def a_field_assigned() -> Any:
    """M30"""
    import tinker

    params = tinker.SamplingParams()
    params.max_tokens = 3
    return "assigned"


@question
def neither_key_nor_url() -> Any:
    """M40"""
    import tinker

    kept = {name: os.environ.pop(name) for name in ("TINKER_API_KEY", "TINKER_BASE_URL")}
    try:
        return type(tinker.ServiceClient().get_server_capabilities()).__name__
    except tinker.TinkerError:
        return "TinkerError"
    finally:
        os.environ.update(kept)


# -- the wire and the ends of calls ------------------------------------------------------------


@contextlib.contextmanager
def _answering(status: int, body: Any) -> Iterator[list[tuple[str, str, Any]]]:
    """A server that gives one answer to everything but sessions; yields what it was asked."""
    asked: list[tuple[str, str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            content = self.rfile.read(length)
            path = self.path.partition("/api/v1/")[2]
            asked.append((self.command, path, json.loads(content) if content else None))
            told, said = status, body
            if path.startswith("client/"):
                told, said = 200, {"billing_exception_max_pause_duration_sec": 1}
            elif path == "create_session":
                told, said = 200, {"type": "create_session", "session_id": "s"}
            elif "session" in path and self.command == "POST":
                told, said = 200, {"type": "session_heartbeat"}
            data = json.dumps(said).encode()
            self.send_response(told)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    before = os.environ["TINKER_BASE_URL"]
    os.environ["TINKER_BASE_URL"] = f"http://127.0.0.1:{server.server_port}"
    try:
        yield asked
    finally:
        os.environ["TINKER_BASE_URL"] = before
        server.shutdown()
        server.server_close()


def _kinds(error: BaseException) -> list[str]:
    """Built-in and official classes of an error, by name."""
    names = ("TinkerError", "APIStatusError", "BillingError", "NotFoundError", "BadRequestError")
    names += ("AuthenticationError", "UnprocessableEntityError", "RequestFailedError")
    return [c.__name__ for c in type(error).__mro__ if c.__name__ in names]


@question
def a_list_of_a_service_that_nobody_keeps() -> Any:
    """F46"""
    import tinker

    listed = tinker.ServiceClient().create_rest_client().list_training_runs().result(25)
    return type(listed).__name__


@question
def no_money_at_the_first_look() -> Any:
    """F47"""
    import tinker
    from tinker.auth import raise_if_tinker_not_accessible

    with _answering(402, {"detail": "pay"}) as asked:
        try:
            raise_if_tinker_not_accessible()
        except tinker.BillingError:
            return ["BillingError", sum(path == "get_server_capabilities" for _, path, _ in asked)]
    return "accessible"


@question
def no_money_for_a_list() -> Any:
    """F47"""
    import tinker

    with _answering(402, {"detail": "pay"}):
        try:
            tinker.ServiceClient().create_rest_client().list_training_runs().result(25)
        except tinker.BillingError as error:
            return _kinds(error)
    return "listed"


@question
def a_copy_into_a_project() -> Any:
    """F48"""
    import tinker

    with _answering(200, {"path": "tinker://b/weights/1"}) as asked:
        service = tinker.ServiceClient(project_id="p")
        future = service.copy_weights("tinker://a:train:0/weights/1")
        with contextlib.suppress(Exception):
            future.result(25)
    bodies = [body for _, path, body in asked if "copy" in path]
    return ["create_session" in [path for _, path, _ in asked], bodies]


@question
def a_copy_to_nowhere() -> Any:
    """F48"""
    import tinker

    return tinker.ServiceClient().copy_weights("tinker://a:train:0/weights/1").result(25)


@question
def a_period_in_dates() -> Any:
    """F50"""
    import datetime

    from tinker.lib.public_interfaces.admin_client import AdminClient

    day = datetime.date(2026, 1, 2)
    with _answering(200, {"data": [], "sessions": {}, "cost_data_through": None}) as asked:
        client = AdminClient()
        client.get_billing_usage(day, day + datetime.timedelta(days=1)).result(25)
    (path,) = [path for _, path, _ in asked if "billing" in path]
    return sorted(urllib.parse.parse_qsl(path.partition("?")[2]))


@question
def a_trace_that_failed() -> Any:
    """F51"""
    import tinker

    with _answering(200, {"status": "failed", "error": "disk"}):
        return tinker.ServiceClient().create_rest_client().export_session_trace("s").result(25)


@question
def who_am_i_without_a_token() -> Any:
    """F51"""
    import tinker

    return tinker.ServiceClient().create_rest_client().whoami().result(25)


@question
def a_holder_closed_twice() -> Any:
    """F53"""
    import tinker

    service = tinker.ServiceClient()
    service.get_server_capabilities()
    service.holder.close()
    service.holder.close()
    return "closed"


@question
def a_service_after_its_end() -> Any:
    """M40"""
    import tinker

    service = tinker.ServiceClient()
    with service:
        pass
    return type(service.create_lora_training_client("tinker-ext/tiny", 4)).__name__


@question
def a_loss_with_its_old_argument() -> Any:
    """F55, torch"""
    import tinker

    training = tinker.ServiceClient().create_lora_training_client("tinker-ext/tiny", 4)
    datum = tinker.Datum(_input(), {"target_tokens": [2, 3, 4], "weights": [1.0, 1.0, 1.0]})
    with contextlib.suppress(Exception):
        training.forward_backward_custom(
            [datum], lambda d, lp: (sum(x.sum() for x in lp), {}), loss_type_input="logprobs"
        ).result(25)
    return "asked"


@question
def errors_of_statuses() -> Any:
    """M33"""
    import tinker

    found = {}
    for status in (400, 401, 403, 404, 422):
        with _answering(status, {"detail": "no"}):
            try:
                tinker.ServiceClient().create_rest_client().get_training_run("r").result(25)
            except tinker.APIStatusError as error:
                found[status] = [_kinds(error), error.status_code, error.body]
    return sorted(found.items())


def _command(*words: str) -> Any:
    """Exit code and output of the official command, or of ours in its place."""
    package = "tinker" if PACKAGE == "tinker" else "tinker_ext.compat"
    line = ["-m", "tinker.cli"] if PACKAGE == "tinker" else ["-m", package, "-m", "tinker.cli"]
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "COLUMNS": "100"}
        done = subprocess.run(
            [sys.executable, *line, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    # Ids and times are each server's own; what is compared is everything around them.
    shown = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", done.stdout)
    return [done.returncode, re.sub(r"\d{4}-\d\d-\d\d[ T][\d:.]+", "TIME", shown)]


COMMANDS = {
    "version": ("version",),
    "an unknown kind of checkpoint": ("checkpoint", "delete", "--run-id", "r", "--type", "x"),
    "a checkpoint path that is not one": ("checkpoint", "info", "nonsense"),
    "models": ("-f", "json", "model", "list"),
    "version for a program": ("-f", "json", "version"),
    "who is logged in": ("auth", "status"),
    "runs": ("-f", "json", "run", "list", "--limit", "0"),
    "a run that is not there": ("run", "info", "nobody"),
    "checkpoints of a run that is not there": ("checkpoint", "list", "--run-id", "nobody"),
    "a checkpoint that is not there": ("checkpoint", "info", "tinker://x/weights/none"),
    "publishing what is not there": ("checkpoint", "publish", "tinker://x/weights/none"),
    "a session that is not there": ("session", "info", "nobody"),
    "a limit that is no number": ("run", "list", "--limit", "x"),
    "a command that is not there": ("nonsense",),
}


def _ask_command(name: str, words: tuple[str, ...]) -> None:
    def ask() -> Any:
        return _command(*words)

    ask.__doc__ = "F57"
    QUESTIONS[f"command: {name}"] = ask


for _name, _words in COMMANDS.items():
    _ask_command(_name, _words)


# -- values that types take ----------------------------------------------------------------------

VALUES: dict[str, str] = {
    "tokens as text": "t.ModelInput.from_ints('abc').length",
    "fractions as tokens": "t.ModelInput.from_ints([1.5]).length",
    "True as a token": "t.ModelInput.from_ints([True]).length",
    "nothing as tokens": "t.ModelInput.from_ints(None).length",
    "no tokens": "t.ModelInput.from_ints([]).length",
    "an empty input": "t.ModelInput.empty().length",
    "a tuple of tokens": "t.ModelInput.from_ints((1, 2)).to_ints()",
    "a negative token": "t.ModelInput.from_ints([-1]).to_ints()",
    "one more token": "t.ModelInput.from_ints([1]).append_int(2).to_ints()",
    "a token as text appended": "t.ModelInput.from_ints([1]).append_int('2').to_ints()",
    "chunks as None": "t.ModelInput(chunks=None).length",
    "a stop that is a number": "t.SamplingParams(stop=5).stop",
    "a stop that is a text": "t.SamplingParams(stop='x').stop",
    "stops as a tuple": "list(t.SamplingParams(stop=('x',)).stop)",
    "max_tokens as text": "t.SamplingParams(max_tokens='3').max_tokens",
    "max_tokens as None": "t.SamplingParams(max_tokens=None).max_tokens",
    "max_tokens as a fraction": "t.SamplingParams(max_tokens=2.5).max_tokens",
    "max_tokens as a list": "t.SamplingParams(max_tokens=[1]).max_tokens",
    "temperature as None": "t.SamplingParams(temperature=None).temperature",
    "temperature as text": "t.SamplingParams(temperature='hot').temperature",
    "a seed as text": "t.SamplingParams(seed='x').seed",
    "defaults of sampling": "[t.SamplingParams().temperature, t.SamplingParams().top_p,"
    " t.SamplingParams().top_k, t.SamplingParams().seed, t.SamplingParams().stop]",
    "equal parameters": "t.SamplingParams(max_tokens=3) == t.SamplingParams(max_tokens=3)",
    "learning_rate as text": "t.AdamParams(learning_rate='fast').learning_rate",
    "learning_rate as None": "t.AdamParams(learning_rate=None).learning_rate",
    "defaults of Adam": "[t.AdamParams().learning_rate, t.AdamParams().beta1,"
    " t.AdamParams().beta2, t.AdamParams().eps]",
    "beta1 as a list": "t.AdamParams(beta1=[1]).beta1",
    "a tensor of an unknown type": "t.TensorData(data=[1], dtype='int7', shape=[1]).dtype",
    "a tensor of text": "t.TensorData(data=['x'], dtype='int64', shape=[1]).tolist()",
    "a tensor as None": "t.TensorData(data=None, dtype='int64', shape=[1]).dtype",
    "a tensor without a shape": "t.TensorData(data=[1, 2], dtype='int64').tolist()",
    "a tensor of floats": "t.TensorData(data=[1.5, 2.0], dtype='float32', shape=[2]).tolist()",
    "a datum without an input": "type(t.Datum(model_input=None, loss_fn_inputs={})).__name__",
    "a datum with an unknown list": "type(t.Datum(model_input=t.ModelInput.from_ints([1]),"
    " loss_fn_inputs={'mine': [1]})).__name__",
    "a datum with lists": "sorted(t.Datum(model_input=t.ModelInput.from_ints([1]),"
    " loss_fn_inputs={'target_tokens': [1], 'weights': [1.0]}).loss_fn_inputs)",
    "inputs that are not a dict": "type(t.Datum(model_input=t.ModelInput.from_ints([1]),"
    " loss_fn_inputs=[1])).__name__",
    "a ragged list of weights": "type(t.Datum(model_input=t.ModelInput.from_ints([1]),"
    " loss_fn_inputs={'weights': [[1.0], [1.0, 2.0]]})).__name__",
    "image bytes as text": "type(t.types.ImageChunk(data='x', format='png')).__name__",
    "an unknown image format": "type(t.types.ImageChunk(data=b'x', format='bmp')).__name__",
    "retries with no connections": "t.lib.retry_handler.RetryConfig(max_connections=0)"
    ".max_connections",
    "retries with a negative delay": "t.lib.retry_handler.RetryConfig(retry_delay_base=-1)"
    ".retry_delay_base",
    "retries with jitter above 1": "t.lib.retry_handler.RetryConfig(jitter_factor=2.0)"
    ".jitter_factor",
    "retries that are equal": "t.lib.retry_handler.RetryConfig()"
    " == t.lib.retry_handler.RetryConfig()",
    "a rank of 0": "s().create_lora_training_client('tinker-ext/tiny', 0).model_id[:0]",
    "a rank as text": "s().create_lora_training_client('tinker-ext/tiny', 'x').model_id[:0]",
    "a model as None": "s().create_lora_training_client(None, 4).model_id[:0]",
    "training on nothing trained": "s().create_lora_training_client('tinker-ext/tiny', 4,"
    " train_mlp=False, train_attn=False, train_unembed=False).model_id[:0]",
    "a sampler of nothing": "type(s().create_sampling_client()).__name__",
    "a sampler of a bad path": "type(s().create_sampling_client(model_path='x')).__name__",
    "a sampler of an unknown model": "type(s().create_sampling_client(base_model='no/such'))"
    ".__name__",
    "samples of none": "a().sample(i(), 0, t.SamplingParams(max_tokens=1)).result(25)",
    "samples of text": "a().sample('hi', 1, t.SamplingParams(max_tokens=1)).result(25)",
    "samples without parameters": "a().sample(i(), 1, None).result(25)",
    "samples with a dict": "type(a().sample(i(), 1, {'max_tokens': 1}).result(25)).__name__",
    "two samples": "len(a().sample(i(), 2, t.SamplingParams(max_tokens=1)).result(25).sequences)",
    "logprobs of a list": "a().compute_logprobs([1, 2]).result(25)",
    "logprobs of a prompt": "len(a().compute_logprobs(i()).result(25))",
    "training on None": "c().forward_backward(None, 'cross_entropy').result(25)",
    "training with an unknown loss": "c().forward_backward([d()], 'nonsense').result(25)",
    "training with a loss of None": "c().forward_backward([d()], None).result(25)",
    "training on a generator": "type(c().forward_backward((x for x in [d()]),"
    " 'cross_entropy').result(25)).__name__",
    "training on a datum alone": "c().forward_backward(d(), 'cross_entropy').result(25)",
    "a step with None": "c().optim_step(None).result(25)",
    "a step with a dict": "type(c().optim_step({'learning_rate': 1e-3}).result(25)).__name__",
    "a step": "type(c().optim_step(t.AdamParams()).result(25)).__name__",
    "a checkpoint named None": "c().save_state(None).result(25).path[:0]",
    "a checkpoint named with a slash": "c().save_state('a/b').result(25).path[:0]",
    "a checkpoint": "c().save_state('one').result(25).path.rpartition('/')[2]",
    "a path to load that is not one": "c().load_state('nonsense').result(25)",
    "a state that is not there": "c().load_state('tinker://x:train:0/weights/y').result(25)",
    "a run that is not there": "r().get_training_run('nobody').result(25)",
    "a run of an empty name": "r().get_training_run('').result(25)",
    "a list with a limit of 0": "type(r().list_training_runs(0).result(25)).__name__",
    "a list with a limit as text": "type(r().list_training_runs('5').result(25)).__name__",
    "a path in a request that is not one": "r().delete_checkpoint_from_tinker_path('x').result(25)",
    "a checkpoint to publish that is not there": "r().publish_checkpoint_from_tinker_path("
    "'tinker://x:train:0/weights/y').result(25)",
    "a life below an hour": "r().set_checkpoint_ttl_from_tinker_path("
    "'tinker://x:train:0/weights/y', 5).result(25)",
    "a scope that is not one": "type(r().list_sessions(access_scope='mine').result(25)).__name__",
    "an API key that is not one": "t.ServiceClient(api_key='x y').get_server_capabilities()"
    ".__class__.__name__",
    "a base URL that is not one": "t.ServiceClient(base_url='htp://x').get_server_capabilities()",
    "a result with a timeout of 0": "a().sample(i(), 1, t.SamplingParams(max_tokens=1)).result(0)",
    "an end that is not one": "type(s().close('nonsense')).__name__",
}


class _Client:
    """Names that the expressions of VALUES use; each client is made once."""

    def __init__(self) -> None:
        import tinker
        import tinker.lib.retry_handler

        self.t = tinker
        self._made: dict[str, Any] = {}

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def s(self) -> Any:
        """A service."""
        return self._once("s", self.t.ServiceClient)

    def a(self) -> Any:
        """A sampler."""
        return self._once(
            "a", lambda: self.s().create_sampling_client(base_model="tinker-ext/tiny")
        )

    def c(self) -> Any:
        """A training client of its own: one that failed must not fail the next question."""
        return self.s().create_lora_training_client("tinker-ext/tiny", 4)

    def r(self) -> Any:
        """A client of look-ups."""
        return self._once("r", lambda: self.s().create_rest_client())

    def i(self) -> Any:
        """A prompt."""
        return self.t.ModelInput.from_ints([1, 2])

    def d(self) -> Any:
        """A datum."""
        inputs = {"target_tokens": [2, 3], "weights": [1.0, 1.0]}
        return self.t.Datum(model_input=self.i(), loss_fn_inputs=inputs)


_clients: list[_Client] = []


def _ask_value(name: str, expression: str) -> None:
    def ask() -> Any:
        if not _clients:
            _clients.append(_Client())
        made = _clients[0]
        names = {each: getattr(made, each) for each in ("t", "s", "a", "c", "r", "i", "d")}
        return eval(expression, names)

    ask.__doc__ = expression
    QUESTIONS[name] = ask


for _name, _expression in VALUES.items():
    _ask_value(_name, _expression)

PACKAGE = "tinker"


def main(package: str) -> None:
    """Print every answer of one package."""
    global PACKAGE
    PACKAGE = package
    if package == "tinker_ext":
        from tinker_ext import compat

        compat.install()
    import tinker  # noqa: F401 - loaded before the first question, which has only seconds

    answers = {}
    for name, ask in QUESTIONS.items():
        began = time.monotonic()
        answers[name] = answer(ask)
        print(f"{time.monotonic() - began:5.1f} s {name}", file=sys.stderr)
    print(json.dumps(answers, default=str))
    sys.stdout.flush()
    os._exit(0)  # a client of either package that was left open is not the question


if __name__ == "__main__":
    main(sys.argv[1])
