"""Samples under faults, moment by moment: what is sent when, and what the caller is told.

M22 M24 M25 M42: see `transcript.py`.
"""

from __future__ import annotations

import pytest
from transcripts.transcript import ANSWERS, check, transcript

from tinker_ext import RetryConfig

POLLED = ("pending", "paused", "try again", "announced", "failed", "failed as SkyRL", "nothing new")
POSTS = [name for name in ANSWERS if name not in (*POLLED, "failed on the server")]
POLLS = [name for name in ANSWERS if name not in ("refused", "bad", "nothing new")]
BATCH = ["unknown key", "nothing here", "no credit", "busy for 3 s", "down", "page", "garbage"]
BATCH += ["pending", "nothing new", "cut", "after 5"]
BATCHED = {"sample_use_retrieve_futures": True}
ENDS = {
    "a sample in line and one in flight are cancelled, and the server is told": (
        "3*sample sleep:2 show cancel:1 cancel:3",
        {"r0 1+": "pending", "r1 1-4": "pending"},
        {"flags": {"sample_max_concurrent_requests": 2}},
    ),
    "a client is closed": (
        "3*sample sleep:1 close sample",
        {"asample 2": "held", "r0 1+": "held"},
        {},
    ),
    "deadlines": (
        "within:7 sample sleep:1 2*sample",
        {"asample 1": "swallowed", "r0 1+": "held"},
        {},
    ),
    "a sooner deadline after a later one": (
        "within:300 sample sleep:1 within:5 sample sleep:1 within:400 sample sleep:9 close",
        {"asample 1+": "swallowed"},
        {},
    ),
    "deadlines that lie close together": (
        "within:9 sample within:5 sample within:5.02 sample within:5.06 sample",
        {"asample 1": "swallowed"},
        {"flags": {"sample_max_concurrent_requests": 1}},
    ),
    "the last one that a batched poll asks for is cancelled": (
        "2*sample sleep:1 cancel:1 sleep:1 cancel:2 sleep:60 sample",
        {"retrieve_futures 1-2": "after 40"},
        {"flags": BATCHED},
    ),
    "a client is closed while it asks whether the server wants to know of cancelled samples": (
        "sample sleep:2 cancel:1 sleep:1 close",
        {"r0 1+": "held", "client/dynamic_config 1": "swallowed"},
        {"flags": {"sample_max_concurrent_requests": 2}},
    ),
    "the server is told of samples whose deadline has passed, or that do not move": (
        "within:7 sample sleep:9 within:300 sample",
        {"r0 1+": "held", "r1 1+": "held"},
        {"flags": {"sample_max_concurrent_requests": 2}, "progress_timeout": 30.0},
    ),
    "nothing moves": ("3*sample", {"asample 1+": "busy"}, {"progress_timeout": 30.0}),
    "a large one is refused": ("large sample", {"asample 1": "busy"}, {}),
    "bytes of the server": ("3*large", {}, {"flags": {"sample_dispatch_bytes_semaphore_size": 9}}),
    "two sequences are wanted": ("sample2", {}, {}),
    "the address is cut off": ("2*sample", {"asample 1-4": "cut"}, {}),
    "every answer is lost": ("within:20 2*sample", {"asample 1+": "lost"}, {}),
    "busy, again and again": ("12*sample", {"asample 1-9": "busy"}, {}),
    "no retries": (
        "sample",
        {"r0 1": "failed on the server"},
        {"flags": {"sample_no_retries": True}},
    ),
    "failed again and again": (
        "2*sample",
        {f"r{n} 1": "failed on the server" for n in range(20)},
        {},
    ),
}
RETRIES = {
    "none": RetryConfig(enable_retry_logic=False),
    "own pauses": RetryConfig(retry_delay_base=2.0, retry_delay_max=5.0, jitter_factor=0.5),
    "own patience": RetryConfig(progress_timeout=9.0),
}


@pytest.mark.parametrize("answer", POSTS)
def test_answers_to_a_sample(answer):
    """Every request, pause and word is as it is on file; a sample beside it is served."""
    plan = {"asample 1-2": answer}
    check("sampling-posts", answer, transcript("dedupe", "2*sample", plan))


@pytest.mark.parametrize("answer", POLLS)
def test_answers_to_a_poll(answer):
    """As above, for every answer that a poll may get."""
    plan = {"r0 1-4": answer}
    check("sampling-polls", answer, transcript("dedupe", "sample", plan))


@pytest.mark.parametrize("answer", ["done", *BATCH])
def test_answers_to_a_batched_poll(answer):
    """As above, where one poll asks for all samples of a sampler."""
    plan = {"retrieve_futures 1-4": answer}
    found = transcript("dedupe", "2*sample wait sample", plan, BATCHED)
    check("sampling-batched", answer, found)


@pytest.mark.parametrize("name", ENDS)
def test_samples_in_trouble(name):
    """As above, for deadlines, cancelled samples, closed clients and limits."""
    calls, plan, options = ENDS[name]
    check("sampling", name, transcript("dedupe", calls, plan, **options))


@pytest.mark.parametrize("answer", ["busy", "down", "lost", "cut", "expired"])
@pytest.mark.parametrize("how", RETRIES)
def test_a_sampler_that_says_how_it_retries(how, answer):
    """As above, with a `RetryConfig`."""
    where = "r0" if answer == "expired" else "asample"
    found = transcript("dedupe", "2*sample", {f"{where} 1-3": answer}, retry=RETRIES[how])
    check("sampling-retries", f"{how}, {answer}", found)
