"""Misbehaviour on order: which request gets which fault, decided by rules and a seed."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from tinker_ext.mock.log import matches

# kind → what the caller sees; "before" faults leave no effect on the server's state.
KINDS = {
    "drop_request": "the connection closes before the request has any effect",
    "drop_response": "the request takes effect, then the connection closes",
    "duplicate": "the request is handled twice, as if the network had repeated it",
    "delay": "the request is handled after `delay` seconds",
    "hang": "nothing is answered for `delay` seconds, then the connection closes",
    "status": "answers `status` without effect (with `after`: after the effect)",
    "reset": "the connection is reset (RST) without effect",
    "truncate": "takes effect, then only half of the reply arrives",
    "slow_body": "takes effect, then the reply trickles over `delay` seconds",
    "wrong_content_type": "takes effect, then the reply is labelled text/plain",
    "html": "answers a proxy's HTML page with `status` (default 502)",
    "garbage": "takes effect, then the reply is random bytes labelled as JSON",
    "expired_future": "the polled request is forgotten: 410 now and later",
    "session_loss": "the session of the request is ended: 410 now and later",
}


def _numbers(value: int | Iterable[int] | None) -> frozenset[int] | None:
    if value is None:
        return None
    return frozenset((value,)) if isinstance(value, int) else frozenset(value)


@attrs.frozen(kw_only=True)
class Fault:
    """One rule: a kind of misbehaviour and the requests it strikes.

    Attributes:
        kind: A key of :data:`KINDS`.
        path: Pattern such as `optim_step`, `retrieve_*` or `*`.
        method: HTTP method, None for any.
        nth: Only these matching requests, counted from 1.
        every: Only each n-th matching request.
        probability: Chance per matching request, drawn from the seed.
        times: At most this many strikes.
        status: Status for `status` and `html`.
        delay: Seconds for `delay`, `hang` and `slow_body`.
        after: For `status` and `html`: answer so after the effect.
        retry_after: Value of a `retry-after` header in seconds.
        headers: Extra reply headers.
        body: Reply body text of `status` and `html`.
    """

    kind: str = attrs.field(validator=attrs.validators.in_(KINDS))
    path: str = "*"
    method: str | None = None
    nth: frozenset[int] | None = attrs.field(default=None, converter=_numbers)
    every: int | None = None
    probability: float = 1.0
    times: int | None = None
    status: int | None = None
    delay: float = 1.0
    after: bool = False
    retry_after: float | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: str | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the rule as JSON, the form `POST /_mock/faults` takes."""
        record = attrs.asdict(self)
        record["nth"] = sorted(self.nth) if self.nth is not None else None
        return {name: value for name, value in record.items() if value is not None}


class FaultPlan:
    """The rules in force and what they struck; the same seed strikes the same requests.

    The k-th request that fits a rule is struck or spared by a draw from (seed, rule, k) alone, so
    the plan replays whatever else happens between those requests.

    Example:
        >>> plan = FaultPlan(seed=1)
        >>> plan.add("status", path="optim_step", nth=1, status=503)
        >>> [fault.status for fault in plan.choose("POST", "/api/v1/optim_step")]
        [503]
        >>> plan.choose("POST", "/api/v1/optim_step")
        []
    """

    def __init__(self, seed: int = 0, rules: Iterable[Any] = ()) -> None:
        self.seed = seed
        self._rules: list[tuple[Fault, list[int]]] = []
        self.lock = threading.Lock()
        self.struck: list[tuple[str, str]] = []
        for rule in rules:
            self.add(rule)

    @property
    def rules(self) -> list[Fault]:
        """Return the rules in force."""
        return [rule for rule, _ in self._rules]

    def add(self, rule: Fault | Mapping[str, Any] | str, **options: Any) -> None:
        """Put a rule in force.

        Args:
            rule: A :class:`Fault`, its JSON form, a kind, or `kind:path:option=value,…` text.
            options: Fields of :class:`Fault` when `rule` is a kind.
        """
        if isinstance(rule, str):
            rule = parse(rule) if ":" in rule else Fault(kind=rule, **options)
        elif isinstance(rule, Mapping):
            rule = Fault(**rule)
        with self.lock:
            self._rules.append((rule, [0, 0]))

    def clear(self) -> None:
        """Take all rules out of force."""
        with self.lock:
            self._rules.clear()

    def reseed(self, seed: int) -> None:
        """Change the seed of later draws."""
        self.seed = seed

    def choose(self, method: str, path: str) -> list[Fault]:
        """Return the faults that strike this request, in the order of their rules."""
        if not self._rules:
            return []
        chosen = []
        with self.lock:
            for index, (rule, counters) in enumerate(self._rules):
                if rule.method not in (None, method) or not matches(path, rule.path):
                    continue
                counters[0] += 1
                if self._strikes(rule, index, counters):
                    counters[1] += 1
                    chosen.append(rule)
                    self.struck.append((rule.kind, path))
        return chosen

    def _strikes(self, rule: Fault, index: int, counters: list[int]) -> bool:
        seen, struck = counters
        if rule.times is not None and struck >= rule.times:
            return False
        if rule.nth is not None and seen not in rule.nth:
            return False
        if rule.every is not None and seen % rule.every:
            return False
        return rule.probability >= 1.0 or self._draw(index, seen) < rule.probability

    def _draw(self, index: int, seen: int) -> float:
        text = f"{self.seed}/{index}/{seen}".encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest()) / 256**7


def parse(text: str) -> Fault:
    """Read a rule from a command line: `kind:path:option=value,option=value`.

    Example:
        >>> parse("status:optim_step:nth=2,status=503").status
        503
    """
    kind, _, rest = text.partition(":")
    path, _, options = rest.partition(":")
    values: dict[str, Any] = {}
    fields = {field.name for field in attrs.fields(Fault)}
    for item in filter(None, options.split(",")):
        name, _, value = item.partition("=")
        if name not in fields:
            raise ValueError(f"unknown fault option {name!r}; known: {', '.join(sorted(fields))}")
        if name in ("nth", "every", "times", "status"):
            values[name] = int(value)
        elif name in ("probability", "delay", "retry_after"):
            values[name] = float(value)
        elif name == "after":
            values[name] = value.lower() in ("1", "true", "yes", "on")
        else:
            values[name] = value
    return Fault(kind=kind, path=path or "*", **values)
