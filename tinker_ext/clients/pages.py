"""Listings page by page, for `for` and `async for`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, Generic, TypeVar

from tinker_ext.core.workspace import Workspace

T = TypeVar("T")


class Pages(Generic[T]):
    """All items of a listing; pages are fetched as they are needed.

    Args:
        workspace: Where to ask.
        fetch: Asks for the page that starts at an offset.
        items: Takes the items out of a page.
        size: Items per page.
    """

    def __init__(
        self,
        workspace: Workspace,
        fetch: Callable[[int], Coroutine[Any, Any, Any]],
        items: Callable[[Any], Sequence[T]],
        size: int,
    ) -> None:
        self._workspace = workspace
        self._fetch = fetch
        self._items = items
        self._size = size

    def __iter__(self) -> Iterator[T]:
        for_more = 0
        while True:
            page = self._workspace.submit(self._fetch(for_more)).result()
            found = self._items(page)
            yield from found
            for_more += len(found)
            if self._is_last(page, found, for_more):
                return

    async def __aiter__(self) -> AsyncIterator[T]:
        for_more = 0
        while True:
            page = await self._workspace.submit(self._fetch(for_more))
            found = self._items(page)
            for item in found:
                yield item
            for_more += len(found)
            if self._is_last(page, found, for_more):
                return

    def _is_last(self, page: Any, found: Sequence[T], seen: int) -> bool:
        total = getattr(getattr(page, "cursor", None), "total_count", None)
        if not found:
            return True
        return seen >= total if isinstance(total, int) else len(found) < self._size
