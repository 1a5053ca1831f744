"""Splitting a batch into requests that fit the limits of the server."""

from __future__ import annotations

from collections.abc import Sequence

from tinker_ext.batch.sizes import Limits, datum_size
from tinker_ext.errors import InvalidInputError
from tinker_ext.types.datum import Datum


def split(data: Sequence[Datum], limits: Limits) -> list[list[Datum]]:
    """Cut a batch into chunks, in order.

    A chunk is closed when the next datum would take it past a limit; a total equal to the limit
    still fits. A datum larger than the limit travels alone: only the server can refuse it.

    Args:
        data: The batch.
        limits: Limits of the server.

    Returns:
        At least one chunk; joined, they are `data`.

    Raises:
        InvalidInputError: The batch is empty.
    """
    if not data:
        raise InvalidInputError("The batch is empty; pass at least one Datum.")
    chunks: list[list[Datum]] = []
    room = 0
    for datum in data:
        size = datum_size(datum, limits.unit)
        if not chunks or size > room or len(chunks[-1]) >= limits.datums:
            chunks.append([])
            room = limits.size
        chunks[-1].append(datum)
        room -= size
    return chunks
