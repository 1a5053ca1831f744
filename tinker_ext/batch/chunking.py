"""Splitting a batch: the one estimator of sizes, the limits of each era, and the cutting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import attrs

from tinker_ext.errors import InvalidInputError
from tinker_ext.types.chunks import (
    DmelChunk,
    EncodedTextChunk,
    ImageAssetPointerChunk,
    ImageChunk,
    ModelInputChunk,
    declared_tokens,
)
from tinker_ext.types.datum import Datum
from tinker_ext.types.model_input import ModelInput

Unit: TypeAlias = Literal["numbers", "bytes"]

_TOKEN_BYTES = 4  # int32 on the protobuf wire
_INDEX_BYTES = 8  # int64 row pointers and columns of a sparse tensor
_PROMPT_TOKEN_BYTES = 10  # what one token of a prompt takes as JSON, at most


@attrs.frozen
class Limits:
    """How much one training request may hold, as its server counts: first era or protobuf era."""

    datums: int
    size: int
    unit: Unit


NUMBERS_ERA = Limits(datums=128, size=500_000, unit="numbers")
"""Limits of servers that take JSON (SDK 0.4.1); later ones name theirs."""


def datum_size(datum: Datum, unit: Unit) -> int:
    """Size of a datum as the server of that unit counts it."""
    size = 0
    if unit == "numbers":
        for chunk in datum.model_input.chunks:
            size += _chunk_numbers(chunk)
        for tensor in datum.loss_fn_inputs.values():
            size += tensor.array.size
        return size
    for chunk in datum.model_input.chunks:
        size += _chunk_bytes(chunk)
    for tensor in datum.loss_fn_inputs.values():
        size += tensor.array.nbytes
        if tensor.crow is not None and tensor.col is not None:
            size += (tensor.crow.size + tensor.col.size) * _INDEX_BYTES
    return size


def prompt_size(prompt: ModelInput) -> int:
    """Bytes a prompt takes in a sample request."""
    size = 0
    for chunk in prompt.chunks:
        if isinstance(chunk, EncodedTextChunk):
            size += chunk.length * _PROMPT_TOKEN_BYTES
        else:
            size += _chunk_bytes(chunk)
    return size


def _chunk_numbers(chunk: ModelInputChunk) -> int:
    if isinstance(chunk, (ImageChunk, ImageAssetPointerChunk)):
        declared = declared_tokens(chunk)
        if declared is None:  # the estimate must not fail where the server would not
            return _chunk_bytes(chunk) // _TOKEN_BYTES
        return declared
    return chunk.length


def _chunk_bytes(chunk: ModelInputChunk) -> int:
    if isinstance(chunk, EncodedTextChunk):
        return chunk.length * _TOKEN_BYTES
    if isinstance(chunk, ImageChunk):
        return len(chunk.data)
    if isinstance(chunk, DmelChunk):
        return len(chunk.dmel)
    return len(chunk.location)


def split(data: Sequence[Datum], limits: Limits) -> list[list[Datum]]:
    """Cut a batch into chunks, in order.

    A chunk is closed when the next datum would take it past a limit; a total equal to the limit
    still fits. A datum larger than the limit travels alone: only the server can refuse it.
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
