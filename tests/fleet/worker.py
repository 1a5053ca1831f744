"""One process of a load test: samples as fast as it may and says when each request was answered.

It prints `ready`, reads the times of start and end (seconds since 1970), and at the end prints one
line of JSON: when requests were accepted and refused, when samples were done, and what failed.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from typing import Any

from tinker_ext import ModelInput, SamplingParams, ServiceClient
from tinker_ext.errors import BudgetExceededError

PROMPT = ModelInput.from_ints([1, 2, 3])
PARAMS = SamplingParams(max_tokens=2, stop=[])


def main(options: dict[str, Any]) -> None:
    accepted: list[float] = []
    refused: list[float] = []

    def note(event: Any) -> None:
        if type(event).__name__ != "RequestFinished" or event.operation != "asample":
            return
        if event.status == 429:
            refused.append(time.time())
        elif event.status is not None and event.status < 300:
            accepted.append(time.time())

    service = ServiceClient(
        base_url=options["url"],
        api_key="tml-load",
        fleet=options["fleet"],
        budget=options.get("budget"),
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
    done: list[float] = []
    failed: list[str] = []
    stopped = None
    while time.time() < end and stopped is None:
        while len(waiting) < options["width"] and stopped is None:
            try:
                waiting.append(sampler.sample(PROMPT, 1, PARAMS))
            except BudgetExceededError as error:
                stopped = str(error)
        try:
            waiting.popleft().result(max(0.01, end - time.time()))
            done.append(time.time())
        except TimeoutError:
            break
        except Exception as error:
            failed.append(repr(error))
    while stopped and waiting:
        waiting.popleft().result()
    spent = service.ledger.used.total if service.ledger is not None else 0
    # Before the client is closed: what it gives up then did not fail.
    print(
        json.dumps(
            {
                "accepted": accepted,
                "refused": refused,
                "done": done,
                "failed": failed,
                "stopped": stopped,
                "spent": spent,
            }
        ),
        flush=True,
    )
    service.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
