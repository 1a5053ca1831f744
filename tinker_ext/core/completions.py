"""Batched completion: one long poll tells which samples of a sampling session are done."""

from __future__ import annotations

import asyncio
from typing import Any

from tinker_ext._wire.json_codec import dumps
from tinker_ext._wire.operations import operation
from tinker_ext.core.link import Link
from tinker_ext.errors import APIError, APIStatusError, FeatureMissingError, TinkerError

_OPERATION = operation("retrieve_futures")
RETRY_SECONDS = 1.0
"""Pause after a failed poll; the official poller uses the same."""


class Completions:
    """The poller of one sampling session; it runs only while somebody waits.

    Args:
        link: The server.
        sampling_session_id: Whose samples.
        clone_id: Number of this copy of the sampling client, 0 for the original.
    """

    def __init__(self, link: Link, sampling_session_id: str, clone_id: int = 0) -> None:
        self._link = link
        self._target = {
            "type": "sampling_session",
            "sampling_session_id": sampling_session_id,
            "cloned_sampler_id": clone_id,
        }
        self._cursor = 0
        self._waiting: dict[str, asyncio.Future[int | None]] = {}
        self._early: dict[str, int | None] = {}
        self._fetched: set[str] = set()
        self._task: asyncio.Task[Any] | None = None
        self._missing = False

    async def wait(self, request_id: str) -> int | None:
        """Return once a request is done, with the size of its result when that is known."""
        if self._missing:
            return None
        if request_id in self._early:
            return self._early.pop(request_id)
        done: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = done
        if self._task is None:
            self._task = self._link.runtime.spawn(self._poll())
        try:
            return await done
        finally:
            self._waiting.pop(request_id, None)

    def fetched(self, request_id: str) -> None:
        """Note that a result was read, so that the server may forget it."""
        if not self._missing:  # else nobody would ever be told
            self._fetched.add(request_id)

    async def _poll(self) -> None:
        try:
            while self._waiting:
                await self._poll_once()
        finally:
            self._task = None
            if self._waiting:  # somebody came, or the poll ended for good: let them ask singly
                for done in self._waiting.values():
                    if not done.done():
                        done.set_result(None)

    async def _poll_once(self) -> None:
        told = sorted(self._fetched)
        body = {
            "target": self._target,
            "prev_cursor": self._cursor,
            "retrieved_request_ids": told,
        }
        loop = asyncio.get_running_loop()
        try:
            reply = await self._link.send(
                _OPERATION, dumps(body), deadline=loop.time() + self._link.config.poll_timeout
            )
            answer = self._link.decode("FuturesRetrieveResponse", reply)
        except FeatureMissingError:
            self._give_up()
            return
        except APIStatusError as error:
            if error.status_code in (400, 404, 405, 422, 501):
                self._give_up()
            elif error.status_code != 408:
                await asyncio.sleep(RETRY_SECONDS)
            return
        except APIError:
            await asyncio.sleep(RETRY_SECONDS)
            return
        except TinkerError:
            self._give_up()
            return
        self._fetched.difference_update(told)
        self._cursor = answer.cursor
        for completion in answer.completions:
            request_id = getattr(completion, "request_id", None)
            size = getattr(completion, "response_payload_uncompressed_size", None)
            if not isinstance(request_id, str):
                continue
            done = self._waiting.get(request_id)
            if done is None:
                self._early[request_id] = size
            elif not done.done():
                done.set_result(size)
        if not answer.completions and reply.elapsed < RETRY_SECONDS / 2:
            await asyncio.sleep(RETRY_SECONDS / 20)

    def _give_up(self) -> None:
        self._missing = True
        self._fetched.clear()
        self._early.clear()
        for done in self._waiting.values():
            if not done.done():
                done.set_result(None)
        self._waiting.clear()
