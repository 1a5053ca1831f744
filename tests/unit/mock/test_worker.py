"""M40: jobs run in order per lane, off the caller's thread, and leave no thread behind."""

import threading
import time

from tinker_ext.mock import worker
from tinker_ext.mock.worker import Worker


def test_order_within_a_lane_and_freedom_between_lanes():
    """M17: a slow job holds back its own lane only."""
    pool = Worker()
    gate, seen = threading.Event(), []
    pool.submit("train", gate.wait)
    pool.submit("train", lambda: seen.append("after the gate"))
    done = threading.Event()
    pool.submit("sample", lambda: (seen.append("sample"), done.set()))
    assert done.wait(300)
    assert seen == ["sample"]
    gate.set()
    pool.close()
    assert seen == ["sample", "after the gate"]


def test_an_idle_lane_gives_its_thread_back(monkeypatch):
    """M21: nothing is left running, and the next job finds a new thread."""
    monkeypatch.setattr(worker, "LINGER", 0.01)
    pool = Worker()
    names = []
    for _ in range(2):
        pool.submit("idle-test", lambda: names.append(threading.current_thread().name))
        while any(t.name == "tinker-ext-idle-test" for t in threading.enumerate()):
            time.sleep(0.005)
    assert names == ["tinker-ext-idle-test"] * 2


def test_inline_jobs_run_in_the_caller():
    """M40: simulation needs one thread."""
    pool = Worker(inline=True)
    names = []
    pool.submit("train", lambda: names.append(threading.current_thread()))
    assert names == [threading.current_thread()]


def test_after_a_fork_queued_jobs_run_before_new_ones():
    """M40: the child has none of the parent's threads, but all of its work."""
    pool = Worker()
    gate, began, seen = threading.Event(), threading.Event(), []
    pool.submit("train", lambda: (began.set(), gate.wait()))
    assert began.wait(300)
    pool.submit("train", lambda: seen.append("queued"))
    pool.after_fork()  # from here on, as in a child: the waiting thread is forgotten
    pool.submit("train", lambda: seen.append("new"))
    pool.close()
    gate.set()
    assert seen == ["queued", "new"]
