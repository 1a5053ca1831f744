"""Arguments and results of client calls: what is refused at once, what the user gets."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import attrs

import tinker_ext
from tinker_ext import paths, types
from tinker_ext._wire.json_codec import check_json
from tinker_ext.batch.checks import check_count
from tinker_ext.batch.custom_loss import CustomLossFn
from tinker_ext.clients.losses import LossHandle
from tinker_ext.core.future import LightFuture
from tinker_ext.core.retry_config import RetryConfig
from tinker_ext.errors import APIResponseValidationError, InvalidInputError, ReplyParts
from tinker_ext.types.optimizer import OptimizerConfig
from tinker_ext.types.records import check_type

_OURS = os.path.dirname(tinker_ext.__file__) + os.sep


def warn(message: str, category: type[Warning]) -> None:
    """Warn about the line of the user that led here, however many of ours are in between."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def loss_function(
    loss_fn: CustomLossFn | LossHandle, loss_type_input: str | None, backend: str = "auto"
) -> CustomLossFn:
    """The function behind a custom loss; raises for anything that is not one."""
    if not isinstance(backend, str) or backend not in ("auto", "torch", "numpy"):
        raise InvalidInputError(f"backend must be 'auto', 'torch' or 'numpy', not {backend!r}.")
    if loss_type_input is not None:
        warn(
            "`loss_type_input` has no effect, since a loss always gets logprobs; leave it out.",
            DeprecationWarning,
        )
        if not isinstance(loss_type_input, str) or loss_type_input != "logprobs":
            raise InvalidInputError(f"loss_type_input must be 'logprobs', not {loss_type_input!r}.")
    if isinstance(loss_fn, LossHandle):
        return loss_fn.on_batch
    if not callable(loss_fn):
        raise InvalidInputError(f"loss_fn must be a function or a LossHandle, not {loss_fn!r}.")
    return loss_fn


def record_of(value: Any) -> dict[str, Any]:
    """A record of ours or of the generated code as JSON."""
    fields: dict[str, Any] = value.to_dict() if hasattr(value, "to_dict") else attrs.asdict(value)
    return fields


def check_name(name: str) -> None:
    """Refuse what cannot name a checkpoint, which becomes one part of its path."""
    if not isinstance(name, str) or not name:
        raise InvalidInputError(
            f"A checkpoint name must be a text that is not empty, not {name!r}."
        )
    if name in (".", "..") or not name.isprintable() or any(mark in name for mark in "/\\"):
        raise InvalidInputError(
            f"A checkpoint name is one part of a path, such as 'step-100', not {name!r:.200}: no "
            "slash, no backslash, no control character, and neither '.' nor '..'."
        )


def check_base_model(base_model: str) -> None:
    """Refuse what cannot name a model."""
    if not isinstance(base_model, str) or not base_model:
        raise InvalidInputError(f"base_model must be the name of a model, not {base_model!r}.")


def check_metadata(user_metadata: Mapping[str, str] | None) -> None:
    """Refuse metadata that is not a JSON object."""
    if user_metadata is None:
        return
    if not isinstance(user_metadata, Mapping):
        raise InvalidInputError(f"user_metadata must be a dict, not {user_metadata!r}.")
    check_json("user_metadata", dict(user_metadata))


def check_optimizer(optimizer: OptimizerConfig | None) -> None:
    """Refuse what configures no optimizer family."""
    if optimizer is None:
        return
    if isinstance(optimizer, type) or not (
        hasattr(optimizer, "to_dict") or attrs.has(type(optimizer))
    ):
        raise InvalidInputError(
            f"optimizer must be AdamOptimizerConfig(…) or the like, not {optimizer!r}."
        )
    check_json("optimizer", record_of(optimizer))


def check_ttl(ttl_seconds: int | None) -> None:
    """Refuse what cannot be the lifetime of a checkpoint; None keeps it."""
    if ttl_seconds is not None:
        check_count("ttl_seconds", ttl_seconds, least=1)


def check_retry_config(retry_config: RetryConfig | None) -> None:
    """Refuse what is not a RetryConfig."""
    check_type("retry_config", retry_config, RetryConfig | None, "a RetryConfig")


def check_state_path(path: str) -> None:
    """Refuse what cannot be a saved state, before anything is sent."""
    if not paths.looks_like_weights(path):
        raise InvalidInputError(
            f"{path!r} is not a checkpoint path; pass the path that save_state returned, such as "
            "tinker://<run>/weights/<name>."
        )
    for kind, name in (("/sampler_weights/", "sampler"), ("/external_weights/", "exported")):
        if kind in path:
            raise InvalidInputError(
                f"{path!r} holds {name} weights, which cannot be trained further; use save_state."
            )


def check_access_token(token: object) -> None:
    """Refuse what cannot be a header; the value is not shown."""
    check_type("weights_access_token", token, str | None, "text or None")


def named_sampler(reply: Any) -> types.SaveWeightsForSamplerResponse:
    """The reply to a named save, which has a path."""
    return types.SaveWeightsForSamplerResponse(path=_path(reply), type="save_weights_for_sampler")


def external_weights(reply: Any) -> types.SaveWeightsExternalResponse:
    """The reply to an export, which has a path."""
    return types.SaveWeightsExternalResponse(path=_path(reply))


def _path(reply: Any) -> str:
    if not reply.path:
        raise APIResponseValidationError(
            ReplyParts(200, {}, b"", None),
            reply.to_dict(),
            "The server saved the weights without telling their path.",
        )
    return str(reply.path)


S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)


class Result(Protocol[T_co]):
    """A future of either kind."""

    def result(self, timeout: float | None = None) -> T_co:
        """Wait for the value."""


def awaited(
    method: Callable[Concatenate[S, P], Future[T]] | Callable[Concatenate[S, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The `_async` twin of a method that returns a future: its value, once awaited."""
    described: Any = getattr(method, "description", method)

    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        value: T = await described(self, *args, **kwargs)
        return value

    return _named(twin, described)


def blocking(
    description: Callable[Concatenate[S, P], Result[T]],
) -> Callable[Concatenate[S, P], T]:
    """The twin of a method that returns a future: it waits for the value."""

    @functools.wraps(description)
    def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return description(self, *args, **kwargs).result()

    twin.description = description  # type: ignore[attr-defined]
    return cast("Callable[Concatenate[S, P], T]", twin)


def async_form(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The `_async` twin of a `blocking` method."""
    return awaited(method)  # type: ignore[arg-type]


def awaited_or_given_up(
    method: Callable[Concatenate[S, P], Future[T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The `_async` twin of a method whose future is cancelled when the `await` is."""
    described: Any = method

    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        future = described(self, *args, **kwargs)
        try:
            value: T = await future
        except BaseException:
            future.cancel()  # nobody is left to read it; no effect on a future that is done
            raise
        return value

    return _named(twin, described)


def submitted(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The `_async` twin of a training method: the same future after one `await`."""
    described: Any = method

    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # By its name, so that the twin follows a method that a subclass overrides.
        made: T = getattr(self, described.__name__)(*args, **kwargs)
        return made

    return _named(twin, described)


def _named(twin: T, described: Any) -> T:
    named: Any = functools.update_wrapper(cast("Any", twin), described)
    named.__name__ += "_async"
    named.__qualname__ += "_async"
    named.__doc__ = f"Async form of `{described.__name__}`."
    return twin


def chained(inner: Future[T], read: Callable[[Future[T]], U]) -> LightFuture[U]:
    """A future of what `read` makes of another, done one; what `read` raises is its error."""
    outer: LightFuture[U] = LightFuture()
    outer.on_cancel = inner.cancel

    def done(future: Future[T]) -> None:
        if future.cancelled():
            outer.cancel()
            return
        try:
            value = read(future)
        except BaseException as error:
            outer.fail(error)
        else:
            outer.settle(value)

    inner.add_done_callback(done)
    return outer
