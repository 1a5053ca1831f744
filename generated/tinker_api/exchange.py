"""What is common to all calls: the parts of a request and the reading of an answer. No I/O here.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from attrs import frozen

from .codec import Codec
from .errors import ParseError, StatusError, UnexpectedBody, UnexpectedStatus
from .types import Headers, Response, Unknown, dumps, loads

__all__ = [
    "Answer",
    "build_request",
    "read_answer",
    "refuse_unlisted",
    "segment_of",
    "text_of",
    "unwrap",
]

T = TypeVar("T")


@frozen
class Answer:
    """What the document promises for a range of statuses.

    Attributes:
        low: First status.
        high: Last status.
        json: Codec of a JSON body, or None when no JSON is documented.
        binary: Other media types; text is handed over as a string, the rest as bytes.
    """

    low: int
    high: int
    json: Codec | None = None
    binary: tuple[str, ...] = ()


def text_of(value: Any) -> str:
    """Return the text of a path, query or header value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def segment_of(value: Any) -> str:
    """Return a value as one segment of a path, quoted.

    Raises:
        ValueError: It is empty, would lead to another path, or has a slash, which servers read as
            the beginning of the next segment even when it is quoted.
    """
    # Ids hold colons, which both eras of the service send as they are.
    text = quote(text_of(value), safe=":")
    if text in ("", ".", "..") or "%2F" in text:
        raise ValueError(
            f"{value!r} cannot be a part of a path; an id is one word without a slash, such as "
            "a1b2c3 or a1b2c3:train:0"
        )
    return text


def build_request(
    method: str,
    path: str,
    *,
    query: Mapping[str, Any] | None = None,
    headers: Mapping[str, Any] | None = None,
    cookies: Mapping[str, Any] | None = None,
    body: Any = None,
    binary_type: str | None = None,
) -> dict[str, Any]:
    """Return the parts of a request as keyword arguments of `httpx.Client.request`.

    Args:
        method: HTTP method.
        path: Path with its values filled in.
        query: Query values; None is left out, a list repeats its key.
        headers: Header values; None is left out.
        cookies: Cookie values; None is left out.
        body: A model or JSON tree, or bytes that are already encoded.
        binary_type: Media type of a body given as bytes, where it is not JSON.

    Returns:
        method, url, params, headers and, with a body, content.

    Raises:
        ValueError: A header has more than one line, or the body has no JSON form.
    """
    sent = Headers()
    for name, value in (headers or {}).items():
        if value is not None:
            text = text_of(value)
            if "\r" in text or "\n" in text:
                raise ValueError(f"the header {name} must be one line")
            sent[name.lower()] = text
    crumbs = [
        f"{k}={quote(text_of(v), safe='')}" for k, v in (cookies or {}).items() if v is not None
    ]
    if crumbs:
        sent["cookie"] = "; ".join(crumbs)
    parts: dict[str, Any] = {
        "method": method,
        "url": path,
        "params": {
            key: [text_of(item) for item in value]
            if isinstance(value, (list, tuple))
            else text_of(value)
            for key, value in (query or {}).items()
            if value is not None
        },
        "headers": sent,
    }
    if body is not None:
        if isinstance(body, (bytes, bytearray, memoryview)):
            parts["content"] = bytes(body)
            sent.setdefault("content-type", binary_type or "application/json")
        else:
            parts["content"] = dumps(body.to_dict() if hasattr(body, "to_dict") else body)
            sent.setdefault("content-type", "application/json")
    return parts


def refuse_unlisted(name: str, value: Any, known: tuple[str | int, ...]) -> Any:
    """Return a parameter value, or raise ValueError when it is not a documented one.

    An empty list of documented values allows any.
    """
    for item in value if isinstance(value, (list, tuple)) else (value,):
        if known and item is not None and item not in known:
            listed = ", ".join(repr(choice) for choice in known)
            raise ValueError(f"{name} is {item!r}; use one of {listed}")
    return value


def read_answer(
    answers: tuple[Answer, ...], status_code: int, headers: Mapping[str, str], content: bytes
) -> Any:
    """Read a body with the schema documented for its status and content type.

    Args:
        answers: The documented answers, exact statuses first.
        status_code: HTTP status.
        headers: Response headers by lower-case name.
        content: The body.

    Returns:
        The parsed value, text, the bytes of a binary body, or None where there is no body. JSON of
        another form with an error status is `Unknown`.

    Raises:
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The content type or the JSON is not what is documented.
    """
    answer = next((each for each in answers if each.low <= status_code <= each.high), None)
    if answer is None and 200 <= status_code < 300:
        # Servers differ in whether they accept work with 200, 201 or 202.
        answer = next((each for each in answers if 200 <= each.low < 300), None)
    if answer is None:
        raise UnexpectedStatus("the document has no such status", status_code, headers, content)
    if (answer.json is None and not answer.binary) or (status_code >= 400 and not content):
        return None
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type in answer.binary:
        return content.decode("utf-8", "replace") if media_type.startswith("text/") else content
    is_json = media_type in ("application/json", "") or media_type.endswith("+json")
    if answer.json is None or not is_json:
        wanted = [*(["JSON"] if answer.json is not None else []), *answer.binary]
        problem = f"the body should be {' or '.join(wanted)}"
        raise UnexpectedBody(problem, status_code, headers, content)
    try:
        value = loads(content)
        return answer.json.read(value)
    except ParseError as error:
        # The status of an error counts more than the details of its body.
        if status_code >= 400 and error.path:
            return Unknown(value)
        raise UnexpectedBody(str(error), status_code, headers, content) from error


def unwrap(response: Response[Any]) -> Any:
    """Return the parsed body of a 2xx answer, else raise StatusError."""
    if 200 <= response.status_code < 300:
        return response.parsed
    raise StatusError(
        "the server refused the request",
        response.status_code,
        response.headers,
        response.content,
        response.parsed,
    )
