"""A fleet: processes that share one limit, one back-off, one budget and one view of themselves.

`ServiceClient(fleet=…)` or TINKER_EXT_FLEET names a folder (one machine) or a `redis://` URL.
Members with the same server and credential form a fleet; nothing here is loaded without it.

=========== ======================================================================================
plan        how large the shared window is and who gets how much of it; pure decisions
store       what is kept, and which store an address means
sqlite      a folder
redis       a Redis or Valkey server
member      one client: leases permits in the background, hands them out at once
ledger      the budget of all
=========== ======================================================================================
"""

from __future__ import annotations

import asyncio
import os
import weakref
from typing import TYPE_CHECKING

from tinker_ext.fleet.member import Member, Samples
from tinker_ext.fleet.store import FleetRecord, open_store, without_password

if TYPE_CHECKING:
    from tinker_ext.core.workspace import Workspace

__all__ = ["FleetRecord", "Member", "attach", "open_store", "without_password"]


def attach(
    workspace: Workspace, address: str | os.PathLike[str], *, run: str | None, strict: bool
) -> Member:
    """Make a client a member of the fleet at an address; `run` is its name for people.

    Raises:
        ConfigurationError: The address is not one, or `strict` and the store cannot be used.
    """
    server = workspace.server
    mine = server.base_url, server.fingerprint
    member = Member(address, Samples(workspace), mine, run)
    member.join(strict=strict)
    workspace.watchers.ledger = member.ledger
    workspace.samples.share_limit(member)

    async def leave() -> None:
        await asyncio.get_running_loop().run_in_executor(None, member.leave)

    workspace.closers.append(leave)
    # For a client that is never closed, and one that was closed before it did anything.
    weakref.finalize(workspace, member.leave)
    return member
