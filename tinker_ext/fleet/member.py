"""`Member`: one client of a fleet; leases permits in the background and hands them out at once.

A thread reports to the store a few times a second and renews the lease. The sampler reads a number
that the thread has left, so neither a request nor its result ever waits for the store.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import socket
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from tinker_ext import forks
from tinker_ext._version import __version__
from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet.plan import (
    FIRST_WINDOW,
    Row,
    Window,
    lease_seconds,
    plan,
    plan_seconds,
    sync_seconds,
)
from tinker_ext.fleet.store import (
    Amounts,
    FleetRecord,
    Grant,
    Report,
    Store,
    StoreUnreachableError,
    check_versions,
    group_name,
    open_store,
)

if TYPE_CHECKING:
    from tinker_ext._transport import SharedBackoff
    from tinker_ext.fleet.ledger import SharedLedger

log = logging.getLogger("tinker_ext")

WARN_SECONDS = 60.0
QUICK_SECONDS = 0.1
IDLE_SECONDS = 1.0
LEAVE_SECONDS = 3.0
GRACE_SECONDS = 2.0
"""After a pause: a refused request that has not come back by then was given up."""
CAUTION = 0.75
"""Part of an equal share that is used while the store is away: members may have come meanwhile."""

_numbers = itertools.count(1)
_inherited: list[Store] = []


class Work(Protocol):
    """What a member needs to know about, and do to, the samples of its client; from any thread."""

    def counts(self) -> tuple[int, int, int]:
        """Samples in flight, samples queued, and the most that may be in flight."""

    def held(self) -> int:
        """Samples in flight that the server has accepted."""

    def changed(self) -> None:
        """There are more permits: start what waits."""

    def pause(self, seconds: float) -> None:
        """Send nothing for this long."""


class Member:
    """One client of a fleet, in the place of the sampler's own adaptive limit.

    Args:
        address: Where the fleet lives: a folder, or a URL of Redis.
        work: Its samples.
        base_url: The server.
        fingerprint: One-way mark of the credential.
        run: Name of the run, for people.

    Raises:
        ConfigurationError: The address is not one.
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        work: Work,
        *,
        base_url: str,
        fingerprint: str,
        run: str | None = None,
    ) -> None:
        self._address = address
        self.store = open_store(address)
        self.group = ""
        self.ledger: SharedLedger | None = None
        self._work = work
        self._base_url = base_url
        self._fingerprint = fingerprint
        self._run = run or os.path.basename(sys.argv[0]) or "python"
        self._limits: Amounts = {}
        self._prices: Mapping[str, Any] | None = None
        self._begin()
        forks.register(self)

    def _begin(self) -> None:
        """Set what belongs to one process and one life in the store."""
        self.id = f"{socket.gethostname()}:{os.getpid()}/{next(_numbers)}"
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._born = time.monotonic()
        self._grant: Grant | None = None
        self._granted = self._learned = self._pause_until = 0.0
        self._cap = self._accepted = self._refused = self._level = 0
        self._paused = self._held_back = 0
        self._refusal = self._down = self._ended = self._asleep = False
        self._relaxed = True
        self._care = 1.0
        self._warned = float("-inf")
        self._rate = (0, self._born, 0.0)
        self._waiting = ("idle", self._born)

    # -- the life of a member --------------------------------------------------------------

    def join(self, *, strict: bool = True) -> FleetRecord | None:
        """Enter the fleet and start reporting.

        Args:
            strict: Raise when the store cannot be used; otherwise try on in the background.

        Returns:
            The fleet as it was found.

        Raises:
            ConfigurationError: `strict`, and the store cannot be used.
        """
        found = None
        try:
            self.sync()
            found = self.store.look(self.group)
        except (ConfigurationError, StoreUnreachableError) as error:
            if strict:
                raise ConfigurationError(str(error)) from None
            self._failed(error)
        self._start()
        return found

    def share(
        self, ledger: SharedLedger, limits: Amounts, prices: Mapping[str, Any] | None
    ) -> None:
        """Add a budget and prices to those of the fleet, and count by this ledger from now on."""
        self.ledger, self._limits, self._prices = ledger, limits, prices
        try:
            self.store.enter(self.group, self._base_url, limits, prices)
            self.sync()
        except StoreUnreachableError as error:
            self._failed(error)

    def leave(self) -> None:
        """Give the lease back and stop; safe to call twice."""
        # A finalizer may come while this very thread reports: then the lease ends by itself.
        if not self._ended and self._lock.acquire(timeout=LEAVE_SECONDS):
            self._ended = True
            try:
                if not self.is_cut_off:
                    self._synchronise()
                    self.store.leave(self.group, self.id)
            except (StoreUnreachableError, ConfigurationError):
                log.debug("the store was away when %s left", self.id)
            finally:
                self.store.close()
                self._lock.release()
        self._ended = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(1.0)

    def after_fork(self) -> None:
        """Forget the parent's life: a child is a member of its own, once it samples."""
        # Not closed: connection and lock belong to a thread of the parent.
        _inherited.append(self.store)
        self.store, ended = open_store(self._address), self._ended
        self._begin()
        self._ended, self._asleep = ended, not ended

    @property
    def is_cut_off(self) -> bool:
        """Whether the store did not answer when it was last asked."""
        return self._down or self._grant is None

    def _start(self) -> None:
        arguments = (weakref.ref(self), self._wake)
        self._thread = threading.Thread(
            target=_keep_reporting, args=arguments, name="tinker-ext-fleet", daemon=True
        )
        self._thread.start()

    # -- what the sampler asks; on its loop, without waiting ----------------------------------

    @property
    def value(self) -> int:
        """Permits at hand."""
        if self._asleep:
            self._asleep = False
            self._start()
        return self._cap

    def accepted(self, *, in_flight: int) -> None:
        """Note that the server took a request while `in_flight` were under way."""
        self._accepted += 1
        if self._relaxed and in_flight >= self._cap:
            self._relaxed = False
            self._wake.set()

    def refused(self, *, started: float, pause: float = 0.0, full: bool = True) -> None:
        """Note a refusal of a request sent at loop time `started`.

        Args:
            started: When it was sent.
            pause: Seconds for which nobody is to send.
            full: Whether it means that the server had too much, and not, for example, no credit.
        """
        self._refused += 1
        now = time.monotonic()
        if full and started > self._learned and not self._refusal:
            self._level = self._work.held()
            self._refusal = True
            self._wake.set()
            if self._down:
                self._care *= 2 / 3
        if now >= self._pause_until:
            self._paused = 0  # of an earlier pause: given up since
            self._wake.set()
        self._paused += 1
        self._pause_until = max(self._pause_until, now + pause)

    async def after_refusal(self, backoff: SharedBackoff) -> None:
        """Wait until a refused request may be sent again: after the pause, with a permit."""
        self._paused = max(0, self._paused - 1)
        self._held_back += 1
        try:
            await backoff.wait()
            while self._active(self._work.counts()[0]) >= self._cap:
                await asyncio.sleep(0.02 + 0.03 * random.random())
                await backoff.wait()
        finally:
            self._held_back -= 1

    def _active(self, in_flight: int) -> int:
        """Requests sent or being sent: those in flight, without refused ones that wait."""
        paused = self._paused if time.monotonic() < self._pause_until + GRACE_SECONDS else 0
        return max(0, in_flight - self._held_back - paused)

    # -- reporting; on the thread ----------------------------------------------------------

    def sync(self) -> None:
        """Report, take what is granted, and plan for everybody when it is this member's turn.

        Raises:
            StoreUnreachableError: The store does not answer.
            ConfigurationError: The store cannot be used.
        """
        with self._lock:
            if not self._ended:
                self._synchronise()

    def _synchronise(self) -> None:
        if not self.group:
            group = group_name(self.store.open(), self._base_url, self._fingerprint)
            check_versions(self.store.look(group), self.store.place)
            self.store.enter(group, self._base_url, self._limits, self._prices)
            self.group = group
        report, version = self._report(), self.ledger.version if self.ledger else 0
        try:
            got = self.store.sync(self.group, report)
        except StoreUnreachableError:
            self._refusal |= report.refused
            raise
        if not got.known and self._grant is not None:
            self.store.enter(self.group, self._base_url, self._limits, self._prices)
            got = self.store.sync(self.group, report)
        if self.ledger is not None:
            self.ledger.balance(got, version)
        if got.serial:
            self._plan(got.serial)
        now = time.monotonic()
        if self._grant is None or got.round != self._grant.round:
            self._learned = now
        if self._down:
            log.info("The store of the fleet answers again; %d members.", got.members)
        self._grant, self._granted, self._down, self._care = got, now, False, 1.0
        self._set(got.cap)
        if got.pause > 0.01:
            self._work.pause(got.pause)

    def _report(self) -> Report:
        now, grant = time.monotonic(), self._grant
        in_flight, queued, most = self._work.counts()
        active, demand = self._active(in_flight), min(in_flight + queued, most)
        self._relaxed = demand < self._cap
        if self._pause_until > now or (grant is not None and grant.pause > 0.05):
            waiting = "pause"
        elif demand > self._cap:
            waiting = "permits"
        else:
            waiting = "server" if in_flight else "idle"
        if waiting != self._waiting[0]:
            self._waiting = (waiting, now)
        count, since, rate = self._rate
        if now - since >= 2.0:
            rate = (self._accepted - count) / (now - since)
            self._rate = (self._accepted, now, rate)
        refusal, self._refusal = self._refusal, False
        members = grant.members if grant is not None else 1
        shared = {"active": active, "round": grant.round if grant is not None else 0}
        return Report(
            id=self.id,
            claim=self._cap,
            joining=grant is None,
            ttl=lease_seconds(members),
            pause=max(0.0, self._pause_until - now),
            refused=refusal,
            window=grant.window if grant is not None else FIRST_WINDOW,
            every=plan_seconds(members),
            facts={
                **shared,
                "host": socket.gethostname(),
                "process": os.getpid(),
                "run": self._run,
                "version": __version__,
                "in_flight": in_flight,
                "held": self._work.held(),
                "queued": queued,
                "demand": demand,
                "most": most,
                "cap": self._cap,
                "refusal": refusal,
                "level": self._level,
                "waiting": waiting,
                "waiting_seconds": round(now - self._waiting[1], 3),
                "accepted": self._accepted,
                "refused": self._refused,
                "rate": round(rate, 3),
                "uptime": round(now - self._born, 3),
            },
            **shared,
        )

    def _plan(self, serial: int) -> None:
        record = self.store.look(self.group, sweep=True)
        if record is None:
            return
        # Of what a store has lost, the members know the size only; it was not refused.
        phase = "grow" if self._grant is None else "hold"
        window = Window(**(record.window or {"size": record.size, "phase": phase}))
        rows = [
            Row(
                id=member.id,
                active=member.facts["active"],
                demand=member.facts["demand"],
                held=member.facts["held"],
                refused=member.facts["refusal"] and member.facts["round"] == window.round,
                level=member.facts["level"],
                cap=member.facts["cap"],
                target=member.target,
                accepted=member.facts["accepted"],
            )
            for member in record.members
        ]
        most = sum(member.facts["most"] for member in record.members)
        targets = plan(window, rows, record.now, record.pause, max(1, most))
        changed = {row.id: targets[row.id] for row in rows if targets[row.id] != row.target}
        self.store.settle(self.group, serial, attrs.asdict(window), changed)

    def _failed(self, error: Exception) -> None:
        """Go on without the store: with the last lease, then with a careful share."""
        now, grant, self._down = time.monotonic(), self._grant, True
        if grant is None:
            self._set(1)
        elif now - self._granted > lease_seconds(grant.members):
            share = CAUTION * self._care * grant.window / grant.members
            # Less than one permit each: all of them now and then instead of some of them always.
            self._set(int(share) if share >= 1 else int(random.random() < share))
        if now - self._warned >= WARN_SECONDS:
            self._warned = now
            log.warning(
                "The store of the fleet does not answer (%s); going on with %d permits until it "
                "does.",
                error,
                self._cap,
            )

    def _set(self, cap: int) -> None:
        before, self._cap = self._cap, cap
        if cap > before and self._work.counts()[1]:
            self._work.changed()

    def _next(self) -> float:
        """Seconds until the next report."""
        grant = self._grant
        in_flight, queued, _ = self._work.counts()
        usual = sync_seconds(grant.members if grant is not None else 1)
        if self._down:
            usual = 1.0
        elif not in_flight and not queued:
            usual = max(usual, IDLE_SECONDS)
        elif grant is not None and (
            grant.cap < grant.target or self._active(in_flight) > grant.cap
        ):
            # Permits change hands: who waits for them and who gives them back are quick.
            usual = max(QUICK_SECONDS, usual / 3)
        return usual * (0.8 + 0.4 * random.random())


def _keep_reporting(reference: weakref.ref[Member], wake: threading.Event) -> None:
    """Report until the member ends or is forgotten."""
    wait, last = 0.0, 0.0
    while True:
        woken = wake.wait(wait)
        time.sleep(max(0.0, last + QUICK_SECONDS / 2 - time.monotonic()))
        wake.clear()
        member = reference()
        if member is None or member._ended:
            return
        try:
            member.sync()
        except (StoreUnreachableError, ConfigurationError) as error:
            member._failed(error)
        except Exception:
            log.exception("A report to the fleet failed.")
        wait, last = member._next(), time.monotonic()
        if woken:
            wait = min(wait, QUICK_SECONDS)
        del member
