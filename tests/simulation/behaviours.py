"""Servers and gateways that behave oddly, one script each; a seed chooses one and its details.

A script stands between client and server (`scripted.Scripted`): it answers a request itself, loses
the answer, or lets the server answer. Where a script is needed on both sides of one call, it keeps
what it did in its own closure.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from scripted import Script, lost, page, reply

TRAINING = frozenset(
    {
        "forward",
        "forward_backward",
        "optim_step",
        "save_weights",
        "load_weights",
        "save_weights_for_sampler",
    }
)
WAITS = frozenset({"retrieve_future", "retrieve_futures", "session_heartbeat"})
WORK = TRAINING | {"asample"}
ABSURD: tuple[dict[str, str], ...] = (
    {"retry-after": "Fri, 31 Dec 9999 23:59:59 -2359"},
    {"retry-after": "Mon, 01 Jan 0001 00:00:00 +2359"},
    {"retry-after": "Mon, 01 Jan 0001 00:00:00 GMT", "date": "Fri, 31 Dec 9999 23:59:59 -2359"},
    {"retry-after": "Mon, 99 Foo 2024 99:99:99 GMT"},
    {"retry-after": "Mon, 01 Jan 2024 00:00:00 +" + "9" * 30},
    {"retry-after": "9" * 400},
    {"retry-after": "1e400"},
    {"retry-after": "-1e400"},
    {"retry-after": "nan"},
    {"retry-after": "", "date": "x" * 300},
    {"retry-after-ms": "1e308"},
    {"retry-after-ms": "-0"},
)
HUGE = ("86400", "1000000000", "9" * 20, "Fri, 31 Dec 2999 23:59:59 GMT")


@attrs.define
class Stage:
    """What a script may know of the execution.

    Attributes:
        rng: Draws its details.
        passes: Virtual time at which the behaviour ends.
        poisoned: The call under way is one whose body the server refuses.
    """

    rng: random.Random
    passes: float
    poisoned: bool = False

    @property
    def on(self) -> bool:
        """Whether the behaviour still lasts."""
        return asyncio.get_running_loop().time() < self.passes


@attrs.frozen
class Behaviour:
    """One way to be odd.

    Attributes:
        script: Makes the script.
        settings: Of the server.
        profiles: Seq profiles it is played on; empty means all.
        may_lose: A training call may end in UnsafeToRetryError: its answer can be lost.
        may_refuse: A call may end in another error of ours.
        poisons: One more call is made whose body is refused; it must show the reason.
        slow: The server holds calls back, so that one may end at its deadline.
        lasts: It never passes.
        within: Seconds a call may take, whatever its deadline.
        samples: How many are drawn at once.
    """

    script: Callable[[Stage], Script]
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    profiles: tuple[str, ...] = ()
    may_lose: bool = False
    may_refuse: bool = False
    poisons: bool = False
    slow: bool = False
    lasts: bool = False
    within: float = 900.0
    samples: int = 8


def _sometimes(stage: Stage, names: frozenset[str], part: float, answer: Any, most: int = 2) -> Any:
    """A script that answers part of the requests itself, the same one at most so often in a row."""
    struck: dict[str, int] = {}

    async def script(sent: Any, deliver: Any) -> Any:
        if sent.name in names and stage.on and stage.rng.random() < part:
            key = f"{sent.name} {sent.body!r}"
            struck[key] = struck.get(key, 0) + 1
            if struck[key] <= most:
                return await answer(sent, deliver)
            struck[key] = 0
        return None

    return script


def _always(stage: Stage, names: frozenset[str], answer: Callable[[], Any]) -> Script:
    async def script(sent: Any, deliver: Any) -> Any:
        return answer() if sent.name in names and stage.on else None

    return script


async def _lose(sent: Any, deliver: Any) -> Any:
    await deliver()
    raise lost()


def losing(stage: Stage) -> Script:
    """The connection is cut after a full request, now and then."""
    return _sometimes(stage, WORK, 0.3, _lose)


def cutting(stage: Stage) -> Script:
    """The first answer to every training request is cut off, and those to the first samples."""
    inner = _sometimes(stage, WORK, 1.0, _lose, most=1)
    samples = 8

    async def script(sent: Any, deliver: Any) -> Any:
        nonlocal samples
        if sent.name == "asample":
            # A sample whose number is taken comes back under another one, as a new request.
            samples -= 1
            if samples < 0:
                return None
        return await inner(sent, deliver)

    return script


def refusing_late(stage: Stage) -> Script:
    """A repeated number is accepted with 202 and refused with 409 at the poll, as by TuFT."""
    inner = losing(stage)
    refused: set[str] = set()

    async def script(sent: Any, deliver: Any) -> Any:
        if sent.name == "retrieve_future" and sent.body["request_id"] in refused:
            return 409, {"detail": "Sequence conflict"}
        answer = await inner(sent, deliver)
        if sent.name not in TRAINING:
            return answer
        response = answer or await deliver()
        if response.status_code != 409:
            return response
        refused.add(f"late-{len(refused)}")
        return 202, {"request_id": f"late-{len(refused) - 1}"}

    return script


REASON = "token 99999 is outside the vocabulary"


def refusing_a_body(stage: Stage) -> Script:
    """One body is refused with a status that could also mean the wire."""
    status = stage.rng.choice((400, 415, 422))

    async def script(sent: Any, deliver: Any) -> Any:
        if stage.poisoned and sent.name == "forward_backward":
            return status, {"detail": REASON}
        return None

    return script


def refusing_fillers(stage: Stage) -> Script:
    """A training body is refused, and so is every forward pass that would fill its number."""
    number = stage.rng.randint(2, 5)

    async def script(sent: Any, deliver: Any) -> Any:
        given = sent.body.get("seq_id") if isinstance(sent.body, dict) else None
        if sent.name == "forward" or (sent.name in TRAINING and given == number):
            return 422, {"detail": "not welcome"}
        return None

    return script


def paging_waits(stage: Stage) -> Script:
    """A gateway shows its own page, under any status, to polls and heartbeats."""
    statuses = stage.rng.sample((200, 403, 404, 405, 501, 502), 3)

    async def answer(sent: Any, deliver: Any) -> Any:
        return page(stage.rng.choice([s for s in statuses if s != 403] or [404]))

    return _sometimes(stage, WAITS, 0.3, answer)


def missing_for_a_while(stage: Stage) -> Script:
    """404, 405 or 501 in the words of a server, to heartbeats and batched completion."""
    status = stage.rng.choice((404, 405, 501))

    async def answer(sent: Any, deliver: Any) -> Any:
        return status, {"detail": "Not Found"}

    return _sometimes(stage, frozenset({"session_heartbeat", "retrieve_futures"}), 0.5, answer)


def paging_posts(stage: Stage) -> Script:
    """A gateway shows its own page to posts, before or after they took effect."""

    async def answer(sent: Any, deliver: Any) -> Any:
        status = stage.rng.choice((200, 404, 405, 501, 502))
        if status in (200, 502) and stage.rng.random() < 0.5:
            await deliver()
        return page(status)

    return _sometimes(stage, WORK, 0.2, answer)


def _completed(request_id: str) -> dict[str, Any]:
    return {"state": "finished", "request_id": request_id}


def repeating_completions(stage: Stage) -> Script:
    """Batched completion tells the same news again and again."""
    return _always(
        stage,
        frozenset({"retrieve_futures"}),
        lambda: reply(200, {"completions": [_completed("req-known")] * 3, "cursor": 0}),
    )


def empty_completions(stage: Stage) -> Script:
    """Batched completion never holds the request and never has news."""
    return _always(
        stage,
        frozenset({"retrieve_futures"}),
        lambda: reply(200, {"completions": [], "cursor": 0}),
    )


def lying_completions(stage: Stage) -> Script:
    """Batched completion says that everything is done, and much that was never asked for."""
    accepted: list[str] = []

    async def script(sent: Any, deliver: Any) -> Any:
        if sent.name == "asample":
            response = await deliver()
            if response.status_code < 300:
                accepted.append(response.json()["request_id"])
            return response
        if sent.name == "retrieve_futures" and stage.on:
            made = [f"req-{stage.rng.random()}" for _ in range(20)]
            news = [_completed(name) for name in (*made, *accepted)]
            return 200, {"completions": news, "cursor": 0}
        return None

    return script


def refusing_completions(stage: Stage) -> Script:
    """Batched completion answers 401 or 403."""
    status = stage.rng.choice((401, 403))
    return _always(
        stage, frozenset({"retrieve_futures"}), lambda: reply(status, {"detail": "who are you"})
    )


def unreadable_completions(stage: Stage) -> Script:
    """Batched completion answers 200 with nonsense."""
    said = stage.rng.choice((b"{", b"[]", b'{"nonsense":1}', b"<html>", b""))
    return _always(stage, frozenset({"retrieve_futures"}), lambda: reply(200, said))


def absurd(stage: Stage) -> Script:
    """Refusals name absurd dates and delays."""
    status = stage.rng.choice((429, 503))

    async def answer(sent: Any, deliver: Any) -> Any:
        return status, {"detail": "later"}, stage.rng.choice(ABSURD)

    return _sometimes(stage, WORK | WAITS, 0.25, answer)


def hurrying(stage: Stage) -> Script:
    """Everything is refused with a delay of a microsecond."""
    status = stage.rng.choice((429, 503))
    name, value = stage.rng.choice(
        (("retry-after", "0.000001"), ("retry-after-ms", "0.001"), ("retry-after", "0"))
    )
    names = frozenset({stage.rng.choice(("optim_step", "asample", "retrieve_future"))})
    return _always(stage, names, lambda: reply(status, {"detail": "busy"}, {name: value}))


def refusing_without_delay(stage: Stage) -> Script:
    """Everything is refused for a while, and no delay is named."""
    names = frozenset({stage.rng.choice(("optim_step", "asample", "retrieve_future"))})
    return _always(stage, names, lambda: reply(429, {"detail": "busy"}))


def delaying(stage: Stage) -> Script:
    """A few refusals name a delay of days or years."""

    async def answer(sent: Any, deliver: Any) -> Any:
        return 429, {"detail": "later"}, {"retry-after": stage.rng.choice(HUGE)}

    return _sometimes(stage, WORK | WAITS, 0.1, answer, most=1)


def not_holding(stage: Stage) -> Script:
    """No poll for a sample or a step is held: each is answered "not yet" at once."""
    status = stage.rng.choice((200, 408))
    body = {"type": "try_again", "request_id": "r", "queue_state": "active"}

    async def script(sent: Any, deliver: Any) -> Any:
        made = sent.headers.get("x-tinker-request-type") == "CreateModel"
        if sent.name != "retrieve_future" or made or not stage.on:
            return None
        return reply(status, body)

    return script


def charging(stage: Stage) -> Script:
    """402 for a while."""
    names = stage.rng.choice((frozenset({"retrieve_future"}), WORK, frozenset({"asample"})))
    return _always(stage, names, lambda: reply(402, {"detail": "no credit"}))


BATCHED: Mapping[str, Any] = {"client_config": {"sample_use_retrieve_futures": True}}
UNDECLARED: Mapping[str, Any] = {"client_config": {"seq_ids": None}}

BEHAVIOURS: dict[str, Behaviour] = {
    "cut": Behaviour(cutting, may_lose=True),
    "refused late": Behaviour(refusing_late, profiles=("strict",), may_lose=True, within=200.0),
    "refused late, undeclared": Behaviour(
        refusing_late, UNDECLARED, profiles=("strict",), may_lose=True, within=200.0
    ),
    "seq undeclared": Behaviour(losing, UNDECLARED, may_lose=True),
    "a body refused": Behaviour(refusing_a_body, {"wire": "both"}, poisons=True),
    "a body refused, protobuf only": Behaviour(refusing_a_body, {"wire": "proto"}, poisons=True),
    "fillers refused": Behaviour(refusing_fillers, profiles=("gap",), may_refuse=True, lasts=True),
    "404, 405, 501 that pass": Behaviour(missing_for_a_while, BATCHED),
    "pages at polls": Behaviour(paging_waits),
    "pages at posts": Behaviour(paging_posts, may_lose=True, may_refuse=True),
    "polls not held": Behaviour(not_holding, slow=True, samples=60),
    "completions repeat": Behaviour(repeating_completions, BATCHED, slow=True),
    "completions empty": Behaviour(empty_completions, BATCHED, slow=True),
    "completions lie": Behaviour(lying_completions, BATCHED),
    "completions 401": Behaviour(
        refusing_completions, BATCHED, may_refuse=True, lasts=True, within=120.0
    ),
    "completions unreadable": Behaviour(unreadable_completions, BATCHED, lasts=True, within=120.0),
    "absurd delays": Behaviour(absurd, may_lose=True, slow=True),
    "Retry-After tiny": Behaviour(hurrying, may_lose=True, may_refuse=True, slow=True),
    "429 without delay": Behaviour(refusing_without_delay, may_refuse=True, slow=True),
    "Retry-After huge": Behaviour(delaying, slow=True),
    "402": Behaviour(charging, may_refuse=True, slow=True),
}
