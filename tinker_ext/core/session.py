"""A session on a server: its id, made when first needed, and the owner of every counter."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Mapping
from typing import Any

import attrs

from tinker_ext._transport.observe import SessionStarted
from tinker_ext._wire.json_codec import dumps
from tinker_ext._wire.operations import operation
from tinker_ext.core.heartbeat import beat
from tinker_ext.core.link import SDK_VERSION, Link
from tinker_ext.core.once import Shared
from tinker_ext.errors import (
    ClientClosedError,
    InvalidInputError,
    SessionEndedError,
    TinkerError,
)

log = logging.getLogger("tinker_ext")

FINISH_REASONS = ("success", "errored", "interrupted")
INTERRUPTED_SECONDS = 1.0
"""After Ctrl-C a server that does not answer is told in vain for no longer than this."""


@attrs.frozen
class SessionOptions:
    """What a new session is told about its user."""

    user_metadata: Mapping[str, Any] | None = None
    project_id: str | None = None
    display_name: str | None = None


class Session:
    """One session; everything here runs on the core loop, except the counters.

    Args:
        link: The server.
        options: What to tell it.
        session_id: Id of an existing session to join, for an unpickled sampling client.
        keep_alive: Whether to send heartbeats.
    """

    def __init__(
        self,
        link: Link,
        options: SessionOptions | None = None,
        *,
        session_id: str | None = None,
        keep_alive: bool = True,
    ) -> None:
        self.link = link
        self._options = options or SessionOptions()
        self._given_id = session_id
        self._owned = session_id is None
        self._keep_alive = keep_alive
        self._created: Shared[str] = Shared(self._create)
        self._heartbeat: asyncio.Task[Any] | None = None
        self._ended: TinkerError | None = None
        self._dynamic: dict[str, Any] = {}
        # `next` on these is atomic, so any thread may take a number.
        self._model_seq = itertools.count()
        self._sampling_seq = itertools.count()
        self._custom_loss_seq = itertools.count()
        self.began: float | None = None
        """Loop time at which the session was opened."""
        self.messages: list[tuple[str, str]] = []
        """Messages of the server at creation, as (level, text)."""

    @property
    def session_id(self) -> str | None:
        """The id; None before the session exists."""
        return self._created.peek() or self._given_id

    def next_model_seq_id(self) -> int:
        """Number of the next model of this session."""
        return next(self._model_seq)

    def next_sampling_session_seq_id(self) -> int:
        """Number of the next sampling session, named or made by an ephemeral save."""
        return next(self._sampling_seq)

    def next_custom_loss_seq_id(self) -> int:
        """Number of the next custom loss."""
        return next(self._custom_loss_seq)

    def adopt(self, session_id: str, first_number: int) -> None:
        """Go on with a session that an earlier process made, and end it when this one ends.

        Args:
            session_id: The session.
            first_number: Where the counters go on; below it are the numbers of earlier processes.

        Raises:
            InvalidInputError: There is a session already.
        """
        if self.session_id is not None:
            raise InvalidInputError(
                f"This client has session {self.session_id} already, so it cannot go on with "
                f"session {session_id}; resume with a new ServiceClient."
            )
        self._given_id, self._owned = session_id, True
        self._model_seq = itertools.count(first_number)
        self._sampling_seq = itertools.count(first_number)
        self._custom_loss_seq = itertools.count(first_number)

    def after_fork(self) -> None:
        """Leave the session to the parent in a forked child, which opens its own when it needs one.

        A session that an earlier process made and this one only joined is still joined.
        """
        self._created = Shared(self._create)
        self._heartbeat = None
        if self._owned:
            self._given_id = None
            self._model_seq, self._sampling_seq = itertools.count(), itertools.count()
            self._custom_loss_seq = itertools.count()
        if not isinstance(self._ended, ClientClosedError):
            self._ended = None

    async def ensure(self) -> str:
        """The session id; creates the session the first time.

        Raises:
            SessionEndedError: The server has ended the session.
            ClientClosedError: The client was closed.
        """
        if self._ended is not None:
            raise self._ended
        return await self._created.get()

    async def _create(self) -> str:
        link = self.link
        await link.ready()
        if self._given_id is not None:
            session_id = self._given_id
        else:
            session_id = await self._ask_for_one()
            link.observers.notice(SessionStarted(session_id))
        self.began = asyncio.get_running_loop().time()
        if self._keep_alive:
            self._heartbeat = link.runtime.spawn(beat(link, session_id, self._gone))
        return session_id

    async def _ask_for_one(self) -> str:
        options = self._options
        body: dict[str, Any] = {
            "tags": list(self.link.config.tags),
            "user_metadata": dict(options.user_metadata or {}),
            "sdk_version": SDK_VERSION,
            "type": "create_session",
        }
        project_id = options.project_id or self.link.config.project_id
        if project_id is not None:
            body["project_id"] = project_id
        if options.display_name is not None:
            body["display_name"] = options.display_name
        reply = await self.link.ask("create_session", body)
        for level, text in (
            (logging.INFO, reply.info_message),
            (logging.WARNING, reply.warning_message),
            (logging.ERROR, reply.error_message),
        ):
            if text:
                log.log(level, "%s", text)
                self.messages.append((logging.getLevelName(level), str(text)))
        return str(reply.session_id)

    def _gone(self) -> None:
        self._ended = SessionEndedError(f"The server has ended session {self.session_id}.")

    async def finish(self, status: str, detail: str | None = None) -> None:
        """Tell the server why the session ends; servers without the endpoint are not told."""
        session_id = self._created.peek()
        if session_id is None or not self._owned:
            return
        await self.report_end(session_id, status, detail)

    def leave(self) -> None:
        """Do not tell the server that the session ends: somebody will go on with it."""
        self._owned = False

    async def report_end(self, session_id: str, status: str, detail: str | None) -> None:
        """Tell the server why a session of this client, or of an earlier process, ends."""
        if self.link.lacks("finish_session"):
            return
        op = operation("finish_session")
        loop = asyncio.get_running_loop()
        seconds = self.link.config.close_timeout
        if status == "interrupted":  # somebody waits for this program to go away
            seconds = min(seconds, INTERRUPTED_SECONDS)
        try:
            await self.link.send(
                op,
                dumps({"reason": {"type": status}, "detail": detail}),
                path=op.url_path(session_id=session_id),
                deadline=loop.time() + seconds,
            )
        except TinkerError as error:
            log.debug("The end of session %s could not be reported: %s", session_id, error)

    def close(self) -> None:
        """Stop the heartbeat; the session cannot be used any more."""
        self._ended = self._ended or ClientClosedError("This client is closed.")
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        self._created.forget(self._ended)
