"""A listing page by page, with a bar when it takes more than one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinker_ext.cli.screen import Screen


def collect(
    screen: Screen,
    what: str,
    limit: int,
    page_size: int,
    fetch: Callable[[int, int], Any],
    items: Callable[[Any], Sequence[Any]],
) -> tuple[list[Any], int]:
    """Fetch up to `limit` items (0 means all).

    Args:
        screen: Where the bar goes.
        what: Name of the items, for the bar.
        limit: Most items to fetch.
        page_size: Most items per request.
        fetch: Asks for (count, offset).
        items: Takes the items out of a page.

    Returns:
        The items, and how many the server has in all.
    """
    found: list[Any] = []
    with screen.progress(f"Fetching {what}") as advance:
        while True:
            count = min(page_size, limit - len(found)) if limit else page_size
            page = fetch(count, len(found))
            new = items(page)
            found += new
            total = page.cursor.total_count if page.cursor is not None else len(found)
            target = min(limit, total) if limit else total
            if len(found) >= target or not new:
                return found, max(total, len(found))
            advance(len(found), target)
