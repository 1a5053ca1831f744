"""Feed clients wrong replies: `python tests/faults/fuzz.py --cases 50000`.

Every case makes one call while one operation of a real server answers wrongly. The call must end in
a result that a strict reading of the reply confirms, or in an error of ours; memory and time stay
bounded. A failure prints its case; `--first CASE --cases 1` replays it.
"""

from __future__ import annotations

import argparse
import logging
import resource
import sys
import time
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve()
for place in (HERE.parents[2] / "generated", HERE.parents[2], HERE.parents[1]):
    sys.path.insert(0, str(place))

from faults.hostile import Tally, run_batch  # noqa: E402

BATCH = 100
MOST_MEMORY = 64 << 20


def peak() -> int:
    """Largest resident size of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(arguments: Iterable[str] | None = None) -> int:
    """Run the cases and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="how many calls")
    parser.add_argument("--first", type=int, default=0, help="first case")
    options = parser.parse_args(None if arguments is None else list(arguments))
    logging.getLogger("tinker_ext").addHandler(logging.NullHandler())
    logging.getLogger("tinker_ext").propagate = False
    run_batch(0, min(BATCH, 20))  # what is loaded on first use is no leak
    before, began, longest = peak(), time.monotonic(), 0.0
    total = Tally()
    end = options.first + options.cases
    for first in range(options.first, end, BATCH):
        started = time.monotonic()
        tally = run_batch(first, min(BATCH, end - first))
        longest = max(longest, time.monotonic() - started)
        for name in ("cases", "errors", "results", "replies"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        total.wrong += tally.wrong
        print("".join(f"{line}\n" for line in tally.wrong), end="", flush=True)
    grown = peak() - before
    print(
        f"{total.cases} calls met {total.replies} wrong replies in "
        f"{time.monotonic() - began:.0f} s: {total.results} results, {total.errors} errors of ours"
    )
    print(f"memory grew by {grown / 1e6:.0f} MB; slowest {BATCH} calls took {longest:.1f} s")
    print(f"foreign errors, silent lies, hangs or clients that stopped working: {len(total.wrong)}")
    return 1 if total.wrong or grown > MOST_MEMORY else 0


if __name__ == "__main__":
    sys.exit(main())
