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
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from tinker_ext.fleet.ledger import SharedLedger
from tinker_ext.fleet.member import Member
from tinker_ext.fleet.store import FleetRecord, open_store, without_password
from tinker_ext.observe.ledger import Ledger
from tinker_ext.observe.prices import Prices

if TYPE_CHECKING:
    from tinker_ext.core.workspace import Workspace

__all__ = ["FleetRecord", "Member", "attach", "open_store", "share_ledger", "without_password"]


def attach(
    workspace: Workspace, address: str | os.PathLike[str], *, run: str | None, strict: bool
) -> Member:
    """Make a client a member of the fleet at an address.

    Args:
        workspace: The client.
        address: Folder or URL.
        run: Name of its run, for people.
        strict: Raise when the store cannot be used; otherwise try on in the background.

    Raises:
        ConfigurationError: The address is not one, or `strict` and the store cannot be used.
    """
    link = workspace.server
    member = Member(
        address,
        _Samples(workspace),
        base_url=link.base_url,
        fingerprint=link.fingerprint,
        run=run,
    )
    found = member.join(strict=strict)
    prices = found.prices if found is not None else None
    member.ledger = workspace.watchers.ledger = SharedLedger(
        member, None if prices is None else Prices(**prices)
    )
    workspace.samples.share_limit(member)

    async def leave() -> None:
        await asyncio.get_running_loop().run_in_executor(None, member.leave)

    workspace.closers.append(leave)
    # For a client that is never closed, and one that was closed before it did anything.
    weakref.finalize(workspace, member.leave)
    return member


def share_ledger(member: Member, ledger: Ledger) -> SharedLedger:
    """Add the budget and the prices of a client to those of its fleet.

    Args:
        member: The client's place in it.
        ledger: What the client was given.

    Returns:
        The ledger to use instead.
    """
    limits = attrs.asdict(ledger.budget, filter=lambda _, value: value is not None)
    prices: Mapping[str, Any] | None = None
    if ledger.prices is not None:
        prices = {
            "models": {name: dict(row) for name, row in ledger.prices.models.items()},
            "currency": ledger.prices.currency,
        }
    shared = SharedLedger(member, ledger.prices)
    member.share(shared, limits, prices)
    return shared


class _Samples:
    """The samples of a workspace, as its member sees them; does not keep the workspace alive."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = weakref.ref(workspace)

    def counts(self) -> tuple[int, int, int]:
        """Samples in flight, samples queued, and the most that may be in flight."""
        workspace = self._workspace()
        if workspace is None:
            return 0, 0, 0
        samples, link = workspace.samples, workspace.server
        most = link.config.sample_concurrency
        if link.dialect is not None:
            most = min(most, link.dialect.config.sample_max_concurrent_requests)
        return samples.in_flight, samples.queued, most

    def held(self) -> int:
        """Samples in flight that the server has accepted."""
        workspace = self._workspace()
        return 0 if workspace is None else workspace.samples.accepted

    def changed(self) -> None:
        """There are more permits: start what waits."""
        workspace = self._workspace()
        if workspace is not None and not workspace.closed:
            workspace.runtime.call(workspace.samples.limit_changed)

    def pause(self, seconds: float) -> None:
        """Send nothing for this long."""
        workspace = self._workspace()
        if workspace is None or workspace.closed or not any(self.counts()[:2]):
            return
        connection = workspace.server.connection
        workspace.runtime.call(lambda: connection.backoff.pause(seconds))
