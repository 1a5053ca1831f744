"""FutureRetrieveResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload

from ..base import Model
from ..codec import Choice
from ..errors import ParseError
from ..types import Unknown

if TYPE_CHECKING:
    from .create_custom_loss_response import CreateCustomLossResponse
    from .create_model_response import CreateModelResponse
    from .forward_backward_output import ForwardBackwardOutput
    from .future_metadata_only import FutureMetadataOnly
    from .load_weights_response import LoadWeightsResponse
    from .optim_step_response import OptimStepResponse
    from .request_failed_response import RequestFailedResponse
    from .sample_response import SampleResponse
    from .save_weights_external_response_internal import SaveWeightsExternalResponseInternal
    from .save_weights_for_sampler_response_internal import SaveWeightsForSamplerResponseInternal
    from .save_weights_response import SaveWeightsResponse
    from .try_again_response import TryAgainResponse
    from .unload_model_response import UnloadModelResponse

__all__ = ["FutureRetrieveResponse", "parse_future_retrieve_response"]

FutureRetrieveResponse: TypeAlias = "TryAgainResponse | CreateModelResponse | UnloadModelResponse | SampleResponse | SaveWeightsResponse | LoadWeightsResponse | SaveWeightsForSamplerResponseInternal | SaveWeightsExternalResponseInternal | CreateCustomLossResponse | FutureMetadataOnly | RequestFailedResponse | ForwardBackwardOutput | OptimStepResponse | Unknown"
_M = TypeVar("_M", bound=Model)


@cache
def _codec() -> Choice:
    from .create_custom_loss_response import CreateCustomLossResponse
    from .create_model_response import CreateModelResponse
    from .forward_backward_output import ForwardBackwardOutput
    from .future_metadata_only import FutureMetadataOnly
    from .load_weights_response import LoadWeightsResponse
    from .optim_step_response import OptimStepResponse
    from .request_failed_response import RequestFailedResponse
    from .sample_response import SampleResponse
    from .save_weights_external_response_internal import SaveWeightsExternalResponseInternal
    from .save_weights_for_sampler_response_internal import SaveWeightsForSamplerResponseInternal
    from .save_weights_response import SaveWeightsResponse
    from .try_again_response import TryAgainResponse
    from .unload_model_response import UnloadModelResponse

    return Choice(
        models=(
            TryAgainResponse,
            CreateModelResponse,
            UnloadModelResponse,
            SampleResponse,
            SaveWeightsResponse,
            LoadWeightsResponse,
            SaveWeightsForSamplerResponseInternal,
            SaveWeightsExternalResponseInternal,
            CreateCustomLossResponse,
            FutureMetadataOnly,
            RequestFailedResponse,
            ForwardBackwardOutput,
            OptimStepResponse,
        ),
        rules=(
            ("type", "try_again", TryAgainResponse),
            ("status", "complete_metadata", FutureMetadataOnly),
            ("error", None, RequestFailedResponse),
        ),
    )


@overload
def parse_future_retrieve_response(raw: Any) -> FutureRetrieveResponse: ...
@overload
def parse_future_retrieve_response(raw: Any, expected: type[_M]) -> FutureRetrieveResponse | _M: ...
def parse_future_retrieve_response(
    raw: Any, expected: type[_M] | None = None
) -> FutureRetrieveResponse | _M:
    """Read a FutureRetrieveResponse: What polling a future can bring. Tags of results may be missing and results overlap, so a
    reader decides in the order given by x-decision-order and then takes the result type of the
    operation it asked for.

    Args:
        raw: The JSON value.
        expected: Class to read an object with when neither the decoding order nor a tag of its own
            decides. It may be a class outside the union.

    Returns:
        A member, or `Unknown` when it cannot be told which member it is.

    Raises:
        ParseError: The object names its class, or is expected to be one, but does not fit it.
    """
    codec = _codec()
    if expected is not None:
        if type(raw) is not dict:
            raise ParseError(f"expected an object, found {type(raw).__name__}")
        return cast("FutureRetrieveResponse | _M", codec.decided(raw, expected).from_dict(raw))
    return cast("FutureRetrieveResponse", codec.read(raw))
