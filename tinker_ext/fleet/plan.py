"""How one limit is divided: the size of the shared window, and how many permits each member gets.

Pure decisions without a store or a clock, so that the simulation runs exactly this code. `grant`
decides one report. Whoever reports first after a plan has run out makes the next one (`plan`), for
everybody. The window moves through these phases:

====== ======================================== ===================================================
phase  meaning                                  ends with
====== ======================================== ===================================================
grow   nothing is known: a third more a plan    a refusal → search
search up in steps that double, but at most     a step that would be small → hold; a refusal → back
       half the way to what was refused         to what the server had taken
hold   the limit is known                       time → search, from a small step; a refusal → less
====== ======================================== ===================================================

A refusal says more than "too much": what the server had taken from all members at that moment is
its limit, so the window goes there instead of being cut by a constant. Reports of that are older
than the refusal and may say less, hence the search. Later ones are no help: results on their way to
busy members count there, and would say more.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

import attrs

FIRST_WINDOW = 64  # a single process starts there too
GROWTH = 0.35
LARGEST_STEP = 0.25
PRECISION = 0.02
SETTLE_SECONDS = 1.0
HOLD_SECONDS = 30.0
LONGEST_HOLD_SECONDS = 600.0
MAX_PLAN_SECONDS = 2.0
MAX_SYNC_SECONDS = 3.0
LONGEST_PAUSE = 60.0  # a longer one is told again by who was asked for it
RECOVERY_SECONDS = 3.0
"""After the return of a store nobody gets more than it had, until everybody has reported."""


def plan_seconds(members: int) -> float:
    """Time between plans; a plan looks at every member."""
    return min(MAX_PLAN_SECONDS, max(0.25, members * 0.002))


def sync_seconds(members: int) -> float:
    """Time between the reports of one member, so that all together stay light for the store."""
    return min(MAX_SYNC_SECONDS, max(0.25, members * 0.01))


def lease_seconds(members: int) -> float:
    """Time to live of a lease: three reports may be lost, and a killed process costs under 10 s."""
    return max(5.0, 2.8 * sync_seconds(members))


def quantum_seconds(members: int, level: int) -> float:
    """Time a member keeps a permit above the level that all have; each change idles it briefly."""
    return max(5.0, 10 * sync_seconds(members)) * (2 if level else 1)


@attrs.define
class Window:
    """The shared limit and what is known about it. Times are those of the store."""

    size: float = FIRST_WINDOW  # permits of all members together
    phase: str = "grow"
    low: float = 1.0  # the size before, which was not refused
    high: float = 0.0  # the last size that was refused, as far as it is still of interest
    taken: int = 0  # requests accepted from all members when the size changed last
    step: float = PRECISION  # next increase, as a part of the size
    since: float = 0.0  # when size or phase changed last
    hold: float = HOLD_SECONDS  # before the next probe
    round: int = 0  # counts the cuts; refusals from before the last one tell nothing new
    changes: float = 0.0  # uneven permits that are to change hands, as a running sum
    service: dict[str, float] = attrs.field(factory=dict)  # permit-seconds of each hungry member
    planned: float = 0.0  # when the last plan was made


@attrs.frozen
class Row:
    """What a member said last, as far as a plan needs it, and what the last plan gave it."""

    id: str
    target: int = 0
    active: int = 0  # requests sent or being sent; a refused one that waits is not among them
    demand: int = 0  # the same and all that wait
    held: int = 0  # requests the server has accepted and not finished
    cap: int = 0  # permits it has now
    accepted: int = 0  # requests the server took from it so far
    refusal: bool = False  # whether a request was refused since its last report
    round: int = 0  # the round it knew of then
    level: int = 0  # requests the server held for it when the first one was refused


def grant(
    window: int, old: int | None, others: int, leased: int, claim: int | None, recovering: bool
) -> tuple[int, int]:
    """Decide one report; the Redis store says the same in Lua.

    Args:
        window: Permits of all members.
        old: The target of this member, None when the store does not know it.
        others: How many other members there are.
        leased: Permits leased to them.
        claim: Permits it has, None when it is new.
        recovering: Whether some members of a store that was away may not have reported yet.

    Returns:
        Its permits, and its target: what it gets when others have given theirs back.
    """
    target = old if old is not None else window // (others + 1) if claim is None else claim
    cap = min(target, window - leased)
    return max(0, min(cap, claim or 0) if recovering else cap), target


def is_due(planned_for: float, now: float, every: float, *, urgent: bool) -> bool:
    """Whether whoever reports now makes the next plan."""
    # Newcomers and refusals do not wait for it, but many of them share one. What lies further
    # ahead was written before the clock was set back.
    return not 0 < planned_for - now - (0.75 * every if urgent else 0.0) <= every


def plan(window: Window, rows: Sequence[Row], now: float, pause: float, cap: int) -> dict[str, int]:
    """Move the window and divide it; changes `window` in place.

    Args:
        window: The shared limit.
        rows: All living members.
        now: Time of the store.
        pause: Seconds for which nobody sends, because the server asked for it.
        cap: Most permits that all members together allow.

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
    news = [row.refusal and row.round == window.round for row in rows]
    if any(news):
        taken = sum(row.level if new else row.held for row, new in zip(rows, news, strict=True))
        # Requests from before the last cut may still fill the server: that says nothing new.
        if window.since <= now and taken <= before:
            _cut(window, float(taken))
            window.round += 1
            window.since = now + pause
        return
    active, held = sum(row.active for row in rows), sum(row.held for row in rows)
    # Permits that nobody needs say nothing about the server, and neither does a pause.
    if pause > 0 or active < 0.85 * min(before, sum(max(row.cap, row.active) for row in rows)):
        window.since = max(window.since, now + pause)
        return
    # Nor does what was sent and not answered yet: the server holds it, or has done it all twice.
    if active < (0.95 if window.phase == "grow" else 0.75) * int(before):
        return
    if held < 0.95 * int(before) and accepted - window.taken < 2 * before:
        return
    quiet = now - window.since
    if window.phase == "grow":
        # Large fleets plan less often, and double at most.
        often = plan_seconds(len(rows)) / plan_seconds(1)
        window.size, window.low = before * min(2.0, (1 + GROWTH) ** often), before
    elif window.phase == "search" and quiet >= SETTLE_SECONDS:
        window.low, window.since, more = before, now, window.step * before
        if window.high:
            more = min(more, (window.high - before) / 2)
            if more < max(1.0, 0.75 * PRECISION * before):
                window.phase = "hold"
                return
        window.size = before + max(1.0, more)
        window.step = min(LARGEST_STEP, 2 * window.step)
    elif window.phase == "hold" and quiet >= window.hold:
        window.phase, window.low, window.high, window.since = "search", before, 0.0, now
        window.size, window.step = before + max(1.0, PRECISION * before), 2 * PRECISION
        # Counts while it fails; any success ends the series.
        window.hold = min(LONGEST_HOLD_SECONDS, 2 * window.hold)


def _cut(window: Window, taken: float) -> None:
    size, least = window.size, 0.7 * window.size
    if window.phase == "grow":
        window.phase, least = "search", 0.8 * window.low
    elif window.phase == "search":
        if window.step > 2 * PRECISION:
            window.hold = HOLD_SECONDS
        least = window.low
    less = max(1.0, size - max(1.0, PRECISION * size))
    window.high, window.step = size, PRECISION
    window.size = window.low = min(less, max(taken, least))


def _divide(window: Window, rows: Sequence[Row], now: float) -> dict[str, int]:
    """Give everybody what it needs, and equal parts where that is more than there is."""
    total, count = int(window.size), len(rows)
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
    # Who had less gets the next permit that is over. A newcomer starts where the poorest is: it has
    # no claim on what was given before it came.
    before, start = window.service, min(window.service.values(), default=0.0)
    service = window.service = {
        row.id: before.get(row.id, start) - start + max(row.cap, row.active) * passed
        for row in hungry
    }
    window.changes += extra * passed / quantum_seconds(count, level)
    change, window.changes = int(window.changes), window.changes % 1.0
    had = [row.id for row in hungry if row.target > level]
    keep = nsmallest(min(extra, max(0, len(had) - change)), had, key=service.__getitem__)
    rest = service.keys() - set(keep)
    for name in (*keep, *nsmallest(extra - len(keep), sorted(rest), key=service.__getitem__)):
        targets[name] += 1
    return targets
