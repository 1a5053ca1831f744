"""Run tinker-cookbook on us: its own unit tests, its recipes and our page about it.

Usage: python tests/cookbook/run.py [--long] [--only NAME …] [--recipes | --units]
                                    [--source DIR] [--official DIR] [--work DIR]

The interpreter needs tinker-cookbook and its dependencies except `tinker`, and tinker-ext with
its extras. `nox -s cookbook` makes that environment; `--long` is everything, the default takes a
few minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def main(argv: list[str]) -> int:
    """Run what was asked for; 0 when all of it went well."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--long", action="store_true", help="every scenario and every unit test")
    parser.add_argument("--only", nargs="+", default=[], help="scenarios whose name starts so")
    parser.add_argument("--recipes", action="store_true", help="recipes only")
    parser.add_argument("--units", action="store_true", help="unit tests only")
    parser.add_argument("--source", type=Path, help="unpacked sdist of tinker-cookbook")
    parser.add_argument("--official", type=Path, help="directory with the official tinker")
    parser.add_argument("--work", type=Path, help="keep logs here instead of a temporary place")
    args = parser.parse_args(argv)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="cookbook-") as temporary:
        place = (args.work or Path(temporary)).resolve()
        place.mkdir(parents=True, exist_ok=True)
        if not args.units:
            from recipes import run_all

            results = run_all(place, short=not args.long, only=tuple(args.only))
            failed += sum(bool(result.problem) for result in results)
            print(f"recipes: {len(results) - failed} of {len(results)} passed", flush=True)
            if not args.only:
                from page import problem

                found = problem(place / "page")
                failed += bool(found)
                print(f"docs/cookbook.md: {found or 'as it says'}", flush=True)
        if not args.recipes and not args.only:
            from units import compare

            failed += compare(place, args.source, args.official, short=not args.long)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
