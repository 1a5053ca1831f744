"""One test for a whole table of pure checks: hundreds of rows cost one test's setup and report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def for_each(
    rows: Iterable[Any], name: Callable[..., object] = lambda *row: row
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make a test of a check: it goes through all rows and fails with every row that is wrong.

    For checks without fixtures; whoever needs one, or takes long, is parametrised as usual.

    Args:
        rows: The arguments of each call: a tuple, or the only argument.
        name: What the report calls a row.
    """
    table = [row if isinstance(row, tuple) else (row,) for row in rows]
    assert table

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def every_row() -> None:
            wrong = []
            for row in table:
                try:
                    check(*row)
                except Exception as error:
                    error.add_note(f"in row {name(*row)}")
                    wrong.append(error)
            if wrong:
                raise ExceptionGroup(f"{len(wrong)} of {len(table)} rows are wrong", wrong)

        every_row.__name__ = every_row.__qualname__ = check.__name__
        every_row.__doc__ = check.__doc__
        every_row.__module__ = check.__module__
        return every_row

    return decorate
