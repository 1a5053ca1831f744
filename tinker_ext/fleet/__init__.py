"""A fleet: processes that share one limit, one back-off, one budget and one view of themselves.

`ServiceClient(fleet=…)` or TINKER_EXT_FLEET names a folder (one machine) or a `redis://` URL.
Members with the same server and credential form a fleet; nothing here is loaded without it. A
`member` (one client, with its `ledger`) reports to the `store`, which takes each report as one step
of the shared `state`; `plan` decides who gets how much.
"""

from __future__ import annotations

import asyncio
import os
import sys
import weakref
from typing import TYPE_CHECKING

from tinker_ext.fleet.member import Member
from tinker_ext.fleet.state import Fleet
from tinker_ext.fleet.store import open_store, without_password

if TYPE_CHECKING:
    from tinker_ext.core.workspace import Workspace

__all__ = ["Fleet", "Member", "attach", "open_store", "without_password"]


def attach(workspace: Workspace, address: str, *, run: str | None, strict: bool) -> Member:
    """Make a client a member of the fleet at an address; `run` is its name for people.

    Raises:
        ConfigurationError: The address is not one, or `strict` and the store cannot be used.
    """
    server, pool = workspace.server, weakref.ref(workspace.samples)
    run = (run or os.path.basename(sys.argv[0]) or "python").encode(errors="replace").decode()
    member = Member(address, pool, (server.base_url, server.fingerprint), run)
    member.join(strict=strict)
    workspace.watchers.ledger = member.ledger
    workspace.samples.share_limit(member)

    async def leave() -> None:
        await asyncio.get_running_loop().run_in_executor(None, member.leave)

    workspace.closers.append(leave)
    # For a client that is never closed.
    weakref.finalize(workspace, member.leave)
    return member
