"""A loss curve as text: braille dots in the terminal, plain marks where braille is not known."""

from __future__ import annotations

from collections.abc import Sequence

BRAILLE = 0x2800
# Bit of each dot of a braille cell, by column and row (Unicode block U+2800).
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def resample(values: Sequence[float], count: int) -> list[float]:
    """Return `count` values along a curve, by linear interpolation.

    Example:
        >>> resample([0.0, 2.0], 3)
        [0.0, 1.0, 2.0]
    """
    if not values:
        return []
    if len(values) == 1 or count == 1:
        return [float(values[0])] * count
    result = []
    for index in range(count):
        place = index * (len(values) - 1) / (count - 1)
        left = min(int(place), len(values) - 2)
        share = place - left
        result.append(values[left] * (1 - share) + values[left + 1] * share)
    return result


def chart(
    values: Sequence[float],
    *,
    width: int = 64,
    height: int = 10,
    label: str = "loss",
    first: int = 1,
) -> str:
    """Draw values from left to right, the axis labelled with their range.

    Args:
        values: The curve.
        width: Columns of the drawing, without the axis.
        height: Lines of the drawing.
        label: Written above the axis.
        first: Number of the step the first value belongs to.
    """
    if not values:
        return "(no values)"
    low, high = min(0.0, *values), max(values)
    span = (high - low) or 1.0
    rows = 4 * height
    points = [round((high - value) / span * (rows - 1)) for value in resample(values, 2 * width)]
    cells = [[0] * width for _ in range(height)]
    previous = points[0]
    for x, y in enumerate(points):
        # A steep fall is drawn as a line and not as two dots far apart.
        for dot in range(min(previous, y), max(previous, y) + 1):
            cells[dot // 4][x // 2] |= DOTS[x % 2][dot % 4]
        previous = y
    lines = [f"{label:>8}"]
    for row, line in enumerate(cells):
        value = high - span * row / (height - 1) if height > 1 else high
        mark = f"{value:8.2f} ┤" if row % 3 == 0 or row == height - 1 else f"{'':8} │"
        lines.append(mark + "".join(chr(BRAILLE | cell) for cell in line))
    lines.append(f"{'':8} └{'─' * width}")
    last = f"step {first + len(values) - 1}"
    lines.append(f"{'':9} {first:<{width - len(last)}}{last}")
    return "\n".join(lines)
