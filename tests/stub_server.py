"""A server of a few lines, for behaviour that is easier scripted than provoked.

Handlers get the operation name and the decoded body and return a status and a body; what a handler
leaves out is answered like a friendly server would.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import orjson

Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]] | None


class StubServer(httpx.AsyncBaseTransport):
    """Answers requests in process and remembers them.

    Args:
        handler: Called with (operation, body, request); None means the friendly answer.
        config: The client/config reply; None answers 404.
    """

    def __init__(
        self,
        handler: Callable[..., Any] | None = None,
        *,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.handler = handler
        self.config = config
        self.counts: Counter[str] = Counter()
        self.requests: list[tuple[str, Any, httpx.Request]] = []
        self._ids = itertools.count()
        self.futures: dict[str, str] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        operation = request.url.path.partition("/api/v1/")[2]
        try:
            body = orjson.loads(content) if content else None
        except orjson.JSONDecodeError:
            body = content
        self.counts[operation] += 1
        self.requests.append((operation, body, request))
        answer: Any = None
        if self.handler is not None:
            answer = self.handler(operation, body, request)
            if asyncio.iscoroutine(answer):
                answer = await answer
        if answer is None:
            answer = self.friendly(operation, body)
        status, reply, *headers = answer
        if isinstance(reply, (bytes, str)):
            return httpx.Response(status, content=reply, headers=headers[0] if headers else None)
        return httpx.Response(
            status,
            content=orjson.dumps(reply),
            headers={"content-type": "application/json", **(headers[0] if headers else {})},
        )

    def promise(self, operation: str) -> tuple[int, Any]:
        """Accept a request."""
        request_id = f"r{next(self._ids)}"
        self.futures[request_id] = operation
        return 200, {"request_id": request_id}

    def friendly(self, operation: str, body: Any) -> Answer:
        """What a well-behaved server says."""
        if operation == "client/config":
            return (404, {"detail": "Not Found"}) if self.config is None else (200, self.config)
        if operation == "create_session":
            return 200, {"session_id": "S"}
        if operation == "create_sampling_session":
            return 200, {"sampling_session_id": "S:sample:0"}
        if operation == "session_heartbeat":
            return 200, {}
        if operation == "retrieve_future":
            return 200, RESULTS[self.futures[body["request_id"]]]
        if operation in RESULTS:
            return self.promise(operation)
        return 404, {"detail": "Not Found"}


TENSOR = {"data": [-1.0], "dtype": "float32", "shape": [1]}
RESULTS: dict[str, Any] = {
    "create_model": {"model_id": "M"},
    "forward": {
        "loss_fn_output_type": "x",
        "loss_fn_outputs": [{"logprobs": TENSOR}],
        "metrics": {},
    },
    "forward_backward": {
        "loss_fn_output_type": "x",
        "loss_fn_outputs": [{"logprobs": TENSOR}],
        "metrics": {},
    },
    "optim_step": {"metrics": None},
    "asample": {"sequences": [{"stop_reason": "stop", "tokens": [1], "logprobs": [-0.5]}]},
    "save_weights": {"path": "tinker://M/weights/a"},
    "load_weights": {"type": "load_weights"},
    "save_weights_for_sampler": {"path": "tinker://M/a", "sampling_session_id": None},
    "unload_model": {"model_id": "M"},
}
