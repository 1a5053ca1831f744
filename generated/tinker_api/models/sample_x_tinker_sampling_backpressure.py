"""SampleXTinkerSamplingBackpressure. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

SampleXTinkerSamplingBackpressure: TypeAlias = Literal["1",]

SAMPLE_X_TINKER_SAMPLING_BACKPRESSURE_VALUES: tuple[SampleXTinkerSamplingBackpressure, ...] = ("1",)

__all__ = ["SAMPLE_X_TINKER_SAMPLING_BACKPRESSURE_VALUES", "SampleXTinkerSamplingBackpressure"]
