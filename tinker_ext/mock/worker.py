"""Where computation runs: one thread per lane in order, or inside the request for simulation."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import attrs

Job = Callable[[], None]

# A lane without work gives its thread back: an embedded server leaves nothing running.
LINGER = 0.5


@attrs.define(eq=False)
class _Lane:
    jobs: queue.SimpleQueue[Job | None] = attrs.field(factory=queue.SimpleQueue)
    thread: threading.Thread | None = None
    # Held while a job runs. Reentrant, since a job may fork.
    busy: threading.RLock = attrs.field(factory=threading.RLock)


class Worker:
    """Run jobs in the order they were given, one thread per lane, never on the event loop.

    Args:
        inline: Run each job at once in the caller instead, so that one seed is one execution.
    """

    def __init__(self, *, inline: bool = False) -> None:
        self._inline = inline
        self._lanes: dict[str, _Lane] = {}
        self._guard = threading.Lock()

    def submit(self, lane: str, job: Job) -> None:
        """Queue a job on its lane; jobs report their own errors."""
        if self._inline:
            job()
            return
        with self._guard:
            found = self._lanes.setdefault(lane, _Lane())
            found.jobs.put(job)
            started = found.thread is not None or self._start(lane, found)
        if not started:
            with found.busy:
                while not found.jobs.empty():
                    if (waiting := found.jobs.get()) is not None:
                        waiting()

    def _start(self, name: str, lane: _Lane) -> bool:
        """Start the thread of a lane; Python 3.12 and later start none while they end."""
        thread = threading.Thread(
            target=self._run, args=(lane,), name=f"tinker-ext-{name}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            return False
        lane.thread = thread
        return True

    def run_inline(self, inline: bool) -> None:
        """Switch between threads and inline execution (a journal is replayed inline)."""
        self._inline = inline

    def locks(self) -> list[Any]:
        """Every lock, in the order in which they are taken."""
        return [*(lane.busy for lane in list(self._lanes.values())), self._guard]

    def after_fork(self) -> None:
        """Forget the parent's threads; what is queued runs before the next job of its lane."""
        for name, old in self._lanes.items():
            lane = self._lanes[name] = _Lane()
            while not old.jobs.empty():
                lane.jobs.put(old.jobs.get_nowait())

    def close(self) -> None:
        """Finish the queued jobs and end the threads."""
        with self._guard:
            threads = [lane.thread for lane in self._lanes.values() if lane.thread is not None]
            for lane in self._lanes.values():
                lane.jobs.put(None)
            self._lanes = {}
        for thread in threads:
            thread.join(timeout=10)

    def _run(self, lane: _Lane) -> None:
        while True:
            try:
                job = lane.jobs.get(timeout=LINGER)
            except queue.Empty:
                with self._guard:
                    if lane.jobs.empty():
                        lane.thread = None
                        return
                continue
            if job is None:
                return
            with lane.busy:
                job()
