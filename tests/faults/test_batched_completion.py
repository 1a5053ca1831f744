"""One poll for many samples, on a server whose list of finished samples repeats, lies or fails."""

from __future__ import annotations

import asyncio
import gc
import itertools
import tracemalloc

import pytest
from in_process import MODEL, client, run, server
from scripted import Scripted, page

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.errors import AuthenticationError, PermissionDeniedError

CONFIG = {"sample_use_retrieve_futures": True, "fwdbwd_max_chunk_len": 64, "seq_ids": "dedupe"}
SLOW = 30.0
"""Seconds a sample takes on the server."""


def sampled(answer, *, samples=3, passes=False):
    """Sample while the list of finished samples is scripted.

    Args:
        answer: Called with the number of the request and the ids that were posted; gives the
            answer of retrieve_futures, or None for the true one.
        passes: After 20 s the server tells the truth.

    Returns:
        The ends of the samples, the seconds until then, and the network.
    """
    asked = 0
    accepted: list[str] = []

    async def script(sent, deliver):
        nonlocal asked
        if sent.name == "asample":
            response = await deliver()
            accepted.append(response.json()["request_id"])
            return response
        if sent.name == "retrieve_futures":
            asked += 1
            lasts = not passes or asyncio.get_running_loop().time() < 20.0
            return answer(asked, accepted) if lasts else None
        return None

    async def scenario():
        app = server(client_config=CONFIG, latency=SLOW)
        network = Scripted(app, script)
        async with client(network) as service:
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            loop = asyncio.get_running_loop()
            began = loop.time()
            prompt, params = ModelInput.from_ints([1]), SamplingParams(max_tokens=1)
            calls = [sampling.sample_async(prompt, 1, params) for _ in range(samples)]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            return ends, loop.time() - began, network

    return run(scenario)


def finished(request_id, size=5):
    return {
        "state": "finished",
        "request_id": request_id,
        "response_payload_uncompressed_size": size,
    }


def assert_calm(ends, seconds, network):
    assert [end for end in ends if isinstance(end, BaseException)] == []
    assert seconds < SLOW + 60
    assert network.rate("retrieve_futures") <= 20
    assert network.rate("retrieve_future") <= 20


def test_the_same_completions_again_and_again():
    """F8: a list that repeats what is known is asked for after a pause."""
    known = "req-of-somebody"

    def repeats(n, accepted):
        return 200, {"completions": [finished(known)] * 3, "cursor": 0}

    assert_calm(*sampled(repeats, passes=True))


def test_an_empty_list_at_once():
    """F8: a server that does not hold the request is not asked in a loop."""
    ends, seconds, network = sampled(
        lambda n, _: (200, {"completions": [], "cursor": 0}), passes=True
    )
    assert_calm(ends, seconds, network)
    asked = [sent.when for sent in network.of("retrieve_futures")]
    gaps = [b - a for a, b in itertools.pairwise(asked) if b < 20.0]
    assert gaps[0] < 0.1
    assert 0.9 < max(gaps) < 1.01  # the longest one is a second, and less by chance
    assert min(gaps[10:]) > 0.5


def test_a_list_that_says_done_too_early():
    """F8: a sample announced before it is done is waited for with a poll of its own."""

    def lies(n, accepted):
        return 200, {"completions": [finished(name) for name in accepted], "cursor": n}

    assert_calm(*sampled(lies))


@pytest.mark.parametrize("status", [401, 403])
def test_credentials_refused(status):
    """F8: 401 and 403 reach the samples that wait, at once."""
    ends, seconds, network = sampled(lambda n, _: (status, {"detail": "who are you"}))
    wanted = AuthenticationError if status == 401 else PermissionDeniedError
    assert [type(end) for end in ends] == [wanted] * 3
    assert "who are you" in str(ends[0])
    assert seconds < 30
    assert network.count("retrieve_futures") == 1  # asking again is refused again


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"nonsense": 1}),
        (200, b"{", {"content-type": "application/json"}),
        (200, []),
        (200, {"completions": "x", "cursor": "y"}),
        page(200),
    ],
    ids=["object", "cut", "list", "types", "page"],
)
def test_unreadable_lists(answer):
    """F8: after a few of them the samples are asked for one by one."""
    ends, seconds, network = sampled(lambda n, _: answer)
    assert_calm(ends, seconds, network)
    assert network.count("retrieve_futures") <= 20


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_passing_page_of_a_gateway(status):
    """F8 F9: one page does not end batched completion for good, nor lose a sample."""
    ends, seconds, network = sampled(lambda n, _: page(status) if n == 1 else None)
    assert_calm(ends, seconds, network)


def test_a_list_that_is_never_there():
    """F8: where no list is ever given, the samples are asked for one by one."""
    ends, seconds, network = sampled(lambda n, _: (404, {"detail": "Not Found"}))
    assert_calm(ends, seconds, network)
    assert network.count("retrieve_futures") <= 5


def test_ids_of_nobody_are_not_kept():
    """F8: ids nobody waits for take bounded memory, however many a server invents."""
    kept = []

    def invents(n, accepted):
        gc.collect()
        kept.append(tracemalloc.get_traced_memory()[0])
        rows = [finished(f"invented-{n}-{i}-{'x' * 200}") for i in range(300)]
        return 200, {"completions": rows, "cursor": 0}

    sampled(lambda n, _: None)  # what is loaded on first use is no leak
    tracemalloc.start()
    try:
        ends, _, _ = sampled(invents, passes=True)
    finally:
        tracemalloc.stop()
    assert [end for end in ends if isinstance(end, BaseException)] == []
    assert len(kept) > 10
    assert kept[-1] - kept[4] < 600_000
