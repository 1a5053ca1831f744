"""Every published era of the official SDK on the embedded server, as one table.

Runs the versions that `nox -s parity -- --versions all` installed, prints a line each, and leaves
`docs/conformance/official-sdks.json`, of which `tests/interop/publish.py` makes a table.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from compare import agrees
from sdk_driver import STEPS_OF_A_RUN
from sdks import installed, ours

TARGET = Path(__file__).parents[2] / "docs" / "conformance" / "official-sdks.json"
ENOUGH = 14


def main() -> int:
    """Drive all versions, write the report, and return the exit code."""
    reference = ours().drive()
    rows = []
    for sdk in installed():
        row: dict[str, Any] = {"version": sdk.version, "proto_write_fwdbwd": sdk.proto}
        try:
            report = sdk.drive()
        except Exception as error:
            row |= {"passed": 0, "of": len(STEPS_OF_A_RUN), "failed": {"start": str(error)[-300:]}}
        else:
            failed = dict(report["failed"])
            failed |= {
                name: "differs from our client"
                for name in STEPS_OF_A_RUN
                if name not in failed and not agrees(name, report[name], reference[name])
            }
            if report["violations"]:
                failed["document"] = report["violations"][0]
            row |= {
                "bodies": report["bodies"],
                "passed": sum(name not in failed for name in STEPS_OF_A_RUN),
                "of": len(STEPS_OF_A_RUN),
                "failed": failed,
            }
        rows.append(row)
        print(f"{sdk!s:<32} {row['passed']} of {row['of']}  {row['failed'] or ''}", flush=True)
    rows = _with_earlier(rows)
    value = {"date": datetime.now(UTC).date().isoformat(), "steps": STEPS_OF_A_RUN, "sdks": rows}
    TARGET.write_text(json.dumps(value, indent=2) + "\n")
    versions = {row["version"] for row in rows if not row["failed"]}
    print(f"{len(versions)} versions pass every step")
    return 0 if len(versions) >= ENOUGH and all(not row["failed"] for row in rows) else 1


def _with_earlier(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add what an earlier run found about versions that were not driven this time."""
    found = json.loads(TARGET.read_text())["sdks"] if TARGET.exists() else []
    named = {_name(row): row for row in [*found, *rows]}
    return [named[name] for name in sorted(named)]


def _name(row: dict[str, Any]) -> tuple[tuple[int, ...], bool]:
    return tuple(int(n) for n in row["version"].split(".")), row["proto_write_fwdbwd"]


if __name__ == "__main__":
    raise SystemExit(main())
