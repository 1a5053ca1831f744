"""What a run of the benchmark says: rows against their targets, as text, Markdown, JSON and SVG."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

BASE = "0.36.0"
FLOOR = "a bare client"
"""Not an SDK: what nobody can go below, see `floor.py`."""

SLACK = 2.0
"""What the short form leaves to a busy machine: a ratio half as good as the full form wants passes,
and a figure in seconds is shown and not judged at all."""


@attrs.frozen
class Row:
    """One measured piece of work.

    Attributes:
        work: What was done.
        unit: Unit of the figures.
        figures: Figure of each contender.
        least: Worst value that is good enough: a ratio to `base`, or, when `absolute`, a figure
            of ours.
        aim: The value to reach; None for rows without targets.
        absolute: Whether the targets are figures.
        more_is_better: Whether high figures are good.
        base: The contender that ratios are to.
    """

    work: str
    unit: str
    figures: dict[str, float]
    least: float | None = None
    aim: float | None = None
    absolute: bool = False
    more_is_better: bool = False
    base: str = BASE

    @property
    def ours(self) -> float:
        """Our figure."""
        return self.figures["tinker-ext"]

    @property
    def ratio(self) -> float | None:
        """How many times better than the base."""
        other = self.figures.get(self.base)
        if not other or not self.ours:
            return None
        return self.ours / other if self.more_is_better else other / self.ours

    @property
    def is_time(self) -> bool:
        """Whether its target is a time, which says as much about the machine as about us."""
        return self.absolute and self.unit in ("s", "ms", "µs", "ns")

    def misses(self, *, exact: bool) -> bool:
        """Whether it is worse than the worst that is good enough.

        Args:
            exact: Whether to judge as it stands, on a machine of one's own; else with slack.
        """
        if self.least is None or (self.is_time and not exact):
            return False
        slack = 1.0 if exact else SLACK
        worst = self.least * slack if self.absolute else self.least / slack
        return self.reaches(worst) is False

    def best(self, again: Row) -> Row:
        """The better figure of each contender out of two measurements.

        Those beside a bare client were taken at one moment and stay together.
        """
        if self.base == FLOOR:
            return max(self, again, key=lambda row: row.ratio or 0.0)
        better = max if self.more_is_better else min
        found = {name: better(value, again.figures[name]) for name, value in self.figures.items()}
        return attrs.evolve(self, figures=found)

    def reaches(self, target: float | None) -> bool | None:
        """Whether a target is met; None when there is none or nothing to compare with."""
        if target is None:
            return None
        if self.absolute:
            return self.ours <= target
        return None if self.ratio is None else self.ratio >= target


@attrs.frozen
class Curve:
    """Cost of one sample by how many are queued at once, in microseconds, of one contender."""

    name: str
    points: dict[int, float]


def cells(row: Row) -> list[str]:
    """One line of the table."""
    mark = {True: "yes", False: "NO", None: ""}
    targets = "" if row.least is None else f"{_target(row, row.least)} / {_target(row, row.aim)}"
    return [
        row.work,
        f"{_number(row.ours)} {row.unit}",
        _number(row.figures.get(BASE)),
        _number(row.figures.get("0.4.1")),
        ""
        if row.ratio is None
        else _ratio(row.ratio) + (f" ({row.base})" if row.base != BASE else ""),
        targets,
        " / ".join(filter(None, (mark[row.reaches(row.least)], mark[row.reaches(row.aim)]))),
    ]


TARGETS = 5
"""Columns before those of the targets."""
HEADER = ["work", "tinker-ext", "0.36.0", "0.4.1", "better by", "at least / aim", "met"]


def _target(row: Row, value: float | None) -> str:
    if value is None:
        return "–"
    return f"≤ {value:g} {row.unit}" if row.absolute else f"{value:.3g}×"


def _ratio(value: float) -> str:
    return f"{value:.1f}×" if value >= 1 else f"{value:.2f}×"


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def text(rows: Sequence[Row], curves: Sequence[Curve]) -> str:
    """The table for a terminal."""
    lines = [HEADER, *(cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    out = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in lines]
    if curves:
        out += ["", "CPU µs per sample, by samples queued at once"]
    for curve in curves:
        points = "  ".join(f"{count:,}: {cost:,.0f}" for count, cost in curve.points.items())
        out.append(f"{curve.name:12} {points}")
    return "\n".join(line.rstrip() for line in out)


def markdown(rows: Sequence[Row], curves: Sequence[Curve], *, targets: bool = True) -> str:
    """The table as markdown; the documentation shows it without the project's own targets."""
    lines = [HEADER, ["---"] * len(HEADER), *(cells(row) for row in rows)]
    if not targets:
        lines = [line[:TARGETS] for line in lines]
    out = ["| " + " | ".join(line) + " |" for line in lines]
    counts = sorted({count for curve in curves for count in curve.points})
    if not curves:
        return "\n".join(out) + "\n"
    out += ["", "CPU µs per sample, by samples queued at once:", ""]
    out += ["| queued | " + " | ".join(f"{count:,}" for count in counts) + " |"]
    out += ["|" + " --- |" * (len(counts) + 1)]
    for curve in curves:
        points = [_number(curve.points.get(count)) for count in counts]
        out.append(f"| {curve.name} | " + " | ".join(points) + " |")
    return "\n".join(out) + "\n"


LINE, LEFT, RIGHT = 26, 540, 90
WIDTH = 960
GOOD, POOR, GREY = "#0b6e4f", "#c1440e", "#667"


def bars_svg(rows: Sequence[Row]) -> str:
    """How many times better than the official SDK each piece of work is, as bars."""
    judged = [row for row in rows if row.least is not None and row.base != FLOOR]
    shown = [(row, row.ratio) for row in judged if row.ratio is not None]
    if not shown:
        return ""
    most = math.ceil(math.log2(max(ratio for _, ratio in shown)))
    least = math.floor(math.log2(min(1.0, *(ratio for _, ratio in shown))))
    height = LINE * len(shown) + 64

    def place(ratio: float) -> float:
        share = (math.log2(ratio) - least) / (most - least)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        '<text x="20" y="20" font-weight="bold">How many times better than the official SDK '
        "(longer is better)</text>",
    ]
    for power in range(least, most + 1):
        x = place(2**power)
        stroke = GREY if power == 0 else "#e4e4ea"
        out.append(f'<path d="M{x} 30V{height - 24}" stroke="{stroke}"/>')
        label = f'x="{x}" y="{height - 8}" text-anchor="middle" fill="{GREY}"'
        out.append(f"<text {label}>{2**power:g}×</text>")
    for index, (row, ratio) in enumerate(shown):
        y = 36 + LINE * index
        start, end = sorted((place(1), place(ratio)))
        colour = GOOD if ratio >= 1 else POOR
        against = "" if row.base == BASE else f" (against {row.base})"
        out.append(
            f'<text x="{LEFT - 10}" y="{y + 14}" text-anchor="end">{row.work}{against}</text>'
        )
        size = max(end - start, 1)
        out.append(f'<rect x="{start}" y="{y}" width="{size:.1f}" height="18" fill="{colour}"/>')
        place_of_text = f'x="{end + 6:.1f}" y="{y + 14}"'
        out.append(f'<text {place_of_text} fill="{colour}" font-weight="bold">{ratio:.1f}×</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def curves_svg(curves: Sequence[Curve]) -> str:
    """The curves, both axes logarithmic."""
    width, height, left, bottom = 640, 300, 70, 40
    costs = [cost for curve in curves for cost in curve.points.values()]
    low, high = math.floor(math.log10(min(costs))), math.ceil(math.log10(max(costs)))

    def place(count: float, cost: float) -> tuple[float, float]:
        x = left + (math.log10(count) - 2) / 3 * (width - left - 110)
        y = height - bottom - (math.log10(cost) - low) / (high - low) * (height - bottom - 20)
        return round(x, 1), round(y, 1)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for power in range(low, high + 1):
        x, y = place(100, 10**power)
        out.append(f'<path d="M{x} {y}H{width - 110}" stroke="#ddd"/>')
        out.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end">{10**power:,} µs</text>')
    for power in range(2, 6):
        x, _ = place(10**power, 10**low)
        out.append(f'<text x="{x}" y="{height - 20}" text-anchor="middle">{10**power:,}</text>')
    out.append(f'<text x="{left}" y="{height - 4}">samples queued at once</text>')
    for curve, colour in zip(curves, ("#0b6e4f", "#c1440e", "#555"), strict=False):
        spots = [place(count, cost) for count, cost in curve.points.items()]
        path = " ".join(f"{x},{y}" for x, y in spots)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in spots]
        x, y = spots[-1]
        out.append(f'<text x="{x + 8}" y="{y + 4}" fill="{colour}">{curve.name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def machine() -> str:
    """Where the figures come from."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    system = f"{platform.system()} {platform.machine()}"
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {system}, load {load}"


@attrs.define
class Record:
    """The figures of all parts, each from the last run that measured it.

    Attributes:
        parts: Rows by part.
        curves: Cost of a sample by how many are queued.
        machine: Where the last of them were measured.
    """

    parts: dict[str, list[Row]] = attrs.field(factory=dict)
    curves: list[Curve] = attrs.field(factory=list)
    machine: str = ""

    @classmethod
    def read(cls, folder: Path) -> Record:
        """What earlier runs left in a folder."""
        try:
            told = json.loads((folder / "bench.json").read_text())
            parts = {name: [_row(row) for row in rows] for name, rows in told["parts"].items()}
            queued = told["cpu_us_per_sample"]
            curves = [
                Curve(name, {int(count): cost for count, cost in points.items()})
                for name, points in queued.items()
            ]
        except (OSError, KeyError, TypeError):
            return cls()
        return cls(parts, curves)

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return [row for rows in self.parts.values() for row in rows]

    def write(self, folder: Path) -> None:
        """Leave the figures and pictures in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        everything = {
            "machine": self.machine,
            "parts": {
                name: [
                    {
                        **attrs.asdict(row),
                        "ratio": row.ratio,
                        "least_met": row.reaches(row.least),
                        "aim_met": row.reaches(row.aim),
                    }
                    for row in rows
                ]
                for name, rows in self.parts.items()
            },
            "cpu_us_per_sample": {curve.name: curve.points for curve in self.curves},
        }
        (folder / "bench.json").write_text(json.dumps(everything, indent=1) + "\n")
        (folder / "bench.md").write_text(markdown(self.rows, self.curves))
        self._draw(folder)

    def publish(self, docs: Path) -> None:
        """Replace the table and the pictures of the documentation page."""
        page = docs / "performance.md"
        begin, end = "<!-- table -->\n", "<!-- /table -->"
        before, rest = page.read_text().split(begin)
        _, after = rest.split(end)
        table = f"{self.machine}.\n\n{markdown(self.rows, self.curves, targets=False)}"
        page.write_text(f"{before}{begin}\n{table}\n{end}{after}")
        (docs / "images").mkdir(exist_ok=True)
        self._draw(docs / "images")

    def _draw(self, folder: Path) -> None:
        (folder / "bench.svg").write_text(bars_svg(self.rows))
        if self.curves:
            (folder / "queued-samples.svg").write_text(curves_svg(self.curves))


def _row(told: dict[str, Any]) -> Row:
    names = {field.name for field in attrs.fields(Row)}
    return Row(**{name: value for name, value in told.items() if name in names})
