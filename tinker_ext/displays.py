"""What people see of running work: short, escaped HTML in notebooks, and a bar over many calls.

A display asks no server: it shows what this process knows at the moment.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import html
import inspect
import re
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

from tinker_ext._extras import how_to_install

_TABLE = "border-collapse:collapse;font:inherit;color:inherit;font-variant-numeric:tabular-nums"
_CELL = "text-align:left;padding:2px 12px 2px 0;vertical-align:top"
MOST_ROWS = 20
MOST_TEXT = 600


def card(title: str, facts: Iterable[tuple[str, Any]] = (), more: str = "") -> str:
    """A title and a table of facts; what is None is left out.

    Args:
        title: In bold.
        facts: Names and values, which are escaped.
        more: HTML that follows, made by `table`.

    Example:
        >>> "&lt;b&gt;" in card("Run", [("name", "<b>")])
        True
    """
    rows = "".join(
        f'<tr><td style="{_CELL};opacity:.65">{text(name)}</td>'
        f'<td style="{_CELL}">{text(value)}</td></tr>'
        for name, value in facts
        if value is not None
    )
    return f'<div><b>{text(title)}</b><table style="{_TABLE}">{rows}</table>{more}</div>'


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table with a line of heads; what is longer than 20 rows is cut."""
    head = "".join(f'<th style="{_CELL};opacity:.65">{text(name)}</th>' for name in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
    rest = len(rows) - MOST_ROWS
    more = f"<div>… and {rest} more</div>" if rest > 0 else ""
    return f'<table style="{_TABLE}"><tr>{head}</tr>{body}</table>{more}'


def _cell(value: Any) -> str:
    wrap = "normal" if len(str(value)) > 24 else "nowrap"  # "2.0 s" stays on one line
    return f'<td style="{_CELL};white-space:{wrap}">{text(value)}</td>'


def text(value: Any) -> str:
    """A value as escaped text of bounded length; control characters are made visible."""
    said = "–" if value is None else str(value)
    if len(said) > MOST_TEXT:
        said = f"{said[:MOST_TEXT]}… ({len(said) - MOST_TEXT:,} more characters)"
    shown = "".join(c if c.isprintable() or c in "\n\t" else f"⟨U+{ord(c):04X}⟩" for c in said)
    return html.escape(shown).replace("\n", "<br>")


def pending(operations: Sequence[Any]) -> str:
    """The operations in flight, oldest first."""
    if not operations:
        return card("Nothing is pending")
    rows = [
        (op.operation, op.target, op.stage, f"{op.seconds:.1f} s", op.attempt,
         op.queue_state, op.reason)
        for op in operations
    ]  # fmt: skip
    heads = ("operation", "target", "stage", "for", "attempt", "queue state", "reason")
    return card(f"{len(rows)} pending", more=table(heads, rows))


def future(done: bool, error: BaseException | None, value: Any, waits: str | None) -> str:
    """A future: what it came to, or what it waits for."""
    if not done:
        return card("Future: pending", [("waits for", waits)])
    if error is not None:
        return card(f"Future: {type(error).__name__}", [("says", error)])
    inner = getattr(value, "_repr_html_", None)
    if inner is not None:
        return card("Future: done", more=inner())
    metrics = getattr(value, "metrics", None)
    if isinstance(metrics, dict):
        return card(f"Future: done, {type(value).__name__}", metrics.items())
    return card("Future: done", [("result", repr(value))])


def samples(response: Any) -> str:
    """The sequences of a response, with the mean log-probability of each."""
    rows = []
    for number, sequence in enumerate(response.sequences):
        logprobs = sequence.logprobs
        mean = f"{sum(logprobs) / len(logprobs):.3f}" if logprobs else None
        rows.append((number, len(sequence.tokens), str(sequence.stop_reason), mean,
                     " ".join(map(str, sequence.tokens[:16]))))  # fmt: skip
    heads = ("", "tokens", "ended by", "mean logprob", "first tokens")
    return card(f"{len(rows)} sampled sequences", more=table(heads, rows))


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
                    # One that is done may not have told yet.
                    bar.update(max(len(ended), passed) - bar.n)
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
    for passed, each in enumerate(inner, 1):
        assert each is not None
        while not each.done():
            woken.wait(LOOK_SECONDS)
            woken.clear()
            bar.update(len(ended) - bar.n)
            bar.set_postfix_str(_why(each), refresh=False)
        result = each.result()
        loss = getattr(result, "loss", None) if hasattr(result, "metrics") else None
        bar.set_postfix_str(f"loss {loss:.4g}" if isinstance(loss, float) else "", refresh=False)
        bar.update(max(len(ended), passed) - bar.n)
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
