"""Two forms of one method: a description returns a future, and its twins wait or are awaited."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Result(Protocol[T_co]):
    """A future of either kind."""

    def result(self, timeout: float | None = None) -> T_co:
        """Wait for the value."""


def awaited(
    method: Callable[Concatenate[S, P], Future[T]] | Callable[Concatenate[S, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The `_async` twin of a method that returns a future: its value, once awaited.

    Example:
        >>> class Client:
        ...     def look(self) -> Future[int]: ...
        ...     look_async = awaited(look)
        >>> Client.look_async.__doc__
        'Async form of `look`.'
    """
    described: Any = getattr(method, "description", method)

    @functools.wraps(described)
    async def twin(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        value: T = await described(self, *args, **kwargs)
        return value

    twin.__name__ = f"{described.__name__}_async"
    twin.__qualname__ = f"{described.__qualname__}_async"
    twin.__doc__ = f"Async form of `{described.__name__}`."
    return cast("Callable[Concatenate[S, P], Coroutine[Any, Any, T]]", twin)


def blocking(
    description: Callable[Concatenate[S, P], Result[T]],
) -> Callable[Concatenate[S, P], T]:
    """The twin of a method that returns a future: it waits for the value."""

    @functools.wraps(description)
    def twin(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        return description(self, *args, **kwargs).result()

    twin.description = description  # type: ignore[attr-defined]
    return cast("Callable[Concatenate[S, P], T]", twin)


def async_form(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The `_async` twin of a `blocking` method."""
    return awaited(method)  # type: ignore[arg-type]
