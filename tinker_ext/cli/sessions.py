"""`tinker-ext session`: export the timeline of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinker_ext.cli.connect import downloads, rest
from tinker_ext.cli.lazy import Group, screen_of
from tinker_ext.cli.screen import size


@click.command(cls=Group, name="session")
def command() -> None:
    """Export the timeline of a session."""


EXAMPLES = """
tinker-ext session export-trace SESSION_ID
tinker-ext session export-trace SESSION_ID -o lesson.pftrace
curl -o t.pftrace "$(tinker-ext session export-trace SESSION_ID --url-only)"
"""


@command.command(name="export-trace", examples=EXAMPLES)
@click.argument("session_id")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path),
              help="File to write; by default ./SESSION_ID.pftrace.")  # fmt: skip
@click.option("--url-only", is_flag=True, help="Print where the trace is instead of fetching it.")
@click.pass_context
def export_trace(
    context: click.Context, session_id: str, output: Path | None, url_only: bool
) -> None:
    """Export what a session did as a Perfetto trace.

    The server prepares the file, which can take a while. Open it at ui.perfetto.dev.
    """
    screen = screen_of(context)
    with rest(screen) as client:
        screen.note("The server prepares the trace …")
        url = client.export_session_trace(session_id).result()
    if url_only:
        if screen.is_json:
            screen.json({"session_id": session_id, "url": url})
        else:
            print(url)
        return
    from tinker_ext.downloads import fetch

    target = output or Path.cwd() / f"{session_id.replace('/', '_')}.pftrace"
    with screen.progress("Downloading the trace", bytes_=True) as advance:
        fetch(url, target, progress=advance, client=downloads(screen))
    count = target.stat().st_size
    result: dict[str, Any] = {"session_id": session_id, "destination": str(target)}
    if screen.is_json:
        screen.json(result | ({"file_size_bytes": count} if count else {}))
    else:
        screen.properties(
            f"Trace of session {session_id}", [("Saved to", str(target)), ("Size", size(count))]
        )
