"""FutureRetrieveResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union, cast, overload

from .. import models
from ..base import Model
from ..codec import Choice
from ..errors import ParseError
from ..types import Unknown

__all__ = ["FutureRetrieveResponse", "member_of", "parse_future_retrieve_response"]

if TYPE_CHECKING:
    FutureRetrieveResponse: TypeAlias = (
        models.TryAgainResponse
        | models.CreateModelResponse
        | models.UnloadModelResponse
        | models.SampleResponse
        | models.SaveWeightsResponse
        | models.LoadWeightsResponse
        | models.SaveWeightsForSamplerResponseInternal
        | models.SaveWeightsExternalResponseInternal
        | models.CreateCustomLossResponse
        | models.FutureMetadataOnly
        | models.RequestFailedResponse
        | models.ForwardBackwardOutput
        | models.OptimStepResponse
        | Unknown
    )
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
        aliases=(
            ("create_model", CreateModelResponse),
            ("unload_model", UnloadModelResponse),
            ("forward", ForwardBackwardOutput),
            ("forward_backward", ForwardBackwardOutput),
            ("optim_step", OptimStepResponse),
            ("create_custom_loss", CreateCustomLossResponse),
            ("sample", SampleResponse),
            ("save_weights", SaveWeightsResponse),
            ("load_weights", LoadWeightsResponse),
            ("save_weights_for_sampler", SaveWeightsForSamplerResponseInternal),
            ("save_weights_external", SaveWeightsExternalResponseInternal),
        ),
        empty=(
            LoadWeightsResponse,
            OptimStepResponse,
        ),
    )


def __getattr__(name: str) -> Any:
    # The union itself, made when it is first read: its members load with it.
    if name != "FutureRetrieveResponse":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = Union[(*_codec().models, Unknown)]
    return value


@overload
def parse_future_retrieve_response(raw: Any) -> models.FutureRetrieveResponse: ...
@overload
def parse_future_retrieve_response(
    raw: Any, expected: type[_M]
) -> models.FutureRetrieveResponse | _M: ...
def parse_future_retrieve_response(
    raw: Any, expected: type[_M] | None = None
) -> models.FutureRetrieveResponse | _M:
    """Read a FutureRetrieveResponse: What polling a future can bring. Tags of results may be missing and results overlap, so a
    reader decides in the order given by x-decision-order and then takes the result type of the
    operation it asked for.

    Args:
        raw: The JSON value.
        expected: The result that is awaited: what the decoding order does not decide is read with
            this class or refused. It may be a class outside the union.

    Returns:
        A member. Without `expected` it is `Unknown` when it cannot be told which member it is.

    Raises:
        ParseError: The object names its class but does not fit it, or it is not the awaited one: it
            has the tag or the keys of another member, an undocumented tag or state, or nothing of
            what the awaited class has.
    """
    codec = _codec()
    if expected is not None:
        if type(raw) is not dict:
            raise ParseError(f"expected an object, found {type(raw).__name__}")
        return cast(
            "models.FutureRetrieveResponse | _M", codec.decided(raw, expected).from_dict(raw)
        )
    return cast("models.FutureRetrieveResponse", codec.read(raw))


@cache
def _classes() -> dict[str, type[Model]]:
    return {model.__name__: model for model in _codec().models}


def member_of(raw: Any, expected: str | type[Model]) -> str:
    """Return the name of the member that an object is, without reading it.

    This is the decision of `parse_future_retrieve_response`, for those who read results with readers of
    their own.

    Args:
        raw: The JSON value.
        expected: The awaited result, as a class or by the name of one.

    Returns:
        The name of the awaited class, or of a member that the decoding order names.

    Raises:
        ParseError: The object is something else.
    """
    if type(raw) is not dict:
        raise ParseError(f"expected an object, found {type(raw).__name__}")
    wanted = _classes()[expected] if isinstance(expected, str) else expected
    return _codec().decided(raw, wanted).__name__
