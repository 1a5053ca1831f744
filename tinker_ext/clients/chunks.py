"""From a batch to the requests that carry it: limits of the server, split, encoding."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from tinker_ext._wire import json_codec
from tinker_ext._wire.dialect import Ability, Dialect, Wire
from tinker_ext._wire.payload import Payload
from tinker_ext.batch.chunking import split
from tinker_ext.batch.sizes import NUMBERS_ERA, Limits
from tinker_ext.config import Config
from tinker_ext.types.datum import Datum
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.tensor_data import TensorData


def limits_of(dialect: Dialect, config: Config) -> Limits:
    """How much one request may hold on this server."""
    limits = NUMBERS_ERA
    if dialect.can(Ability.CHUNKS_BY_BYTES):
        limits = Limits(
            dialect.config.fwdbwd_max_chunk_len,
            dialect.config.fwdbwd_max_chunk_bytes_count,
            "bytes",
        )
    return Limits(
        config.chunk_datums or limits.datums, config.chunk_size or limits.size, limits.unit
    )


@attrs.define
class ForwardChunk:
    """One chunk of forward or forward_backward; called with a wire, it gives the encoded body."""

    model_id: str
    data: Sequence[Datum]
    loss_fn: str
    loss_fn_config: Mapping[str, float | str] | None
    forward_only: bool
    zstd: bool
    later: bool = False
    """Whether JSON may be written when the chunk leaves, because others leave before it."""
    sized_images: bool | None = None
    """Whether JSON has images with their size (first era) or without; None: as they were given."""
    _encoded: Payload | None = None

    def __call__(self, wire: Wire) -> Payload:
        """Encode, unless that was done for this wire already."""
        if self._encoded is None or self._encoded.wire is not wire:
            self._encoded = self._encode(wire)
        return self._encoded

    def _encode(self, wire: Wire) -> Payload:
        if wire is Wire.JSON:
            return json_codec.encode_forward(
                self.model_id,
                self.data,
                self.loss_fn,
                self.loss_fn_config,
                forward_only=self.forward_only,
                later=self.later,
                sized_images=self.sized_images,
            )
        from tinker_ext._wire import proto_codec

        return proto_codec.encode_forward(
            self.model_id,
            self.data,
            self.loss_fn,
            self.loss_fn_config,
            forward_only=self.forward_only,
            zstd=self.zstd,
        )


def forward_chunks(
    model_id: str,
    data: Sequence[Datum],
    loss_fn: str,
    loss_fn_config: Mapping[str, float | str] | None,
    *,
    forward_only: bool,
    dialect: Dialect,
    config: Config,
) -> list[ForwardChunk]:
    """Split a batch for this server; nothing is encoded yet."""
    zstd = dialect.config.proto_compress_fwdbwd and _has_zstd()
    return [
        ForwardChunk(
            model_id,
            part,
            loss_fn,
            loss_fn_config,
            forward_only,
            zstd,
            later=index > 0,
            sized_images=not dialect.can(Ability.UNSIZED_IMAGES),
        )
        for index, part in enumerate(split(data, limits_of(dialect, config)))
    ]


@functools.cache
def _has_zstd() -> bool:
    return importlib.util.find_spec("zstandard") is not None


def filler(model_id: str) -> ForwardChunk:
    """A forward pass over one token with weight 0: takes a number and changes nothing."""
    datum = Datum(
        ModelInput.from_ints([0]),
        {
            "target_tokens": TensorData.adopt(np.zeros(1, np.int64), [1]),
            "weights": TensorData.adopt(np.zeros(1, np.float32), [1]),
        },
    )
    return ForwardChunk(model_id, [datum], "cross_entropy", None, True, False)
