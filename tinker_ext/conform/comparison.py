"""The table server × feature in Markdown, made from the reports of several runs."""

from __future__ import annotations

from collections.abc import Sequence

from tinker_ext.conform.report import ABSENT, FAIL, PASS, UNJUDGED, Report

_SHOWN = 220
_CELLS = {PASS: "yes", FAIL: "**no**", ABSENT: "–", UNJUDGED: "?"}


def matrix(reports: Sequence[tuple[str, Report]]) -> str:
    """Return a Markdown table: one row per check, one column per server.

    Args:
        reports: Name of each server, with its version, and its report.

    Returns:
        The table, then the evidence of everything that is not as documented.

    Example:
        >>> from tinker_ext.conform import matrix, run
        >>> table = matrix([("embedded", run("embedded", only=["service.healthz"]))])
        >>> "| service.healthz | answers healthz with a status | yes |" in table
        True
    """
    heads = ["check", "what the server does", *(name for name, _ in reports)]
    lines = [_row(heads), _row(["---"] * len(heads))]
    lines.append(_row(["", "date of the run", *(report.date for _, report in reports)]))
    lines.append(_row(["", "tinker-ext", *(report.client for _, report in reports)]))
    for fact in ("era", "wire", "seq_ids"):
        values = [report.facts.get(fact, "") for _, report in reports]
        lines.append(_row(["", fact.replace("_", " "), *values]))
    found = [{result.name: result for result in report.results} for _, report in reports]
    titles = {name: result.title for results in found for name, result in results.items()}
    for name, title in titles.items():
        cells = [_CELLS[results[name].outcome] if name in results else "" for results in found]
        lines.append(_row([name, title, *cells]))
    for name, report in reports:
        lines += _evidence(name, report)
    return "\n".join(lines) + "\n"


def _evidence(name: str, report: Report) -> list[str]:
    lines = ["", f"### {name}: {report.summary()}", ""]
    for outcome, word in ((FAIL, "no"), (ABSENT, "–"), (UNJUDGED, "?")):
        found = report.of(outcome)
        lines += [f"- `{result.name}` {word}: {_plain(result.evidence)}" for result in found]
    return lines if len(lines) > 3 else [*lines, "Nothing to add."]


def _plain(text: str) -> str:
    """Evidence on one line, short, harmless inside Markdown."""
    line = " ".join(text.split())
    line = line if len(line) <= _SHOWN else line[:_SHOWN] + "…"
    line = line.replace("`", "'")
    for mark in "<>|*":
        line = line.replace(mark, f"\\{mark}")
    return line


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
