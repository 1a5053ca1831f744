"""How one limit is divided: the size of the shared window, and how many permits each member gets.

Pure decisions without a store or a clock, so that the simulation runs exactly this code. Whoever
synchronises first after a plan has run out makes the next one (`plan`), for everybody.

The window moves through these phases:

====== ======================================== ===================================================
phase  meaning                                  ends with
====== ======================================== ===================================================
grow   nothing is known: a quarter more a plan  the first refusal → hold, or search when unsure
search up in steps that double while all goes   a refusal → hold at what the server had taken
       well
hold   the limit is known                       time → search, from a small step; a refusal → less
====== ======================================== ===================================================

A refusal says more than "too much": what the server had taken from all members at that moment is
its limit, so the window goes there instead of being cut by a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

import attrs

from tinker_ext.fleet.store import LONGEST_PAUSE

FIRST_WINDOW = 64
"""Where a fleet starts that knows nothing; a single process starts there too."""
GROWTH = 0.25
PRECISION = 0.02
SETTLE_SECONDS = 1.0
HOLD_SECONDS = 30.0
LONGEST_HOLD_SECONDS = 600.0
MAX_PLAN_SECONDS = 2.0
MAX_SYNC_SECONDS = 3.0


def plan_seconds(members: int) -> float:
    """Time between plans; a plan looks at every member."""
    return min(MAX_PLAN_SECONDS, max(0.25, members * 0.002))


def sync_seconds(members: int) -> float:
    """Time between the reports of one member, so that all together stay light for the store."""
    return min(MAX_SYNC_SECONDS, max(0.25, members * 0.01))


def lease_seconds(members: int) -> float:
    """Time to live of a lease: three reports may be lost, and a killed process costs under 10 s."""
    return max(5.0, 2.8 * sync_seconds(members))


def quantum_seconds(members: int) -> float:
    """Time a member keeps a permit that does not divide evenly; each change idles it briefly."""
    return max(5.0, 10 * sync_seconds(members))


@attrs.define
class Window:
    """The shared limit and what is known about it. Times are those of the store.

    Attributes:
        size: Permits of all members together.
        phase: See the table above.
        low: The size before, which was not refused.
        taken: Requests accepted from all members when the size changed last.
        step: Next increase, as a part of the size.
        since: When size or phase changed last.
        hold: Seconds to hold before the next probe.
        round: Counts the cuts; refusals of requests sent before the last one tell nothing new.
        changes: Permits that do not divide evenly and are to change hands, as a running sum.
        service: Permit-seconds given to each member in contention.
        planned: When the last plan was made.
    """

    size: float = FIRST_WINDOW
    phase: str = "grow"
    low: float = 1.0
    taken: int = 0
    step: float = GROWTH
    since: float = 0.0
    hold: float = HOLD_SECONDS
    round: int = 0
    changes: float = 0.0
    service: dict[str, float] = attrs.field(factory=dict)
    planned: float = 0.0


@attrs.frozen
class Row:
    """What a member said last, as far as a plan needs it.

    Attributes:
        id: The member.
        active: Requests it has sent or is sending; a refused one that waits is not among them.
        demand: The same and all that wait.
        held: Requests the server has accepted and not finished.
        refused: Whether a request of the current round was refused since its last report.
        level: Requests the server held for it when the first one was refused.
        cap: Permits it has now.
        target: Permits the last plan gave it.
        accepted: Requests the server took from it so far.
    """

    id: str
    active: int
    demand: int
    held: int
    refused: bool = False
    level: int = 0
    cap: int = 0
    target: int = 0
    accepted: int = 0


def plan(window: Window, rows: Sequence[Row], now: float, pause: float, cap: int) -> dict[str, int]:
    """Move the window and divide it; changes `window` in place.

    Args:
        window: The shared limit.
        rows: All living members.
        now: Time of the store.
        pause: Seconds for which nobody sends, because the server asked for it.
        cap: Most permits that any member allows.

    Returns:
        Permits by member.
    """
    # What lies further ahead was written before the clock was set back.
    window.since = min(window.since or now, now + LONGEST_PAUSE)
    if now - window.planned > 2 * MAX_PLAN_SECONDS:
        window.since = max(window.since, now)  # nobody looked meanwhile
    before, accepted = window.size, sum(row.accepted for row in rows)
    window.taken = min(window.taken, accepted)  # who left took its count along
    _move(window, rows, now, pause, accepted)
    window.size = float(max(1, min(round(window.size), cap)))
    if window.size != before:
        window.taken = accepted
    targets = _divide(window, rows, now)
    window.planned = now
    return targets


def _move(window: Window, rows: Sequence[Row], now: float, pause: float, accepted: int) -> None:
    before = window.size
    if any(row.refused for row in rows):
        taken = sum(row.level if row.refused else row.held for row in rows)
        # Requests from before the last cut may still fill the server: that says nothing new.
        if now < window.since or taken > before:
            return
        _cut(window, float(taken))
        window.round += 1
        window.since = now + pause
        return
    active = sum(row.active for row in rows)
    # Permits that nobody needs say nothing about the server, and neither does a pause.
    if pause > 0 or active < 0.85 * min(before, sum(max(row.cap, row.active) for row in rows)):
        window.since = max(window.since, now + pause)
        return
    # Nor does what was sent and not answered yet: the server holds it, or has done it all twice.
    full = 0.95 if window.phase == "grow" else 0.75
    if active < full * int(before):
        return
    held = sum(row.held for row in rows)
    if held < 0.95 * int(before) and accepted - window.taken < 2 * before:
        return
    quiet = now - window.since
    if window.phase == "grow":
        # Large fleets plan less often, and double at most.
        often = min(4.0, max(1.0, (now - window.planned) / plan_seconds(1)))
        window.size, window.low = before * min(2.0, (1 + GROWTH) ** often), before
    elif window.phase == "search" and quiet >= SETTLE_SECONDS:
        window.low, window.since = before, now
        window.size = before + max(1.0, window.step * before)
        window.step = min(GROWTH, 2 * window.step)
    elif window.phase == "hold" and quiet >= window.hold:
        window.phase, window.low, window.since = "search", before, now
        window.size, window.step = before + max(1.0, PRECISION * before), 2 * PRECISION
        # Counts while it fails; any success ends the series.
        window.hold = min(LONGEST_HOLD_SECONDS, 2 * window.hold)


def _cut(window: Window, taken: float) -> None:
    size = window.size
    less = max(1.0, size - max(1.0, PRECISION * size))
    if window.phase == "grow":
        # Reports are older than the growth. Where they add up to less than what was taken before,
        # the limit lies somewhere above; otherwise they are the limit.
        window.phase, window.step = "hold" if taken >= window.low else "search", PRECISION
        window.size = min(less, max(taken, window.low * 0.8))
    elif window.phase == "search":
        if window.step > 2 * PRECISION:
            window.hold = HOLD_SECONDS
        window.phase = "hold"
        window.size = min(less, max(taken, window.low))
    else:
        window.size = min(less, max(taken, size * 0.7))
    window.low = window.size


def _divide(window: Window, rows: Sequence[Row], now: float) -> dict[str, int]:
    """Give everybody what it needs, and equal parts where that is more than there is."""
    total, count = int(window.size), len(rows)
    if not count:
        window.service.clear()
        return {}
    # With plenty, an idle member keeps a permit at hand for its next request.
    least = 1 if total >= 4 * count else 0
    wanted = {row.id: max(least, row.demand) for row in rows}
    spare = total - sum(wanted.values())
    if spare >= 0:
        window.service.clear()
        return {name: need + spare // count for name, need in wanted.items()}
    level, left, behind = 0, total, count
    for need in sorted(wanted.values()):
        if need * behind > left:
            level = left // behind
            break
        left -= need
        behind -= 1
    targets = {name: min(need, level) for name, need in wanted.items()}
    extra = total - sum(targets.values())
    hungry = [row for row in rows if wanted[row.id] > level]
    passed = max(0.0, now - window.planned) if window.planned else 0.0
    _count_service(window, hungry, passed)
    window.changes += extra * passed / quantum_seconds(count)
    change, window.changes = int(window.changes), window.changes % 1.0
    had = [row.id for row in hungry if row.target > level]
    keep = nsmallest(min(extra, max(0, len(had) - change)), had, key=window.service.__getitem__)
    kept = set(keep)
    rest = [row.id for row in hungry if row.id not in kept]
    for name in (*keep, *nsmallest(extra - len(keep), rest, key=window.service.__getitem__)):
        targets[name] += 1
    return targets


def _count_service(window: Window, hungry: Sequence[Row], passed: float) -> None:
    """Count permit-seconds, so that who had less gets the next permit that is over."""
    before = window.service
    # A newcomer starts where the poorest is: it has no claim on what was given before it came.
    start = min(before.values(), default=0.0)
    window.service = {
        row.id: before.get(row.id, start) - start + max(row.cap, row.active) * passed
        for row in hungry
    }
