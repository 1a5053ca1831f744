"""Batched completion: one long poll tells which samples of a sampling session are done."""

from __future__ import annotations

import asyncio
from typing import Any

from tinker_api import operations as api

import tinker_ext._statuses as statuses
from tinker_ext._transport.limits import HELD_SECONDS
from tinker_ext._transport.messages import Call, Reply, RetryRule
from tinker_ext._transport.retry import (
    ACCEPT,
    Accept,
    Attempts,
    Fail,
    Retry,
    Verdict,
    back_off,
)
from tinker_ext._wire.json_codec import dumps
from tinker_ext.core.polling import FIRST_PACE_SECONDS
from tinker_ext.core.server import Server, prepare
from tinker_ext.errors import APIResponseValidationError, TinkerError, error_for_status

LONGEST_PACE_SECONDS = 1.0
UNREADABLE_REPLIES = 3
"""After so many in a row the samples are asked for one by one."""
MOST_EARLY = 2_000
"""Completions that are remembered for samples whose acceptance was not read yet."""

_YEARS = 10 * 365 * 86400.0


class Completions:
    """The poller of one sampling session; it runs only while somebody waits."""

    def __init__(self, server: Server, sampling_session_id: str, clone_id: int = 0) -> None:
        self.server = server
        self._target = {
            "type": "sampling_session",
            "sampling_session_id": sampling_session_id,
            "cloned_sampler_id": clone_id,
        }
        self.cursor = 0
        self._waiting: dict[str, asyncio.Future[int | None]] = {}
        self._early: dict[str, int | None] = {}
        self._fetched: set[str] = set()
        self._task: asyncio.Task[Any] | None = None
        self._missing = False

    @property
    def awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    async def wait(self, request_id: str) -> int | None:
        """Return once a request is done, with the size of its result when that is known."""
        if self._missing:
            return None
        if request_id in self._early:
            return self._early.pop(request_id)
        done: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = done
        if self._task is None:
            self._task = self.server.runtime.spawn(self._poll())
        try:
            return await done
        except asyncio.CancelledError:
            self._waiting.pop(request_id, None)
            if not self._waiting and self._task is not None:
                self._task.cancel()  # nobody is left to be told
            raise

    def fetched(self, request_id: str) -> None:
        """Note that a result was read, so that the server may forget it."""
        if not self._missing:  # else nobody would ever be told
            self._fetched.add(request_id)

    async def _poll(self) -> None:
        try:
            while self._waiting and not self._missing:
                batch = _BatchPoll(self, sorted(self._fetched))
                await self.server.connection.send(batch, batch.make)
                self._fetched.difference_update(batch.told)
                if not isinstance(batch.verdict, Accept):
                    self._give_up(batch.refusal())
        finally:
            self._task = None
            self._release(None)  # somebody came, or the poll ended for good: let them ask singly

    def tell(self, completions: list[Any]) -> bool:
        """Wake the samples that are done; says whether anybody waited for one of them."""
        awaited = False
        for completion in completions:
            request_id = getattr(completion, "request_id", None)
            size = getattr(completion, "response_payload_uncompressed_size", None)
            if not isinstance(request_id, str):
                continue
            done = self._waiting.get(request_id)
            if done is None:
                self._early[request_id] = size
                if len(self._early) > MOST_EARLY:
                    del self._early[next(iter(self._early))]
            elif not done.done():
                done.set_result(size)
                del self._waiting[request_id]  # or the next poll would wait for nobody
                awaited = True
        return awaited

    def body(self, told: list[str]) -> bytes:
        """The body of the next poll."""
        return dumps(
            prepare(
                api.RETRIEVE_FUTURES,
                {
                    "target": self._target,
                    "prev_cursor": self.cursor,
                    "retrieved_request_ids": told,
                },
            ).body
        )

    def _give_up(self, error: TinkerError | None) -> None:
        """Poll singly from now on, or fail the samples when the credential is refused."""
        if error is None:
            self._missing = True
            self._fetched.clear()
            self._early.clear()
        self._release(error)

    def _release(self, error: TinkerError | None) -> None:
        for done in self._waiting.values():
            if done.done():
                continue
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)
        self._waiting.clear()


class _BatchPoll(Attempts):
    """One question about all samples, asked until one that somebody waits for is done."""

    def __init__(self, completions: Completions, told: list[str]) -> None:
        server = completions.server
        super().__init__(
            api.RETRIEVE_FUTURES.name,
            api.RETRIEVE_FUTURES.lane,
            RetryRule.POLL,
            asyncio.get_running_loop().time() + _YEARS,  # each sample has a deadline of its own
            server.poll_timing,
            server.rng,
        )
        self._completions = completions
        self._pace = FIRST_PACE_SECONDS
        self._unreadable = 0
        self.told = told

    def make(self) -> Call:
        """The next poll."""
        return Call(
            operation=self.operation,
            method="POST",
            path=api.RETRIEVE_FUTURES.path,
            content=self._completions.body(self.told),
            lane=self.lane,
            timeout=self._completions.server.config.poll_timeout,
            retry=RetryRule.POLL,
        )

    async def judge(self, reply: Reply | None, error: Exception | None) -> Verdict:
        """Decide what follows from one poll; nobody is left waiting for a refusal."""
        if not self._completions.awaited:
            return ACCEPT
        if reply is None or not (
            reply.status in statuses.ACCEPTED or reply.status == statuses.NOT_YET
        ):
            return self.by_table(reply, error)
        if reply.elapsed >= HELD_SECONDS:
            self._pace = FIRST_PACE_SECONDS
        else:
            self._pace = min(LONGEST_PACE_SECONDS, self._pace * 2.0)
        pause = Retry(self._pace * (0.5 + self.rng.random() / 2), "pending")
        if reply.status == statuses.NOT_YET:
            return pause
        try:
            answer = self._completions.server.read(api.RETRIEVE_FUTURES, reply)
        except APIResponseValidationError:
            self._unreadable += 1
            if self._unreadable >= UNREADABLE_REPLIES:
                return Fail("final")
            return back_off(self._unreadable, self.rng.random(), self.timing, unhealthy=False)
        self._unreadable = 0
        self._completions.cursor = answer.cursor
        # A server that tells nothing new would otherwise be asked as fast as it answers.
        return ACCEPT if self._completions.tell(list(answer.completions)) else pause

    def refusal(self) -> TinkerError | None:
        """The error for those who wait, when asking singly would be refused just as well."""
        reply = self.reply
        if reply is None or reply.status not in statuses.CREDENTIAL_REFUSED:
            return None
        refusal = error_for_status(reply.status, reply.content, reply.headers)
        return refusal.with_context(operation=self.operation, attempts=self.count)
