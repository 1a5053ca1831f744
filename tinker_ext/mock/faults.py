"""Misbehaviour on order: which request gets which fault, decided by rules and a seed."""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, Protocol

import attrs

from tinker_ext.mock.log import matches, short

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
    "headers": "takes effect, then the reply carries `headers`, however absurd",
    "refuse_body": "answers `status` (422) to one training batch whenever it comes, on either wire",
    "stale_completions": "retrieve_futures tells at once what it told before; its cursor stays",
    "false_completions": "retrieve_futures tells at once of requests that nobody made",
    "no_completions": "retrieve_futures answers at once that nothing is finished",
    "expired_future": "the polled request is forgotten: 410 now and later",
    "session_loss": "the session of the request is ended: 410 now and later",
}
# Kinds that mean something on one path only; a rule for another would never be seen.
ONLY_ON = {
    "refuse_body": ("forward", "forward_backward"),
    "stale_completions": ("retrieve_futures",),
    "false_completions": ("retrieve_futures",),
    "no_completions": ("retrieve_futures",),
    "expired_future": ("retrieve_future",),
}
WIRES = {"json": "application/json", "proto": "application/x-protobuf"}


def _numbers(value: int | Iterable[int] | None) -> frozenset[int] | None:
    if value is None:
        return None
    return frozenset((value,)) if isinstance(value, int) else frozenset(value)


def _between(least: float, most: float = math.inf) -> Callable[[Any, Any, float | None], None]:
    """Return a validator that accepts None and the numbers from `least` to `most`."""
    limits = f"at least {least}" if most == math.inf else f"from {least} to {most}"

    def check(_: Any, field: Any, value: float | None) -> None:
        if value is not None and not least <= value <= most:
            raise ValueError(f"{field.name} must be {limits}, not {value}")

    return check


def _pattern(path: str) -> str:
    return re.sub(r"\{\w+\}", "*", path)


@attrs.frozen(kw_only=True)
class Fault:
    """One rule: a kind of misbehaviour and the requests it strikes.

    A kind or a path that this server does not know and a number out of range are refused: the rule
    would never strike, and a test that relies on it would prove nothing.

    Attributes:
        kind: A key of :data:`KINDS`.
        path: Pattern such as `optim_step`, `retrieve_*` or `*`. `forward` also strikes a protobuf
            body to forward_backward that asks for a forward pass only.
        method: HTTP method, None for any.
        nth: Only these matching requests, counted from 1.
        every: Only each n-th matching request.
        probability: Chance per matching request, drawn from the seed.
        times: At most this many strikes.
        status: Status for `status` and `html`.
        delay: Seconds for `delay`, `hang` and `slow_body`.
        after: For `status`, `html` and `reset`: do so after the effect.
        retry_after: Value of a `retry-after` header: seconds, or any text.
        headers: Extra reply headers.
        body: Reply body text of `status` and `html`.
        wire: Only requests with a `json` or a `proto` body.
    """

    kind: str = attrs.field()
    path: str = attrs.field(default="*", converter=_pattern)
    method: str | None = None
    nth: frozenset[int] | None = attrs.field(default=None, converter=_numbers)
    every: int | None = attrs.field(default=None, validator=_between(1))
    probability: float = attrs.field(default=1.0, validator=_between(0, 1))
    times: int | None = attrs.field(default=None, validator=_between(1))
    status: int | None = attrs.field(default=None, validator=_between(100, 999))
    delay: float = attrs.field(default=1.0, validator=_between(0))
    after: bool = False
    retry_after: float | str | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: str | None = None
    wire: str | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.in_(WIRES))
    )

    @kind.validator
    def _check_kind(self, _: Any, kind: str) -> None:
        if kind not in KINDS:
            near = get_close_matches(kind, KINDS, 1)
            hint = f"did you mean {near[0]!r}? Kinds" if near else "kinds"
            raise ValueError(f"there is no fault {kind!r}; {hint}: {', '.join(KINDS)}")

    @nth.validator
    def _check_nth(self, _: Any, nth: frozenset[int] | None) -> None:
        if nth is not None and not all(number >= 1 for number in nth or (0,)):
            given = ", ".join(map(str, sorted(nth))) or "empty"
            raise ValueError(f"nth counts requests from 1, so {given} never strikes")

    @path.validator
    def _check_path(self, _: Any, path: str) -> None:
        if not _is_path(path):
            known = paths()
            near = get_close_matches(short(path), known, 3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
            raise ValueError(
                f"no request has the path {path!r}, so the fault never strikes; {hint}"
            )
        only = ONLY_ON.get(self.kind)
        if only is not None and not any(matches(name, path) for name in only):
            raise ValueError(f"{self.kind} strikes {' or '.join(only)} only, not {path!r}")

    def to_record(self) -> dict[str, Any]:
        """Return the rule as JSON, the form `POST /_mock/faults` takes."""
        record = attrs.asdict(self)
        record["nth"] = sorted(self.nth) if self.nth is not None else None
        return {name: value for name, value in record.items() if value is not None}


@cache
def paths() -> list[str]:
    """Return the path templates that rules may name."""
    from tinker_ext.mock import handlers, routing

    _ = handlers
    names = {short(template) for _, template in routing.ENDPOINTS}
    return sorted(name for name in names if not name.startswith("_mock/"))


def _is_path(pattern: str) -> bool:
    """Whether some request can fit a pattern: by name, with a wildcard, or with an id filled in."""
    return any(
        matches(name, pattern)
        or re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", name), short(pattern)) is not None
        for name in paths()
    )


class Body(Protocol):
    """What rules may ask about a request's body."""

    @property
    def content_type(self) -> str:
        """Its media type."""

    def batch(self) -> str:
        """A fingerprint of its training data, the same on both wires."""

    def forward_only(self) -> bool:
        """Whether it is a protobuf body that asks for a forward pass only."""


def _fits(rule: Fault, method: str, path: str, body: Body | None) -> bool:
    if rule.method not in (None, method):
        return False
    if rule.wire is not None and (body is None or body.content_type != WIRES[rule.wire]):
        return False
    if matches(path, rule.path):
        return True
    return (
        body is not None
        and matches(path, "forward_backward")
        and matches("forward", rule.path)
        and body.forward_only()
    )


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
        self._refused: dict[int, set[str]] = {}
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
            self._refused.clear()

    def reseed(self, seed: int) -> None:
        """Change the seed of later draws."""
        self.seed = seed

    def choose(self, method: str, path: str, body: Body | None = None) -> list[Fault]:
        """Return the faults that strike this request, in the order of their rules.

        Args:
            method: HTTP method.
            path: Path of the request.
            body: Reads what rules ask about the body; only called where a rule does.
        """
        if not self._rules:
            return []
        chosen = []
        with self.lock:
            for index, (rule, counters) in enumerate(self._rules):
                if not _fits(rule, method, path, body):
                    continue
                if rule.kind == "refuse_body":
                    batch = body.batch() if body is not None else ""
                    if batch in self._refused.get(index, ()):
                        chosen.append(rule)
                        self.struck.append((rule.kind, path))
                        continue
                counters[0] += 1
                if self._strikes(rule, index, counters):
                    if rule.kind == "refuse_body" and body is not None:
                        self._refused.setdefault(index, set()).add(body.batch())
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
        elif name in ("probability", "delay"):
            values[name] = float(value)
        elif name == "after":
            values[name] = value.lower() in ("1", "true", "yes", "on")
        else:
            values[name] = value
    return Fault(kind=kind, path=path or "*", **values)
