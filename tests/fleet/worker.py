"""One process of a load test: samples as fast as it may and writes down when what happened.

It is told what to do by lines of JSON: first a client to make (`url`, `fleet`, `budget`), which it
answers with `ready`, then when to start and end, which it answers with `done`; and so on. Its log
has one event a line, written at once, so that it also tells about a process that was killed.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from typing import Any, TextIO

from tinker_ext import ModelInput, SamplingParams, ServiceClient
from tinker_ext.errors import BudgetExceededError

PROMPT = ModelInput.from_ints([1, 2, 3])
PARAMS = SamplingParams(max_tokens=2, stop=[])


def act(options: dict[str, Any], log: TextIO) -> None:
    """Make a client and sample with it."""

    def note(event: Any) -> None:
        if type(event).__name__ == "RequestFinished" and event.operation == "asample":
            status = event.status or 0
            if status == 429 or 200 <= status < 300:
                log.write(f"{'refused' if status == 429 else 'accepted'} {time.time()}\n")

    service = ServiceClient(
        base_url=options["url"],
        api_key="tml-load",
        fleet=options["fleet"],
        budget=options["budget"],
        on_event=note,
        display_name="load test",
    )
    sampler = service.create_sampling_client(base_model="tinker-ext/tiny")
    sampler.get_base_model()
    print("ready", flush=True)
    start, end = json.loads(sys.stdin.readline())
    while (left := start - time.time()) > 0:
        time.sleep(left)
    waiting: deque[Any] = deque()
    stopped = False
    while time.time() < end and not (stopped and not waiting):
        while len(waiting) < options["width"] and not stopped:
            try:
                future = sampler.sample(PROMPT, 1, PARAMS)
            except BudgetExceededError as error:
                log.write(f"stopped {error}\n")
                stopped = True
            else:
                future.add_done_callback(lambda _: log.write(f"done {time.time()}\n"))
                waiting.append(future)
        if waiting:
            try:
                waiting.popleft().result(max(0.01, end - time.time()))
            except TimeoutError:
                break
            except Exception as error:
                log.write(f"failed {error!r}\n")
    if service.ledger is not None:
        log.write(f"spent {service.ledger.used.total}\n")
    # Before the client is closed: what it gives up then did not fail.
    print("done", flush=True)
    service.close().result()


def main() -> None:
    """Act as long as there are instructions."""
    for line in sys.stdin:
        options = json.loads(line)
        with open(options["log"], "w", buffering=1) as log:
            act(options, log)
        log.close()


if __name__ == "__main__":
    main()
