"""The core's loop: the order of its callbacks, and its threads, one per job and none at the end."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import weakref

import pytest

from tinker_ext.core import loop as loop_module
from tinker_ext.core.loop import CoreLoop
from tinker_ext.errors import ClientClosedError


@pytest.fixture
def loop():
    loop = CoreLoop()
    yield loop
    loop.join_threads(5)
    loop.close()


def no_more_threads(monkeypatch):
    """What Python 3.12 and later do from the beginning of their end."""

    def refuse(self):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)


def test_a_name_is_looked_up_once_for_all_who_ask(loop, monkeypatch):
    """F18: and who gives up leaves the look-up to the others."""
    asked, gate = [], threading.Event()

    def slow(*key):
        asked.append(key[0])
        gate.wait(300)
        return [key[0]]

    monkeypatch.setattr(socket, "getaddrinfo", slow)

    async def scenario():
        callers = [asyncio.ensure_future(loop.getaddrinfo("host", 80)) for _ in range(5)]
        await asyncio.sleep(0.01)
        callers[0].cancel()
        await asyncio.sleep(0)
        gate.set()
        found = await asyncio.gather(*callers, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert found[1:] == [["host"]] * 4
        assert asked == ["host"]
        await loop.getaddrinfo("host", 80)
        assert asked == ["host", "host"]

    loop.run_until_complete(scenario())


def test_a_slow_name_holds_up_neither_names_nor_work(loop, monkeypatch):
    """F18: as many threads as there are names to wait for."""
    gate = threading.Event()

    def look_up(host, *rest):
        if host.startswith("slow"):
            gate.wait(300)
        return [host]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    async def scenario():
        slow = [asyncio.ensure_future(loop.getaddrinfo(f"slow{n}", 80)) for n in range(20)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(loop.getaddrinfo("fast", 80), 300) == ["fast"]
        assert await asyncio.wait_for(loop.compute(sum, [1, 2]), 300) == 3
        assert await asyncio.wait_for(asyncio.to_thread(sum, [1, 2]), 300) == 3
        assert not any(each.done() for each in slow)
        gate.set()
        await asyncio.gather(*slow)

    loop.run_until_complete(scenario())


def test_few_computations_run_at_once(loop):
    """M23: encoding takes two processors at most."""
    running, most, lock = 0, 0, threading.Lock()

    def work():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1

    async def scenario():
        await asyncio.gather(*(loop.compute(work) for _ in range(12)))

    loop.run_until_complete(scenario())
    assert most == 2


def test_where_no_thread_can_start_work_is_done_on_the_loop(loop, monkeypatch):
    """F17 F38: a look-up takes what was found before, else it is made here; errors are errors."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest: [f"{host} anew"])

    async def before():
        await loop.getaddrinfo("known", 80)

    loop.run_until_complete(before())
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest: [f"{host} at the end"])
    no_more_threads(monkeypatch)

    async def at_the_end():
        assert await loop.getaddrinfo("known", 80) == ["known anew"]
        assert await loop.getaddrinfo("other", 80) == ["other at the end"]
        assert await asyncio.to_thread(sum, [1, 2]) == 3
        assert await loop.compute(sum, [1, 2]) == 3
        with pytest.raises(ZeroDivisionError):
            await loop.compute(lambda: 1 / 0)

    loop.run_until_complete(at_the_end())


@pytest.mark.parametrize("error", [ValueError("x"), StopIteration("x")])
def test_errors_of_a_job_reach_whoever_waits(loop, error):
    """M16: a future refuses StopIteration, and nobody is to wait for ever because of that."""

    def fail():
        raise error

    async def scenario():
        with pytest.raises((ValueError, RuntimeError), match="x"):
            await asyncio.wait_for(loop.compute(fail), 300)

    loop.run_until_complete(scenario())


@pytest.mark.parametrize("cut", ["after_fork", "at_exit"])
def test_tasks_that_are_cut_off_say_nothing(cut, caplog, monkeypatch):
    """F19: a task whose thread is gone is not reported as destroyed, on stderr of a program."""
    thread = loop_module.LoopThread()
    started = threading.Event()

    async def waits():
        started.set()
        await asyncio.get_running_loop().create_future()

    thread.retain()
    loop = thread._loop
    thread.call(lambda: thread.spawn(waits()))
    assert started.wait(300)
    monkeypatch.setattr(loop_module, "_end", lambda loop: None)  # it does not get that far
    monkeypatch.setattr(thread, "join", lambda: None)
    getattr(thread, cut)()
    done = threading.Event()
    thread._running = set()
    loop.call_soon_threadsafe(lambda: (gc.collect(), done.set()))
    assert done.wait(300)
    assert not [record for record in caplog.records if "destroyed" in record.getMessage()]
    loop.call_soon_threadsafe(loop.stop)


@pytest.mark.parametrize("debug", [False, True])
def test_callbacks_run_in_order_and_cancelled_ones_do_not(loop, debug):
    loop.set_debug(debug)
    ran = []

    def note(name, *then):
        ran.append(name)
        for each in then:
            handles[each] = loop.call_soon(note, each, *follow.get(each, ()))
        if name == "b":
            handles["d"].cancel()
        if name == "g":
            loop.stop()

    handles = {}
    follow = {"c": ("f",), "e": ("g",)}
    loop.call_soon(note, "a", "c", "d", "e")
    loop.call_soon(note, "b")
    loop.run_forever()
    assert ran == ["a", "b", "c", "e", "f", "g"]


def test_a_socket_has_its_turn_among_callbacks_without_end(loop):
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    def again():
        if not loop.is_closed():
            loop.call_soon(again)

    loop.call_soon(again)
    loop.add_reader(ours, loop.stop)
    theirs.send(b"x")
    loop.call_later(30, pytest.fail, "the socket was never read")
    loop.run_forever()
    loop.remove_reader(ours)
    assert ours.recv(1) == b"x"
    ours.close()
    theirs.close()


def test_a_closed_loop_takes_nothing(loop):
    """M21: what would never run is refused, as by the loops of asyncio."""
    made = CoreLoop()
    made.close()
    with pytest.raises(RuntimeError, match="closed"):
        made.call_soon(print)
    made = CoreLoop()
    made.set_debug(True)
    with pytest.raises(TypeError):
        made.call_soon(None)  # in its debug mode a loop checks what it is given
    made.close()


def test_the_end_of_a_program_waits_for_the_thread():
    """M21: what is under way on it ends before the interpreter does."""
    runtime = loop_module.LoopThread()
    runtime.retain()
    thread, ended = runtime._thread, []
    runtime.call(ended.append, 1)
    runtime.at_exit()
    assert not thread.is_alive()
    assert ended == [1]


def test_a_job_that_is_done_leaves_no_thread_behind(loop):
    """M19: nor the object of one; a run of weeks has a million jobs."""
    thread = loop.run_until_complete(loop.compute(threading.current_thread))
    thread.join(300)
    left = weakref.ref(thread)
    del thread
    gc.collect()
    assert left() is None


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, ValueError])
def test_what_is_raised_on_the_thread_of_a_client_is_told_and_ends_nothing(kind, caplog):
    """F17: it serves every client of the process, whatever one of them runs there."""
    thread = loop_module.LoopThread()

    async def fail():
        raise kind("odd")

    async def cancelled():
        raise asyncio.CancelledError

    def start():
        for coro in (fail(), cancelled()):
            thread.spawn(coro)

    thread.retain()
    try:
        thread.call(start)
        again = threading.Event()
        thread.call(lambda: thread.call(again.set))
        assert again.wait(300)
    finally:
        thread.release()
        thread.join()
    assert thread._running == set()
    told = [record for record in caplog.records if record.name == "tinker_ext"]
    assert {(each.levelname, each.exc_info[0]) for each in told} == {("ERROR", kind)}
    texts = {each.getMessage().partition(" was raised")[0] for each in told}
    wanted = {"A background task of the client failed."}
    assert texts == wanted if kind is ValueError else texts >= {kind.__name__}


def test_a_loop_that_has_ended_leaves_neither_its_thread_nor_a_descriptor():
    """M19 F19: the ident of a thread is used again, by one that may wait for results."""
    for _ in range(2):
        thread = loop_module.LoopThread()
        before = len(os.listdir("/proc/self/fd"))
        known = set(loop_module._future._core_threads)
        thread.retain()
        loop, inside, ends = thread._loop, threading.Event(), []

        async def stays(inside=inside, ends=ends):
            inside.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ends.append("told")

        thread.call(thread.spawn, stays())
        assert inside.wait(300)
        assert thread._thread.ident in loop_module._future._core_threads
        thread.release()
        thread.join()
        assert loop.is_closed()
        assert ends == ["told"]
        assert loop_module._future._core_threads == known
        assert len(os.listdir("/proc/self/fd")) == before


def test_where_no_thread_can_start_a_client_says_so_and_leaves_nothing(monkeypatch):
    """M21 M19: at the end of the interpreter, or where there are too many; later it may work."""
    thread = loop_module.LoopThread()
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        no_more_threads(patched)
        with pytest.raises(ClientClosedError, match="interpreter is ending") as caught:
            thread.retain()
    assert caught.tb is not None  # it keeps what was not closed
    assert len(os.listdir("/proc/self/fd")) == before
    thread.retain()
    done = threading.Event()
    thread.call(done.set)
    assert done.wait(300)
    thread.release()
    thread.join()
