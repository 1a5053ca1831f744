"""M24: every call has a deadline, whatever it costs to keep thousands of them."""

import asyncio
import random

from virtual_clock import run_virtual

from tinker_ext._transport.limits import Alarms


def in_time(scenario):
    """Run a scenario on a virtual clock with what rang and when."""

    async def main():
        loop = asyncio.get_running_loop()
        rung = []
        alarms = Alarms()

        def ring(name):
            rung.append((round(loop.time() - start, 6), name))

        start = loop.time()
        await scenario(loop, start, alarms, ring)
        return rung

    return run_virtual(main())


def test_alarms_ring_at_their_time_in_whatever_order_they_were_set():
    """M24: a timeout comes when it is due, also one set after a later one."""

    async def scenario(loop, start, alarms, ring):
        for delay in (3, 5, 4, 1, 5, 9):
            alarms.set(loop, start + delay, ring, delay)
        await asyncio.sleep(20)

    assert in_time(scenario) == [(1, 1), (3, 3), (4, 4), (5, 5), (5, 5), (9, 9)]


def test_cancelled_alarms_never_ring_and_leave_nothing_behind():
    """M24: what has ended takes no room and sets no timer."""

    async def scenario(loop, start, alarms, ring):
        chosen = random.Random(1)
        kept = []
        for number in range(1000):
            alarm = alarms.set(loop, start + 10 + number // 100, ring, number)
            if chosen.random() < 0.9:
                alarm.cancel()
                alarm.cancel()
            else:
                kept.append(number)
        assert len(alarms.line) <= 2 * len(kept) + 64
        await asyncio.sleep(60)
        assert not alarms.line
        assert alarms._timer is None
        scenario.kept = kept

    rung = in_time(scenario)
    assert [name for _, name in rung] == scenario.kept
    assert all(when == 10 + name // 100 for when, name in rung)


def test_an_alarm_may_cancel_the_next_and_set_another():
    """M24: ending one call ends its timeout, also when both come due at once."""

    async def scenario(loop, start, alarms, ring):
        later = []

        def first(name):
            ring(name)
            later[0].cancel()
            alarms.set(loop, start + 2, ring, "set while ringing")

        alarms.set(loop, start + 1, first, "first")
        later.append(alarms.set(loop, start + 1, ring, "cancelled by the first"))
        alarms.set(loop, start + 1, ring, "third")
        await asyncio.sleep(5)

    assert in_time(scenario) == [(1, "first"), (1, "third"), (2, "set while ringing")]


def test_one_that_fails_does_not_keep_the_others_from_ringing():
    """M24: every timeout is for itself."""

    async def scenario(loop, start, alarms, ring):
        told = []
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))

        def broken(name):
            raise ValueError(name)

        alarms.set(loop, start + 1, broken, "broken")
        alarms.set(loop, start + 1, ring, "well")
        await asyncio.sleep(5)
        assert [str(error) for error in told] == ["broken"]

    assert in_time(scenario) == [(1, "well")]
