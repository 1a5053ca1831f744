"""What a run of the suite found: one result per check, as text for people and JSON for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Self

import attrs

from tinker_ext._version import __version__

PASS: Final = "pass"
FAIL: Final = "fail"
ABSENT: Final = "absent"
UNJUDGED: Final = "unjudged"
OUTCOMES: Final = (PASS, FAIL, ABSENT, UNJUDGED)

EXIT_FAILED: Final = 1
EXIT_UNJUDGED: Final = 3

_MARKS: Final = {PASS: "pass  ", FAIL: "FAIL  ", ABSENT: "absent", UNJUDGED: "?     "}
_WIDTH: Final = 92


@attrs.frozen
class Result:
    """What one check found.

    Attributes:
        name: Name of the check, `group.what`.
        title: What a server does that passes.
        outcome: `pass`, `fail`, `absent` when the server does not offer the feature, or
            `unjudged` when nothing can be said: no connection, or a model that is a stand-in.
        evidence: What was sent, what came back and what should have; a note for a pass.
        seconds: How long the check took.
        consequence: What a client does about a failure.
    """

    name: str
    title: str
    outcome: str = attrs.field(validator=attrs.validators.in_(OUTCOMES))
    evidence: str = ""
    seconds: float = 0.0
    consequence: str = ""

    @property
    def group(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]


@attrs.frozen
class Report:
    """Every result of one run against one server.

    Attributes:
        server: URL of the server.
        facts: What is known about it: wire, era, use of seq ids, base model.
        date: Day of the run, in UTC.
        client: Version of this package.
        results: One per check, in the order they ran.
    """

    server: str
    facts: Mapping[str, str]
    date: str
    client: str
    results: tuple[Result, ...]

    @classmethod
    def without_judgement(cls, server: str, reason: str) -> Self:
        """The report about a server that could not be judged, so that programs find it said."""
        result = Result("service.judged", "is there to be judged", UNJUDGED, reason)
        today = datetime.now(UTC).date().isoformat()
        return cls(server, {}, today, __version__, (result,))

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.of(FAIL)

    @property
    def exit_code(self) -> int:
        """0 when all was judged and nothing failed, 1 when a check failed, 3 for no judgement."""
        if self.of(FAIL):
            return EXIT_FAILED
        return EXIT_UNJUDGED if self.of(UNJUDGED) else 0

    def of(self, outcome: str) -> list[Result]:
        """The results with one outcome."""
        return [result for result in self.results if result.outcome == outcome]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "server": self.server,
            "facts": dict(self.facts),
            "date": self.date,
            "client": self.client,
            "counts": {outcome: len(self.of(outcome)) for outcome in OUTCOMES},
            "results": [
                {**attrs.asdict(result), "seconds": round(result.seconds, 3)}
                for result in self.results
            ],
        }

    def to_json(self) -> str:
        """Return the report as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave."""
        results = tuple(Result(**result) for result in value["results"])
        return cls(value["server"], value["facts"], value["date"], value["client"], results)

    def to_text(self) -> str:
        """Return the report for a terminal: a line per check, evidence below what did not pass."""
        facts = ", ".join(f"{name} {value}" for name, value in self.facts.items())
        lines = [f"Conformance of {self.server}", f"{self.date}, tinker-ext {self.client}; {facts}"]
        group = ""
        for result in self.results:
            if result.group != group:
                group = result.group
                lines += ["", group]
            what = result.name.partition(".")[2]
            lines.append(f"  {_MARKS[result.outcome]}  {what:<22} {result.title}")
            if result.evidence and result.outcome != PASS:
                indent = " " * 10
                lines += textwrap.wrap(
                    result.evidence, _WIDTH, initial_indent=indent, subsequent_indent=indent
                )
                if result.consequence and result.outcome == FAIL:
                    lines += textwrap.wrap(
                        f"→ {result.consequence}",
                        _WIDTH,
                        initial_indent=indent,
                        subsequent_indent=indent + "  ",
                    )
        lines += ["", self.summary()]
        return "\n".join(lines)

    def summary(self) -> str:
        """Return the counts in one line."""
        shown = [name for name in OUTCOMES if name != UNJUDGED or self.of(UNJUDGED)]
        counts = ", ".join(f"{len(self.of(outcome))} {outcome}" for outcome in shown)
        return f"{len(self.results)} checks: {counts}."
