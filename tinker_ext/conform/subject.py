"""The server under test: our clients on it, plain requests to it, and models to try things on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from tinker_ext._transport import Call, Lane, RetryRule
from tinker_ext._wire.dialects import Dialect
from tinker_ext._wire.operations import PREFIX
from tinker_ext.clients.rest import RestClient
from tinker_ext.clients.service import ServiceClient
from tinker_ext.conform.raw_model import Answer, RawModel
from tinker_ext.conform.registry import absent, fail
from tinker_ext.conform.trial import Trial
from tinker_ext.errors import TinkerError

SEED = 7
RANK = 8


class Subject:
    """One server while it is being examined.

    Args:
        service: Client of the server; its session carries everything.
        base_model: Model to train; the first one the server lists by default.
        patience: Seconds any single wait may take.
    """

    def __init__(self, service: ServiceClient, base_model: str | None, patience: float) -> None:
        self.service = service
        self.workspace = service.holder
        self.patience = patience
        self._base_model = base_model
        self._seq_rule: str | None = None
        self.rest: RestClient = service.create_rest_client()

    @property
    def dialect(self) -> Dialect:
        """What the client found out about the server."""
        return self.service.dialect

    @property
    def base_model(self) -> str:
        """The model to train."""
        if self._base_model is None:
            listed = self.service.get_server_capabilities().supported_models
            if not listed:
                # That the list is empty is the finding of one check, service.capabilities.
                absent("the server lists no model to test with; name one with --model NAME")
            self._base_model = str(listed[0].model_name)
        return self._base_model

    @property
    def known_base_model(self) -> str | None:
        """The model to train, if it was needed so far."""
        return self._base_model

    @property
    def known_seq_rule(self) -> str | None:
        """What `seq_rule` found, if anybody asked."""
        return self._seq_rule

    def session_id(self) -> str:
        """The session everything happens in."""
        return self.workspace.submit(self.workspace.session.ensure()).result()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Send one plain request, once, and return whatever comes back."""
        return self.workspace.submit(
            self.send(method, path, body, content=content, headers=headers, timeout=timeout)
        ).result()

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Do what `call` does, on the core loop."""
        reply = await self.workspace.link.connection.once(
            Call(
                operation=path,
                method=method,
                path=PREFIX + path,
                content=content if content is not None else _json(body),
                headers=tuple({"Accept": "application/json", **(headers or {})}.items()),
                lane=Lane.REST,
                timeout=timeout or self.patience,
                retry=RetryRule.ONCE,
            )
        )
        return Answer(reply.status, reply.content, reply.headers.get("content-type", ""))

    @contextlib.contextmanager
    def trial(self, seed: int = SEED) -> Iterator[Trial]:
        """A fresh model, driven by our client and unloaded afterwards."""
        client = self.service.create_lora_training_client(self.base_model, rank=RANK, seed=seed)
        with self.adopted(Trial(client)) as trial:
            yield trial

    @contextlib.contextmanager
    def adopted(self, trial: Trial) -> Iterator[Trial]:
        """A model that a check made itself, unloaded afterwards."""
        try:
            yield trial
        finally:
            self._end(trial)

    def _end(self, trial: Trial) -> None:
        """Clear the gradient first: some engines hand it to the next model in the same place."""
        with contextlib.suppress(TinkerError):
            trial.step(0.0)
            self.call("POST", "unload_model", {"model_id": trial.model_id})

    @contextlib.contextmanager
    def raw_model(self) -> Iterator[RawModel]:
        """A fresh model, driven by plain requests with our own seq ids."""
        number = self.workspace.session.next_model_seq_id()
        answer = self.call(
            "POST",
            "create_model",
            {
                "session_id": self.session_id(),
                "model_seq_id": number,
                "base_model": self.base_model,
                "lora_config": {"rank": RANK, "seed": SEED},
            },
        )
        model_id = self.result(answer).get("model_id")
        if not model_id:
            fail(f"create_model gave no model_id: {answer.text}")
        model = RawModel(self, str(model_id))
        try:
            yield model
        finally:
            with contextlib.suppress(TinkerError):
                self.call("POST", "optim_step", model.step_body(0.0))
                self.call("POST", "unload_model", {"model_id": model_id})

    def result(self, accepted: Answer) -> dict[str, Any]:
        """Wait for the result of an accepted request, as JSON."""
        if accepted.status != 200:
            fail(f"the request was not accepted: {accepted}")
        return self.poll(accepted.request_id()).object()

    def poll(self, request_id: str) -> Answer:
        """Ask until there is an answer other than "not yet"."""
        link = self.workspace.link
        end = link.runtime.time() + self.patience
        while True:
            answer = self.call("POST", "retrieve_future", {"request_id": request_id})
            if not answer.pending:
                return answer
            if link.runtime.time() > end:
                fail(f"request {request_id} had no result within {self.patience:g} s")

    def seq_rule(self) -> str:
        """What the server does with a repeated seq_id: `dedupe`, `strict` or `ignore`.

        Found out with a forward pass, which has no effect whatever the answer is.
        """
        if self._seq_rule is None:
            with self.raw_model() as model:
                seq = model.next_seq()
                first, second = model.forward(1, seq), model.forward(1, seq)
                if first.status != 200:
                    absent(f"a forward pass was refused: {first}")
                if second.status == 409:
                    self._seq_rule = "strict"
                elif second.status == 200:
                    same = first.request_id() == second.request_id()
                    self._seq_rule = "dedupe" if same else "ignore"
                else:
                    fail(f"a repeated seq_id got {second}; 200 or 409 was expected")
                for answer in (first, second):
                    if answer.status == 200:
                        self.poll(answer.request_id())
        return self._seq_rule


def _json(body: Any) -> bytes | None:
    return None if body is None else orjson.dumps(body)
