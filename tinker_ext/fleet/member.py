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
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import orjson

from tinker_ext import forks
from tinker_ext._version import __version__
from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet.ledger import SharedLedger
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
    ONE_VERSION,
    Amounts,
    FleetRecord,
    Grant,
    Store,
    StoreUnreachableError,
    group_name,
    open_store,
)
from tinker_ext.observe.ledger import Ledger
from tinker_ext.observe.prices import Prices

if TYPE_CHECKING:
    from tinker_ext._transport import SharedBackoff
    from tinker_ext.core.workspace import Workspace

log = logging.getLogger("tinker_ext")

WARN_SECONDS = 60.0
QUICK_SECONDS = 0.1
IDLE_SECONDS = 1.0
LEAVE_SECONDS = 3.0
CAUTION = 0.75
"""Part of an equal share that is used while the store is away: members may have come meanwhile."""

_numbers = itertools.count(1)
_inherited: list[Store] = []


class Counts(NamedTuple):
    """The samples of a client: those taken from its queue, and what has become of them."""

    in_flight: int = 0
    active: int = 0  # sent or being sent: not those that were refused and wait
    held: int = 0  # accepted by the server
    queued: int = 0
    most: int = 0  # that may be in flight

    @property
    def some(self) -> int:
        """Those in flight and those that wait for it."""
        return self.in_flight + self.queued


class Samples:
    """The samples of a workspace, from any thread; does not keep the workspace alive."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = weakref.ref(workspace)

    def counts(self) -> Counts:
        """How many there are."""
        workspace = self._workspace()
        if workspace is None:
            return Counts()
        samples, server = workspace.samples, workspace.server
        most = server.config.sample_concurrency
        if server.dialect is not None:
            most = min(most, server.dialect.config.sample_max_concurrent_requests)
        return Counts(samples.in_flight, samples.active, samples.accepted, samples.queued, most)

    def active(self) -> int:
        """Those sent or being sent, without counting the rest."""
        workspace = self._workspace()
        return 0 if workspace is None else workspace.samples.active

    def changed(self) -> None:
        """There are more permits: start what waits."""
        if (workspace := self._workspace()) is not None and not workspace.closed:
            workspace.runtime.call(workspace.samples.limit_changed)

    def pause(self, seconds: float) -> None:
        """Send nothing for this long."""
        workspace = self._workspace()
        if workspace is not None and not workspace.closed and self.counts().some:
            # On the loop: the first one to ask for the shared pause makes it there.
            workspace.runtime.call(lambda: workspace.server.connection.backoff.pause(seconds))


class Member:
    """One client of a fleet, in the place of the sampler's own adaptive limit.

    Args:
        address: Where the fleet lives: a folder, or a URL of Redis.
        samples: What it may send.
        server: Its URL and a one-way mark of the credential.
        run: Name of the run, for people.
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        samples: Samples,
        server: tuple[str, str],
        run: str | None = None,
    ) -> None:
        self._address, self._samples, self._server = address, samples, server
        self.store, self.group = open_store(address), ""
        self.ledger = SharedLedger(self)
        self._run = run or os.path.basename(sys.argv[0]) or "python"
        self._limits: Amounts = {}
        self._texts = {"base_url": server[0]}
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
        self._less = 0  # permits given up since the store went away, because of refusals
        self._refusal = self._down = self._ended = self._asleep = False
        self._relaxed = True
        self._warned = float("-inf")
        self._rate = (0, self._born, 0.0)
        self._waiting = ("idle", self._born)

    # -- the life of a member --------------------------------------------------------------

    def join(self, *, strict: bool = True) -> None:
        """Enter the fleet and start reporting.

        Raises:
            ConfigurationError: The store cannot be used; unless `strict`, the member tries on.
        """
        try:
            self.sync()
            if (found := self.store.look(self.group)) is not None and "prices" in found.texts:
                self.ledger.prices = Prices(**orjson.loads(found.texts["prices"]))
        except (ConfigurationError, StoreUnreachableError) as error:
            if strict:
                raise ConfigurationError(str(error)) from None
            self._failed(error)
        self._start()

    def share(self, ledger: Ledger) -> SharedLedger:
        """Add the budget and the prices of a client to its fleet's; the ledger to use instead."""
        self._limits = attrs.asdict(ledger.budget, filter=lambda _, value: value is not None)
        if ledger.prices is not None:
            self.ledger.prices = ledger.prices
            self._texts["prices"] = orjson.dumps(attrs.asdict(ledger.prices)).decode()
        try:
            self.sync()
        except StoreUnreachableError as error:
            self._failed(error)
        return self.ledger

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
        self.ledger.reset()
        self._begin()
        self._ended, self._asleep = ended, not ended

    @property
    def is_cut_off(self) -> bool:
        """Whether the store did not answer when it was last asked."""
        return self._down or self._grant is None

    def _start(self) -> None:
        name, given = "tinker-ext-fleet", (weakref.ref(self), self._wake)
        self._thread = threading.Thread(None, _keep_reporting, name, given, daemon=True)
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
        """Note a refusal, as the sampler's own limit does."""
        self._refused += 1
        if full and started > self._learned and not self._refusal:
            self._level, self._refusal = self._samples.counts().held, True
        if full and self._down:
            self._less += 1
            self._cap = max(1, self._cap - 1)
        self._pause_until = max(self._pause_until, time.monotonic() + pause)
        self._wake.set()

    async def after_refusal(self, backoff: SharedBackoff) -> None:
        """Wait until a refused request may be sent again: after the pause, with a permit."""
        await backoff.wait()
        while self._samples.active() >= self._cap:
            await asyncio.sleep(0.02 + 0.03 * random.random())
            await backoff.wait()

    # -- reporting; on the thread ----------------------------------------------------------

    def sync(self) -> None:
        """Report, take what is granted, and plan for everybody when it is this member's turn."""
        with self._lock:
            if not self._ended:
                self._synchronise()

    def _synchronise(self) -> None:
        if not self.group:
            group = group_name(self.store.open(), *self._server)
            self._check_versions(self.store.look(group))
            self.group = group
        refusal = self._refusal
        got = self.store.sync(self.group, self._report())
        self._refusal &= not refusal
        self.ledger.balance(got)
        if got.turn:
            self._plan(got.turn)
        now = time.monotonic()
        if self._grant is None or got.numbers["round"] != self._grant.numbers["round"]:
            self._learned = now
        if self._down:
            log.info("The store of the fleet answers again; %d members.", got.members)
        self._grant, self._granted, self._down, self._less = got, now, False, 0
        self._set(got.cap)
        if got.pause > 0.01:
            self._samples.pause(got.pause)

    def _check_versions(self, record: FleetRecord | None) -> None:
        """Refuse to join members of another version, which would plan by other rules."""
        for member in record.members if record else ():
            theirs = str(member.get("version"))
            if theirs.split(".")[:2] != __version__.split(".")[:2]:
                raise ConfigurationError(
                    f"The fleet at {self.store.place} is in use by tinker-ext {theirs} "
                    f"({member['id']}) and this is {__version__}. {ONE_VERSION}"
                )

    def _report(self) -> dict[str, Any]:
        now, grant, counts = time.monotonic(), self._grant, self._samples.counts()
        demand = min(counts.some, counts.most)
        self._relaxed = demand < self._cap
        pause = max(0.0, self._pause_until - now)
        waiting = "server" if counts.in_flight else "idle"
        if pause or (grant is not None and grant.pause > 0.05):
            waiting = "pause"
        elif demand > self._cap:
            waiting = "permits"
        if waiting != self._waiting[0]:
            self._waiting = (waiting, now)
        count, since, rate = self._rate
        if now - since >= 2.0:
            rate = (self._accepted - count) / (now - since)
            self._rate = (self._accepted, now, rate)
        members = grant.members if grant is not None else 1
        facts = {
            **counts._asdict(),
            "host": socket.gethostname(),
            "process": os.getpid(),
            "run": self._run,
            "version": __version__,
            "demand": demand,
            "cap": self._cap,
            "round": grant.numbers["round"] if grant is not None else 0,
            "refusal": self._refusal,
            "level": self._level,
            "waiting": waiting,
            "waiting_seconds": round(now - self._waiting[1], 3),
            "accepted": self._accepted,
            "refused": self._refused,
            "rate": round(rate, 3),
            "uptime": round(now - self._born, 3),
        }
        return {
            "id": self.id,
            "active": counts.active,
            "claim": self._cap if grant is not None else None,
            # For a store that lost its own.
            "window": grant.numbers["window"] if grant is not None else FIRST_WINDOW,
            "ttl": lease_seconds(members),
            "every": plan_seconds(members),
            "urgent": self._refusal or grant is None,
            "pause": pause,
            "limits": self._limits,
            "texts": self._texts,
            "facts": orjson.dumps(facts).decode(),
        }

    def _plan(self, turn: int) -> None:
        record = self.store.look(self.group, sweep=True)
        if record is None:
            return
        # Of what a store has lost, the members know the size only; it was not refused.
        begin = {"size": record.numbers["window"], "phase": "hold" if self._grant else "grow"}
        window = Window(**(orjson.loads(record.texts.get("plan", "{}")) or begin))
        told = [field.name for field in attrs.fields(Row)]
        rows = [Row(**{name: member[name] for name in told}) for member in record.members]
        most = sum(member["most"] for member in record.members)
        targets = plan(window, rows, record.now, record.pause, max(1, most))
        changed = {row.id: targets[row.id] for row in rows if targets[row.id] != row.target}
        self.store.settle(self.group, turn, attrs.asdict(window), changed)

    def _failed(self, error: Exception) -> None:
        """Go on without the store: with the last lease, then with a careful share."""
        now, grant, self._down = time.monotonic(), self._grant, True
        if grant is None:
            self._set(1)
        elif now - self._granted > lease_seconds(grant.members):
            share = CAUTION * grant.numbers["window"] / grant.members
            # Less than one permit each: all of them now and then instead of some of them always.
            some = int(random.random() < share)
            self._set(max(1, int(share) - self._less) if share >= 1 else some)
        if now - self._warned >= WARN_SECONDS:
            self._warned = now
            text = "The store of the fleet does not answer (%s); going on with %d permits until it "
            log.warning(text + "does.", error, self._cap)

    def _set(self, cap: int) -> None:
        before, self._cap = self._cap, cap
        if cap > before and self._samples.counts().queued:
            self._samples.changed()

    def _next(self) -> float:
        """Seconds until the next report."""
        grant, counts = self._grant, self._samples.counts()
        usual = sync_seconds(grant.members if grant is not None else 1)
        if self._down:
            usual = 1.0
        elif not counts.some:
            usual = max(usual, IDLE_SECONDS)
        elif grant is not None and (
            grant.numbers["growing"] or grant.cap < grant.target or counts.active > grant.cap
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
