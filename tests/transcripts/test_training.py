"""Training calls under faults, moment by moment: what is sent when, and what the caller is told.

M19 M20 M22 M24 F13: see `transcript.py`.
"""

from __future__ import annotations

import pytest
from transcripts.transcript import ANSWERS, check, transcript

pytestmark = pytest.mark.filterwarnings("ignore:load_state")

SORTS = {"parallel_fwdbwd_chunks": True, "fwdbwd_max_chunk_len": 64}
RULES = ("order", "dedupe", "strict", "ignore", "late", "dedupe?", "strict?", "ignore?", "late?")
# calls, and what becomes of requests
EVERYWHERE = [
    ("opt opt wait opt", {"optim_step 1": "refused"}),
    ("fb3 opt wait opt", {"forward_backward 2": "refused"}),
    ("opt opt wait opt", {"optim_step 1": "lost"}),
    ("fb3 opt wait opt", {"forward_backward 2": "lost"}),
    ("opt opt wait opt wait opt", {"optim_step 1": "lost", "optim_step 2-40": "down"}),
    ("load opt opt wait opt", {"load_weights 1": "fails"}),
    ("opt fb2 wait opt", {"optim_step 1": "conflict"}),
    ("fb3 opt wait opt", {"forward_backward 2": "fails"}),
]
POLLED = ("pending", "paused", "try again", "announced", "failed", "failed as SkyRL")
POSTS = [name for name in ANSWERS if name not in POLLED]
MODERN = {"sample_use_retrieve_futures": False}
WIRES = [
    {"protobuf 1-9": "unread"},
    {"protobuf 1-9": "broken"},
    {"protobuf 1-2": "broken"},
    {"protobuf 1-9": "gateway"},
    {"protobuf 1-9": "lost"},
    {"protobuf 1-9": "unread", "forward_backward 1-9": "unread"},
    {"protobuf 1-9": "refused", "forward_backward 1-9": "bad"},
    {"protobuf 1-9": "broken", "forward_backward 1-2": "broken"},
]
UNREAD = ["broken", "page", "gateway", "garbage", "conflict"]
POLLS = [name for name in ANSWERS if name not in ("refused", "bad")]
# rule, calls, what becomes of requests
RARE = [
    ("ignore", "opt sleep:.5 cancel:1 sleep:40 opt wait opt", {"optim_step 1": "held"}),
    ("ignore", "opt sleep:.5 cancel:1 opt sleep:40 opt", {"optim_step 1": "held"}),
    (
        "dedupe?",
        "opt sleep:.5 cancel:1 sleep:40 opt wait opt",
        {"optim_step 1": "held", "forward 1+": "lost"},
    ),
    *(
        (
            rule,
            "fb3 opt opt wait opt",
            {
                "forward_backward 2": "refused",
                "forward 1+": "refused",
                "optim_step 1": "after 5",
                "r1 1": "after 9",
            },
        )
        for rule in ("order", "sorted dedupe", "sorted ignore?")
    ),
    ("order", "opt fb2 opt wait opt", {"forward_backward 1": "refused", "forward 1-3": "lost"}),
    ("order", "opt fb2 opt wait opt", {"forward_backward 1": "refused", "forward 1": "held"}),
    ("dedupe", "opt wait opt wait opt", {"optim_step 1-4": "lost", "optim_step 5-7": "refused"}),
    (
        "dedupe",
        "fb3 wait opt wait opt",
        {"forward_backward 2-6": "lost", "forward_backward 7": "conflict"},
    ),
    ("dedupe", "opt wait opt wait opt", {"optim_step 1-5": "lost", "optim_step 6-9": "page"}),
    ("dedupe", "opt wait opt wait opt", {"optim_step 1-5": "lost", "optim_step 6": "refused"}),
    ("dedupe?", "load opt wait opt", {"load_weights 1": "fails", "r2 1+": "conflict"}),
    ("strict?", "opt wait opt opt wait opt", {"optim_step 1": "refused", "optim_step 2": "lost"}),
    ("ignore?", "opt wait opt", {"optim_step 1": "lost", "r3 1-2": "paused"}),
    ("order", "opt fb save wait", {"optim_step 1+": "down", "forward_backward 1": "refused"}),
    ("late", "load opt load opt wait opt", {"load_weights 1-2": "fails", "r2 1": "after 2"}),
    ("late", "load opt wait opt", {"load_weights 1": "fails", "forward 1": "refused"}),
]
ENDS = [
    ("opt within:5 opt opt sleep:1 show wait", {"optim_step 1": "after 50"}),
    ("opt sleep:1 show cancel:1 opt", {"r1 1+": "pending"}),
    ("opt opt fb2 cancel:2 wait", {"optim_step 1": "after 3"}),
    ("fb3 sleep:1 show close", {"forward_backward 2": "held"}),
    ("fb3 opt sleep:9 show close opt", {"r1 1+": "paused"}),
    ("within:20 fb3 opt wait opt", {"forward_backward 2": "swallowed"}),
    ("within:20 fb3 opt wait opt", {"r2 1+": "paused"}),
    ("within:100 opt wait", {"r1 1+": "held"}),
    ("within:9 fb2 wait", {"r2 1+": "paused"}),
    ("fb2 wait fb2 wait fb2", {"forward_backward 2": "refused", "forward_backward 4": "fails"}),
]


def name(*parts):
    texts = (
        part if isinstance(part, str) else " ".join(map(" ".join, part.items())) for part in parts
    )
    return ", ".join(texts)


@pytest.mark.parametrize(("calls", "plan"), EVERYWHERE, ids=name)
@pytest.mark.parametrize("rule", RULES)
def test_a_fault_on_every_kind_of_server(rule, calls, plan):
    """Every request, pause and word is as it is on file, whatever a repeated number means."""
    flags = SORTS if rule == "order" else {}
    check("training", name(rule, calls, plan), transcript(rule, calls, plan, flags))


@pytest.mark.parametrize(
    ("rule", "answer"), [("dedupe", each) for each in POSTS] + [("ignore", each) for each in UNREAD]
)
def test_answers_to_a_request(rule, answer):
    """As above, for every answer; the next call follows."""
    plan = {"optim_step 1-2": answer}
    check("training-posts", name(rule, answer), transcript(rule, "opt wait opt", plan))


@pytest.mark.parametrize("answer", POLLS)
def test_answers_to_a_poll(answer):
    """As above, for every answer that a poll may get."""
    plan = {"r1 1-4": answer}
    check("training-polls", answer, transcript("dedupe", "opt wait opt", plan))


@pytest.mark.parametrize("rule", ["order", "ignore"])
@pytest.mark.parametrize(("calls", "plan"), ENDS, ids=name)
def test_calls_that_end_early(rule, calls, plan):
    """As above, for deadlines, cancelled calls and closed clients."""
    flags = SORTS if rule == "order" else {}
    check("training-ends", name(rule, calls, plan), transcript(rule, calls, plan, flags))


@pytest.mark.parametrize("plan", WIRES, ids=name)
@pytest.mark.parametrize("rule", ["dedupe", "ignore", "dedupe?"])
def test_bodies_that_a_server_does_not_read(rule, plan):
    """As above, for a server that may speak protobuf, JSON, both or neither."""
    found = transcript(rule, "fb wait fb2", plan, MODERN, wire="auto")
    check("training-wires", name(rule, plan), found)


@pytest.mark.parametrize(("rule", "calls", "plan"), RARE, ids=name)
def test_faults_that_meet_others(rule, calls, plan):
    """As above, for fillers and questions that fail as well, and calls that nobody waits for."""
    flags = SORTS if rule == "order" or rule.startswith("sorted ") else {}
    found = transcript(rule.removeprefix("sorted "), calls, plan, flags, retry_window=1.0)
    check("training-rare", name(rule, calls, plan), found)
