"""`Member`: one client of a fleet; leases permits and a part of the budget, and has them at hand.

A thread reports to the store a few times a second and renews the lease. The sampler reads a number
that the thread has left, so neither a request nor its result ever waits for the store.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
import sys
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from tinker_ext import forks
from tinker_ext._version import __version__
from tinker_ext.errors import BudgetExceededError, ConfigurationError
from tinker_ext.fleet.plan import Row, lease_seconds, plan_seconds, sync_seconds
from tinker_ext.fleet.state import BLOCK_PART, KINDS, Amounts, Fleet
from tinker_ext.fleet.store import open_store
from tinker_ext.ledger import Budget, Hold, Ledger, Prices, Tokens

if TYPE_CHECKING:
    from tinker_ext._transport.limits import SharedBackoff
    from tinker_ext.core.sample_pool import SamplePool

log = logging.getLogger("tinker_ext")

WARN_SECONDS = 60.0
QUICK_SECONDS, IDLE_SECONDS, AWAY_SECONDS = 0.2, 0.5, 1.0  # between reports; see `_next`
ASK_SECONDS = 2.0  # that a call waits for a report under way
LEAVE_SECONDS = 3.0
NAMED = 5  # members named in an error, the largest first
LARGEST = 2**53  # the largest budget that every store can hold; more than any run uses
CAUTION = 0.75  # part of an equal share, while the store is away: members may have come meanwhile


class Member:
    """One client of a fleet, in the place of the sampler's own adaptive limit.

    What the sampler asks (`value` to `after_refusal`) is answered on its loop, without waiting; a
    thread reports. Neither keeps the client's samples alive. `run` is a name for people.
    """

    def __init__(self, address: str, pool: SamplePool, run: str | None = None) -> None:
        self._address, self._pool, self._ended = address, weakref.ref(pool), False
        self._server = (pool.server.base_url, pool.server.fingerprint)
        run = run or os.path.basename(sys.argv[0]) or "python"
        self._run = run.encode(errors="replace").decode()
        self.ledger = SharedLedger(self)
        self._begin()
        forks.register(self)

    def _begin(self) -> None:
        """Set what belongs to one process and one life in the store."""
        self.store = open_store(self._address)
        host, process = socket.gethostname(), os.getpid()
        # A restarted container has the host name and process id of the one before it.
        self.id = f"{host}:{process}/{secrets.token_hex(4)}"
        self._who = {"host": host, "process": process, "run": self._run, "version": __version__}
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._row, self._fleet = Row(self.id), Fleet()  # what it says, and what the store said
        self._refused = self._less = 0  # in all, and permits given up for it without the store
        self._renewed = self._pause_until = 0.0
        self._new = self._changed = True
        self._down = self._resting = False
        self._warned = float("-inf")

    def join(self, *, strict: bool = True) -> None:
        """Enter the fleet and start reporting; also to a store that fails, unless `strict`."""
        self.sync(strict=strict)
        self._start()

    def share(self, ledger: Ledger) -> SharedLedger:
        """Add the budget and the prices of a client to its fleet's; the ledger to use instead."""
        limits = {kind: min(most, LARGEST) for kind, most in ledger.limits.items()}
        with self._lock:  # else the reply to an earlier report could take it away again
            self.ledger.limits = {**self.ledger.limits, **limits}
            self.ledger.prices = ledger.prices or self.ledger.prices
        self.sync()
        return self.ledger

    def leave(self) -> None:
        """Give the lease back and stop; safe to call twice."""
        ended, self._ended = self._ended, True
        # A finalizer may come while this very thread reports: then the lease ends by itself.
        if not ended and self._lock.acquire(timeout=LEAVE_SECONDS):
            with suppress(ConfigurationError):
                if not self.is_cut_off:
                    self.store.report(self._server, self._report(None))
            self.store.close()
            self._lock.release()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(1.0)

    def after_fork(self) -> None:
        """Forget the parent's life: a child is a member of its own, once it samples."""
        self.ledger.reset()
        self._begin()
        self._resting = not self._ended

    @property
    def is_cut_off(self) -> bool:
        """Whether the store did not answer when it was last asked."""
        return self._down or self._new

    def enter(self) -> None:
        """Make a forked child a member, before it uses anything of the budget."""
        if self._new and not self._down:
            _ = self.value
            self.sync()

    @property
    def value(self) -> int:
        """Permits at hand. Asking for them after a rest is a reason to report at once."""
        if self._resting:
            self._resting = False
            if self._thread is None:
                self._start()
            self._wake.set()
        return self._row.cap

    def accepted(self, *, in_flight: int) -> None:
        """Note that the server took a request while `in_flight` were under way."""
        self._row.accepted += 1

    def refused(self, *, started: float, pause: float, full: bool) -> None:
        """Note a refusal, as the sampler's own limit does."""
        self._refused += 1
        row, pool = self._row, self._pool()
        if full and row.refusal < 0 and pool is not None:
            row.held, row.refusal = pool.accepted, self._fleet.plan.number
            self._wake.set()
        if full and self._down:
            self._less += 1
            row.cap = max(1, row.cap - 1)
        self._pause_until = max(self._pause_until, time.monotonic() + pause)

    async def after_refusal(self, backoff: SharedBackoff) -> None:
        """Wait until a refused request may be sent again: after the pause, with a permit."""
        await backoff.wait()
        while (pool := self._pool()) is not None and pool.active >= self._row.cap:
            await asyncio.sleep(0.02 + 0.03 * random.random())
            await backoff.wait()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._keep_reporting, name="fleet", daemon=True)
        self._thread.start()

    def _keep_reporting(self) -> None:
        while not self._ended and self._pool() is not None:
            try:
                self.sync()
            except Exception:
                log.exception("A report to the fleet failed.")
            wait = self._next()
            self._wake.wait(max(0.0, wait - QUICK_SECONDS))
            time.sleep(min(wait, QUICK_SECONDS))
            self._wake.clear()

    def sync(self, need: Amounts | None = None, *, strict: bool = False) -> Fleet | None:
        """Report, and ask for what a call may `need`; what all share then.

        Without the store the member goes on, unless `strict`, and there is nothing to return.
        """
        if not self._lock.acquire(timeout=ASK_SECONDS if need else -1):
            self._down = True
            return None
        try:
            if (pool := self._pool()) is not None and not self._ended:
                fleet = self.store.report(self._server, self._report(pool, need))
                with self.store.reading():
                    self.ledger.learn(fleet)
                    self._follow(fleet, pool)
                return fleet
            self._down = True
        except ConfigurationError as error:
            if strict:
                raise
            self._go_on(error)
        finally:
            self._lock.release()
        return None

    def _report(self, pool: SamplePool | None, need: Amounts | None = None) -> dict[str, Any]:
        """What the store is told; without a pool it is the last time."""
        return {
            "id": self.id,
            "new": self._new,
            "ttl": lease_seconds(self._fleet.count) if pool else 0.0,
            "every": plan_seconds(self._fleet.count),
            "urgent": self._row.refusal >= 0 or self._new,
            "base_url": self._server[0],
            "known": self._fleet.spend,
            "said": self._said(pool) if pool else {},
            "need": need,
            **self.ledger.told(keep=pool is not None and need is None),
        }

    def _said(self, pool: SamplePool) -> dict[str, Any]:
        """What a plan needs to know (`Row`), and what people want to see."""
        row = self._row
        row.active, row.demand = pool.active, min(pool.in_flight + pool.queued, pool.most)
        row.held = pool.accepted if row.refusal < 0 else row.held
        row.pause = max(0.0, self._pause_until - time.monotonic())
        queued, waiting = pool.queued + len(pool.refused), "server" if pool.in_flight else "idle"
        waiting = "pause" if row.pause else "permits" if row.demand > row.cap else waiting
        more = {"queued": queued, "refused": self._refused, "waiting": waiting}
        return {**self._who, **attrs.asdict(row), **more}

    def _follow(self, fleet: Fleet, pool: SamplePool) -> None:
        """Do as the plan says."""
        plan, row = fleet.plan, self._row
        if not plan.cut <= row.refusal <= plan.number:
            row.refusal = -1  # a plan was made of it, or it was of a store that is lost
        if self._down:
            log.info("The store of the fleet answers again; %d members.", fleet.count)
        self._fleet, row.window, self._renewed = fleet, plan.size, time.monotonic()
        self._new, self._down, self._less = False, False, 0
        if self.id in plan.shares:
            self._set(plan.shares[self.id])
        if plan.pause > fleet.now + 0.01 and pool.in_flight + pool.queued:
            # On the loop: the first one to ask for the shared pause makes it there.
            server, seconds = pool.server, plan.pause - fleet.now
            server.runtime.call(lambda: server.connection.backoff.pause(seconds))

    def _go_on(self, error: Exception) -> None:
        """Work without the store: with the last lease, then with a careful share."""
        now, self._down = time.monotonic(), True
        share = CAUTION * self._fleet.plan.size / self._fleet.count
        if self._new:
            self._set(1)
        elif now - self._renewed > lease_seconds(self._fleet.count):
            # Less than one permit each: all of them now and then instead of some of them always.
            some = int(random.random() < share)
            self._set(max(1, int(share) - self._less) if share >= 1 else some)
        if now - self._warned >= WARN_SECONDS:
            self._warned = now
            text = "A fleet's store does not answer; going on with %d permits until it does. %s"
            log.warning(text, self._row.cap, error)

    def _set(self, cap: int) -> None:
        if (pool := self._pool()) is not None:
            before, self._row.cap = self._row.cap, min(cap, pool.most)
            self._changed = self._row.cap != before
            if self._row.cap > before and pool.queued:
                pool.server.runtime.call(pool.limit_changed)

    def _next(self) -> float:
        """Seconds until the next report."""
        pool, usual = self._pool(), sync_seconds(self._fleet.count)
        if self._down:
            usual = AWAY_SECONDS
        elif pool is None or not pool.in_flight + pool.queued:
            usual, self._resting = max(usual, IDLE_SECONDS), True
        elif self._changed:
            usual = QUICK_SECONDS  # the next plan is made of what became of the permits
        elif self._fleet.plan.phase == "grow" or pool.active > self._row.cap:
            usual = max(QUICK_SECONDS, usual / 3)
        return usual * (0.8 + 0.4 * random.random())


class SharedLedger(Ledger):
    """Counts one client, and is stopped by the budget of all.

    A part of the budget is set aside in the store for several calls at once, so that most calls are
    checked without it. What all members have set aside never exceeds the budget; the part of one
    that was killed counts as spent, since its requests may have been.
    """

    def __init__(self, member: Member) -> None:
        super().__init__()
        self._member = member

    def reset(self) -> None:
        """Count from nothing, as in a forked child: what its parent has is not its own."""
        super().reset()
        self._aside: Amounts = dict.fromkeys(KINDS, 0.0)  # in the store, for this client
        self._share: Amounts = {}  # an equal one of what was left, when the store last said it

    def hold(self, tokens: Tokens, model: str | None = None, operation: str = "") -> Hold:
        """Set aside what a call may use at most; see `Ledger.hold`."""
        self._member.enter()  # a forked child has nothing of its own before it has reported
        hold = Hold(self, tokens, self._price(tokens, model), model, self._life)
        fleet: Fleet | None = None  # when it was asked last
        while kind := self._take(hold):
            need = hold.amounts()
            short = fleet.lacks if fleet else None
            if short or self._member.is_cut_off:
                error = self._exceeded(short or kind, need, fleet)
                raise error.with_context(operation=operation or None)
            fleet = self._member.sync(need)
        return hold

    def _allowed(self) -> Amounts:
        # Together they stay within what was left, if all are cut off and read the same.
        share = self._share if self._member.is_cut_off else {}
        return {kind: self._aside[kind] + share.get(kind, 0.0) for kind in self.limits}

    def told(self, *, keep: bool) -> dict[str, Any]:
        """What a report says of the budget; of the rest of a block, some is kept if `keep`."""
        with self._lock:
            has = self._taken.amounts()
            for kind, share in self._share.items() if keep else ():
                has[kind] += max(0.0, min(self._aside[kind] - has[kind], BLOCK_PART * share))
            # The store may note it though its reply is lost: what is given back is not used.
            self._aside = {kind: min(amount, has[kind]) for kind, amount in self._aside.items()}
        prices = attrs.asdict(self.prices) if self.prices else {}
        return {"has": has, "limits": self.limits, "prices": prices}

    def learn(self, fleet: Fleet) -> None:
        """Take note of the budget of all, and of what is set aside for this client."""
        # Made first: nothing of a store that is damaged is taken over, and told to it again.
        share = {kind: max(0.0, left) / fleet.count for kind, left in fleet.left().items()}
        Budget(**fleet.limits)
        prices = Prices(**fleet.prices) if self.prices is None and fleet.prices else self.prices
        with self._lock:
            self.limits, self.prices, self._share = fleet.limits, prices, share
            self._aside = fleet.spend[self._member.id]

    def _exceeded(self, kind: str, need: Amounts, fleet: Fleet | None) -> BudgetExceededError:
        used, who = "", "Its store does not answer, and this client has used its share"
        if fleet:
            used = f"{fleet.taken()[kind]:,.6g} used or set aside, and "
            by_most = sorted(fleet.spend.items(), key=lambda each: -each[1].get(kind, 0))
            named = [f"{name} {spend.get(kind, 0):,.6g}" for name, spend in by_most]
            who = "Spent by: " + ", ".join(named[:NAMED])
            who += f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        return BudgetExceededError(
            f"The fleet's budget of {self.limits[kind]:,.6g} {self._unit(kind)} would be exceeded: "
            f"{used}this call may use {need[kind]:,.6g}. Nothing was sent. {who}."
        )
