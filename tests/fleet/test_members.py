"""Members: permits at hand, pauses of others, stores that go away, processes that end."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from fleet.conftest import lose
from fleet.redis_server import RedisServer

from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet import Member
from tinker_ext.fleet import member as member_module


class Work:
    """Samples that a test pretends to have; above 48 in flight the first window would grow."""

    def __init__(self, in_flight=0, queued=0, most=1000, refused=0):
        self.in_flight, self.queued, self.refused = in_flight, queued, set(range(refused))
        self.most, self.pauses = most, []
        self.server = SimpleNamespace(
            base_url="http://s",
            fingerprint="f",
            runtime=SimpleNamespace(call=lambda step: step()),
            connection=SimpleNamespace(backoff=SimpleNamespace(pause=self.pauses.append)),
        )

    @property
    def active(self):
        return self.in_flight - len(self.refused)

    accepted = active

    def limit_changed(self):
        """The sampler would start what waits."""


def member_of(place, work, url="http://s", run="a run"):
    work.server.base_url = url
    member = Member(place, work, run)
    member.work = work  # which it does not keep alive itself
    return member


def fleet_of(member):
    """What the store keeps of a member's fleet."""
    return member.store.look()[member.store.name_of(*member._server)]


@pytest.fixture
def join():
    """Makes members that leave at the end of the test."""
    made = []

    def make(place, work=None, **options):
        made.append(member_of(place, work or Work()))
        made[-1].join(**options)
        return made[-1]

    yield make
    for each in made:
        each.leave()


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


def test_two_members_share_one_window(place, join):
    """M49: equal members come to equal parts, and a member alone has all of it."""
    one = join(place, Work(queued=500))
    assert one.value == 64
    two = join(place, Work(queued=500))
    wait_for(lambda: one.value == two.value == 32)
    one.leave()
    wait_for(lambda: two.value == 64)


def test_a_refusal_of_one_pauses_all_and_lowers_the_window(place, join):
    """M49: the pause and the cut that one member finds reach the others in a moment."""
    works = [Work(in_flight=20, queued=500), Work(in_flight=20, queued=500)]
    one, two = (join(place, work) for work in works)
    wait_for(lambda: one.value == two.value == 32)
    one.refused(started=time.monotonic(), pause=60.0, full=True)
    wait_for(lambda: works[1].pauses)
    assert 10.0 < works[1].pauses[0] <= 60.0
    wait_for(lambda: one.value + two.value < 64)


def test_a_refusal_for_want_of_credit_pauses_but_does_not_cut(place, join):
    """M49: 402 says nothing about how much the server takes."""
    work = Work(in_flight=64, queued=500)
    one, other = join(place, work), Work(in_flight=1)
    join(place, other)
    one.refused(started=time.monotonic(), pause=60.0, full=False)
    wait_for(lambda: other.pauses)
    assert fleet_of(one).plan.phase == "grow"


def test_a_refused_request_waits_for_the_pause_and_for_a_permit(tmp_path, join):
    """M49: refused requests are not sent again while others fill the window."""
    work = Work(in_flight=66, most=64, refused=1)
    one = join(str(tmp_path), work)

    class Backoff:
        async def wait(self):
            return None

    async def scenario():
        waiting = asyncio.ensure_future(one.after_refusal(Backoff()))
        await asyncio.sleep(0.15)
        assert not waiting.done()
        work.in_flight = 64
        await asyncio.wait_for(waiting, 300)

    asyncio.run(scenario())


def test_a_sample_costs_no_step_in_the_store(place, join):
    """M49: with a block at hand, 10,000 requests neither wait nor ask the store."""
    work = Work(in_flight=10, queued=20)
    one = join(place, work)
    steps = []
    report = one.store.report
    one.store.report = lambda *a: steps.append(1) or report(*a)
    began = time.monotonic()
    for _ in range(10_000):
        assert one.value > 10
        one.accepted(in_flight=10)
    assert len(steps) <= 15 + 30 * (time.monotonic() - began)


def test_a_member_that_begins_to_work_tells_it_at_once(place, join, monkeypatch):
    """M49: who was idle has few permits, and gets more without waiting for its next report."""
    monkeypatch.setattr(member_module, "IDLE_SECONDS", 3600.0)
    work = Work()
    one = join(place, work)
    wait_for(lambda: one._resting)
    work.queued = 500
    assert one.value > 0
    wait_for(lambda: [m["queued"] for m in fleet_of(one).members] == [500])


KILLED = """
import sys, time
from fleet.test_members import Work, member_of, wait_for

member = member_of(sys.argv[1], Work(in_flight=20, queued=500))
member.join()
wait_for(lambda: member.value >= 30)
print("ready", flush=True)
time.sleep(60)
"""


def test_permits_of_a_killed_process_are_used_again(place, join, monkeypatch):
    """M49: SIGKILL leaves no time to give anything back; the lease ends by itself.

    Here after 1.5 s; how long a real one lasts is a matter of tests/fleet/test_plan.py.
    """
    monkeypatch.setattr(member_module, "lease_seconds", lambda members: 1.5)
    one = join(place, Work(in_flight=20, queued=500))
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, place],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    assert one.value <= 34
    child.kill()
    child.wait()
    child.stdout.close()
    wait_for(lambda: one.value == 64)


def test_a_store_that_goes_away_and_comes_back(tmp_path, join, monkeypatch, caplog):
    """M49: the last lease, then a careful share, one warning, and back without a restart."""
    if not RedisServer.installed() and "TINKER_FLEET_REDIS" not in os.environ:
        pytest.skip("redis-server is not installed; `nox -s fleet` needs it")
    monkeypatch.setattr(member_module, "lease_seconds", lambda members: 1.0)
    server = RedisServer(tmp_path).start()
    try:
        works = [Work(in_flight=20, queued=500) for _ in range(2)]
        one, two = (join(server.url, work) for work in works)
        wait_for(lambda: one.value == two.value == 32)
        window = one._fleet.plan.size
        with caplog.at_level(logging.INFO, "tinker_ext"):
            server.stop()
            wait_for(lambda: one.is_cut_off and two.is_cut_off)
            assert (one.value, two.value) == (32, 32)
            wait_for(lambda: one.value == two.value == 24)
            server.start()  # empty: it had kept nothing
            most = []
            wait_for(
                lambda: most.append(one.value + two.value) or not (one.is_cut_off or two.is_cut_off)
            )
            wait_for(lambda: one.value + two.value >= window - 1)
        assert max(most) <= window
        plan = fleet_of(one).plan
        assert plan.phase == "hold"  # nothing is tried at its return
        warnings = [r for r in caplog.records if "does not answer" in r.message]
        assert len(warnings) == 2  # one of each member, though each tried several times
    finally:
        server.stop()


@pytest.mark.parametrize("newcomer_first", [True, False])
def test_a_store_that_lost_everything_does_not_split_the_fleet(address, join, newcomer_first):
    """M49: who worked there before and who comes after it meet, whoever is first."""
    one, two = join(address), join(address)
    for member in (one, two):
        wait_for(lambda member=member: member._fleet.count == 2)
    lose(address)
    if not newcomer_first:
        one.sync()
    three = join(address)
    wait_for(lambda: len(fleet_of(three).members) == 3)
    assert len(three.store.look()) == 1


def test_refusals_without_a_store_cost_a_permit_each(tmp_path, join, monkeypatch):
    """M49: nobody can lower the window of all then, so who is refused takes less."""
    one = join(str(tmp_path), Work(in_flight=20, queued=500))
    before = one.value

    def away(*_):
        raise ConfigurationError("away")

    monkeypatch.setattr(one.store, "report", away)
    wait_for(lambda: one.is_cut_off)
    for _ in range(3):
        one.refused(started=time.monotonic(), pause=0.0, full=True)
    assert one.value == before - 3


def test_a_member_without_a_store_works_on_and_joins_later(tmp_path, join, caplog):
    """M49: a worker that was sent a client does not fail because its store is away."""
    place = tmp_path / "fleet"
    place.write_text("in the way")
    with caplog.at_level(logging.WARNING, "tinker_ext"):
        one = join(str(place), strict=False)
    assert one.value == 1
    assert "does not answer" in caplog.text
    place.unlink()
    wait_for(lambda: one.value == 64)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_a_member_of_its_own(tmp_path, join):
    """M49: a child joins when it samples, not before, and the parent stays what it was."""
    one = join(str(tmp_path), Work(queued=500))
    go, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            os.read(go[0], 1)
            _ = one.value
            wait_for(lambda: one.value >= 32)
            os.write(done[1], b"1")
            time.sleep(30)
        finally:
            os._exit(0)
    os.close(done[1])
    try:
        time.sleep(0.6)
        assert len(fleet_of(one).members) == 1
        os.write(go[1], b"1")
        assert os.read(done[0], 1) == b"1"
        names = {member["process"] for member in fleet_of(one).members}
        assert names == {os.getpid(), child}
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for end in (*go, done[0]):
            os.close(end)


def test_leaving_ends_the_thread_and_the_membership(place, join):
    """M49, M44: nothing runs on after a member has left."""
    one = join(place)
    thread = one._thread
    one.leave()
    one.leave()
    assert thread is not None
    assert not thread.is_alive()
    assert fleet_of(one).members == []
