"""Reused memory for the large short-lived arrays of a training step.

Fresh megabyte arrays cost a page fault per 4 KB on every step, a third of its time. Inside
``with SCRATCH:`` `Scratch.empty` hands out pieces of one buffer per thread; they are valid until
the (innermost) block ends. Outside, or when the buffer is used up, it is plain ``numpy.empty``.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SCRATCH_BYTES = 96 << 20
"""Size of a thread's buffer; memory that is never touched is never really taken."""

ALIGNMENT = 64


class Scratch(threading.local):
    """One buffer per thread, cut from the front."""

    def __init__(self) -> None:
        self._buffer: Array | None = None
        self._used = 0
        self._marks: list[int] = []

    def __enter__(self) -> None:
        if self._buffer is None:
            self._buffer = np.empty(SCRATCH_BYTES, dtype=np.uint8)
        self._marks.append(self._used)

    def __exit__(self, *exc: object) -> None:
        self._used = self._marks.pop()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An uninitialized array."""
        size = math.prod(shape) * dtype.itemsize
        stop = self._used + size
        if not self._marks or self._buffer is None or stop > SCRATCH_BYTES:
            return np.empty(shape, dtype=dtype)
        piece = self._buffer[self._used : stop].view(dtype).reshape(shape)
        self._used = -(-stop // ALIGNMENT) * ALIGNMENT
        return piece


SCRATCH = Scratch()
