"""Failures of one HTTP exchange, each saying whether the request may have reached the server.

`sent` is what a caller needs to decide about sending again (a training step must not run twice):

* ``False``: not a byte left this machine,
* ``None``: bytes left, no answer began; nobody here can know,
* ``True``: the server began to answer, so it has the request.
"""

from __future__ import annotations

from typing import Any

from tinker_ext._reply_parts import ReplyParts
from tinker_ext.errors import APIConnectionError, APIResponseValidationError, APITimeoutError

Sent = bool | None


class ExchangeError(APIConnectionError):
    """No usable reply came back.

    Attributes:
        sent: Whether the request reached the server: False no, True yes, None unknown.
    """

    def __init__(self, message: str, sent: Sent = None) -> None:
        super().__init__(None, message)
        self.sent = sent

    def _public_args(self) -> tuple[Any, ...]:
        return (self.message, self.sent)


class ConnectError(ExchangeError):
    """No connection could be opened (name, network, refusal or TLS); nothing was sent."""

    def __init__(self, message: str, sent: Sent = False) -> None:
        super().__init__(message, sent)


class ConnectionLostError(ExchangeError):
    """The connection ended before any byte of the answer."""


class MalformedReplyError(ExchangeError):
    """What came back is not a complete HTTP reply: garbage, cut short, or of another length."""

    def __init__(self, message: str, sent: Sent = True) -> None:
        super().__init__(message, sent)


class UnreadableReplyError(MalformedReplyError):
    """A reply came, but cannot be unpacked: damaged, or packed in a way nobody asked for."""

    default_hint = "Something on the way (a proxy?) changes replies; look at its settings."


class ExchangeTimeoutError(APITimeoutError):
    """The exchange did not finish within its time.

    Attributes:
        sent: Whether the request reached the server: False no, True yes, None unknown.
    """

    def __init__(self, message: str = "Request timed out.", sent: Sent = None) -> None:
        super().__init__(None, message)
        self.sent = sent

    def _public_args(self) -> tuple[Any, ...]:
        return (self.message, self.sent)


class LaneBusyError(ExchangeTimeoutError):
    """All connections of the lane stayed busy until the deadline; nothing was sent."""

    default_hint = "Send less at once, or allow the lane more connections."

    def __init__(self, message: str, sent: Sent = False) -> None:
        super().__init__(message, sent)


class ReplyTooLargeError(APIResponseValidationError):
    """The reply, or what it unpacks to, exceeds the allowed size; it was not kept."""

    default_hint = "If the reply is honest, raise the size limit of the configuration."

    def __init__(self, message: str, status: int = 200) -> None:
        super().__init__(ReplyParts(status, {}, b"", None), None, message)

    def _public_args(self) -> tuple[Any, ...]:
        return (self.message, self.status_code)


class RedirectRefusedError(APIConnectionError):
    """The server answered with a redirect that must not be followed.

    The API key belongs to one origin, and a request with a body is never sent elsewhere.
    """

    default_hint = "Set the base URL to the final address of the server."

    def __init__(self, message: str, status: int = 302) -> None:
        super().__init__(None, message)
        self.status_code = status
        self.sent: Sent = True

    def _public_args(self) -> tuple[Any, ...]:
        return (self.message, self.status_code)


def sent_of(error: BaseException) -> Sent:
    """Tell whether the failed request reached the server; unknown unless the error says so."""
    value = getattr(error, "sent", None)
    return value if isinstance(value, bool) else None
