"""Runs our client against a real SkyRL server: `python tests/interop/run.py`.

Makes a tiny model, starts the server on a free loopback port, runs `scenario.Scenario`, counts the
requests the server saw; with `--docs` it also runs the conformance suite and writes both results
into `docs/servers.md` (see `publish.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).parent))

from scenario import Scenario, Step
from skyrl_server import MODEL, SkyRL


def main() -> int:
    """Parse the command line, run, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, help="Python that has the server; default: this one")
    parser.add_argument("--folder", type=Path, help="keep model, caches and logs here")
    parser.add_argument(
        "--older",
        type=Path,
        help="directory with the older package skyrl-tx 0.3.0, to run that",
    )
    parser.add_argument("--docs", action="store_true", help="examine it too, and document it")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="tinker-ext-interop-"))
    print(f"working in {folder}; starting the server …", flush=True)
    started = time.monotonic()
    module = "tx.tinker.api" if options.older else "skyrl.tinker.api"
    with SkyRL(folder, options.python, module=module, site=options.older) as server:
        print(f"{server.url} is ready after {time.monotonic() - started:.0f} s", flush=True)
        posts = lambda path: sum(n for (seen, _), n in server.requests().items() if seen == path)  # noqa: E731
        older = options.older is not None
        scenario = Scenario(server.url, server.folder, MODEL, posts, show, older=older)
        ok = scenario.run()
        counts, fine = count(server, allowed={"save_weights"} if older else set())
        ok = fine and ok
        if options.docs:
            ok = document(server, older, counts, scenario.steps) and ok
    print(f"{'all steps passed' if ok else 'FAILED'}; tinker-ext {metadata.version('tinker-ext')}")
    return 0 if ok else 1


def show(step: Step) -> None:
    """Print one finished step."""
    mark = "ok  " if step.ok else "FAIL"
    print(f"{mark} {step.seconds:6.1f} s  {step.name:<22} {step.note}", flush=True)


def count(server: SkyRL, allowed: set[str]) -> tuple[str, bool]:
    """Check by the server's own log that nothing failed there and nothing was asked in a storm."""
    requests = server.requests()
    broken = {path: n for (path, status), n in requests.items() if status >= 500}
    probes = sum(n for (path, _), n in requests.items() if path == "client/config")
    total = sum(requests.values())
    polls = sum(n for (path, _), n in requests.items() if path == "retrieve_future")
    fine = set(broken) <= allowed and probes <= 4
    counts = (
        f"The server saw {total} requests, {polls} of them polls, {probes} to client/config, and "
        f"answered with 5xx: {broken or 'never'}"
    )
    print(f"{'ok  ' if fine else 'FAIL'} {counts}", flush=True)
    return counts, fine


def document(server: SkyRL, older: bool, counts: str, steps: list[Step]) -> bool:
    """Run the conformance suite, which may find differences, and write everything down."""
    import publish

    from tinker_ext.conform import run

    report = run(server.url, on_result=lambda r: print(f"     {r.outcome:<7} {r.name}", flush=True))
    name = "skyrl-tx-0.3.0" if older else "skyrl-0.3.0"
    publish.REPORTS.mkdir(exist_ok=True)
    (publish.REPORTS / f"{name}.json").write_text(report.to_json() + "\n")
    found = {
        "server": name,
        "date": report.date,
        "with": server.versions(),
        "counts": counts,
        "steps": [attrs.asdict(step) for step in steps],
    }
    target = publish.REPORTS / f"{name}-steps.json"
    target.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    print(report.summary(), flush=True)
    return bool(report.of("pass"))


if __name__ == "__main__":
    raise SystemExit(main())
