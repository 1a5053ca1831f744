"""`LossHandle`: a custom loss per datum, traced and checked once, used for many batches."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
from tinker_api import operations as api

from tinker_ext import types
from tinker_ext.batch.checks import check_batch
from tinker_ext.clients import loss_graph
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import FeatureMissingError, InvalidInputError
from tinker_ext.types.datum import Datum

PerDatumLossFn: TypeAlias = Callable[..., tuple[Any, dict[str, Any]]]
"""(logprobs, *loss inputs by name) → (scalar loss, metrics), for one datum."""

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,63}")
MAX_PARAMETERS = 16


@attrs.frozen
class LossHandle:
    """A custom loss that may be passed to `forward_backward_custom` in place of a function.

    Attributes:
        name: Name of the function.
        inputs: Names and ranks of its parameters, `logprobs` first.
        session_id: Session it was made in; only its clients can use it.
        graph: What runs: the traced function.
        loss_id: Id on the server; None when the loss runs on this side.
    """

    name: str
    inputs: tuple[types.CustomLossInput, ...]
    session_id: str
    graph: Any = attrs.field(repr=False, eq=False)
    loss_id: str | None = None

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the loss inputs the function reads, without `logprobs`."""
        return tuple(each.name for each in self.inputs[1:])

    @property
    def key(self) -> str:
        """The same for losses that compute the same from the same inputs."""
        return _key(self.inputs, self.graph)

    def check(self, data: Sequence[Datum], session_id: str | None) -> None:
        """Refuse a batch, or a client, that this loss cannot be used with.

        Raises:
            InvalidInputError: Says which datum lacks which input, or has it in another rank;
                or it is no batch at all.
        """
        if session_id != self.session_id:
            raise InvalidInputError(
                f"The custom loss {self.name} belongs to session {self.session_id}, this client "
                f"to session {session_id}; create the loss with the service of this client."
            )
        check_batch(data, "custom")
        for index, datum in enumerate(data):
            for each in self.inputs:
                # logprobs come with one entry per target.
                name = "target_tokens" if each is self.inputs[0] else each.name
                tensor = datum.loss_fn_inputs.get(name)
                if tensor is None:
                    raise InvalidInputError(
                        f"data[{index}] has no {name}, which the custom loss {self.name} reads."
                    )
                rank = 1 if tensor.shape is None else len(tensor.shape)
                if rank != each.rank:
                    raise InvalidInputError(
                        f"data[{index}]: {name} has rank {rank}; the custom loss {self.name} was "
                        f"created with rank {each.rank} for {each.name}."
                    )

    def on_batch(self, data: list[Datum], logprobs: list[Any]) -> tuple[Any, dict[str, Any]]:
        """Sum the loss over a batch; metrics are summed or averaged as their suffix says."""
        losses, totals = [], dict[str, float]()
        for datum, values in zip(data, logprobs, strict=True):
            inputs = [datum.loss_fn_inputs[name].to_torch() for name in self.input_names]
            loss, metrics = self.graph(values, *inputs)
            if loss.ndim:
                raise InvalidInputError(
                    f"The custom loss {self.name} must return a scalar, not a tensor of shape "
                    f"{list(loss.shape)}; sum it or take the mean."
                )
            losses.append(loss)
            for name, value in metrics.items():
                totals[name] = totals.get(name, 0.0) + float(value)
        for name in totals:
            if name.endswith(":mean"):
                totals[name] /= len(data)
        return sum(losses), totals


class LossRegistry:
    """The custom losses of one session.

    Args:
        workspace: The session.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._known: dict[str, LossHandle] = {}

    def reserve(self, fn: PerDatumLossFn, input_ranks: Mapping[str, int]) -> LossHandle:
        """Check and trace a loss, once per session; the handle has no session yet.

        Raises:
            InvalidInputError: The function breaks a rule, or the session has this loss already.
            ImportError: torch is not installed.
        """
        name = getattr(fn, "__name__", type(fn).__name__)
        inputs = read_inputs(fn, input_ranks)
        handle = LossHandle(name, inputs, "", loss_graph.trace(fn, name))
        first = self._known.setdefault(handle.key, handle)
        if first is not handle:
            raise InvalidInputError(
                f"{name} computes the same as {first.name}, which this session has already; use "
                "the handle of the first."
            )
        return handle

    async def finish(self, handle: LossHandle) -> LossHandle:
        """Put a reserved loss into the session, on the server where the server runs it."""
        try:
            session_id = await self._workspace.session.ensure()
            placed = attrs.evolve(handle, session_id=session_id)
            return attrs.evolve(placed, loss_id=await self._upload(placed))
        except BaseException:
            self._known.pop(handle.key, None)
            raise

    async def _upload(self, handle: LossHandle) -> str | None:
        workspace = self._workspace
        dialect = await workspace.server.ready()
        if not dialect.config.custom_loss_server_side:
            return None
        arguments = {
            "session_id": handle.session_id,
            "custom_loss_seq_id": workspace.session.next_custom_loss_seq_id(),
            "name": handle.name,
            "inputs": [{"name": each.name, "rank": each.rank} for each in handle.inputs],
            "graph": {"format": 1, "nodes": loss_graph.encode(handle.graph, handle.name)},
        }
        try:
            reply = await workspace.run(
                api.CREATE_CUSTOM_LOSS, arguments, handle.session_id, workspace.seconds()
            )
        except FeatureMissingError:
            return None
        return str(reply.loss_id)


def read_inputs(
    fn: PerDatumLossFn, input_ranks: Mapping[str, int]
) -> tuple[types.CustomLossInput, ...]:
    """The parameters of a loss function with their declared ranks.

    Raises:
        InvalidInputError: The signature or a rank breaks the rules of custom losses.
    """
    names = []
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise InvalidInputError(f"{parameter.name}: only plain parameters are possible.")
        if parameter.default is not parameter.empty:
            raise InvalidInputError(f"{parameter.name}: a default value is not possible.")
        if not _NAME.fullmatch(parameter.name):
            raise InvalidInputError(
                f"{parameter.name}: use at most 64 lowercase letters, digits and underscores."
            )
        names.append(parameter.name)
    if not names or names[0] != "logprobs" or len(names) > MAX_PARAMETERS:
        raise InvalidInputError(
            f"A custom loss takes logprobs first and at most {MAX_PARAMETERS} parameters."
        )
    unknown = sorted(set(input_ranks) ^ set(names))
    if unknown:
        raise InvalidInputError(f"input_ranks and parameters differ in: {', '.join(unknown)}.")
    for name in names:
        allowed = (1, 2) if name == "logprobs" else (0, 1, 2)
        if input_ranks[name] not in allowed:
            raise InvalidInputError(f"{name}: rank {input_ranks[name]!r} is not in {allowed}.")
    ranks: Mapping[str, Any] = input_ranks
    return tuple(types.CustomLossInput(name=name, rank=ranks[name]) for name in names)


def _key(inputs: tuple[types.CustomLossInput, ...], graph: Any) -> str:
    declared = [(each.name, each.rank) for each in inputs]
    return hashlib.sha256(f"{graph.code}{declared}".encode()).hexdigest()
