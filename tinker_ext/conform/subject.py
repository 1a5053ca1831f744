"""The server under test: our clients on it, plain requests to it, and models to try things on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import orjson

from tinker_ext._transport.messages import Call, Lane, RetryRule
from tinker_ext._wire.dialect import Dialect
from tinker_ext.clients.rest import RestClient
from tinker_ext.clients.service import ServiceClient
from tinker_ext.conform.data import PROMPT, datum
from tinker_ext.conform.raw_model import Answer, RawModel
from tinker_ext.conform.registry import Unjudged, absent, fail
from tinker_ext.conform.trial import PROBES, Trial
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import RequestFailedError, TinkerError
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.sampling import SamplingParams

SEED = 7
RANK = 8
SHOWN = 300
LEFT_BEHIND = 20
"""Models in one session of a server that has no unload_model, as on the hosted service."""


PREFIX = "/api/v1/"
"""In front of every path; the checks send requests that are not in the document, too."""


class Subject:
    """One server while it is being examined.

    Args:
        connect: Makes a client of the server; its session carries everything.
        base_model: Model to train; the first one the server lists by default.
        patience: Seconds any single wait may take.
    """

    def __init__(
        self, connect: Callable[[], ServiceClient], base_model: str | None, patience: float
    ) -> None:
        self._connect = connect
        self._left_behind = 0
        self.service = connect()
        self.patience = patience
        self._base_model = base_model
        self._seq_rule: str | None = None
        self._stand_in: str | None = None
        self._stand_in_sampler: str | None = None
        self.rest: RestClient = self.service.create_rest_client()

    @property
    def workspace(self) -> Workspace:
        """The core of the client in use."""
        return self.service.holder

    def make_room(self) -> None:
        """Go on in a new session when models that cannot be unloaded fill the old one."""
        if self._left_behind >= LEFT_BEHIND:
            self.close()
            self._left_behind = 0
            self.service = self._connect()
            self.rest = self.service.create_rest_client()

    def close(self) -> None:
        """End the session."""
        with contextlib.suppress(TinkerError):
            self.service.close("success").result()

    def _unload(self, model_id: str) -> None:
        answer = self.call("POST", "unload_model", {"model_id": model_id})
        self._left_behind += not answer.ok

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

    def session_id(self, seconds: float | None = None) -> str:
        """The session everything happens in; TimeoutError if it is not open in time."""
        return self.workspace.submit(self.workspace.session.ensure()).result(seconds)

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
        reply = await self.workspace.server.connection.once(
            Call(
                operation=path,
                method=method,
                path=PREFIX + path,
                content=content if content is not None else _json(body),
                headers=tuple({"Accept": "application/json", **(headers or {})}.items()),
                lane=Lane.POLL if path == "retrieve_future" else Lane.REST,
                timeout=timeout or self.patience,
                retry=RetryRule.ONCE,
            )
        )
        return Answer(reply.status, reply.content, reply.headers.get("content-type", ""))

    @contextlib.contextmanager
    def trial(self, seed: int = SEED) -> Iterator[Trial]:
        """A fresh model, driven by our client and unloaded afterwards."""
        try:
            client = self.service.create_lora_training_client(self.base_model, rank=RANK, seed=seed)
        except RequestFailedError as error:
            raise Unjudged(
                f"no model could be made to try this on: {str(error)[-SHOWN:]}"
            ) from None
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
            self._unload(str(trial.model_id))

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
        made = self.result(answer)
        model_id = made.get("model_id")
        if not model_id:
            raise Unjudged(f"no model could be made to try this on: {str(made)[-SHOWN:]}")
        model = RawModel(self, str(model_id))
        try:
            yield model
        finally:
            with contextlib.suppress(TinkerError):
                self.call("POST", "optim_step", model.step_body(0.0))
                self._unload(str(model_id))

    def result(self, accepted: Answer) -> dict[str, Any]:
        """Wait for the result of an accepted request, as JSON."""
        if not accepted.ok:
            fail(f"the request was not accepted: {accepted}")
        return self.poll(accepted.request_id()).object()

    def poll(self, request_id: str) -> Answer:
        """Ask until there is an answer other than "not yet"."""
        link = self.workspace.server
        end = link.runtime.time() + self.patience
        while True:
            answer = self.call("POST", "retrieve_future", {"request_id": request_id})
            if not answer.pending:
                return answer
            if link.runtime.time() > end:
                fail(f"request {request_id} had no result within {self.patience:g} s")

    def seq_rule(self) -> str:
        """What the server does with a repeated seq_id: `dedupe`, `strict`, `ignore` or `late`.

        Found out with a forward pass, which has no effect whatever the answer is.
        """
        if self._seq_rule is None:
            with self.raw_model() as model:
                seq = model.next_seq()
                first, second = model.forward(1, seq), model.forward(1, seq)
                if not first.ok:
                    absent(f"a forward pass was refused: {first}")
                self.poll(first.request_id())
                if second.status == 409:
                    self._seq_rule = "strict"
                elif not second.ok:
                    fail(f"a repeated seq_id got {second}; a success or 409 was expected")
                elif first.request_id() == second.request_id():
                    self._seq_rule = "dedupe"
                else:
                    late = self.poll(second.request_id())
                    self._seq_rule = "late" if late.status == 409 else "ignore"
        return self._seq_rule

    def stand_in(self) -> str | None:
        """Why the trainer's numbers are not those of a language model; None when they may be.

        Servers are often tried without their engine, on a model that only looks like one. A
        language model never gives all tokens of a sequence the same probability.
        """
        if self._stand_in is None:
            with self.trial() as trial:
                constant = [float(np.ptp(trial.logprobs([datum(n)]))) == 0.0 for n in PROBES]
            self._stand_in = (
                "every token of a sequence has the same log-probability" if all(constant) else ""
            )
        return self._stand_in or None

    def stand_in_sampler(self) -> str | None:
        """Why its samples are not those of a language model; None when they may be."""
        if self._stand_in_sampler is None:
            sampler = self.service.create_sampling_client(base_model=self.base_model)
            drawn = [
                sampler.sample(
                    ModelInput.from_ints(prompt), 1, SamplingParams(max_tokens=12, seed=seed)
                ).result()
                for seed, prompt in ((1, PROMPT), (2, PROMPT[::-1]))
            ]
            sequences = [reply.sequences[0] for reply in drawn]
            reason = ""
            if sequences[0].tokens == sequences[1].tokens:
                reason = "another prompt and another seed give the same tokens"
            elif all(s.logprobs and len(set(s.logprobs)) == 1 for s in sequences):
                reason = "every sampled token has the same log-probability"
            self._stand_in_sampler = reason
        return self._stand_in_sampler or None


def _json(body: Any) -> bytes | None:
    return None if body is None else orjson.dumps(body)
