"""ForwardBackwardContentEncoding. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

ForwardBackwardContentEncoding: TypeAlias = Literal["zstd",]

FORWARD_BACKWARD_CONTENT_ENCODING_VALUES: tuple[ForwardBackwardContentEncoding, ...] = ("zstd",)

__all__ = ["FORWARD_BACKWARD_CONTENT_ENCODING_VALUES", "ForwardBackwardContentEncoding"]
