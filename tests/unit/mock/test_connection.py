"""Faults on lines whose callers have gone."""

from __future__ import annotations

import asyncio
import socket

from tinker_ext.mock.connection import TRANSPORT, Connection


class Gone:
    """The transport of a line that the caller has closed."""

    def __init__(self) -> None:
        self.aborted = False

    def get_extra_info(self, _: str) -> socket.socket:
        line = socket.socket()
        line.close()
        return line

    def abort(self) -> None:
        self.aborted = True


def test_a_line_that_has_gone_is_reset_without_an_error():
    """M40: the server writes no traceback about a caller that gave up first."""
    transport, logged = Gone(), []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(_):
        raise AssertionError("nothing is sent")

    scope = {"extensions": {TRANSPORT: transport}}
    line = Connection(scope, receive, send, lambda: logged.append(True))
    asyncio.run(line.reset())
    assert transport.aborted
    assert line.cut
    assert logged == [True]
