"""The same rollouts as Ray actors, on this machine or on a cluster.

    pip install '.[ray,fleet]'
    python examples/fleet/rollouts_ray.py                            # this machine
    RAY_ADDRESS=auto TINKER_EXT_FLEET=redis://head:6379/0 TINKER_BASE_URL=… python …/rollouts_ray.py

Ray sends the sampling client to its actors, and with it the fleet. On a cluster the store is a
Redis that all nodes reach, and every node has TINKER_API_KEY (and REDISCLI_AUTH, where the Redis
wants a password) in its environment: neither travels.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time

import ray

from tinker_ext import ModelInput, SamplingClient, SamplingParams, ServiceClient

WORKERS = 8
PROMPTS = 100
GROUP = 4
LIMIT = 16
MODEL = os.environ.get("TINKER_MODEL", "tinker-ext/tiny")


@ray.remote(num_cpus=0.1)
class Worker:
    """Rolls out with the client it was sent."""

    def __init__(self, client: SamplingClient) -> None:
        self.client = client

    def rollout(self, number: int) -> list[float]:
        """Sample a group for one prompt and score it."""
        prompt = ModelInput.from_ints([1 + number % 50, 2, 3])
        params = SamplingParams(max_tokens=16, seed=number, temperature=1.0)
        replies = [self.client.sample(prompt, 1, params) for n in range(GROUP)]
        drawn = [reply.result().sequences[0].tokens for reply in replies]
        return [len(set(tokens)) / 16 for tokens in drawn]


def main() -> None:
    """Make a sampler, send it to the actors, and tell what they did."""
    with contextlib.ExitStack() as stack:
        url = os.environ.get("TINKER_BASE_URL")
        if url is None:
            from tinker_ext.mock import Server, Settings

            url = stack.enter_context(Server(Settings(latency=0.5, sample_limit=LIMIT))).url
            os.environ.setdefault("TINKER_API_KEY", "tml-example")
        place = os.environ.get("TINKER_EXT_FLEET")
        if place is None:
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-"))
        ray.init(log_to_driver=False, include_dashboard=False)
        stack.callback(ray.shutdown)
        service = stack.enter_context(ServiceClient(base_url=url, fleet=place, display_name="ray"))
        client = service.create_sampling_client(base_model=MODEL)
        workers = [Worker.remote(client) for _ in range(WORKERS)]
        began = time.monotonic()
        waiting = [workers[n % WORKERS].rollout.remote(n) for n in range(PROMPTS)]
        rewards = ray.get(waiting)
        seconds = time.monotonic() - began
    best = sum(map(max, rewards)) / PROMPTS
    print(f"{PROMPTS * GROUP} samples in {seconds:.1f} s by {WORKERS} actors")
    print(f"mean reward of the best of {GROUP}: {best:.2f}")


if __name__ == "__main__":
    main()
