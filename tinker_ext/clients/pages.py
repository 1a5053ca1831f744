"""Listings page by page, for `for` and `async for`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Pages(Generic[T]):
    """All items of a listing; pages are fetched as they are needed.

    Args:
        fetch: Asks for the page that starts at an offset.
        items: Takes the items out of a page.
        size: Items per page.
    """

    def __init__(
        self,
        fetch: Callable[[int], Future[Any]],
        items: Callable[[Any], Sequence[T]],
        size: int,
    ) -> None:
        self._fetch = fetch
        self._items = items
        self._size = size

    def __iter__(self) -> Iterator[T]:
        offset = 0
        while True:
            page = self._fetch(offset).result()
            found = self._items(page)
            yield from found
            offset += len(found)
            if self._is_last(page, found, offset):
                return

    async def __aiter__(self) -> AsyncIterator[T]:
        offset = 0
        while True:
            fetched: Any = self._fetch(offset)
            page = await fetched
            found = self._items(page)
            for item in found:
                yield item
            offset += len(found)
            if self._is_last(page, found, offset):
                return

    def _is_last(self, page: Any, found: Sequence[T], seen: int) -> bool:
        total = getattr(getattr(page, "cursor", None), "total_count", None)
        if not found:
            return True
        return seen >= total if isinstance(total, int) else len(found) < self._size
