"""The list of checks, and the words in which a check says what it found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import attrs

if TYPE_CHECKING:
    from tinker_ext.conform.subject import Subject

CheckFunction = Callable[["Subject"], "str | None"]


class Failed(Exception):
    """The server does something else than the API says; the text is the evidence."""


class Absent(Exception):
    """The server does not offer the feature; the text says how it shows."""


class Unjudged(Exception):
    """Nothing can be said about the server; the text says what was in the way."""


@attrs.frozen
class Check:
    """One check.

    Attributes:
        name: `group.what`.
        title: What a server does that passes.
        run: The check; returns a note or None, raises `Failed` or `Absent`.
    """

    name: str
    title: str
    run: CheckFunction


CHECKS: dict[str, Check] = {}


def check(name: str, title: str) -> Callable[[CheckFunction], CheckFunction]:
    """Put a function on the list of checks."""

    def register(function: CheckFunction) -> CheckFunction:
        if name in CHECKS:
            raise ValueError(f"two checks are called {name}")
        CHECKS[name] = Check(name, title, function)
        return function

    return register


def fail(evidence: str) -> NoReturn:
    """End a check: the server is wrong."""
    raise Failed(evidence)


def absent(evidence: str) -> NoReturn:
    """End a check: the server lacks this."""
    raise Absent(evidence)


def expect(condition: bool, evidence: str) -> None:
    """Fail with the evidence unless the condition holds."""
    if not condition:
        raise Failed(evidence)
