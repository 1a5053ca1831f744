"""A model under test that plain requests drive, with seq ids of the check's own choosing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs
import orjson
from tinker_api.operations import OPERATIONS

from tinker_ext import _statuses as statuses
from tinker_ext._wire import results
from tinker_ext._wire.dialect import Wire, has_protobuf
from tinker_ext._wire.payload import Payload
from tinker_ext.clients.training import ForwardChunk
from tinker_ext.conform.data import datum
from tinker_ext.conform.reference import Floats, flat
from tinker_ext.conform.registry import fail
from tinker_ext.conform.trial import PROBES, RATE, logprobs_of

if TYPE_CHECKING:
    from tinker_ext.conform.subject import Subject

_SHOWN = 300
_PROTO = "application/x-protobuf"


@attrs.frozen
class Answer:
    """A reply as it came: any status, any body."""

    status: int
    content: bytes = attrs.field(repr=False)
    content_type: str = ""

    def __str__(self) -> str:
        return f"HTTP {self.status} {self.text}"

    @property
    def text(self) -> str:
        """The beginning of the body."""
        body = self.content.decode("utf-8", "replace")
        return body if len(body) <= _SHOWN else body[:_SHOWN] + "…"

    def json(self) -> Any:
        """The body as JSON, None when it is something else."""
        try:
            return orjson.loads(self.content)
        except orjson.JSONDecodeError:
            return None

    def object(self) -> dict[str, Any]:
        """The body as a JSON object; fails the check when it is not one."""
        value = self.json()
        if not isinstance(value, dict):
            fail(f"expected a JSON object, got {self}")
        return value

    @property
    def ok(self) -> bool:
        """Whether this is a success; servers differ in which 2xx they choose."""
        return 200 <= self.status < 300

    @property
    def pending(self) -> bool:
        """Whether this says "no result yet"."""
        value = self.json()
        tag = value.get("type") if isinstance(value, dict) else None
        return self.status == 408 or (self.ok and tag == "try_again")

    def request_id(self) -> str:
        """The id of the promised result."""
        found = self.object().get("request_id")
        if not isinstance(found, str):
            fail(f"the promise has no request_id of type string: {self}")
        return found


class RawModel:
    """Requests of one model, sent once each.

    Args:
        subject: The server.
        model_id: The model.
    """

    def __init__(self, subject: Subject, model_id: str) -> None:
        self.subject = subject
        self.model_id = model_id
        self._seq = 0

    def next_seq(self) -> int:
        """The next unused number."""
        self._seq += 1
        return self._seq

    def skip_to(self, seq: int) -> None:
        """Count the numbers up to this one as used."""
        self._seq = max(self._seq, seq)

    def forward(self, number: int, seq: int) -> Answer:
        """Send a forward pass over one sequence."""
        return self._data([number], seq, forward_only=True)

    def backward(self, number: int, seq: int, weight: float = 1.0) -> Answer:
        """Send a forward_backward over one sequence."""
        return self._data([number], seq, forward_only=False, weight=weight)

    def step(self, seq: int, learning_rate: float = RATE, **options: float) -> Answer:
        """Send an optim_step."""
        body = self.step_body(learning_rate, seq, **options)
        return self.subject.call("POST", "optim_step", body)

    def step_body(
        self, learning_rate: float, seq: int | None = None, **options: float
    ) -> dict[str, Any]:
        """Body of an optim_step."""
        adam = {"learning_rate": learning_rate, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12}
        return {
            "model_id": self.model_id,
            "adam_params": {**adam, **options},
            "seq_id": self.next_seq() if seq is None else seq,
        }

    def logprobs(self) -> Floats:
        """Where the model stands, as `Trial.logprobs` tells it."""
        answer = self._data(list(PROBES), self.next_seq(), forward_only=True)
        final = self.subject.poll(answer.request_id())
        output = self.read("forward", final)
        return flat([logprobs_of(output, i) for i in range(len(PROBES))])

    def refusals(self) -> dict[str, Answer] | None:
        """The answers of a server that takes a forward pass in neither wire; None if in one."""
        refused = {}
        # What was refused has used no number; a server would wait for one that is left out.
        seq = self.next_seq()
        for wire in self._wires():
            answer = self._data([1], seq, forward_only=True, wire=wire)
            if answer.ok:
                self.subject.poll(answer.request_id())
                return None
            refused[str(wire)] = answer
        return refused

    def unread(self) -> dict[str, Answer] | None:
        """The answers of a server that is not seen to read a forward pass; None if in one wire.

        For a model that does not exist, so that nothing is computed: a server that reads the body
        says that there is no such model; where its words leave that open, the same body is sent
        once more, cut in half, and a server that reads it says something else.
        """
        unread = {}
        for wire in self._wires():
            payload = self._payload([1], forward_only=True, wire=wire)
            whole = payload.render(self.next_seq())
            answer = self._post(payload, whole)
            read = _is_read(answer)
            if read is None:
                half = self._post(payload, whole[: len(whole) // 2])
                read = (answer.status, _words(answer)) != (half.status, _words(half))
            if read:
                return None
            unread[str(wire)] = answer
        return unread

    def _wires(self) -> list[Wire]:
        """The wires that can be tried here, the server's own first."""
        wires = sorted(Wire, key=lambda wire: wire is not self.subject.dialect.wire)
        return [wire for wire in wires if wire is Wire.JSON or has_protobuf()]

    def read(self, name: str, answer: Answer) -> Any:
        """Decode a final answer; fails the check when it is an error."""
        if not answer.ok:
            fail(f"{name} failed: {answer}")
        op = OPERATIONS[name]
        if answer.content_type.startswith(_PROTO):
            return results.read_proto(op, answer.content)
        body = answer.object()
        if "error" in body:
            fail(f"{name} failed: {answer}")
        return results.read_json(op, body)

    def _data(
        self,
        numbers: list[int],
        seq: int,
        *,
        forward_only: bool,
        weight: float = 1.0,
        wire: Wire | None = None,
    ) -> Answer:
        payload = self._payload(numbers, forward_only=forward_only, weight=weight, wire=wire)
        return self._post(payload, payload.render(seq))

    def _payload(
        self,
        numbers: list[int],
        *,
        forward_only: bool,
        weight: float = 1.0,
        wire: Wire | None = None,
    ) -> Payload:
        data = [datum(number, weight) for number in numbers]
        chunk = ForwardChunk(self.model_id, data, "cross_entropy", None, forward_only, False)
        return chunk(wire or self.subject.dialect.wire)

    def _post(self, payload: Payload, content: bytes) -> Answer:
        return self.subject.call(
            "POST", payload.operation, content=content, headers=dict(payload.headers)
        )


def _is_read(answer: Answer) -> bool | None:
    """Whether an answer shows that the body was read; None when its words leave that open.

    One that breaks on a body (500) has not shown that it reads it.
    """
    if answer.status in statuses.UNREAD | statuses.FAILED:
        return False
    if answer.status not in statuses.NO_SETTINGS:
        return True
    said = answer.json()
    detail = said.get("detail") if isinstance(said, dict) else None
    if isinstance(detail, list) and detail:
        return False  # field by field, in the words of FastAPI: another kind of body is wanted
    if answer.status == 404 and detail not in (None, "Not Found", "Not found"):
        return True  # there is no such model; a path that does not exist has no reason
    return None


def _words(answer: Answer) -> str:
    """What is said, without numbers and ids, which differ from one request to the next."""
    return re.sub(r"[0-9a-f-]{8,}|\d+", "", answer.text)
