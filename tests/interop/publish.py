"""Writes what the last runs found into `docs/servers.md`: `python tests/interop/publish.py`.

The reports lie in `docs/conformance/`: `run.py --docs` leaves those of a real engine there, this
program those of the embedded server with `--embedded`. The page is made from nothing else, and
`tests/docs/test_servers_page.py` holds it to them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import httpx

from tinker_ext.conform import Report, matrix, run
from tinker_ext.mock import Settings, create_app

DOCS = Path(__file__).parents[2] / "docs"
REPORTS = DOCS / "conformance"
COLUMNS = {
    "embedded": "embedded",
    "embedded-0.4.1": "embedded, era 0.4.1",
    "skyrl-0.3.0": "SkyRL 0.3.0",
    "skyrl-tx-0.3.0": "skyrl-tx 0.3.0",
}
"""File name of each report and what its column is called."""


def page(text: str) -> str:
    """The page with its made parts made anew."""
    for part, made in (("runs", runs()), ("matrix", table())):
        begin, end = f"<!-- {part} -->\n", f"<!-- /{part} -->"
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n{made.strip()}\n\n{end}{after}"
    return text


def table() -> str:
    """The matrix server × feature."""
    reports = []
    for name, column in COLUMNS.items():
        found = json.loads((REPORTS / f"{name}.json").read_text())
        reports.append((column, Report.from_dict(found)))
    return matrix(reports)


def runs() -> str:
    """What each step of the scenario printed on each engine."""
    parts = []
    for name in ("skyrl-0.3.0", "skyrl-tx-0.3.0"):
        found: dict[str, Any] = json.loads((REPORTS / f"{name}-steps.json").read_text())
        versions = ", ".join(f"{package} {version}" for package, version in found["with"].items())
        passed = sum(step["ok"] for step in found["steps"])
        lines = [
            f"`{found['server']}` on {found['date']} ({versions}): {passed} of "
            f"{len(found['steps'])} steps passed. {found['counts']}.",
            "",
            "| step | what | it printed |",
            "|---|---|---|",
            *(f"| {s['name']} | {s['what']} | {_cell(s)} |" for s in found["steps"]),
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _cell(step: dict[str, Any]) -> str:
    note = step["note"].replace("|", "/").replace("[", "\\[")
    return f"{'' if step['ok'] else '**failed** '}{note}".strip() or "passed"


def examine_embedded() -> None:
    """Run the suite on the embedded server, as both eras."""
    for name, settings in (("embedded", Settings()), ("embedded-0.4.1", Settings(era="0.4.1"))):
        app = create_app(settings)
        try:
            report = run("http://embedded", api_key="tml-any", transport=httpx.ASGITransport(app))
        finally:
            app.close()
        (REPORTS / f"{name}.json").write_text(report.to_json() + "\n")
        print(name, report.summary(), flush=True)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embedded", action="store_true", help="examine the embedded server first")
    options = parser.parse_args()
    if options.embedded:
        examine_embedded()
    target = DOCS / "servers.md"
    target.write_text(page(target.read_text()))
    print(f"{target} is up to date")


if __name__ == "__main__":
    main()
