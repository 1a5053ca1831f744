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

import attrs
import httpx

from tinker_ext.conform import Report, matrix, names, run
from tinker_ext.mock import Settings, create_app

DOCS = Path(__file__).parents[2] / "docs"
REPORTS = DOCS / "conformance"
SHOWN = 260
COLUMNS = {
    "embedded": "embedded",
    "embedded-0.4.1": "embedded, era 0.4.1",
    "embedded-hosted": "embedded, hosted",
    "skyrl-0.3.0": "SkyRL 0.3.0",
    "skyrl-tx-0.3.0": "skyrl-tx 0.3.0",
    "tuft-0.2.2": "TuFT 0.2.2",
    "twinkle-kit-0.5.1": "Twinkle 0.5.1",
}
"""File name of each report and what its column is called."""

LOST = ("lost_forward_backward", "lost_optim_step", "lost_save", "lost_sample")


def page(text: str) -> str:
    """The page with its made parts made anew."""
    for part, made in (
        ("glance", glance()),
        ("sdks", sdks()),
        ("downstream", downstream()),
        ("matrix", table()),
        ("runs", runs()),
    ):
        begin, end = f"<!-- {part} -->\n", f"<!-- /{part} -->"
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n{made.strip()}\n\n{end}{after}"
    return text


def _reports() -> dict[str, Report]:
    """The reports, without checks that the suite no longer has."""
    known = set(names())
    found = {}
    for name in COLUMNS:
        file = REPORTS / f"{name}.json"
        if file.exists():
            report = Report.from_dict(json.loads(file.read_text()))
            kept = tuple(result for result in report.results if result.name in known)
            found[name] = attrs.evolve(report, results=kept)
    return found


def _steps() -> dict[str, dict[str, Any]]:
    files = {name: REPORTS / f"{name}-steps.json" for name in COLUMNS}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def glance() -> str:
    """One line a server: what it is, how far our client gets, what conform says."""
    reports = _reports()
    lines = [
        "| server | its model here | steps passed | after a lost answer | conform |",
        "|---|---|---|---|---|",
    ]
    for name, found in _steps().items():
        steps = {step["name"]: step for step in found["steps"]}
        passed = sum(step["ok"] for step in found["steps"])
        lost = [steps[step]["ok"] for step in LOST if step in steps]
        after = f"{sum(lost)} of {len(lost)} end within 10 s, each step once" if lost else ""
        model = f"{found.get('model', 'trained')}, sampler {found.get('sampler', 'real')}"
        judged = reports[name].summary().partition(": ")[2].rstrip(".") if name in reports else ""
        cells = [COLUMNS[name], model, f"{passed} of {len(found['steps'])}", after, judged]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def sdks() -> str:
    """The official SDKs on the embedded server."""
    file = REPORTS / "official-sdks.json"
    if not file.exists():
        return ""
    found: dict[str, Any] = json.loads(file.read_text())
    lines = [
        f"On {found['date']}, the steps {', '.join(found['steps'])}:",
        "",
        "| SDK | training bodies | steps passed |",
        "|---|---|---|",
    ]
    for row in found["sdks"]:
        flag = " (`proto_write_fwdbwd`)" if row["proto_write_fwdbwd"] else ""
        bodies = " and ".join(row.get("bodies", ())) + flag
        failed = "; ".join(f"{name}: {why}" for name, why in row["failed"].items())
        cell = f"{row['passed']} of {row['of']}" + (f" ({failed})" if failed else "")
        lines.append(f"| tinker {row['version']} | {bodies} | {cell} |")
    return "\n".join(lines)


def downstream() -> str:
    """Packages that import `tinker`, on ours."""
    file = REPORTS / "downstream.json"
    if not file.exists():
        return ""
    found: dict[str, Any] = json.loads(file.read_text())
    lines = ["| package | version | smallest path |", "|---|---|---|"]
    for row in found["packages"]:
        what = f"runs: {row['note']}" if row["ok"] else f"**does not run**: {row['note']}"
        lines.append(f"| {row['package']} | {row['version']} | {what.replace('|', '/')} |")
    return "\n".join(lines)


def table() -> str:
    """The matrix server × feature."""
    return matrix([(COLUMNS[name], report) for name, report in _reports().items()])


def runs() -> str:
    """What each step of the scenario printed on each engine."""
    parts = []
    for name, found in _steps().items():
        versions = ", ".join(f"{package} {version}" for package, version in found["with"].items())
        passed = sum(step["ok"] for step in found["steps"])
        lines = [
            f"### {COLUMNS[name]}: {passed} of {len(found['steps'])} steps",
            "",
            f"On {found['date']} ({versions}). {found['counts']}.",
            "",
            "| step | what | it printed |",
            "|---|---|---|",
            *(f"| {s['name']} | {s['what']} | {_cell(s)} |" for s in found["steps"]),
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _cell(step: dict[str, Any]) -> str:
    note = " ".join(step["note"].split())
    note = note if len(note) <= SHOWN else f"{note[:80]} … {note[-SHOWN + 80 :]}"
    for mark in "<>[*":
        note = note.replace(mark, f"\\{mark}")
    note = note.replace("|", "/")
    return f"{'' if step['ok'] else '**failed** '}{note}".strip() or "passed"


def examine_embedded() -> None:
    """Run the suite on the embedded server: as it is, of the first era, and as the hosted one."""
    for name, settings in (
        ("embedded", Settings()),
        ("embedded-0.4.1", Settings(era="0.4.1")),
        ("embedded-hosted", Settings.of_profile("hosted")),
    ):
        app = create_app(settings)
        try:
            report = run(f"http://{name}", api_key="tml-any", transport=httpx.ASGITransport(app))
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
