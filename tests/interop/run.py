"""Runs our client against a real server: `python tests/interop/run.py tuft`.

Makes a tiny model, starts the server on a free loopback port, runs `scenario.Scenario`, counts the
requests the server saw; with `--docs` it also runs the conformance suite and leaves both results in
`docs/conformance/`, of which `publish.py` makes `docs/servers.md`.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).parent))

import engines
from scenario import Scenario, Step
from skyrl_server import MODEL


def main() -> int:
    """Parse the command line, run, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", choices=sorted(engines.TRAITS))
    parser.add_argument("--python", type=Path, help="Python that has the server; default: this one")
    parser.add_argument("--folder", type=Path, help="keep model, caches and logs here")
    parser.add_argument("--site", type=Path, help="directory with the package skyrl-tx")
    parser.add_argument("--docs", action="store_true", help="examine it too, and write it down")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="tinker-ext-interop-"))
    traits = engines.TRAITS[options.server]
    print(f"working in {folder}; starting {traits.name} …", flush=True)
    started = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server is to end with us
    with engines.start(options.server, folder, options.python, options.site) as server:
        print(f"{server.url} is ready after {time.monotonic() - started:.0f} s", flush=True)
        scenario = Scenario(server.url, server.folder, MODEL, traits, show)
        ok = scenario.run()
        counts, fine = count(server, allowed={"save_weights"} if traits.older else set())
        ok = fine and ok
        if options.docs:
            write_steps(server, traits, counts, scenario.steps)
            examine(server, traits)
    print(f"{'all steps passed' if ok else 'FAILED'}; tinker-ext {metadata.version('tinker-ext')}")
    return 0 if ok else 1


def show(step: Step) -> None:
    """Print one finished step."""
    mark = "ok  " if step.ok else "FAIL"
    print(f"{mark} {step.seconds:6.1f} s  {step.name:<22} {step.note}", flush=True)


def count(server: engines.Process | engines.SkyRL, allowed: set[str]) -> tuple[str, bool]:
    """Check by the server's own log that nothing failed there and nothing was asked in a storm."""
    requests = server.requests()
    if not requests:
        return "The server writes no access log", True
    broken = {path: n for (path, status), n in requests.items() if status >= 500}
    broken = {path: n for path, n in broken.items() if not path.endswith("/archive")}
    probes = sum(n for (path, _), n in requests.items() if path == "client/config")
    total = sum(requests.values())
    polls = sum(n for (path, _), n in requests.items() if path == "retrieve_future")
    fine = set(broken) <= allowed and probes <= 12
    counts = (
        f"The server saw {total} requests, {polls} of them polls, {probes} to client/config, and "
        f"answered with 5xx: {broken or 'never'}"
    )
    print(f"{'ok  ' if fine else 'FAIL'} {counts}", flush=True)
    return counts, fine


def write_steps(
    server: engines.Process | engines.SkyRL,
    traits: engines.Traits,
    counts: str,
    steps: list[Step],
) -> None:
    """Leave what the steps found in `docs/conformance/`."""
    import publish

    found = {
        "server": traits.name,
        "date": datetime.now(UTC).date().isoformat(),
        "with": server.versions(),
        "model": "trained" if traits.model else "stand-in",
        "sampler": "real" if traits.sampler else "stand-in",
        "counts": counts,
        "steps": [attrs.asdict(step) for step in steps],
    }
    publish.REPORTS.mkdir(exist_ok=True)
    target = publish.REPORTS / f"{traits.name}-steps.json"
    target.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def examine(server: engines.Process | engines.SkyRL, traits: engines.Traits) -> None:
    """Run the conformance suite, which may find differences, and leave its report there too."""
    import publish

    from tinker_ext.conform import run

    report = run(
        server.url,
        api_key=engines.KEY,
        default_headers_overrides=dict(traits.headers),
        on_result=lambda r: print(f"     {r.outcome:<8} {r.name}", flush=True),
    )
    # Where the server is installed here says nothing about it.
    text = re.sub(r"[^\s\"']*/site-packages/", "", report.to_json())
    (publish.REPORTS / f"{traits.name}.json").write_text(text + "\n")
    print(report.summary(), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
