"""Getting one numbered request to the server: sent until it is answered, refused or lost.

Every attempt carries the same number. What it costs to be wrong decides how an answer is read:

* 409: a proxy's passing mood or the server's memory. Where repeats are harmless it is sent a few
  times more; a server that goes on saying 409 has the number.
* 500 to the first protobuf body: perhaps the server knows no protobuf. The other wire is tried
  where repeats are recognised, and taken back if the server has the number already.
* no answer, with later numbers waiting behind this one: sent until it gets through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tinker_ext._reply_parts import ReplyParts
from tinker_ext._transport import Call, Lane, Reply, RetryRule
from tinker_ext._wire.dialects import Wire
from tinker_ext._wire.operations import operation
from tinker_ext.core.link import Link
from tinker_ext.core.posts import Post, is_lost, is_transient
from tinker_ext.errors import (
    APIConnectionError,
    APIResponseValidationError,
    APIStatusError,
    ConflictError,
)

CONFLICTS: Final = 4
"""So many 409 to one number mean that the server has it."""
UNREADABLE: Final = 3
"""So many acceptances that cannot be read are one too many."""
FIRST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 10.0

_REFUSALS: Final = frozenset({400, 415, 422, 501})
_DOUBTFUL: Final = 500
"""Servers that parse every body as JSON answer so to protobuf; so do servers that break."""


class Delivery:
    """Sends the posts of one training client.

    Args:
        link: The server.
        awaited: Whether others wait at the server behind a post.
    """

    def __init__(self, link: Link, awaited: Callable[[Post], bool]) -> None:
        self._link = link
        self._awaited = awaited
        # Not the model id: text of a server never becomes a header.
        self._run_key = f"tinker-ext-{link.rng.getrandbits(64):016x}"

    @property
    def resends(self) -> bool:
        """Whether the server recognises a repeated number."""
        dialect = self._link.dialect
        return dialect is not None and dialect.resends

    async def deliver(self, post: Post) -> tuple[str, Reply]:
        """Send a post until the server has taken it.

        Returns:
            The id of its future, and the reply that brought it.

        Raises:
            ConflictError: The server has the number already.
            APIResponseValidationError: The server took it and cannot say so.
            APIError: Refused, or lost; `is_lost` tells which.
        """
        conflicts = unreadable = rounds = 0
        while True:
            try:
                reply = await self._send(post)
                return self._read(post, reply), reply
            except ConflictError:
                if not self.resends:
                    raise
                if not self._take_wire_back(post):
                    conflicts += 1
                    if conflicts >= CONFLICTS:
                        raise
                    await self._pause(conflicts)
            except APIResponseValidationError:
                unreadable += 1
                if not self.resends or unreadable >= UNREADABLE:
                    raise
            except (APIConnectionError, APIStatusError) as error:
                post.reached = post.reached or is_lost(error)
                if getattr(error, "status_code", None) in _REFUSALS and self._take_wire_back(post):
                    continue
                # Later posts wait at the server for this number, so giving up would hold
                # them all; each has its own deadline.
                if not (self.resends and is_transient(error) and self._awaited(post)):
                    raise
                rounds += 1
                await self._pause(rounds)

    async def _pause(self, count: int) -> None:
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**count)
        await asyncio.sleep(longest * self._link.rng.random())

    def _read(self, post: Post, reply: Reply) -> str:
        request_id = self._link.decode("UntypedAPIFuture", reply).request_id
        if not isinstance(request_id, str) or not request_id:
            raise APIResponseValidationError(
                ReplyParts.of(reply.status, reply.headers, reply.content[:2000], None),
                None,
                f"The server accepted {post.payload and post.payload.operation} without a "
                f"request_id it can be asked for.",
            )
        return request_id

    async def _send(self, post: Post) -> Reply:
        link = self._link
        payload = post.payload
        if payload is None:
            payload = post.payload = post.make(self._wire())
        content = await link.runtime.offload(payload.work, payload.content, post.seq_id)
        op = operation(payload.operation)
        call = Call(
            operation=post.ticket.entry.operation if post.ticket is not None else op.name,
            method="POST",
            path=op.url_path(),
            content=content,
            headers=payload.headers,
            lane=Lane.TRAIN,
            timeout=link.seconds(op),
            retry=RetryRule.FINAL409 if self.resends else RetryRule.UNSAFE,
            idempotency_key=f"{self._run_key}-{post.seq_id}",
            owner=None if post.ticket is None else post.ticket.entry,
        )
        if post.ticket is not None:
            post.ticket.entry.attempt += 1
        if not link.wire_confirmed and payload.wire is not None:
            reply = await self._first_body(post, call)
            return await self._send(post) if reply is None else reply
        return await self._exchange(call)

    async def _exchange(self, call: Call) -> Reply:
        window = self._link.config.retry_window
        return await self._link.connection.exchange(
            call, deadline=asyncio.get_running_loop().time() + window
        )

    async def _first_body(self, post: Post, call: Call) -> Reply | None:
        """The first training body on a server; None when the other wire is to be used."""
        if self.resends:
            try:
                reply = await self._link.connection.once(call)
            except APIConnectionError as error:
                post.reached = post.reached or is_lost(error)
                return await self._exchange(call)
            if 200 <= reply.status < 300:
                return reply
            post.reached = post.reached or reply.status >= 500 or reply.status == 408
            return None if self._switch_wire(post, reply.status) else await self._exchange(call)
        try:
            return await self._exchange(call)
        except APIStatusError as error:
            if error.status_code != _DOUBTFUL and self._switch_wire(post, error.status_code):
                return None
            raise

    def _wire(self) -> Wire:
        dialect = self._link.dialect
        assert dialect is not None
        return dialect.wire

    def _switch_wire(self, post: Post, status: int) -> bool:
        """Change to the other wire if the status may mean that this one is not understood."""
        dialect, payload = self._link.dialect, post.payload
        assert dialect is not None
        assert payload is not None
        wire = payload.wire
        refused = status in (_REFUSALS | {_DOUBTFUL}) if wire is Wire.PROTO else status == 415
        if not refused or wire is None or dialect.chosen_by not in ("probe",):
            return False
        if status == _DOUBTFUL:
            post.doubted = payload
        self._link.refuse_wire(wire)
        post.payload = post.make(self._wire())
        return True

    def _take_wire_back(self, post: Post) -> bool:
        """Return to the wire that was left in doubt: the server refuses the other one, too."""
        payload, post.doubted = post.doubted, None
        if payload is None or payload.wire is None:
            return False
        self._link.readmit_wire(payload.wire)
        post.payload = payload
        return True
