"""What each odd behaviour costs: `python tests/simulation/rates.py --seeds 12`.

Prints one row a behaviour: requests a second in the busiest ten seconds beyond the work itself,
the longest call, and how many executions broke a promise. `--tree PATH` measures another checkout
of the package, for a table of before and after.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve()


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=12, help="executions a behaviour")
    parser.add_argument("--only", default="", help="part of a behaviour's name")
    parser.add_argument("--tree", type=Path, default=HERE.parents[2], help="what to measure")
    parser.add_argument("--why", action="store_true", help="print the broken promises")
    options = parser.parse_args()
    for place in (HERE.parents[1], options.tree / "generated", options.tree):
        sys.path.insert(0, str(place))
    logging.disable(logging.CRITICAL)
    from simulation.behaviours import BEHAVIOURS
    from simulation.conduct import conduct
    from simulation.run import table

    broken = 0
    for at, name in enumerate(n for n in BEHAVIOURS if options.only in n):
        verdicts = [conduct(seed, name) for seed in range(options.seeds)]
        print("\n".join(list(table({name: verdicts}))[bool(at) :]), flush=True)
        wrong = [verdict for verdict in verdicts if verdict.wrong]
        broken += len(wrong)
        if options.why:
            reasons = Counter(text[:150] for verdict in wrong for text in verdict.wrong)
            for text, count in reasons.most_common(6):
                print(f"    {count} × {text}")
            for verdict in wrong[:2]:
                print(f"    {verdict.plan}\n      {verdict.trace[-3:]}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
