"""From an exception to what the user reads: a title, what happened, what to do, an exit code."""

from __future__ import annotations

import sys
import traceback

from tinker_ext._extras import NEEDS, how_to_install

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

# First class that fits wins; the titles are those users of other Tinker tools know.
TITLES = (
    ("NotFoundError", "Resource not found"),
    ("AuthenticationError", "Authentication failed"),
    ("BillingError", "Billing issue"),
    ("PermissionDeniedError", "Permission denied"),
    ("BadRequestError", "Invalid request"),
    ("UnprocessableEntityError", "Invalid data provided"),
    ("RateLimitError", "Rate limit exceeded"),
    ("InternalServerError", "Internal server error"),
    ("APITimeoutError", "Request timeout"),
    ("DeadlineExceededError", "Request timeout"),
    ("APIConnectionError", "Connection failed"),
    ("APIStatusError", "API error"),
    ("APIError", "API error"),
)
ADVICE = {
    "NotFoundError": "Check the id or path; `tinker-ext run list` shows what there is.",
    "AuthenticationError": "Check TINKER_API_KEY, or run `tinker-ext auth login`.",
    "BillingError": "Check the billing page of your account.",
    "PermissionDeniedError": "Ask the owner for access, or use another key.",
    "RateLimitError": "Wait a moment, then run the command again.",
    "InternalServerError": "Run the command again later.",
    "APITimeoutError": "Run the command again; `tinker-ext doctor` tells where time is lost.",
    "APIConnectionError": "Run `tinker-ext doctor` to see which step of the way fails.",
}


class CommandError(Exception):
    """A command cannot do what was asked.

    Args:
        message: What is wrong.
        advice: What to do about it.
        title: Words before the message.
    """

    def __init__(self, message: str, advice: str = "", *, title: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.title = title


def lines_for(error: BaseException) -> list[str]:
    """Return what to print about an error, the line `Error: …` first.

    Example:
        >>> lines_for(CommandError("no such file", "Check the name."))
        ['Error: no such file', 'Check the name.']
    """
    if isinstance(error, CommandError):
        head = f"{error.title}: {error.message}" if error.title else error.message
        return [f"Error: {head}", *filter(None, [error.advice])]
    from tinker_ext.errors import TinkerError

    if isinstance(error, TinkerError):
        names = [cls.__name__ for cls in type(error).__mro__]
        title = next((text for name, text in TITLES if name in names), "")
        advice = error.hint or next((ADVICE[name] for name in names if name in ADVICE), "")
        hint, error.hint = error.hint, None
        text = str(error)
        error.hint = hint
        return [f"Error: {title}: {text}" if title else f"Error: {text}", *filter(None, [advice])]
    if isinstance(error, OSError) and error.strerror:
        place = f": {error.filename}" if error.filename else ""
        return [f"Error: {error.strerror}{place}"]
    if isinstance(error, ImportError):
        package = (error.name or "").partition(".")[0].replace("_", "-")
        extra = next((extra for extra, packages in NEEDS.items() if package in packages), None)
        if extra is not None and isinstance(error, ModuleNotFoundError):
            return [
                f"Error: this command needs {package}, which is not installed",
                f"Install it with: {how_to_install(extra)}",
            ]
        return [
            f"Error: {error}",
            f"Install what is missing; all optional parts: {how_to_install('all')}",
        ]
    return [
        f"Error: {type(error).__name__}: {error}",
        "This was not expected. Run the command with --debug before it to see where it happened.",
    ]


def report(error: BaseException, *, debug: bool = False) -> int:
    """Print an error on stderr and return the exit code."""
    if debug:
        traceback.print_exception(error)
    for line in lines_for(error):
        print(line, file=sys.stderr)
    return EXIT_FAILED
