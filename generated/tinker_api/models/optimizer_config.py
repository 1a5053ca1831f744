"""OptimizerConfig. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union, cast, overload

from .. import models
from ..base import Model
from ..codec import Choice
from ..errors import ParseError
from ..types import Unknown

__all__ = ["OptimizerConfig", "parse_optimizer_config"]

if TYPE_CHECKING:
    OptimizerConfig: TypeAlias = (
        models.AdamOptimizerConfig
        | models.DimuonOptimizerConfig
        | models.OptimizerConfigBase
        | Unknown
    )
_M = TypeVar("_M", bound=Model)


@cache
def _codec() -> Choice:
    from .adam_optimizer_config import AdamOptimizerConfig
    from .dimuon_optimizer_config import DimuonOptimizerConfig
    from .optimizer_config_base import OptimizerConfigBase

    return Choice(
        models=(
            AdamOptimizerConfig,
            DimuonOptimizerConfig,
            OptimizerConfigBase,
        )
    )


def __getattr__(name: str) -> Any:
    # The union itself, made when it is first read: its members load with it.
    if name != "OptimizerConfig":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = Union[(*_codec().models, Unknown)]
    return value


@overload
def parse_optimizer_config(raw: Any) -> models.OptimizerConfig: ...
@overload
def parse_optimizer_config(raw: Any, expected: type[_M]) -> models.OptimizerConfig | _M: ...
def parse_optimizer_config(
    raw: Any, expected: type[_M] | None = None
) -> models.OptimizerConfig | _M:
    """Read a OptimizerConfig: Family of optimizer. An object without a tag means adamw; a tag not listed belongs to a
    family this document does not know. Era 0.36.0 only.

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
        return cast("models.OptimizerConfig | _M", codec.decided(raw, expected).from_dict(raw))
    return cast("models.OptimizerConfig", codec.read(raw))
