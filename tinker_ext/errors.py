"""The exception tree of the package and the one table from HTTP status to exception class.

```
TinkerError                          everything this package raises on purpose
├── APIError                         a conversation with the server went wrong
│   ├── APIStatusError               the server answered with an error status
│   │   ├── BadRequestError          400
│   │   ├── AuthenticationError      401
│   │   ├── BillingError             402
│   │   ├── PermissionDeniedError    403
│   │   ├── NotFoundError            404
│   │   ├── ServerTimeoutError       408
│   │   ├── ConflictError            409
│   │   ├── GoneError                410
│   │   ├── UnprocessableEntityError 422
│   │   ├── RateLimitError           429
│   │   └── InternalServerError      500 and above
│   ├── APIResponseValidationError   the reply does not fit the contract
│   └── APIConnectionError           no reply at all
│       └── APITimeoutError          … within the time allowed        (also a TimeoutError)
├── RequestFailedError               accepted, then failed; has a category
├── FutureExpiredError               the server forgot the result     (also a RetryableException)
├── DeadlineExceededError            our own deadline passed          (also a TimeoutError)
│   └── StallError                   … and nothing had moved meanwhile
├── FeatureMissingError              this server has no X
│   └── WhoamiError                  … no token that names its user   (also a RuntimeError)
├── TraceExportError                 a trace could not be made        (also a RuntimeError)
├── UnsafeToRetryError               sending again might train twice
├── BudgetExceededError              a call could use more than the budget allows
├── ClientClosedError                used after close                 (also a RuntimeError)
│   └── SessionEndedError            the server ended the session
├── DeadlockError                    a wait that would wait for itself (also a RuntimeError)
├── InvalidInputError                a bad argument, found before sending (also a ValueError)
│   ├── UnknownKeyError              a name that is not in the list (also a KeyError)
│   └── WrongTypeError               a value of another type        (also a TypeError)
├── ConfigurationError               a bad setting or a missing key   (also a ValueError)
├── TokenizerError                   no tokenizer could be loaded
└── DownloadError                    a checkpoint could not be fetched
```

Every error pickles without credentials: a response or request kept for the user is reduced to
status, headers, body, method and URL, since a pickled `httpx.Request` would carry the API key.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import tinker_ext._statuses as statuses
from tinker_ext._later import Later

if TYPE_CHECKING:
    import httpx

    from tinker_ext import types
else:
    httpx, types = Later("httpx"), Later("tinker_ext.types")


# The body is stored decoded, so headers about its coding would be wrong; cookies are secrets.
_DROPPED_HEADERS = frozenset(
    {"content-encoding", "content-length", "transfer-encoding", "set-cookie"}
)
_LONGEST_BODY_SHOWN = 2000
_USER_IN_URL = re.compile(r"(?<=://)[^/@]*@")


class RequestParts(NamedTuple):
    """Method and URL of a request, without user and password."""

    method: str
    url: str

    @classmethod
    def of(cls, method: str, url: str) -> RequestParts:
        """Parts with any user and password cut from the URL."""
        return cls(method, _USER_IN_URL.sub("", url))


class ReplyParts(NamedTuple):
    """Status, headers, decoded body and request of a reply."""

    status: int
    headers: dict[str, str]
    content: bytes
    request: RequestParts | None

    @classmethod
    def of(
        cls, status: int, headers: Mapping[str, str], content: bytes, request: RequestParts | None
    ) -> ReplyParts:
        """Parts with lower-case header names and without headers that must not be kept."""
        lower = {name.lower(): value for name, value in headers.items()}
        kept = {name: value for name, value in lower.items() if name not in _DROPPED_HEADERS}
        return cls(status, kept, content, request)


def is_page(body: object) -> bool:
    """Whether a body is HTML or XML: a gateway's own page, since Tinker servers write JSON."""
    if isinstance(body, bytes):
        return body[:200].lstrip().startswith(b"<")
    return isinstance(body, str) and body.lstrip().startswith("<")


def _plain(value: Any) -> Any:
    """A request or a reply of httpx as its parts; anything else as it is."""
    httpx = sys.modules.get("httpx")
    if httpx is not None and isinstance(value, httpx.Request):
        return RequestParts.of(value.method, str(value.url))
    if httpx is not None and isinstance(value, httpx.Response):
        content = value.content if value.is_closed else b""
        request = _plain(request_of(value))
        return ReplyParts.of(value.status_code, value.headers, content, request)
    return value


def request_of(response: httpx.Response | ReplyParts) -> httpx.Request | RequestParts | None:
    """The request a reply belongs to, when it knows it."""
    if isinstance(response, ReplyParts):
        return response.request
    try:
        return response.request
    except RuntimeError:  # httpx raises it for a response built by hand
        return None


def decode_body(body: object) -> tuple[bytes, object]:
    """Raw and decoded form of an error body; JSON when it is, else text, else None."""
    if body is None:
        return b"", None
    if isinstance(body, str):
        body = body.encode()
    if isinstance(body, (bytes, bytearray, memoryview)):
        content = bytes(body)
        try:
            return content, json.loads(content)
        except (ValueError, RecursionError):
            return content, content.decode("utf-8", "replace") or None
    return json.dumps(body, default=str).encode(), body


def printable(text: str) -> str:
    """Text as a terminal may show it: control characters but newline and tab as their escapes."""
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or letter in "\n\t"
        else letter.encode("unicode_escape").decode()
        for letter in text
    )


def describe_body(decoded: object) -> str:
    """The words of the server in an error body, printable and cut to a readable length."""
    if decoded is None:
        return "the server gave no reason"
    if isinstance(decoded, dict) and len(decoded) == 1:
        (only,) = decoded.values()
        decoded = only if isinstance(only, str) else decoded
    text = decoded if isinstance(decoded, str) else str(decoded)
    if is_page(text):
        text = " ".join(text.split())
    if len(text) <= _LONGEST_BODY_SHOWN:
        return printable(text)
    return f"{printable(text[:_LONGEST_BODY_SHOWN])}… ({len(text)} characters)"


_CONTEXT = ("operation", "request_id", "attempts", "elapsed", "hint")


class TinkerError(Exception):
    """Base of every error raised on purpose.

    Attributes:
        message: What failed, without the context below.
        operation: Name of the operation, for example `forward_backward`.
        request_id: Id the server gave to the request, when it gave one.
        attempts: How many times the request was sent.
        elapsed: Seconds from the first attempt to the failure.
        hint: What to do next.
    """

    default_hint: str | None = None
    in_doubt: bool = False
    """Set when an earlier attempt may have taken effect, whatever the last one came to."""
    parts_taken: tuple[int, ...] | None = None
    """Of a training call: the parts that are known to have taken effect, counted from 1."""
    effect: str | None = None
    """Of a training call: what of it took effect, in words."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.operation: str | None = None
        self.request_id: str | None = None
        self.attempts: int | None = None
        self.elapsed: float | None = None
        self.hint: str | None = self.default_hint

    def with_context(
        self,
        *,
        operation: str | None = None,
        request_id: str | None = None,
        attempts: int | None = None,
        elapsed: float | None = None,
        hint: str | None = None,
    ) -> Self:
        """Fill in the attributes that are known here and return the same error."""
        given = (operation, request_id, attempts, elapsed, hint)
        for name, value in zip(_CONTEXT, given, strict=True):
            if value is not None:
                setattr(self, name, value)
        return self

    def __str__(self) -> str:
        text = self.message
        facts = []
        if self.operation:
            facts.append(f"operation {self.operation}")
        if self.request_id:
            facts.append(f"request_id {self.request_id}")
        if self.attempts is not None:
            tries = f"{self.attempts} attempt{'' if self.attempts == 1 else 's'}"
            facts.append(tries if self.elapsed is None else f"{tries} over {self.elapsed:.1f} s")
        elif self.elapsed is not None:
            facts.append(f"after {self.elapsed:.1f} s")
        if facts:
            text, stop = (text[:-1], ".") if text.endswith(".") else (text, "")
            text = f"{text} ({', '.join(facts)}){stop}"
        if self.effect:
            text = f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} {self.effect}"
        return printable(f"{text} Hint: {self.hint}" if self.hint else text)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: _plain(value) for name, value in self.__dict__.items()}
        return _rebuild, (type(self), self.args, state)


def _rebuild(cls: type[TinkerError], args: tuple[Any, ...], state: dict[str, Any]) -> TinkerError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class APIError(TinkerError):
    """Something went wrong between us and the server.

    Attributes:
        request: The request, as an `httpx.Request`, or None when it was not kept.
        body: The decoded error body, the raw text, or None.
    """

    def __init__(self, message: str, request: httpx.Request | None, *, body: object | None) -> None:
        super().__init__(message)
        self._request: httpx.Request | RequestParts | None = request
        self.body = body

    @property
    def request(self) -> httpx.Request | None:
        """The request that failed."""
        if isinstance(self._request, RequestParts):
            import httpx

            return httpx.Request(*self._request)
        return self._request


class _ResponseError(APIError):
    """An error that keeps the response it was made from, live or as plain parts."""

    status_code: int

    def __init__(
        self, message: str, response: httpx.Response | ReplyParts, body: object | None
    ) -> None:
        super().__init__(message, None, body=body)
        self._response = response
        self._request = request_of(response)
        self.status_code = (
            response.status if isinstance(response, ReplyParts) else response.status_code
        )
        self.request_id = response.headers.get("x-request-id")

    @property
    def response(self) -> httpx.Response:
        """The reply as an `httpx.Response` (rebuilt when the error was unpickled)."""
        if isinstance(self._response, ReplyParts):
            import httpx

            status, headers, content, _ = self._response
            return httpx.Response(status, headers=headers, content=content, request=self.request)
        return self._response


class APIResponseValidationError(_ResponseError):
    """The server replied, but the reply does not fit the contract."""

    default_hint = "The server speaks another version of the API; run `tinker-ext doctor`."

    def __init__(
        self,
        response: httpx.Response | ReplyParts,
        body: object | None,
        message: str | None = None,
    ) -> None:
        super().__init__(
            message or "The reply of the server does not fit the contract.", response, body
        )


class APIStatusError(_ResponseError):
    """The server answered with a 4xx or 5xx status.

    Attributes:
        response: The reply as an `httpx.Response`.
        status_code: Its status.
        body: The decoded error body.

    Example:
        >>> import httpx
        >>> BadRequestError("no such loss", response=httpx.Response(400), body=None).status_code
        400
    """

    def __init_subclass__(cls, status: int | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if status is not None:
            cls.status_code = status

    def __init__(
        self, message: str, response: httpx.Response | ReplyParts, body: object | None
    ) -> None:
        super().__init__(message, response, body)
        # Built by hand, its text is exactly the message; `error_for_status` adds the hint.
        self.hint = None


class BadRequestError(APIStatusError, status=400):
    """400: the server refused the content of the request."""

    default_hint = "The request itself is wrong; sending it again will not help."


class AuthenticationError(APIStatusError, status=401):
    """401: no credential, or one the server does not know."""

    default_hint = "Check TINKER_API_KEY (or TINKER_CREDENTIAL_CMD) and that it fits the base URL."


class BillingError(APIStatusError, status=402):
    """402: the account cannot pay for this now."""

    default_hint = "Add funds or raise the spending limit; waiting requests then continue."


class PermissionDeniedError(APIStatusError, status=403):
    """403: the credential is known but not allowed to do this."""

    default_hint = "Ask the owner of the run or project for access."


class NotFoundError(APIStatusError, status=404):
    """404: no such object, or this server has no such endpoint."""

    default_hint = "Check the id or path; an older server may lack the endpoint."


class ServerTimeoutError(APIStatusError, status=408):
    """408: the server gave up waiting."""

    default_hint = "The server was busy; try again."


class ConflictError(APIStatusError, status=409):
    """409: the request contradicts what the server already has."""

    default_hint = "Another request with the same number or name arrived first."


class GoneError(APIStatusError, status=410):
    """410: it existed, and the server has let it go."""

    default_hint = "The session or result has ended; create a new one."


class UnprocessableEntityError(APIStatusError, status=422):
    """422: well-formed, but not acceptable."""

    default_hint = "A field has a value the server does not accept; see the body."


class RateLimitError(APIStatusError, status=429):
    """429: too many requests."""

    default_hint = "Send less at once, or wait for the time the server names."


class InternalServerError(APIStatusError):
    """500 and above: the server failed."""

    default_hint = "The server is unwell; try again later."


class APIConnectionError(APIError):
    """The request got no reply at all."""

    default_hint = "Check the network and the base URL; `tinker-ext doctor` tests both."

    def __init__(
        self, request: httpx.Request | None = None, message: str = "Connection error."
    ) -> None:
        super().__init__(message, request, body=None)


class APITimeoutError(APIConnectionError, TimeoutError):
    """The request got no reply within the time allowed."""

    default_hint = "The server is slow or unreachable; a longer timeout may help."

    def __init__(
        self, request: httpx.Request | None = None, message: str = "Request timed out."
    ) -> None:
        super().__init__(request, message)


class RequestFailedError(TinkerError):
    """The server accepted the request and later reported that it failed.

    Attributes:
        request_id: Id of the failed request.
        category: `RequestErrorCategory`: user (fix the request), server, or unknown.
    """

    def __init__(
        self, message: str, request_id: str, category: types.RequestErrorCategory | str
    ) -> None:
        from tinker_ext.types.enums import RequestErrorCategory

        super().__init__(message)
        self.request_id = request_id
        self.category = RequestErrorCategory(category)
        self.hint = {
            RequestErrorCategory.User: "The request itself is wrong; change it before sending.",
            RequestErrorCategory.Server: "The server failed; the same request may work later.",
        }.get(self.category)


class RetryableException(Exception):
    """A failure after which the same work may be submitted again as a new request."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class FutureExpiredError(TinkerError, RetryableException):
    """The server no longer has the result of this request (410 on a future)."""

    default_hint = (
        "Samples may be sent again; for a training step look at the state of the run first."
    )


class DeadlineExceededError(TinkerError, TimeoutError):
    """The deadline set by the caller or the configuration passed."""

    default_hint = "Wait again with a longer timeout; the server may still finish the work."


class StallError(DeadlineExceededError):
    """The deadline passed and nothing had moved for the whole stall period."""

    default_hint = "See the queue state in the message; the server may be out of capacity."


class FeatureMissingError(TinkerError):
    """This server lacks an endpoint or ability that the call needs.

    Attributes:
        feature: What is missing, in words.
        base_url: Which server.
    """

    def __init__(self, feature: str, base_url: str | None = None) -> None:
        where = f"The server at {base_url}" if base_url else "This server"
        super().__init__(f"{where} has no {feature}.")
        self.feature = feature
        self.base_url = base_url


class WhoamiError(FeatureMissingError, RuntimeError):
    """The server's credential does not name its user."""


class TraceExportError(TinkerError, RuntimeError):
    """The server could not make the trace of a session."""


class UnsafeToRetryError(TinkerError):
    """Whether the server did the work is unknown, and sending it again might do it twice."""

    default_hint = "Look at the state of the run, then continue from a checkpoint."


class BudgetExceededError(TinkerError):
    """A call could use more than the budget allows; found before a byte was sent."""

    default_hint = "Raise the budget of the ServiceClient, or make the call smaller."


class ClientClosedError(TinkerError, RuntimeError):
    """A client was used after it was closed."""

    default_hint = "Create a new ServiceClient."


class SessionEndedError(ClientClosedError):
    """The server ended the session this client belongs to."""

    default_hint = "Create a new ServiceClient and load the last checkpoint."


class DeadlockError(TinkerError, RuntimeError):
    """A result was waited for on the thread that has to bring it."""

    default_hint = "Await the future, or wait for it on another thread."


class InvalidInputError(TinkerError, ValueError):
    """An argument is wrong; found before a byte was sent."""


class UnknownKeyError(InvalidInputError, KeyError):
    """A name that is not in a closed list; the message shows the list."""


class WrongTypeError(InvalidInputError, TypeError):
    """A value of another type, where the official SDK raises `TypeError`."""


class ConfigurationError(TinkerError, ValueError):
    """A setting is wrong or missing."""


class TokenizerError(TinkerError):
    """No tokenizer could be loaded for this model."""


class DownloadError(TinkerError):
    """A checkpoint could not be fetched, verified or unpacked."""


class ExperimentalWarning(FutureWarning):
    """The operation works today but may change without a major version."""


STATUS_ERRORS: Mapping[int, type[APIStatusError]] = {
    cls.status_code: cls for cls in APIStatusError.__subclasses__() if hasattr(cls, "status_code")
}
"""The one table from status to class; every status of 500 and above is InternalServerError."""


def error_for_status(
    status: int,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "POST",
    url: str | None = None,
) -> APIStatusError:
    """Build the error for a reply with an error status; what else is known is `with_context`.

    Args:
        status: HTTP status of the reply.
        body: Raw bytes (decoded here when they are JSON) or an already decoded body.
        headers: Response headers; `x-request-id` among them is the id of the request.
        method: HTTP method of the request.
        url: URL of the request.

    Returns:
        An error ready to be raised.

    Example:
        >>> error = error_for_status(429, b'{"detail": "slow down"}')
        >>> type(error).__name__, error.body
        ('RateLimitError', {'detail': 'slow down'})
    """
    content, decoded = decode_body(body)
    cls = STATUS_ERRORS.get(status, InternalServerError if status >= 500 else APIStatusError)
    request = RequestParts.of(method, url) if url else None
    parts = ReplyParts.of(status, headers or {}, content, request)
    error = cls(f"Error code: {status} - {describe_body(decoded)}", parts, decoded)
    error.hint = (is_page(content) and _PAGE_HINTS.get(status)) or cls.default_hint
    return error


PAGE_HINT = (
    "The body is a web page, so a gateway or proxy wrote it and not a Tinker server. Try again, or "
    "check base_url."
)
GATE_HINT = (
    "The body is a web page, so a gateway or proxy wrote it, and no Tinker server has seen the API "
    "key. Check base_url, the network (VPN, proxy), and what the gateway asks for, such as "
    "CLOUDFLARE_ACCESS_CLIENT_ID and CLOUDFLARE_ACCESS_CLIENT_SECRET."
)
_PAGE_HINTS = {
    **dict.fromkeys(statuses.MISSING, PAGE_HINT),
    **dict.fromkeys(statuses.CREDENTIAL_REFUSED, GATE_HINT),
}

if not TYPE_CHECKING:  # a checker sees the modules themselves
    # `import *` would put what stands for a module in the place of the module.
    _STAND_INS = ("Later", "httpx", "types")
    __all__ = [name for name in vars() if name[0] != "_" and name not in _STAND_INS]
