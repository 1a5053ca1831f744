"""Rollouts in eight processes that share one limit.

    python examples/fleet/rollouts.py                          # a server and a store of its own
    TINKER_EXT_FLEET=redis://host:6379/0 python …/rollouts.py  # your store
    tinker-ext fleet FOLDER                                    # elsewhere: who waits

The main process makes a sampling client and sends it to the workers; a pickled client carries the
fleet along, so each worker is a member without a line of code. Together they keep as many samples
under way as the server takes, and when it says "too many", all of them pause. Credentials do not
travel: every worker reads TINKER_API_KEY from its own environment.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed

from tinker_ext import ModelInput, SamplingClient, SamplingParams, ServiceClient

WORKERS = 8
PROMPTS = 100
GROUP = 4  # samples of one prompt, as GRPO compares them
LIMIT = 16  # what the example's own server takes at once
MODEL = os.environ.get("TINKER_MODEL", "tinker-ext/tiny")

sampler: SamplingClient


def start(client: SamplingClient) -> None:
    """Keep the client that this worker was sent."""
    global sampler
    sampler = client


def rollout(number: int) -> tuple[int, list[float]]:
    """Sample a group for one prompt and score it; runs in a worker."""
    prompt = ModelInput.from_ints([1 + number % 50, 2, 3])
    params = SamplingParams(max_tokens=16, seed=number, temperature=1.0)
    replies = [sampler.sample(prompt, 1, params) for _ in range(GROUP)]
    drawn = [reply.result().sequences[0].tokens for reply in replies]
    return os.getpid(), [len(set(tokens)) / 16 for tokens in drawn]  # variety is the best


def main() -> None:
    """Make a sampler, send it to the workers, and show who did how much."""
    with contextlib.ExitStack() as stack:
        url = os.environ.get("TINKER_BASE_URL")
        if url is None:
            from tinker_ext.mock import Server, Settings

            # Far away and busy: half a second a sample, and only so many at once.
            settings = Settings(latency=0.5, sample_limit=LIMIT)
            url = stack.enter_context(Server(settings)).url
            os.environ.setdefault("TINKER_API_KEY", "tml-example")
        place = os.environ.get("TINKER_EXT_FLEET")
        if place is None:
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-"))
        service = stack.enter_context(
            ServiceClient(base_url=url, fleet=place, display_name="rollouts")
        )
        client = service.create_sampling_client(base_model=MODEL)
        # Not fork: a child of a process with threads may inherit locks in any state.
        context = multiprocessing.get_context("spawn")
        began, done, best = time.monotonic(), Counter(), 0.0
        with ProcessPoolExecutor(WORKERS, context, start, (client,)) as pool:
            for future in as_completed(pool.submit(rollout, n) for n in range(PROMPTS)):
                worker, rewards = future.result()
                done[worker] += 1
                best += max(rewards) / PROMPTS
        seconds = time.monotonic() - began
    counts = sorted(done.values())
    print(f"{PROMPTS * GROUP} samples in {seconds:.1f} s by {len(done)} processes")
    print(f"prompts of the least and the most busy worker: {counts[0]} and {counts[-1]}")
    print(f"mean reward of the best of {GROUP}: {best:.2f}")


if __name__ == "__main__":
    main()
