"""Errors of the generated client: a call that cannot be made or an answer that cannot be read.

    ApiError
    ├── ArgumentError (ValueError)   an argument of an operation is unknown, missing or wrong
    ├── ParseError (ValueError)      a JSON value does not fit its schema
    └── ResponseError                an HTTP answer could not be used; has status, headers, content
        ├── StatusError              a documented status outside 2xx; `parsed` is its body
        │   └── UnexpectedStatus     a status the document does not know
        └── UnexpectedBody           not the documented content type, not JSON, or not the schema

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "ApiError",
    "ArgumentError",
    "ParseError",
    "ResponseError",
    "StatusError",
    "UnexpectedBody",
    "UnexpectedStatus",
]

_HEAD = 200


class ApiError(Exception):
    """Root of the errors raised by this package."""


class ArgumentError(ApiError, ValueError):
    """An argument of an operation that the document does not allow. Nothing was sent.

    Attributes:
        problem: What is wrong, without the value of anything that could be a secret.
        operation: The operationId.
        argument: Name of the argument; keys and indexes inside it follow as `.key` and `[0]`.
        allowed: What would be right: names of arguments or keys, or the values of a closed list.
    """

    def __init__(
        self, problem: str, operation: str, argument: str, allowed: tuple[str | int, ...] = ()
    ) -> None:
        super().__init__(problem, operation, argument, allowed)
        self.problem = problem
        self.operation = operation
        self.argument = argument
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{self.operation}: {self.problem}"


class ParseError(ApiError, ValueError):
    """A JSON value does not fit the schema it was read with.

    Attributes:
        path: Keys and indexes from the outermost object to the value.
        problem: What was expected there and which type was found (never the value itself).
    """

    def __init__(self, problem: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(problem, path)
        self.problem = problem
        self.path = path

    def within(self, step: str | int) -> ParseError:
        """Return the same error as seen from one level further out."""
        return type(self)(self.problem, (step, *self.path))

    def __str__(self) -> str:
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return f"{where.lstrip('.')}: {self.problem}" if where else self.problem


class ResponseError(ApiError):
    """An HTTP answer that could not be turned into the documented result.

    Attributes:
        problem: One sentence that says what is wrong.
        status_code: HTTP status.
        headers: Response headers with lower-case names.
        content: The whole body, as received.
        parsed: The body read with its documented schema, where there is one.
    """

    def __init__(
        self,
        problem: str,
        status_code: int,
        headers: Mapping[str, str],
        content: bytes,
        parsed: Any = None,
    ) -> None:
        super().__init__(problem, status_code, headers, content, parsed)
        self.problem = problem
        self.status_code = status_code
        self.headers = headers
        self.content = content
        self.parsed = parsed

    @property
    def content_type(self) -> str:
        """Media type of the body without parameters, in lower case; empty when not sent."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def head(self) -> bytes:
        """The first bytes of the body."""
        return self.content[:_HEAD]

    def __str__(self) -> str:
        text = (
            f"{self.problem} (status {self.status_code}, {self.content_type or 'no content type'}"
        )
        # The body of a success may hold a credential; an error page is what one wants to see.
        if self.status_code >= 400:
            text += f", body starts {self.head!r}"
        return f"{text})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class StatusError(ResponseError):
    """The server answered with a documented status outside 2xx; `parsed` holds the body."""


class UnexpectedStatus(StatusError):
    """The server answered with a status that the document does not list."""


class UnexpectedBody(ResponseError):
    """The body is not what the document promises: its type, its JSON or its schema."""
