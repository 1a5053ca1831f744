"""Keeping a session alive: one small request every ten seconds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tinker_ext._wire.json_codec import dumps
from tinker_ext._wire.operations import operation
from tinker_ext.core.link import Link
from tinker_ext.errors import APIError, APIStatusError, FeatureMissingError

log = logging.getLogger("tinker_ext")

_OPERATION = operation("session_heartbeat")


async def beat(link: Link, session_id: str, on_gone: Callable[[], object]) -> None:
    """Send heartbeats until the session is gone or the task is cancelled.

    A warning is logged per silent period; 410 ends the session; a server without the endpoint
    is left in peace.

    Args:
        link: The server.
        session_id: The session.
        on_gone: Called once when the server says that the session has ended.
    """
    loop = asyncio.get_running_loop()
    config = link.config
    body = dumps({"session_id": session_id, "type": "session_heartbeat"})
    last_success = last_warning = loop.time()
    while True:
        await asyncio.sleep(config.heartbeat_interval)
        now = loop.time()
        try:
            await link.send(_OPERATION, body, deadline=now + config.heartbeat_timeout)
            last_success = loop.time()
            continue
        except FeatureMissingError:
            return
        except APIStatusError as error:
            if error.status_code == 410:
                log.info("The server has ended session %s.", session_id)
                on_gone()
                return
            if error.status_code in (404, 405, 501):
                log.debug("This server takes no heartbeats for session %s.", session_id)
                return
        except APIError as error:
            log.debug("A heartbeat of session %s failed: %s", session_id, error)
        silent = loop.time() - last_success
        since_warning = loop.time() - last_warning
        if silent >= config.heartbeat_warn_after and since_warning >= config.heartbeat_warn_after:
            last_warning = loop.time()
            log.warning(
                "The server has not answered a heartbeat of session %s for %.0f s; it may end the "
                "session.",
                session_id,
                silent,
            )
