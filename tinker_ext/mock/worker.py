"""Where computation runs: one thread per lane in order, or inside the request for simulation."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Job = Callable[[], None]


class Worker:
    """Run jobs in the order they were given, one thread per lane, never on the event loop.

    Args:
        inline: Run each job at once in the caller instead, so that one seed is one execution.
    """

    def __init__(self, *, inline: bool = False) -> None:
        self._inline = inline
        self._lanes: dict[str, queue.SimpleQueue[Job | None]] = {}
        self._threads: list[threading.Thread] = []
        self._guard = threading.Lock()

    @property
    def inline(self) -> bool:
        """Tell whether jobs run inside the caller."""
        return self._inline

    def submit(self, lane: str, job: Job) -> None:
        """Queue a job on its lane; jobs report their own errors."""
        if self._inline:
            job()
            return
        with self._guard:
            jobs = self._lanes.get(lane)
            if jobs is None:
                jobs = self._lanes[lane] = queue.SimpleQueue()
                thread = threading.Thread(
                    target=self._run, args=(jobs,), name=f"tinker-ext-{lane}", daemon=True
                )
                self._threads.append(thread)
                thread.start()
        jobs.put(job)

    def run_inline(self, inline: bool) -> None:
        """Switch between threads and inline execution (a journal is replayed inline)."""
        self._inline = inline

    def close(self) -> None:
        """Finish the queued jobs and end the threads."""
        with self._guard:
            for jobs in self._lanes.values():
                jobs.put(None)
            threads, self._threads, self._lanes = self._threads, [], {}
        for thread in threads:
            thread.join(timeout=10)

    @staticmethod
    def _run(jobs: queue.SimpleQueue[Job | None]) -> None:
        while (job := jobs.get()) is not None:
            job()
