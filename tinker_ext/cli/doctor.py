"""`tinker-ext doctor`: print what works on the way to the server and what to fix."""

from __future__ import annotations

import click

from tinker_ext.cli.lazy import Command, screen_of

EXAMPLES = """
tinker-ext doctor
tinker-ext --base-url http://127.0.0.1:8000 doctor
tinker-ext --format json doctor | jq '.checks[] | select(.status != "ok")'
"""

MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red"), "info": ("·", "dim")}


@click.command(cls=Command, name="doctor", examples=EXAMPLES)
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=5.0,
              show_default=True, metavar="SECONDS", help="Time for each step.")  # fmt: skip
@click.pass_context
def command(context: click.Context, timeout: float) -> int:
    """Check key, URL, network, TLS, clock, proxy, wire and versions; say what to fix.

    A session is opened and ended again; nothing is trained, and nothing costs money. The exit code
    is 1 when something is broken.
    """
    from tinker_ext.cli.examination import examine

    screen = screen_of(context)
    console = screen.console()
    findings = []
    for finding in examine(screen.base_url, timeout=timeout):
        findings.append(finding)
        if not screen.is_json:
            mark, style = MARKS[finding.status]
            console.print(
                f"{mark} {finding.name:<12} {finding.detail}", style=style, soft_wrap=True
            )
            if finding.fix:
                console.print(f"  {'':<12} → {finding.fix}", style="bold", soft_wrap=True)
    broken = sum(finding.status == "fail" for finding in findings)
    if screen.is_json:
        screen.json({"ok": not broken, "checks": findings})
    else:
        doubts = sum(finding.status == "warn" for finding in findings)
        screen.say("")
        screen.say(
            f"{broken} to fix, {doubts} to look at." if broken or doubts else "Everything is fine."
        )
    return 1 if broken else 0
