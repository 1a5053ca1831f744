"""The chunks of a batch: how it is split for a server, and how each part is encoded."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from tinker_ext._wire import json_codec
from tinker_ext._wire.dialect import Wire
from tinker_ext._wire.payload import Payload
from tinker_ext.batch.chunking import datum_size
from tinker_ext.types.datum import Datum
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.tensor_data import TensorData

LossConfig = Mapping[str, "float | str"]

_MEASURED_DATUMS = 16


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
        if self._encoded is not None and self._encoded.wire is wire:
            return self._encoded
        batch = self.model_id, self.data, self.loss_fn, self.loss_fn_config
        if wire is Wire.JSON:
            self._encoded = json_codec.encode_forward(
                *batch,
                forward_only=self.forward_only,
                later=self.later,
                sized_images=self.sized_images,
            )
        else:
            from tinker_ext._wire import proto_codec

            self._encoded = proto_codec.encode_forward(
                *batch, forward_only=self.forward_only, zstd=self.zstd
            )
        return self._encoded


@functools.cache
def has_zstd() -> bool:
    """Whether bodies can be compressed here."""
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


def encode(chunks: Sequence[ForwardChunk], wire: Wire) -> None:
    """Encode chunks for a wire before they leave."""
    for chunk in chunks:
        chunk(wire)


def roughly_bytes(data: Sequence[Datum]) -> int:
    """Size of a batch, from its first datums."""
    measured = data[:_MEASURED_DATUMS]
    return sum(datum_size(datum, "bytes") for datum in measured) * len(data) // len(measured)
