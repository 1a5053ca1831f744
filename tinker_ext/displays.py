"""What notebooks show of clients, futures, pending work, runs and samples: short, escaped HTML.

A display asks no server and waits for nothing: it shows what this process knows at the moment.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

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
