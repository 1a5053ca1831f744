"""How a process lives and ends: exit, atexit, fork, spawn, close, threads; each as a program.

Every program has a hard time limit and, unless it says otherwise, must end with code 0 and without
a word on its standard error.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tinker_ext.mock import Fault, Server, Settings

ROOT = Path(__file__).parents[2]
SECONDS = 300
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

START = """
import asyncio, atexit, concurrent.futures, gc, logging, multiprocessing, os, socket, sys
import threading, time, warnings
from tinker_ext import AdamParams, Datum, ModelInput, Run, SamplingParams, ServiceClient
from tinker_ext.config import Config
from tinker_ext.errors import ClientClosedError

URL = sys.argv[1]
MODEL = "tinker-ext/tiny"
PROMPT = ModelInput.from_ints([1, 2, 3])
PARAMS = SamplingParams(max_tokens=3, seed=1)
DATUM = Datum(PROMPT, {"target_tokens": [2, 3, 4]})
# On a busy machine a server is slow to answer, and the client says so.
logging.getLogger("tinker_ext").setLevel(logging.ERROR)
# Python 3.12 and later warn of any fork beside threads; what is tested is that it goes well.
warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork")


def connect(url=URL, **options):
    return ServiceClient(base_url=url, api_key="tml-x", **options)


def forked(work):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


@pytest.fixture
def server():
    with Server(Settings(session_ttl=3600)) as server:
        yield server


@pytest.fixture(scope="module")
def loaded():
    """Start programs as children of one interpreter that has imported everything already.

    A child has neither threads nor clients of its parent and ends as every interpreter does; what
    is saved is half a second of imports each.
    """
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", str(Path(__file__).with_name("life_driver.py"))],
        env=outside(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def run(tmp_path, text, *arguments, code=0, noise=False):
            """Run a program to its end; returns what it printed."""
            order = {"text": START + textwrap.dedent(text), "arguments": [*map(str, arguments)]}
            order |= {"folder": str(tmp_path), "seconds": SECONDS}
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            ended = json.loads(process.stdout.readline())
            said, told = ((tmp_path / name).read_text() for name in ("said", "told"))
            assert ended == code, said + told
            if not noise:
                assert told == "", told
            return said + told if noise else said

        yield run
        process.stdin.close()


def outside(**more):
    """The environment without what would choose another server or other settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TINKER_")}
    return {**kept, "PYTHONPATH": f"{ROOT}:{ROOT}/generated", **more}


def start(tmp_path, text, *arguments):
    path = tmp_path / "program.py"
    path.write_text(START + textwrap.dedent(text))
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", str(path), *map(str, arguments)],
        env=outside(HOME=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(tmp_path, text, *arguments, code=0, noise=False):
    """Run a program to its end; returns what it printed."""
    with start(tmp_path, text, *arguments) as process:
        try:
            said, told = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # faulthandler shows where it hangs
            hung = process.communicate(timeout=300)
            raise AssertionError(f"not ended in {SECONDS} s: {hung}") from None
    assert process.returncode == code, said + told
    if not noise:
        assert told == "", told
    return said + told if noise else said


def reason(server, session_id):
    status = server.app.world.sessions[session_id].status
    return status["reason"]["type"] if status["type"] == "client_finished" else status["type"]


def by_name(server):
    """The same server, under a name that must be looked up."""
    return server.url.replace("127.0.0.1", "localhost")


# -- the end of the interpreter ----------------------------------------------------------------

USE = """
service = connect({url})
sampler = service.create_sampling_client(base_model=MODEL)
sampler.sample(PROMPT, 1, PARAMS).result(300)
training = service.create_lora_training_client(MODEL, rank=4)
training.forward_backward([DATUM] * 40, "cross_entropy").result(300)
training.optim_step(AdamParams()).result(300)
"""


CLOSE_CONNECTIONS = """
print(service.session_id)
# As if the program had computed for a while: no kept connection is left.
for number in range(3, 256):
    try:
        own = socket.socket(fileno=os.dup(number))
    except OSError:
        continue
    try:
        if own.getpeername()[1:2] == (int(URL.rpartition(":")[2]),):
            own.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    own.close()
time.sleep(0.3)
"""


def test_a_program_without_close_ends_silently(server, tmp_path):
    """F38 M44: no word on standard error, and the server knows that the session is over."""
    said = run(tmp_path, USE.format(url="URL") + "print(service.session_id)", server.url)
    assert reason(server, said.strip()) == "success"


def test_a_program_on_the_embedded_server_ends_silently(tmp_path):
    """F38 M44: the same where the server is in the process and ends with it."""
    run(tmp_path, USE.format(url='"embedded"'), "-")


def test_the_end_is_reported_to_a_host_name(loaded, server, tmp_path):
    """F17: names are looked up at exit too, when no connection is left open."""
    said = loaded(tmp_path, USE.format(url="URL") + CLOSE_CONNECTIONS, by_name(server))
    assert reason(server, said.strip()) == "success"


def test_a_run_that_closes_at_exit_keeps_its_last_step(loaded, server, tmp_path):
    """F17: `atexit.register(run.close)` completes and saves the step that was left."""
    path = tmp_path / "journal"
    text = """
    run = Run(sys.argv[2], base_model=MODEL, rank=4, base_url=URL, api_key="tml-x")
    atexit.register(run.close)
    for step in run.steps(3):
        run.training.forward_backward([DATUM] * 40, "cross_entropy")
        run.training.optim_step(AdamParams())
        if step == 1:
            break
    """
    loaded(tmp_path, text, by_name(server), path)
    said = loaded(
        tmp_path,
        """
        with Run(sys.argv[2], base_model=MODEL, rank=4, base_url=URL, api_key="tml-x") as again:
            print(again.next_step, len(again.journal.state.checkpoints), again.journal.state.ended)
        """,
        by_name(server),
        path,
    )
    assert said.split() == ["2", "1", "success"]


def test_new_work_at_the_very_end_is_refused_in_words(loaded, server, tmp_path):
    """M44: where no thread can be started any more, an error of ours says so."""
    text = """
    def late():
        service = connect()
        try:
            service.get_server_capabilities()
            service.close().result()
            print("answered")
        except ClientClosedError as error:
            print("refused:", error)

    atexit.register(late)
    """
    said = loaded(tmp_path, text, server.url)
    assert "answered" in said or "interpreter is ending" in said


def test_sys_exit_in_a_callback_ends_nothing(loaded, server, tmp_path):
    """F27: the loop serves every client of the process, so it goes on, and says what happened."""
    text = """
    service = connect()
    sampler = service.create_sampling_client(base_model=MODEL)
    future = sampler.sample(PROMPT, 1, PARAMS)
    future.add_done_callback(lambda _: sys.exit(3))
    future.result(300)
    sampler.sample(PROMPT, 1, PARAMS).result(300)

    def leave(event):
        sys.exit(4)

    with connect(on_event=leave) as other:
        other.get_server_capabilities()
    with connect() as other:
        other.get_server_capabilities()
    print("goes on")
    """
    said = loaded(tmp_path, text, server.url, noise=True)
    assert "goes on" in said
    assert "SystemExit" in said


@pytest.mark.parametrize(
    ("end", "wanted", "code"),
    [
        ("sys.exit(3)", "errored", 3),
        ("sys.exit('sorry')", "errored", 1),
        ("sys.exit(0)", "success", 0),
        ("raise KeyboardInterrupt", "interrupted", None),
    ],
)
@pytest.mark.parametrize("block", [False, True], ids=["bare", "with"])
def test_the_exit_code_is_told_to_the_server(loaded, server, tmp_path, end, wanted, code, block):
    """F27: a program that ends with an error code did not succeed."""
    head = "with connect() as service:" if block else "service = connect()\nif True:"
    text = f"{head}\n    service.create_sampling_client(base_model=MODEL)\n"
    text += f"    print(service.session_id, flush=True)\n    {end}\n"
    if code is None:
        code = -signal.SIGINT
    said = loaded(tmp_path, text, server.url, code=code, noise=True)
    assert reason(server, said.split()[0]) == wanted


# -- fork --------------------------------------------------------------------------------------


@needs_fork
def test_a_forked_child_trains_in_a_session_of_its_own(loaded, server, tmp_path):
    """F19: the parent's training client refuses in words; nothing is sent under its numbers."""
    text = """
    service = connect()
    training = service.create_lora_training_client(MODEL, rank=4)
    training.forward_backward([DATUM], "cross_entropy").result(300)

    def child():
        for call in (
            lambda: training.optim_step(AdamParams()),
            lambda: training.forward_backward([DATUM], "cross_entropy"),
            lambda: training.save_state("x"),
        ):
            try:
                call()
            except ClientClosedError as error:
                assert "forked" in str(error), error
            else:
                raise AssertionError("not refused")
        own = service.create_lora_training_client(MODEL, rank=4)
        assert own.model_id != training.model_id
        own.forward_backward([DATUM], "cross_entropy").result(300)
        own.optim_step(AdamParams()).result(300)
        print(service.session_id, flush=True)
        service.close("success").result(300)

    assert forked(child) == 0
    training.optim_step(AdamParams()).result(300)
    again = service.create_lora_training_client(MODEL, rank=4)
    again.forward_backward([DATUM], "cross_entropy").result(300)
    print(training.model_id, again.model_id, service.session_id)
    """
    childs, first, second, session = loaded(tmp_path, text, server.url).split()
    assert childs != session
    assert len({first, second}) == 2
    assert reason(server, childs) == reason(server, session) == "success"
    assert [entry.seq for entry in server.log.training(first)] == [1, 2]
    assert [entry.seq for entry in server.log.training(second)] == [1]


@needs_fork
def test_a_child_at_its_parents_limit_still_sends(loaded, server, tmp_path):
    """F19: what the parent has in flight takes none of the child's room."""
    server.faults.add(Fault(kind="delay", path="asample", delay=600, nth=range(1, 5)))
    text = """
    from tinker_ext import RetryConfig
    service = connect(config=Config(base_url=URL, api_key="tml-x", sample_concurrency=2))
    other = connect()
    one = service.create_sampling_client(base_model=MODEL)
    two = other.create_sampling_client(
        base_model=MODEL, retry_config=RetryConfig(max_connections=2)
    )
    stuck = [client.sample(PROMPT, 1, PARAMS) for client in (one, one, two, two)]
    while any(s.holder.samples.in_flight < 2 for s in (service, other)):
        time.sleep(0.01)

    def child():
        one.sample(PROMPT, 1, PARAMS).result(300)
        two.sample(PROMPT, 1, PARAMS).result(300)
        for future in stuck:
            try:
                future.result(300)
            except ClientClosedError as error:
                assert "forked" in str(error)
            else:
                raise AssertionError("a sample of the parent ended in the child")

    assert forked(child) == 0
    print("done")
    os._exit(0)
    """
    assert loaded(tmp_path, text, server.url) == "done\n"


@needs_fork
def test_a_fork_amid_calls_hangs_nobody(loaded, server, tmp_path):
    """F19: whatever threads of the parent held when it forked is free in the child."""
    text = """
    service = connect(run_log=sys.argv[2], on_event=lambda event: None)
    sampler = service.create_sampling_client(base_model=MODEL)
    training = service.create_lora_training_client(MODEL, rank=4)
    before = sampler.sample(PROMPT, 1, PARAMS).result(300).sequences[0].tokens
    done = threading.Event()

    def busy():
        while not done.is_set():
            sampler.sample(PROMPT, 1, PARAMS).result()
            training.forward_backward([DATUM] * 8, "cross_entropy").result()

    threads = [threading.Thread(target=busy) for _ in range(4)]
    for thread in threads:
        thread.start()

    def child():
        assert sampler.sample(PROMPT, 1, PARAMS).result(300).sequences[0].tokens == before
        own = service.create_lora_training_client(MODEL, rank=4)
        own.forward_backward([DATUM], "cross_entropy").result(300)

    codes = [forked(child) for _ in range(8)]
    done.set()
    for thread in threads:
        thread.join()
    assert codes == [0] * 8, codes
    """
    loaded(tmp_path, text, server.url, tmp_path / "log")


@needs_fork
def test_a_fork_while_a_session_opens(loaded, server, tmp_path):
    """F19: the child does not wait for an answer that only its parent gets."""
    server.faults.add(Fault(kind="delay", path="create_session", delay=600, nth=1))
    text = """
    service = connect()
    opening = service.create_sampling_client_async(base_model=MODEL)
    thread = threading.Thread(
        target=lambda: asyncio.run(asyncio.wait_for(opening, 500)), daemon=True
    )
    thread.start()
    while not any(op.stage for op in service.pending()) and thread.is_alive():
        time.sleep(0.05)
        if service.holder.server.dialect is not None:
            break
    time.sleep(0.3)

    def child():
        service.create_sampling_client(base_model=MODEL).sample(PROMPT, 1, PARAMS).result(300)

    assert forked(child) == 0
    os._exit(0)
    """
    loaded(tmp_path, text, server.url)


@needs_fork
def test_a_forked_worker_does_not_keep_the_journal(server, tmp_path):
    """F19: when the parent is killed the run can be resumed, whatever its workers still do."""
    path = tmp_path / "journal"
    text = """
    run = Run(sys.argv[2], base_model=MODEL, rank=4, base_url=URL, api_key="tml-x")
    for step in run.steps(5):
        run.training.forward_backward([DATUM], "cross_entropy")
        run.training.optim_step(AdamParams())
        if step == 1:
            child = os.fork()
            if child == 0:
                os.close(1); os.close(2)
                time.sleep(300)
            print(child, flush=True)
            time.sleep(300)
    """
    with start(tmp_path, text, server.url, path) as process:
        worker = int(process.stdout.readline())
        process.kill()
    try:
        said = run(
            tmp_path,
            """
            again = Run(sys.argv[2], base_model=MODEL, rank=4, base_url=URL, api_key="tml-x")
            _ = again.training
            print(again.next_step, again.how)
            again.close("interrupted")
            """,
            server.url,
            path,
        )
    finally:
        os.kill(worker, signal.SIGKILL)
    assert said.split() == ["1", "reattached"]


def test_a_spawned_process_takes_a_sampler(server, tmp_path):
    """M23 M44: a pickled sampling client works in a spawned process, with its own credential."""
    text = """
    def sample(client):
        return client.sample(PROMPT, 1, PARAMS).result(300).sequences[0].tokens

    if __name__ == "__main__":
        os.environ["TINKER_API_KEY"] = "tml-x"
        with connect() as service:
            sampler = service.create_sampling_client(base_model=MODEL)
            context = multiprocessing.get_context("spawn")
            with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
                assert pool.submit(sample, sampler).result(300) == sample(sampler)
    """
    run(tmp_path, text, server.url)


# -- close -------------------------------------------------------------------------------------


def test_close_while_a_session_opens(loaded, server, tmp_path):
    """F20: whoever waits for the session gets a ClientClosedError, not a CancelledError."""
    server.faults.add(Fault(kind="delay", path="create_session", delay=600))
    text = """
    service = connect()
    answers = []

    def open_it(make):
        try:
            make()
        except BaseException as error:
            answers.append(type(error).__name__)

    makers = [
        lambda: service.create_sampling_client(base_model=MODEL),
        lambda: service.create_lora_training_client(MODEL, rank=4),
        lambda: asyncio.run(service.create_lora_training_client_async(MODEL, rank=4)),
    ]
    threads = [threading.Thread(target=open_it, args=(make,)) for make in makers]
    for thread in threads:
        thread.start()
    time.sleep(1)
    service.close("success").result(300)
    for thread in threads:
        thread.join(300)
    print(*answers)
    """
    assert loaded(tmp_path, text, server.url).split() == ["ClientClosedError"] * 3


def test_close_while_calls_are_under_way(loaded, server, tmp_path):
    """F20: whatever they wait for, calls that a close cuts off say so."""
    paths = ("get_server_capabilities", "training_runs*", "create_model", "create_sampling_session")
    for path in paths:
        server.faults.add(Fault(kind="delay", path=path, delay=600))
    text = """
    service = connect()
    service.create_rest_client().list_sessions().result(300)
    answers = []

    def call(make):
        try:
            make()
        except BaseException as error:
            answers.append(type(error).__name__)

    calls = [
        service.get_server_capabilities,
        lambda: service.create_rest_client().list_training_runs().result(),
        lambda: service.create_sampling_client(base_model=MODEL),
        lambda: service.create_lora_training_client(MODEL, rank=4),
        lambda: asyncio.run(service.create_lora_training_client_async(MODEL, rank=4)),
    ]
    threads = [threading.Thread(target=call, args=(make,)) for make in calls]
    for thread in threads:
        thread.start()
    time.sleep(1)
    service.close("success").result(300)
    for thread in threads:
        thread.join(300)
    print(*answers)
    """
    assert loaded(tmp_path, text, server.url).split() == ["ClientClosedError"] * 5


@pytest.mark.parametrize(
    "order",
    [
        "service.close().result(300); run.close(); other.close().result(300)",
        "run.close(); service.close().result(300); service.close().result(300)",
        "other.close().result(300); run.close('errored'); service.close().result(300)",
        "del service, sampler, training; gc.collect(); run.close(); other.close().result(300)",
        "threading.Thread(target=lambda: service.close().result(300)).start(); run.close()",
        "asyncio.run(service.close().result_async(300)); asyncio.run(run.close_async())",
        "del future, sampler, training, service, run, other; gc.collect()",
        "service.close(); run.close(); other.close()",
    ],
)
def test_orders_of_closing(loaded, server, tmp_path, order):
    """M21 M44: whatever is closed first, the program ends in silence with nothing left running."""
    text = f"""
    service, other = connect(), connect()
    sampler = service.create_sampling_client(base_model=MODEL)
    training = other.create_lora_training_client(MODEL, rank=4)
    run = Run(sys.argv[2], base_model=MODEL, rank=4, base_url=URL, api_key="tml-x")
    for step in run.steps(1):
        run.training.optim_step(AdamParams())
    future = training.forward_backward([DATUM] * 20, "cross_entropy")
    {order}
    """
    loaded(tmp_path, text, server.url, tmp_path / "journal")


def test_an_open_future_keeps_its_client(loaded, server, tmp_path):
    """F46: what is chained in one line works, although nobody holds the client."""
    text = """
    for _ in range(5):
        connect().create_rest_client().list_training_runs().result(300)
        gc.collect()
        connect().get_server_capabilities()
        asyncio.run(asyncio.wait_for(connect().create_rest_client().list_sessions(), 300))
        connect().create_lora_training_client(MODEL, rank=4).save_state("x").result(300)
        connect().create_sampling_client(base_model=MODEL).sample(PROMPT, 1, PARAMS).result(300)
    deadline = time.monotonic() + 300
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() == 1, threading.enumerate()
    """
    loaded(tmp_path, text, server.url)


# -- threads -----------------------------------------------------------------------------------


def test_threads_that_mix_our_futures_with_ordinary_ones(loaded, tmp_path):
    """F23: `concurrent.futures.wait` takes locks in the order of ids, ours among them."""
    text = """
    from tinker_ext.core.future import LightFuture

    sys.setswitchinterval(1e-6)
    futures, below, above = [], [], []
    while not below or not above:
        futures += [LightFuture() for _ in range(200)]
        theirs = concurrent.futures.Future()
        futures.append(theirs)
        ours = [f for f in futures if isinstance(f, LightFuture)]
        below = [f for f in ours if id(f) < id(theirs)]
        above = [f for f in ours if id(f) > id(theirs)]

    def wait(mine):
        for _ in range(3000):
            concurrent.futures.wait([mine, theirs], timeout=0)

    threads = [threading.Thread(target=wait, args=(m,)) for m in (below[0], above[0]) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    below[0].settle(1)
    theirs.set_result(2)
    above[0].cancel()
    done, _ = concurrent.futures.wait([below[0], theirs, above[0]], timeout=300)
    assert len(done) == 3
    """
    loaded(tmp_path, text, "-")


def test_all_completed_counts_each_of_ours_once(loaded, tmp_path):
    """F23: a future that ends while `wait` and `as_completed` look at it is counted once."""
    text = """
    from tinker_ext.core.future import LightFuture

    sys.setswitchinterval(1e-6)
    for round in range(150):
        ours = [LightFuture() for _ in range(20)]
        settle = threading.Thread(target=lambda: [f.settle(i) for i, f in enumerate(ours)])
        settle.start()
        done, pending = concurrent.futures.wait(ours, timeout=300)
        assert len(done) == 20 and not pending, (len(done), len(pending))
        settle.join()
        ours = [LightFuture() for _ in range(20)]
        settle = threading.Thread(target=lambda: [f.settle(i) for i, f in enumerate(ours)])
        settle.start()
        seen = list(concurrent.futures.as_completed(ours, timeout=300))
        assert len(seen) == 20 == len(set(seen))
        settle.join()
    """
    loaded(tmp_path, text, "-")


def test_a_slow_name_delays_nobody_else(loaded, server, tmp_path):
    """F18 M25: one server's name that is not found holds up no call to another."""
    text = """
    free = threading.Event()
    look_up = socket.getaddrinfo

    def slow(host, *rest, **options):
        if str(host).startswith("slow"):
            free.wait(50)
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return look_up(host, *rest, **options)

    socket.getaddrinfo = slow
    config = Config(base_url=URL, api_key="tml-x", retry_attempts=1, connect_timeout=60)
    others = [connect(f"http://slow{n}.invalid", config=config) for n in range(8)]
    stuck = [other.create_rest_client().list_sessions() for other in others]
    time.sleep(0.5)
    with connect() as service:
        training = service.create_lora_training_client(MODEL, rank=4)
        data = [Datum(ModelInput.from_ints(range(200)), {"target_tokens": range(200)})] * 120
        training.forward_backward(data, "cross_entropy").result(300)
    assert not any(future.done() for future in stuck)
    free.set()
    os._exit(0)
    """
    loaded(tmp_path, text, by_name(server))
