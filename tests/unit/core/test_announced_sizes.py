"""What a client makes of sizes and completions that it is told of, of a fork, of odd notes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tinker_api.models import FutureMetadataOnly

from tinker_ext import ServiceClient
from tinker_ext.core.completions import Completions
from tinker_ext.core.polling import MetadataOnly, _read
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import InvalidInputError


@pytest.mark.parametrize(
    ("told", "size"),
    [
        (7, 7),
        (0, 0),
        ((1 << 40) - 1, (1 << 40) - 1),
        (1 << 40, 0),
        (-1, 0),
        (True, 0),
        (1.5, 0),
        ("7", 0),
        (None, 0),
    ],
)
def test_a_size_that_cannot_be_is_none(told, size):
    """M15: nothing is reserved for it, and the result is fetched all the same."""
    reply = FutureMetadataOnly(status="complete_metadata", response_payload_size=told)
    answer = _read(reply, "r")
    assert isinstance(answer, MetadataOnly)
    assert answer.size == size


def test_a_completion_that_comes_before_its_sample_is_remembered():
    """F8: told before anybody waited for it, it is not waited for; and only once."""

    async def scenario() -> None:
        completions = Completions(SimpleNamespace(), "S")  # type: ignore[arg-type]
        done: Any = SimpleNamespace(request_id="r1", response_payload_uncompressed_size=12)
        assert completions.tell([done, SimpleNamespace(request_id=None)]) is False
        assert await completions.wait("r1") == 12
        assert completions._early == {}

    asyncio.run(scenario())


def test_samples_are_polled_for_singly_when_the_poll_for_all_has_ended(monkeypatch):
    """F8: of a mistake of ours, or because nobody was left a moment before they came."""
    started: list[asyncio.Task[Any]] = []

    def spawn(coro: Any) -> asyncio.Task[Any]:
        started.append(asyncio.ensure_future(coro))
        return started[-1]

    async def fails(*_: object) -> None:
        await asyncio.sleep(0)
        raise KeyError("ours")

    async def hangs(*_: object) -> None:
        await asyncio.get_running_loop().create_future()

    async def scenario() -> None:
        connection = SimpleNamespace(send=fails)
        server: Any = SimpleNamespace(runtime=SimpleNamespace(spawn=spawn), connection=connection)
        completions = Completions(server, "S")
        assert await asyncio.gather(*map(completions.wait, ("r1", "r2"))) == [None, None]
        assert isinstance(started[0].exception(), KeyError)
        connection.send = hangs
        first = asyncio.ensure_future(completions.wait("r3"))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0)  # the poll is about to be cancelled
        late = completions.wait("r4")
        late.send(None)  # and somebody comes
        with pytest.raises(asyncio.CancelledError):
            await started[1]
        with pytest.raises(StopIteration):
            late.send(None)
        assert not completions.awaited

    monkeypatch.setattr(
        "tinker_ext.core.completions._BatchPoll", lambda *_: SimpleNamespace(make=None)
    )
    asyncio.run(scenario())


def test_a_forked_child_leaves_everything_of_the_parent_alone():
    """F19: what is in flight, the session, the samples and every training queue are told."""
    told: list[str] = []

    def part(name: str) -> Any:
        return SimpleNamespace(after_fork=lambda: told.append(name))

    workspace: Any = SimpleNamespace(
        server=SimpleNamespace(in_flight=part("in flight")),
        session=part("session"),
        samples=part("samples"),
        queues=[part("first"), part("second")],
        _ask_about_cancels=None,
        _calls={1},
        _to_cancel={"r"},
    )
    Workspace.after_fork(workspace)
    assert told == ["in flight", "session", "samples", "first", "second"]
    assert workspace._calls == workspace._to_cancel == set()
    assert workspace.journal is None


def test_notes_that_are_no_json_are_named():
    """M38: before anything is waited for."""
    with ServiceClient(base_url="embedded") as service:
        with pytest.raises(InvalidInputError, match=r"^notes cannot be written as JSON"):
            service.complete_step(0, {"a": object()})
        with pytest.raises(InvalidInputError, match=r"notes.*which JSON cannot carry"):
            service.complete_step(0, {"a": float("nan")})
