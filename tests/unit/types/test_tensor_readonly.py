"""The values of a tensor are its own: nobody changes them through it."""

from __future__ import annotations

import numpy as np
import pytest

from tinker_ext.types import TensorData

MADE = {
    "list": lambda: TensorData([1, 2, 3, 4], "int64"),
    "shaped list": lambda: TensorData([1.0, 2.0, 3.0, 4.0], "float32", [2, 2]),
    "array": lambda: TensorData(np.arange(4)),
    "narrow array": lambda: TensorData(np.arange(4, dtype=np.int16)),
    "numpy": lambda: TensorData.from_numpy(np.ones((2, 2))),
    "float32": lambda: TensorData.from_numpy(np.ones(4, np.float32)),
    "other order": lambda: TensorData.from_numpy(np.ones((3, 4), np.float32).T),
    "kept": lambda: TensorData.keep(np.arange(4)),
    "kept of a part": lambda: TensorData.keep(np.arange(8)[::2]),
    "adopted": lambda: TensorData.adopt(np.arange(4)),
    "compressed": lambda: TensorData.compressed(np.array([[1, 0], [0, 2]])),
    "dense again": lambda: TensorData.compressed(np.array([[1, 0], [0, 2]])).to_dense(),
}


@pytest.mark.parametrize("way", MADE)
def test_values_cannot_be_changed(way):
    """M27: a tensor may be sent later, or twice."""
    array = MADE[way]().array
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array.reshape(-1)[0] = 9
