"""How one limit is divided: the size of the shared window, and how many permits each member gets.

Pure decisions without a store or a clock, so that the simulation runs exactly this code. Whoever
reports first after a plan has run out makes the next one, for everybody. The window has phases:

- `grow`: nothing is known; a third more a plan, until a refusal begins the search;
- `search`: the limit is near; up in steps that double, from a small one, until a refusal;
- `hold`: the limit is known; searched for again after a while, or when it is a tenth less.

A refusal says more than "too much": what the server had taken from all members at that moment is
its limit, so the window goes there instead of being cut by a constant. Reports of that are older
than the refusal and may say less, hence the search. Later ones are no help: results on their way to
busy members count there, and would say more.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

FIRST_WINDOW = 64  # a single process starts there too
GROWTH = 0.35
FULL = 0.85  # part of the window that is under way when it says something
LARGEST_STEP = 0.25
PRECISION = 0.01
PATIENCE = {"search": 1.0, "hold": 30.0}  # seconds without a refusal before the next increase
RECOVERY_SECONDS = 3.0  # after the return of a store, in which nobody gets more than it had


def plan_seconds(members: int) -> float:
    """Time between plans; a plan looks at every member."""
    return min(1.0, max(0.25, members * 0.002))


def sync_seconds(members: int) -> float:
    """Time between the reports of one member, so that all together stay light for the store."""
    return min(3.0, max(0.25, members * 0.02))


def lease_seconds(members: int) -> float:
    """Time to live of a lease: three reports may be lost, and a killed process costs under 10 s."""
    return max(5.0, 2.8 * sync_seconds(members))


@attrs.define
class Plan:
    """What applies to all members. Times are those of the store."""

    size: float = FIRST_WINDOW  # permits of all members together
    phase: str = "grow"
    low: float = 1.0  # the size before, which was not refused
    taken: int = 0  # requests accepted from all members when the size changed last
    step: float = PRECISION  # next increase, as a part of the size
    since: float = 0.0  # when size or phase changed last
    shift: float = 0.0  # from which member on there is one permit more, where they do not divide
    pause: float = 0.0  # until when nobody sends
    recovery: float = 0.0  # until when nobody gets more than it has
    made: float = 0.0
    number: int = 0
    cut: int = 0  # number of the last plan that heard of a refusal
    shares: dict[str, int] = attrs.Factory(dict)  # permits of each member


@attrs.define
class Row:
    """What a member said last, and when."""

    id: str
    seen: float = 0.0
    plan: int = 0  # number of the plan that it read then
    cap: int = 0  # permits it had before it read it
    active: int = 0  # requests sent or being sent; a refused one that waits is not among them
    demand: int = 0  # the same and all that wait
    held: int = 0  # requests the server has accepted and not finished; at a refusal, just then
    accepted: int = 0  # requests the server took from it so far
    refusal: int = -1  # number of the plan in force when a request was refused since the last one
    pause: float = 0.0  # seconds for which the server asked it to wait
    window: float = FIRST_WINDOW  # the last size it knew of


def make_plan(plan: Plan, rows: Sequence[Row], now: float) -> Plan:
    """Move the window of the last plan, and divide it among all living members."""
    working = [row for row in rows if row.cap]
    if working and not plan.made:
        # Of what a store has lost, the members know the size only; it was not refused.
        plan = Plan(max(row.window for row in working), "hold")
    shares, number, away = plan.shares, plan.number + 1, now - plan.made > 4.0
    plan.pause = max([plan.pause, *(min(row.seen, now) + row.pause for row in rows)])
    if away:
        plan.since = now  # nobody looked meanwhile
    if working and (away or any(row.id not in shares for row in working)):
        plan.recovery = now + RECOVERY_SECONDS
    _move(plan, rows, now, number)
    targets = _divide(plan, rows, now - plan.made)
    # Who has not read the last plan may use what it had; what is under way keeps its permit.
    read = {row.id for row in rows if row.id in shares and row.plan == plan.number}
    has = {r.id: max(shares.get(r.id, 0), 0 if r.id in read else r.cap) for r in rows}
    free = int(plan.size) - sum(max(has[row.id], row.active) for row in rows)
    first = number % max(1, len(rows))  # else what is free would go to the same ones each time
    for row in sorted([*rows[first:], *rows[:first]], key=lambda row: has[row.id]):
        # An equal share at once, and beyond it twice as much a plan: who is the first to ask would
        # else have what others need that ask a moment later, as long as its samples take.
        most = max(1, has[row.id], int(plan.size) // len(rows))
        more = max(0, min(targets[row.id] - has[row.id], free, most)) if now >= plan.recovery else 0
        if free < 0:  # while others have too much under way, what is not in use stays so
            more = max(free, min(0, row.active - has[row.id]))
        targets[row.id] = min(targets[row.id], has[row.id] + more)
        free -= more
    plan.made, plan.number, plan.shares = now, number, targets
    return plan


def _move(plan: Plan, rows: Sequence[Row], now: float, number: int) -> None:
    size, pause = plan.size, max(0.0, plan.pause - now)
    active, held = sum(row.active for row in rows), sum(row.held for row in rows)
    accepted = sum(row.accepted for row in rows)
    plan.taken = min(plan.taken, accepted)  # who left took its count along
    quiet, full, since = now - plan.since, FULL * int(size), accepted - plan.taken
    if any(row.refusal >= plan.cut for row in rows):
        plan.cut = number
        # Requests from before the last cut may still fill the server: that says nothing new.
        if quiet >= 0 and max(active, held) <= size:
            least = {"grow": 0.8 * plan.low, "search": plan.low, "hold": 0.7 * size}[plan.phase]
            plan.size = min(size - max(1.0, PRECISION * size), max(held, least))
            fell = plan.phase == "hold" and plan.size < 0.9 * size
            plan.phase = "search" if fell or plan.phase == "grow" else "hold"
            plan.low, plan.step, plan.since = plan.size, PRECISION, now + pause
    # Permits that nobody needs say nothing about the server, and neither does a pause.
    elif pause > 0 or active < full:
        plan.since = max(plan.since, now + pause)
    # Nor does what was sent and not answered yet: the server holds it, or has done it all twice.
    elif held < full and since < 2 * size:
        return
    elif plan.phase == "grow":
        # Large fleets plan less often, and double at most.
        often = plan_seconds(len(rows)) / plan_seconds(1)
        plan.low, plan.size = size, size * min(2.0, (1 + GROWTH) ** often)
    # On a busy machine refusals come late, so a step takes requests as well as time.
    elif since >= size / 2 and quiet >= PATIENCE[plan.phase]:
        if plan.phase == "hold":
            plan.phase, plan.step = "search", PRECISION
        plan.since, plan.low = now, size
        plan.size += max(1.0, plan.step * size)
        plan.step = min(LARGEST_STEP, 2 * plan.step)
    plan.size = float(max(1, round(plan.size)))
    if plan.size != size:
        plan.taken = accepted


def _divide(plan: Plan, rows: Sequence[Row], passed: float) -> dict[str, int]:
    """Give everybody what it needs, and equal parts where that is more than there is."""
    total, count = int(plan.size), max(1, len(rows))
    # With plenty, an idle member keeps a permit at hand for its next request.
    least = 1 if total >= 4 * count else 0
    wanted = {row.id: max(least, row.demand) for row in rows}
    spare = total - sum(wanted.values())
    if spare >= 0:
        return {name: need + spare // count for name, need in wanted.items()}
    level, left = 0, total
    for place, need in enumerate(sorted(wanted.values())):
        if need * (count - place) > left:
            level = left // (count - place)
            break
        left -= need
    targets = {name: min(need, level) for name, need in wanted.items()}
    hungry = sorted(name for name, need in wanted.items() if need > level)
    extra = total - sum(targets.values())
    # What is over goes round, one member at a time; each change idles a permit briefly.
    tenure = max(5.0, 10 * sync_seconds(count)) if level else max(5.0, 40 * sync_seconds(count))
    plan.shift += max(0.0, passed) / tenure * min(extra, len(hungry) - extra)
    plan.shift %= len(hungry)
    for place in range(extra):
        targets[hungry[(int(plan.shift) + place) % len(hungry)]] += 1
    return targets
