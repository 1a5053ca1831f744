"""RetrieveFutureXTinkerRequestType. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

RetrieveFutureXTinkerRequestType: TypeAlias = Literal[
    "CreateModel",
    "Forward",
    "ForwardBackward",
    "OptimStep",
    "SaveWeights",
    "LoadWeights",
    "SaveWeightsForSampler",
    "Sample",
    "SaveWeightsExternal",
    "CreateCustomLoss",
    "UnloadModel",
]

RETRIEVE_FUTURE_X_TINKER_REQUEST_TYPE_VALUES: tuple[RetrieveFutureXTinkerRequestType, ...] = (
    "CreateModel",
    "Forward",
    "ForwardBackward",
    "OptimStep",
    "SaveWeights",
    "LoadWeights",
    "SaveWeightsForSampler",
    "Sample",
    "SaveWeightsExternal",
    "CreateCustomLoss",
    "UnloadModel",
)

__all__ = ["RETRIEVE_FUTURE_X_TINKER_REQUEST_TYPE_VALUES", "RetrieveFutureXTinkerRequestType"]
