"""M22: promises settle from any thread, wake their waiters and expire."""

import asyncio
import threading

from virtual_clock import run_virtual

from tinker_ext.mock.clock import Clock
from tinker_ext.mock.futures import Promise, Promises
from tinker_ext.mock.results import Failure, JsonResult


def table(**options):
    options = {"unread_ttl": 100.0, "read_ttl": 10.0, **options}
    return Promises(Clock(), threading.RLock(), **options)


def promise(promises, name="r"):
    return promises.add(Promise(name, "sample", 0.0))


def test_a_thread_wakes_a_poll():
    """M22: the engine's thread settles, the loop's poll returns."""

    async def scenario():
        promises = table()
        waited = promise(promises)
        timer = threading.Timer(0.02, promises.settle, (waited, JsonResult({})))
        timer.start()
        assert await promises.wait(waited, 30.0)
        assert waited.waiters == []
        timer.join()

    asyncio.run(scenario())


def test_many_polls_of_one_promise():
    """M22: every poll gets the answer."""

    async def scenario():
        promises = table()
        waited = promise(promises)
        polls = [asyncio.create_task(promises.wait(waited, 30.0)) for _ in range(5)]
        await asyncio.sleep(1)
        promises.settle(waited, Failure("no"))
        assert await asyncio.gather(*polls) == [True] * 5

    run_virtual(scenario())


def test_settling_twice_keeps_the_first_outcome():
    """M20: a result never changes."""
    promises = table()
    waited = promise(promises)
    promises.settle(waited, Failure("first"))
    promises.settle(waited, Failure("second"))
    assert waited.outcome == Failure("first")
    promises.cancel(waited)
    assert waited.state == "settled"


def test_latency_and_patience():
    """M22: an outcome is invisible for `latency` seconds; a poll gives up after its own time."""

    async def scenario():
        promises = table(latency=5.0)
        waited = promise(promises)
        promises.settle(waited, JsonResult({}))
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert not await promises.wait(waited, 3.0)
        assert loop.time() - started == 3.0
        assert await promises.wait(waited, 30.0)
        assert loop.time() - started == 5.0

    run_virtual(scenario())


def test_closing_releases_polls():
    """M21: a stopping server leaves nobody waiting."""

    async def scenario():
        promises = table()
        poll = asyncio.create_task(promises.wait(promise(promises), 3600.0))
        await asyncio.sleep(1)
        promises.close()
        assert await poll is False
        assert asyncio.get_running_loop().time() < 10

    run_virtual(scenario())


def test_read_results_go_first():
    """M22: a read result lives shorter than an unread one; both are remembered as gone."""

    async def scenario():
        promises = table()
        read, unread = promise(promises, "read"), promise(promises, "unread")
        for each in (read, unread):
            promises.settle(each, JsonResult({}))
        promises.mark_read(read)
        await asyncio.sleep(11)
        assert promises.find("read") is None
        assert promises.find("unread") is unread
        await asyncio.sleep(100)
        assert promises.find("unread") is None
        assert promises.is_gone("read")
        assert promises.is_gone("unread")
        assert not promises.is_gone("other")

    run_virtual(scenario())
