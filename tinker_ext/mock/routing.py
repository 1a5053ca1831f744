"""From method and path to the handler that answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from tinker_ext.mock.messages import HttpError, Request

if TYPE_CHECKING:
    from tinker_ext.mock.contract import Operation
    from tinker_ext.mock.state.world import World

Handler = Callable[["World", Request], Any]
API = "/api/v1/"


@attrs.frozen
class Endpoint:
    """A handler and how it is treated.

    Attributes:
        durable: Its effect is written to the journal before it is acknowledged.
        documented: It is part of the API document.
    """

    method: str
    template: str
    handler: Handler
    durable: bool = False
    documented: bool = True


ENDPOINTS: dict[tuple[str, str], Endpoint] = {}


def endpoint(
    method: str, path: str, *, durable: bool = False, documented: bool = True
) -> Callable[[Handler], Handler]:
    """Register a handler under a path template such as `sessions/{session_id}`."""

    def register(handler: Handler) -> Handler:
        template = API + path if documented else path
        ENDPOINTS[method, template] = Endpoint(method, template, handler, durable, documented)
        return handler

    return register


def unhandled(operation_id: str) -> Handler:
    """Return the handler of an operation that only the document knows."""

    def handler(world: World, request: Request) -> Any:
        text = f"this server has no handler for the operation {operation_id}"
        # Clients that take every 5xx for a passing trouble would ask for minutes.
        raise HttpError(501, text, {"x-should-retry": "false"})

    return handler


class Router:
    """Match paths: exact ones by table, templates by pattern.

    Anything before `/api/v1/` is a base path and ignored, as clients append to their base URL.

    Args:
        operations: What the document has, by method and path; 501 is the answer of those that have
            no handler.
    """

    def __init__(self, operations: Mapping[tuple[str, str], Operation]) -> None:
        self._exact: dict[str, dict[str, Endpoint]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, Endpoint]]] = []
        by_template: dict[str, dict[str, Endpoint]] = {}
        missing = {
            key: Endpoint(*key, unhandled(operation.operation_id))
            for key, operation in operations.items()
            if key not in ENDPOINTS
        }
        for found in (*ENDPOINTS.values(), *missing.values()):
            by_template.setdefault(found.template, {})[found.method] = found
        for template, methods in by_template.items():
            if "{" in template:
                pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template)
                self._patterns.append((re.compile(pattern + r"\Z"), methods))
            else:
                self._exact[template] = methods

    def match(self, method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
        """Return the endpoint and its path parameters.

        Raises:
            HttpError: 404 or 405.
        """
        at = path.find(API)
        if at > 0:
            path = path[at:]
        methods = self._exact.get(path)
        params: dict[str, str] = {}
        if methods is None:
            for pattern, candidates in self._patterns:
                found = pattern.match(path)
                if found:
                    methods, params = candidates, found.groupdict()
                    break
        if methods is None:
            raise HttpError(404, "Not Found")
        endpoint_ = methods.get(method)
        if endpoint_ is None:
            raise HttpError(405, "Method Not Allowed", {"allow": ", ".join(sorted(methods))})
        return endpoint_, params
