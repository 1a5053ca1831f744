"""The dialect of a server as a file: what was found out once need not be found out again.

`tinker-ext conform URL --remember FILE` writes it, a client reads it when it is given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinker_ext._wire.dialect import FILE_FORMAT
from tinker_ext.config import normal_url
from tinker_ext.conform.report import ABSENT, PASS, Report
from tinker_ext.mock import embedded

# Check → operation of the document that the server lacks where the check is absent.
_LACKS: Mapping[str, str] = {
    "service.client_config": "get_client_config",
    "service.dynamic_config": "get_client_dynamic_config",
    "service.heartbeat": "session_heartbeat",
    "service.finish_session": "finish_session",
    "rest.sessions": "list_sessions",
    "rest.user_checkpoints": "list_checkpoints",
    "rest.publish": "publish_checkpoint",
    "rest.delete": "delete_checkpoint",
    "rest.ttl": "set_checkpoint_ttl",
    "rest.weights_info": "get_weights_info",
}


def dialect(report: Report) -> dict[str, Any]:
    """Return what a client needs to know about a server, as plain JSON.

    Args:
        report: A report with the groups `service`, `seq` and `rest`.

    Returns:
        `format`, `server`, `date`, `made_by`, `era`, `wire` (`json` or `proto`), `seq` (`order`,
        `dedupe`, `strict`, `late` or `ignore`), `reorders` (works in the order of seq ids) and
        `lacks` (operation ids). What was not examined is left out, so a client finds it out.
    """
    url = report.server
    found = {result.name: result.outcome for result in report.results}
    value: dict[str, Any] = {
        "format": FILE_FORMAT,
        "server": embedded.url(url) if embedded.is_embedded(url) else normal_url(url),
        "date": report.date,
        "made_by": f"tinker-ext {report.client}",
        "era": report.facts.get("era"),
        "wire": report.facts.get("wire"),
    }
    rule = report.facts.get("seq_ids")
    if "seq.reorder" in found:
        value["reorders"] = found["seq.reorder"] == PASS
    if rule is not None:
        holds = found.get("seq.gap") == PASS and value.get("reorders", False)
        value["seq"] = "order" if rule == "dedupe" and holds else rule
    if any(name in found for name in _LACKS):
        value["lacks"] = sorted(
            operation for name, operation in _LACKS.items() if found.get(name) == ABSENT
        )
    return value


def write(report: Report, path: Path) -> None:
    """Write the dialect of a report to a file."""
    path.write_text(json.dumps(dialect(report), indent=2) + "\n", encoding="utf-8")
