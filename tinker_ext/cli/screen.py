"""Where a command writes: tables or JSON on stdout, progress and errors on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console

FORMATS = ("table", "json")


class Advance(Protocol):
    """Tells a progress bar how far the work is."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """Show that `done` of `total` is done."""


class Screen:
    """How this run of the program talks to its user.

    Attributes:
        format: `table` for people, `json` for programs.
        debug: Whether errors show their traceback.
        base_url: The server named on the command line, if any.
    """

    def __init__(self) -> None:
        self.format = "table"
        self.debug = False
        self.base_url: str | None = None

    @property
    def is_json(self) -> bool:
        """Whether a program reads the output."""
        return self.format == "json"

    def console(self, *, stderr: bool = False) -> Console:
        """Return a rich console; emoji are off since `:train:` occurs in run ids."""
        from rich.console import Console

        return Console(stderr=stderr, emoji=False, markup=False, highlight=False)

    def json(self, value: Any) -> None:
        """Print a value as JSON with an indent of 2."""
        print(json.dumps(plain(value), indent=2, default=self.text, ensure_ascii=False))

    @staticmethod
    def text(value: Any) -> str:
        """What JSON has no word for, such as a moment (RFC 3339)."""
        return value.isoformat() if isinstance(value, datetime) else str(value)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print rows below their column names."""
        from rich.table import Table

        table = Table()
        for number, column in enumerate(columns):
            table.add_column(column, style="cyan" if number == 0 else None, overflow="fold")
        for row in rows:
            table.add_row(*row)
        console = self.console()
        if not console.is_terminal:
            # A file has no width, and ids in it are there to be found whole.
            console.width = 4000
        console.print(title, style="bold")
        console.print(table)

    def properties(self, title: str, pairs: Iterable[tuple[str, str]]) -> None:
        """Print one thing as a list of names and values."""
        self.table(title, ("Property", "Value"), pairs)

    def say(self, text: str) -> None:
        """Print a line for people; nothing when the output is JSON."""
        if not self.is_json:
            print(text)

    def note(self, text: str) -> None:
        """Print a line about the work itself, on stderr."""
        if not self.is_json:
            print(text, file=sys.stderr)

    @contextmanager
    def progress(self, label: str, *, bytes_: bool = False) -> Iterator[Advance]:
        """Show a bar on stderr while the block runs; silent for programs and log files."""
        console = self.console(stderr=True)
        if self.is_json or not console.is_terminal:
            yield lambda done, total=None: None
            return
        from rich import progress

        columns: list[Any] = [progress.TextColumn("{task.description}"), progress.BarColumn()]
        if bytes_:
            columns += [progress.DownloadColumn(), progress.TransferSpeedColumn()]
        else:
            columns += [progress.MofNCompleteColumn()]
        columns.append(progress.TimeRemainingColumn())
        with progress.Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(label, total=None)
            yield lambda done, total=None: bar.update(task, completed=done, total=total)


def plain(value: Any) -> Any:
    """Return records as dictionaries of all their fields, absent ones as null.

    Example:
        >>> plain({"a": [1, None]})
        {'a': [1, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    fields = getattr(type(value), "__attrs_attrs__", None)
    if fields is None:
        return value
    shown = {
        field.name: plain(getattr(value, field.name))
        for field in fields
        if not field.name.startswith("_") and field.name != "additional_properties"
    }
    return shown | plain(getattr(value, "additional_properties", {}))


def moment(value: datetime | None) -> str:
    """Return a time for people: to the second, and how long ago that is.

    Example:
        >>> moment(None)
        '–'
    """
    if value is None:
        return "–"
    exact = value.replace(microsecond=0).isoformat().replace("+00:00", "Z")
    return f"{exact} ({age(value)})"


def number(value: float) -> str:
    """Return a number for people: four digits that say something.

    Example:
        >>> number(1234567.8912), number(0.00012345678)
        ('1,234,567.89', '0.0001235')
    """
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.4g}"


def size(count: int | None) -> str:
    """Return a number of bytes for people.

    Example:
        >>> size(1536), size(None)
        ('1.5 KB', '–')
    """
    if count is None:
        return "–"
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in ("KB", "MB", "GB", "TB"):
        amount /= 1024
        if amount < 1024 or unit == "TB":
            return f"{amount:.1f} {unit}"
    raise AssertionError("the last unit takes everything")


def age(moment: datetime | None, now: datetime | None = None) -> str:
    """Return how long ago (or ahead) a moment is; a date when it is more than 30 days.

    Example:
        >>> age(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 2, tzinfo=UTC))
        '2 h ago'
    """
    if moment is None:
        return "–"
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    span = abs(seconds)
    if span > 30 * 86400:
        return moment.strftime("%Y-%m-%d")
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if span >= length or unit == "s":
            text = f"{int(span // length)} {unit}"
            return f"{text} ago" if seconds >= 0 else f"in {text}"
    raise AssertionError("seconds take everything")


def counted(count: int, what: str) -> str:
    """Return a number of things.

    Example:
        >>> counted(1, "run"), counted(2, "run")
        ('1 run', '2 runs')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def yes_no(value: bool | None) -> str:
    """Return a truth value for people."""
    return "–" if value is None else "yes" if value else "no"
