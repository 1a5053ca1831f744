"""`progress`: a bar over many calls, or over the batches of a loop, in one line."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import re
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from tinker_ext._extras import how_to_install

_HELD = re.compile(r"queue state (?!active)(\w+)(?:, reason: (.*?))?\)?$")
LOOK_SECONDS = 0.2


class progress:
    """Go through items with a progress bar, in a terminal or a notebook.

    Futures are waited for: their results come in order, the bar counts what is done in any order,
    and says why the server holds work back. Everything else passes through, so that the same line
    fits a training loop. `async for` waits without blocking the loop, and takes coroutines too.

    Args:
        items: Futures of `sample`, `forward_backward` and so on, or anything to iterate over.
        desc: Text in front of the bar.
        **options: For `tqdm.auto.tqdm`, such as `total`, `disable` or `leave`.

    Raises:
        ImportError: tqdm is not installed; says how to install it.

    Example:
        >>> from tinker_ext import progress
        >>> sum(progress([1, 2, 3], disable=True))
        6
    """

    def __init__(self, items: Iterable[Any], *, desc: str | None = None, **options: Any) -> None:
        self._bar_class = _bar_class()
        self._items = items
        self._options = {"desc": desc, **options}

    def __iter__(self) -> Iterator[Any]:
        rest = iter(self._items)
        for first in rest:
            if _inner(first) is not None:
                futures = [first, *rest]
                with self._bar(len(futures)) as bar:
                    yield from _results(futures, bar)
                return
            length = getattr(self._items, "__len__", lambda: None)()
            with self._bar(length) as bar:
                yield first
                bar.update()
                for item in rest:
                    yield item
                    bar.update()

    async def __aiter__(self) -> AsyncIterator[Any]:
        items = list(self._items)
        tasks = [asyncio.ensure_future(i) if inspect.isawaitable(i) else None for i in items]
        ended: list[int] = []
        for task in tasks:
            if task is not None:
                task.add_done_callback(lambda _: ended.append(1))
        with self._bar(len(items)) as bar:
            for passed, (item, task) in enumerate(zip(items, tasks, strict=True), 1):
                while task is not None and not task.done():
                    await asyncio.wait([task], timeout=LOOK_SECONDS)
                    bar.set_postfix_str(_why(_inner(item)), refresh=False)
                    bar.update(len(ended) - bar.n)
                if task is None:
                    yield item
                    bar.update(passed - bar.n)
                else:
                    bar.update(len(ended) - bar.n)
                    yield task.result()

    def _bar(self, length: int | None) -> Any:
        return self._bar_class(**{"total": length, **self._options})


def _results(futures: list[Any], bar: Any) -> Iterator[Any]:
    ended: list[int] = []
    woken = threading.Event()

    def note(_: object) -> None:
        ended.append(1)
        woken.set()

    inner = [_inner(each) for each in futures]
    for each in inner:
        if each is None:
            raise TypeError("progress() takes futures or other items, not both in one list.")
        each.add_done_callback(note)
    for each in inner:
        assert each is not None
        while not each.done():
            woken.wait(LOOK_SECONDS)
            woken.clear()
            bar.update(len(ended) - bar.n)
            bar.set_postfix_str(_why(each), refresh=False)
        result = each.result()
        loss = getattr(result, "loss", None) if hasattr(result, "metrics") else None
        bar.set_postfix_str(f"loss {loss:.4g}" if isinstance(loss, float) else "", refresh=False)
        bar.update(len(ended) - bar.n)
        yield result


def _inner(item: Any) -> concurrent.futures.Future[Any] | None:
    """The `concurrent.futures.Future` beneath an item; None when it is not a future."""
    if isinstance(item, concurrent.futures.Future):
        return item
    wrapped = getattr(item, "future", None)
    found = wrapped() if callable(wrapped) else None
    return found if isinstance(found, concurrent.futures.Future) else None


def _why(future: Any) -> str:
    describe = getattr(getattr(future, "on_cancel", None), "describe", None)
    found = _HELD.search(describe()) if describe is not None else None
    if found is None:
        return ""
    return f"{found[1]}: {found[2]}" if found[2] else found[1]


def _bar_class() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError(
            f"A progress bar needs tqdm. Install it with: {how_to_install('progress')}", name="tqdm"
        ) from None
    return tqdm
