"""A loss curve as files: an SVG written by hand and a PNG drawn dot by dot, without any library."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 48, 48
INK, AXIS, GRID, LINE = (33, 37, 41), (134, 142, 150), (233, 236, 239), (25, 113, 194)

# Glyphs of 3 x 5 dots, one octal digit per row: enough for numbers and two words.
GLYPHS = {
    "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717",
    "6": "74757", "7": "71222", "8": "75757", "9": "75717", ".": "00002", "l": "22223",
    "o": "00757", "s": "03616", "t": "27223", "e": "07747", "p": "07574", " ": "00000",
}  # fmt: skip


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers that cover a range.

    Example:
        >>> ticks(0.0, 3.7)
        [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    raw = (high - low) / max(count - 1, 1) or 1.0
    power = 10.0 ** (len(f"{int(raw)}") - 1) if raw >= 1 else 1.0
    while raw < power:
        power /= 10
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first = int(low / step) * step
    marks = [first]
    while marks[-1] < high - 1e-9 * step:
        marks.append(round(marks[-1] + step, 10))
    return marks


class Frame:
    """Where values lie on the picture."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = [float(value) for value in values]
        self.marks = ticks(min(0.0, *self.values), max(*self.values, 1e-6))
        self.low, self.high = self.marks[0], self.marks[-1]

    def x(self, index: float) -> float:
        """Return the column of a step, counted from 0."""
        return LEFT + index / max(len(self.values) - 1, 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return the row of a value."""
        share = (value - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def steps(self) -> list[int]:
        """Return the step numbers to label."""
        last = len(self.values)
        if last < 5:
            return list(range(1, last + 1))
        gap = max(round(ticks(0.0, float(last), 4)[1]), 1)
        marks = [1, *range(gap, last + 1, gap)]
        # The last step is labelled too where it does not run into its neighbour.
        return marks if last - marks[-1] < gap / 3 else [*marks, last]

    def points(self) -> list[tuple[float, float]]:
        """Return the curve in picture coordinates."""
        return [(self.x(index), self.y(value)) for index, value in enumerate(self.values)]


def svg(values: Sequence[float], title: str = "Training loss") -> str:
    """Return a curve as an SVG document."""
    frame = Frame(values)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in frame.points())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="28" font-size="16" fill="{_hex(INK)}">{escape(title)}</text>',
    ]
    for mark in frame.marks:
        y = frame.y(mark)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{_hex(GRID)}"/><text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" '
            f'fill="{_hex(AXIS)}">{mark:g}</text>'
        )
    parts += [
        f'<text x="{frame.x(step - 1):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle" '
        f'fill="{_hex(AXIS)}">{step}</text>'
        for step in frame.steps()
    ]
    parts += [
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end" fill="{_hex(AXIS)}">'
        "step</text>",
        f'<polyline points="{line}" fill="none" stroke="{_hex(LINE)}" stroke-width="2.5" '
        'stroke-linejoin="round"/>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def png(values: Sequence[float]) -> bytes:
    """Return a curve as a PNG file of 720 x 360 pixels."""
    frame = Frame(values)
    canvas = Canvas()
    for mark in frame.marks:
        y = round(frame.y(mark))
        canvas.box(LEFT, y, WIDTH - RIGHT, y, GRID)
        text = f"{mark:g}"
        canvas.text(LEFT - 10 - canvas.length(text), y - 5, text, AXIS)
    for step in frame.steps():
        text = str(step)
        x = round(frame.x(step - 1)) - canvas.length(text) // 2
        canvas.text(x, HEIGHT - BOTTOM + 10, text, AXIS)
    canvas.text(LEFT, 20, "loss", INK)
    canvas.text(WIDTH - RIGHT - canvas.length("step"), HEIGHT - 18, "step", INK)
    points = frame.points()
    for start, end in zip(points, points[1:] or points, strict=False):
        canvas.stroke(start, end, LINE)
    return encode(WIDTH, HEIGHT, bytes(canvas.pixels))


class Canvas:
    """White RGB pixels to draw on."""

    def __init__(self) -> None:
        self.pixels = bytearray(b"\xff" * (3 * WIDTH * HEIGHT))

    def box(self, left: int, top: int, right: int, bottom: int, colour: tuple[int, ...]) -> None:
        """Fill a rectangle, edges included; what lies outside is left out."""
        left, right = max(left, 0), min(right, WIDTH - 1)
        row = bytes(colour) * (right - left + 1)
        for y in range(max(top, 0), min(bottom, HEIGHT - 1) + 1):
            start = 3 * (y * WIDTH + left)
            self.pixels[start : start + len(row)] = row

    def stroke(
        self, start: tuple[float, float], end: tuple[float, float], colour: tuple[int, ...]
    ) -> None:
        """Draw a line three pixels wide."""
        steps = max(int(max(abs(end[0] - start[0]), abs(end[1] - start[1])) * 2), 1)
        for index in range(steps + 1):
            share = index / steps
            x = round(start[0] + (end[0] - start[0]) * share)
            y = round(start[1] + (end[1] - start[1]) * share)
            self.box(x - 1, y - 1, x + 1, y + 1, colour)

    @staticmethod
    def length(text: str) -> int:
        """Return the width of a text in pixels."""
        return 8 * len(text) - 2

    def text(self, left: int, top: int, text: str, colour: tuple[int, ...]) -> None:
        """Write a text in dots of 2 x 2 pixels."""
        for number, letter in enumerate(text):
            for row, digit in enumerate(GLYPHS.get(letter, "77777")):
                for column in range(3):
                    if int(digit, 8) >> (2 - column) & 1:
                        x, y = left + 8 * number + 2 * column, top + 2 * row
                        self.box(x, y, x + 1, y + 1, colour)


def encode(width: int, height: int, pixels: bytes) -> bytes:
    """Return RGB pixels as a PNG file (W3C PNG, 3rd edition: IHDR, IDAT, IEND)."""
    stride = 3 * width
    rows = b"".join(b"\x00" + pixels[y * stride : (y + 1) * stride] for y in range(height))

    def chunk(kind: bytes, body: bytes) -> bytes:
        tail = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + tail

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def _hex(colour: tuple[int, ...]) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)
