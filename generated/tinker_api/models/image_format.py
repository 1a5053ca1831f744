"""ImageFormat. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

ImageFormat: TypeAlias = Literal[
    "png",
    "jpeg",
]

IMAGE_FORMAT_VALUES: tuple[ImageFormat, ...] = (
    "png",
    "jpeg",
)

__all__ = ["IMAGE_FORMAT_VALUES", "ImageFormat"]
