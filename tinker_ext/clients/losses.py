"""`LossHandle`: a custom loss per datum, traced and checked once, used for many batches."""

from __future__ import annotations

import builtins
import hashlib
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any, TypeAlias

import attrs
from tinker_api import operations as api

from tinker_ext import types
from tinker_ext._extras import how_to_install
from tinker_ext.batch.checks import check_batch
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import FeatureMissingError, InvalidInputError
from tinker_ext.types.datum import Datum

METRIC = re.compile(r"custom/[a-z0-9_./-]{1,64}:(sum|mean)")

_FUNCTION_MODULES = frozenset({"torch", "math", "operator", "_operator"})
_LEAVES_TORCH = frozenset({"item", "numpy", "tolist"})


def trace(fn: Callable[..., Any], name: str) -> Any:
    """A `torch.fx.GraphModule` that computes the same; refuses what a server could not run."""
    try:
        import torch.fx
    except ImportError as error:
        raise ImportError(
            "create_custom_loss traces the function with torch, which is not installed: "
            f"{how_to_install('torch')}. Without torch, pass a function that returns "
            "(loss, metrics, gradients) to forward_backward_custom."
        ) from error
    try:
        module = torch.fx.symbolic_trace(fn)
    except Exception as error:
        raise InvalidInputError(
            f"{name} cannot be traced by torch.fx ({error}). A custom loss may not branch on the "
            "values of tensors, use torch.nn modules, or call anything but torch and math."
        ) from error
    for node in module.graph.nodes:
        fault = _fault(node)
        if fault is not None:
            raise InvalidInputError(f"{name} {fault}")
    return module


def _fault(node: Any) -> str | None:
    """What a server could not run of a node, in words that follow the name of the loss."""
    match node.op:
        case "call_function":
            home = (getattr(node.target, "__module__", None) or "").partition(".")[0]
            if node.target is not builtins.getattr and home not in _FUNCTION_MODULES:
                called = getattr(node.target, "__qualname__", repr(node.target))
                return (
                    f"calls {called} of module {home or '?'}; a custom loss may only call "
                    "functions of torch, math and operator."
                )
        case "call_method":
            return _method_fault(str(node.target))
        case "call_module":
            return f"calls the module {node.target}; use functions such as torch.nn.functional's."
        case "get_attr":
            return f"uses a tensor from outside ({node.target}); pass it as a loss input."
        case "output":
            return _output_fault(node.args[0])
    return None


def _method_fault(method: str) -> str | None:
    import torch

    if method == "backward":
        return "calls backward(); return the loss, its gradient is computed for you."
    if method in _LEAVES_TORCH:
        return f"calls {method}(), which leaves torch; keep losses and metrics as tensors."
    if not hasattr(torch.Tensor, method):
        return f"calls {method}(), which torch.Tensor does not have."
    return None


def _output_fault(output: Any) -> str | None:
    from torch.fx import Node

    if not isinstance(output, (tuple, list)) or len(output) != 2:
        return "must return (loss, metrics)."
    loss, metrics = output
    if not isinstance(loss, Node):
        return f"must return a tensor as its loss, not {loss!r}."
    if not isinstance(metrics, Mapping):
        return f"must return a dict of metrics, not {metrics!r}."
    for key, value in metrics.items():
        check_metric(key)
        if not isinstance(value, Node):
            return f"returns {value!r} as metric {key!r}, which must be a tensor."
    return None


def check_metric(key: object) -> None:
    """Refuse a metric whose name does not say how it combines over datums."""
    if not isinstance(key, str) or not METRIC.fullmatch(key):
        raise InvalidInputError(
            f"Metric {key!r} must look like custom/<name>:sum or custom/<name>:mean, in at most "
            "64 lowercase letters, digits and _ . / -"
        )


def encode(module: Any, name: str) -> list[dict[str, Any]]:
    """The nodes of a traced loss as the request carries them."""
    return [
        {
            "op": node.op,
            "name": node.name,
            "target": _target(node),
            "args": [_argument(value, name) for value in node.args],
            "kwargs": {key: _argument(value, name) for key, value in node.kwargs.items()},
        }
        for node in module.graph.nodes
    ]


def _target(node: Any) -> str:
    from torch.fx.node import _get_qualified_name

    if node.op != "call_function":
        return str(node.target)
    qualified = str(_get_qualified_name(node.target))
    # CPython keeps the functions of `operator` in a private module.
    return qualified.removeprefix("_") if qualified.startswith("_operator.") else qualified


def _argument(value: Any, name: str) -> Any:
    """One argument: plain JSON where that says it all, else an object of one key."""
    import torch
    from torch.fx import Node

    def each(values: Any) -> list[Any]:
        return [_argument(item, name) for item in values]

    match value:
        case Node():
            return {"ref": value.name}
        case float() if not math.isfinite(value):
            return {"float": str(value)}
        case None | bool() | int() | float() | str():
            return value
        case list():
            return each(value)
        case tuple():
            return {"tuple": each(value)}
        case dict() if all(isinstance(key, str) for key in value):
            return {"dict": {key: _argument(item, name) for key, item in value.items()}}
        case slice():
            return {"slice": each((value.start, value.stop, value.step))}
        case EllipsisType():
            return {"ellipsis": True}
    for kind in ("dtype", "device", "layout", "memory_format"):
        if isinstance(value, getattr(torch, kind)):
            return {kind: str(value).removeprefix("torch.")}
    raise InvalidInputError(
        f"{name} uses a constant of type {type(value).__name__}, which cannot be sent."
    )


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
        declared = [(each.name, each.rank) for each in self.inputs]
        return hashlib.sha256(f"{self.graph.code}{declared}".encode()).hexdigest()

    def check(self, data: Sequence[Datum], session_id: str | None) -> None:
        """Refuse a batch, or a client, that this loss cannot be used with.

        Raises:
            InvalidInputError: Says which datum lacks which input, or has it in another rank;
                or it is not a batch at all.
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
    """The custom losses of one session."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._known: dict[str, LossHandle] = {}

    def reserve(self, fn: PerDatumLossFn, input_ranks: Mapping[str, int]) -> LossHandle:
        """Check and trace a loss, once per session; the handle has no session yet."""
        name = getattr(fn, "__name__", type(fn).__name__)
        inputs = read_inputs(fn, input_ranks)
        handle = LossHandle(name, inputs, "", trace(fn, name))
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
            "graph": {"format": 1, "nodes": encode(handle.graph, handle.name)},
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
    """The parameters of a loss function with their ranks, all by the rules of custom losses."""
    names = []
    for parameter in inspect.signature(fn).parameters.values():
        wrong = None
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            wrong = "only plain parameters are possible"
        elif parameter.default is not parameter.empty:
            wrong = "a default value is not possible"
        elif not _NAME.fullmatch(parameter.name):
            wrong = "use at most 64 lowercase letters, digits and underscores"
        if wrong is not None:
            raise InvalidInputError(f"{parameter.name}: {wrong}.")
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
