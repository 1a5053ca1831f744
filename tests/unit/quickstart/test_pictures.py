"""The loss curve as text, SVG and PNG."""

import itertools
import math
import struct
import xml.etree.ElementTree as ElementTree
import zlib

import pytest

from tinker_ext.quickstart.chart import chart, resample
from tinker_ext.quickstart.picture import HEIGHT, LINE, WIDTH, png, svg, ticks

FALLING = [3.0 * math.exp(-step / 20) + 0.2 for step in range(100)]


def dots(line):
    return [column for column, letter in enumerate(line) if "\u2801" <= letter <= "\u28ff"]


def test_a_falling_curve_falls():
    """M36: the first line of the drawing holds its left end, the last its right end."""
    lines = chart(FALLING, width=40, height=8).splitlines()
    drawing = lines[1:-2]
    assert len(drawing) == 8
    assert max(dots(drawing[0])) < min(dots(drawing[-1]))
    assert lines[-1].endswith("step 100")


@pytest.mark.parametrize("values", [[1.0], [2.0, 2.0], [0.0, 0.0], [-1.0, 1.0]])
def test_odd_curves_are_drawn(values):
    """M36: one value, a flat line, zeros and negative values have a picture."""
    assert "step" in chart(values, width=10, height=4)
    assert svg(values).startswith("<svg")
    assert png(values).startswith(b"\x89PNG")


def test_no_values():
    """M36: nothing to draw is said."""
    assert chart([]) == "(no values)"
    assert resample([], 3) == []


@pytest.mark.parametrize(("low", "high"), [(0.0, 3.7), (0.0, 0.004), (0.0, 990.0), (-2.0, 5.0)])
def test_ticks_cover_the_range(low, high):
    """M36: the axis reaches beyond both ends with few, even marks."""
    marks = ticks(low, high)
    assert marks[0] <= low
    assert marks[-1] >= high
    assert 2 <= len(marks) <= 8
    gaps = {round(b - a, 9) for a, b in itertools.pairwise(marks)}
    assert len(gaps) == 1


def test_the_svg_is_a_document_with_the_whole_curve():
    """M36: the SVG parses, and its line has a point per step that goes down."""
    tree = ElementTree.fromstring(svg(FALLING, 'Loss of "a" & <b>'))
    line = tree.find("{http://www.w3.org/2000/svg}polyline")
    points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
    assert len(points) == len(FALLING)
    assert [y for _, y in points] == sorted(y for _, y in points)


def test_the_png_decodes_to_the_curve():
    """M36: the PNG's own checksums hold and its pixels hold the line."""
    data = png(FALLING)
    chunks, place = {}, 8
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        (checksum,) = struct.unpack(">I", data[place + 8 + length : place + 12 + length])
        assert checksum == zlib.crc32(kind + body)
        chunks[kind] = body
        place += 12 + length
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (WIDTH, HEIGHT)
    rows = zlib.decompress(chunks[b"IDAT"])
    assert len(rows) == HEIGHT * (1 + 3 * WIDTH)
    stride = 1 + 3 * WIDTH
    pixel = bytes(LINE)

    def top_of(column):
        return next(
            y
            for y in range(HEIGHT)
            if rows[y * stride + 1 + 3 * column : y * stride + 4 + 3 * column] == pixel
        )

    assert top_of(80) < top_of(400) <= top_of(690)
