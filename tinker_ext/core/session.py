"""A session on a server: its id, made when first needed, and the owner of every counter."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Mapping
from typing import Any

import attrs
from tinker_api import operations as api

import tinker_ext._statuses as statuses
from tinker_ext.core.loop import Shared
from tinker_ext.core.server import SDK_VERSION, Server, prepare
from tinker_ext.errors import (
    APIError,
    APIStatusError,
    ClientClosedError,
    FeatureMissingError,
    GoneError,
    InvalidInputError,
    SessionEndedError,
    TinkerError,
)
from tinker_ext.telemetry import SessionStarted

log = logging.getLogger("tinker_ext")

FINISH_REASONS = ("success", "errored", "interrupted")
INTERRUPTED_SECONDS = 1.0
"""After Ctrl-C the server is given no more than this to take note of the end."""
MISSING_BEATS = 3
"""So many heartbeats without an endpoint, and none before them, mean that there is not one."""


@attrs.frozen
class SessionOptions:
    """What a new session is told about its user."""

    user_metadata: Mapping[str, Any] | None = None
    project_id: str | None = None
    display_name: str | None = None


class Session:
    """One session; everything here runs on the core loop, except the counters."""

    def __init__(
        self,
        server: Server,
        options: SessionOptions | None = None,
        *,
        session_id: str | None = None,
    ) -> None:
        self.server = server
        self._options = options or SessionOptions()
        self._given_id = session_id
        self._owned = session_id is None
        self._created: Shared[str] = Shared(self._create)
        self._heartbeat: asyncio.Task[Any] | None = None
        self._ended: TinkerError | None = None
        self._count_from(0)
        self.began: float | None = None
        """Loop time at which the session was opened."""

    @property
    def session_id(self) -> str | None:
        """The id; None before the session exists."""
        return self._created.peek() or self._given_id

    @property
    def project_id(self) -> str | None:
        """Project of the session, where one was given."""
        return self._options.project_id or self.server.config.project_id

    def _count_from(self, number: int) -> None:
        # `next` on a count is atomic, so any thread may take a number.
        self.next_model_seq_id = itertools.count(number).__next__
        self.next_sampling_session_seq_id = itertools.count(number).__next__
        """Also counts those that an ephemeral save makes."""
        self.next_custom_loss_seq_id = itertools.count(number).__next__

    def adopt(self, session_id: str, first_number: int) -> None:
        """Go on with a session that an earlier process made, and end it when this one ends.

        Below `first_number`, where the counters go on, are the numbers of earlier processes.

        Raises:
            InvalidInputError: There is a session already.
        """
        if self.session_id is not None:
            raise InvalidInputError(
                f"This client has session {self.session_id} already, so it cannot go on with "
                f"session {session_id}; resume with a new ServiceClient."
            )
        self._given_id, self._owned = session_id, True
        self._count_from(first_number)

    def after_fork(self) -> None:
        """Leave the session to the parent in a forked child, which opens its own when it needs one.

        A session that an earlier process made and this one only joined is still joined.
        """
        self._created = Shared(self._create)
        self._heartbeat = None
        if self._owned:
            self._given_id = None
            self._count_from(0)
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
        server = self.server
        await server.ready()
        session_id = self._given_id
        if session_id is None:
            session_id = await self._ask_for_one()
            server.observers.notice(SessionStarted(session_id))
        self.began = asyncio.get_running_loop().time()
        self._heartbeat = server.runtime.spawn(self._beat(session_id))
        return session_id

    async def _ask_for_one(self) -> str:
        options = self._options
        reply = await self.server.call(
            api.CREATE_SESSION,
            tags=list(self.server.config.tags),
            user_metadata=dict(options.user_metadata or {}),
            sdk_version=SDK_VERSION,
            project_id=self.project_id,
            display_name=options.display_name,
        )
        if not reply.session_id:
            raise TinkerError("The server opened a session without an id.")
        for level, text in (
            (logging.INFO, reply.info_message),
            (logging.WARNING, reply.warning_message),
            (logging.ERROR, reply.error_message),
        ):
            if text:
                log.log(level, "%s", text)
        return str(reply.session_id)

    async def finish(self, status: str, detail: str | None = None) -> None:
        """Tell the server why the session ends; servers without the endpoint are not told."""
        session_id = self._created.peek()
        if session_id is not None and self._owned:
            await self.report_end(session_id, status, detail)

    def leave(self) -> None:
        """Do not tell the server that the session ends: somebody will go on with it."""
        self._owned = False

    async def report_end(self, session_id: str, status: str, detail: str | None) -> None:
        """Tell the server why a session of this client, or of an earlier process, ends."""
        if self.server.lacks(api.FINISH_SESSION):
            return
        loop = asyncio.get_running_loop()
        seconds = self.server.config.close_timeout
        if status == "interrupted":  # somebody waits for this program to go away
            seconds = min(seconds, INTERRUPTED_SECONDS)
        try:
            said = {"session_id": session_id, "reason": {"type": status}, "detail": detail}
            # No reply is needed, and servers differ in what they send.
            await self.server.send(
                api.FINISH_SESSION,
                prepare(api.FINISH_SESSION, said),
                deadline=loop.time() + seconds,
            )
        except TinkerError as error:
            log.debug("The end of session %s could not be reported: %s", session_id, error)

    async def _beat(self, session_id: str) -> None:
        """Send heartbeats until the session is gone or the task is cancelled.

        A warning is logged per silent period. Only a server that never answered one is taken to
        have no heartbeats: a gateway's 404 passes, and the session would end with them.
        """
        loop = asyncio.get_running_loop()
        config = self.server.config
        last_success = last_warning = loop.time()
        answered, missing = False, 0
        while True:
            await asyncio.sleep(config.heartbeat_interval)
            try:
                await self.server.send(
                    api.SESSION_HEARTBEAT,
                    prepare(api.SESSION_HEARTBEAT, {"session_id": session_id}),
                    deadline=loop.time() + config.heartbeat_timeout,
                )
                last_success, answered, missing = loop.time(), True, 0
                continue
            except FeatureMissingError:
                missing += 1
            except GoneError:
                log.info("The server has ended session %s.", session_id)
                self._ended = SessionEndedError(f"The server has ended session {session_id}.")
                return
            except APIStatusError as error:
                missing += error.status_code in statuses.MISSING
                log.debug("A heartbeat of session %s failed: %s", session_id, error)
            except APIError as error:
                log.debug("A heartbeat of session %s failed: %s", session_id, error)
            if missing >= MISSING_BEATS and not answered:
                log.info("The server takes no heartbeats; session %s goes on without.", session_id)
                return
            now = loop.time()
            silent = now - last_success
            patience = config.heartbeat_warn_after
            if silent >= patience and now - last_warning >= patience:
                last_warning = now
                log.warning(
                    "The server has not answered a heartbeat of session %s for %.0f s; it may end "
                    "the session.",
                    session_id,
                    silent,
                )

    def close(self) -> None:
        """Stop the heartbeat; the session cannot be used any more."""
        self._ended = self._ended or ClientClosedError("This client is closed.")
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        self._created.forget(self._ended)
