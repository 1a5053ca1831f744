"""`LossHandle`: a custom loss per datum, checked once and used for many batches."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from tinker_ext.errors import InvalidInputError
from tinker_ext.types.datum import Datum

PerDatumLossFn: TypeAlias = Callable[..., tuple[Any, dict[str, Any]]]
"""(logprobs, *loss inputs by name) → (scalar loss, metrics), for one datum."""

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,63}")
_METRIC = re.compile(r"custom/[a-z0-9_./-]{1,64}:(sum|mean)")
MAX_PARAMETERS = 16


@attrs.frozen(eq=False)
class LossHandle:
    """A custom loss that was checked and may be passed to `forward_backward_custom`.

    Attributes:
        name: Name of the function.
        inputs: Names and ranks of its parameters, `logprobs` first.
        session_id: Session it was made in.
        graph: The function itself.
        loss_id: Id on the server; None when the loss runs on this side.
    """

    name: str
    inputs: tuple[tuple[str, int], ...]
    session_id: str
    graph: PerDatumLossFn
    loss_id: str | None = None

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the loss inputs the function reads, without `logprobs`."""
        return tuple(name for name, _ in self.inputs[1:])

    @property
    def key(self) -> str:
        """What tells this loss apart within its session."""
        return f"{self.session_id}/{self.name}"

    def on_batch(self, data: list[Datum], logprobs: list[Any]) -> tuple[Any, dict[str, Any]]:
        """Sum the loss over a batch; metrics are summed or averaged as their suffix says."""
        losses, collected = [], []
        for datum, values in zip(data, logprobs, strict=True):
            arguments = [_input(datum, name, rank) for name, rank in self.inputs[1:]]
            loss, metrics = self.graph(values, *arguments)
            losses.append(loss)
            collected.append(metrics or {})
        return sum(losses), _reduce(collected)


def make_handle(fn: PerDatumLossFn, input_ranks: Mapping[str, int], session_id: str) -> LossHandle:
    """Check a loss function and its declared inputs.

    Raises:
        InvalidInputError: The signature or a name breaks the rules of custom losses.
    """
    names = []
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
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
    pairs = tuple((name, int(input_ranks[name])) for name in names)
    return LossHandle(getattr(fn, "__name__", "loss"), pairs, session_id, fn)


def _input(datum: Datum, name: str, rank: int) -> Any:
    tensor = datum.loss_fn_inputs.get(name)
    if tensor is None:
        raise InvalidInputError(f"The custom loss reads {name}, which a datum does not have.")
    value = tensor.to_torch()
    return value.reshape(()) if rank == 0 else value


def _reduce(collected: list[dict[str, Any]]) -> dict[str, float]:
    totals: dict[str, list[float]] = {}
    for metrics in collected:
        for name, value in metrics.items():
            if not _METRIC.fullmatch(name):
                raise InvalidInputError(
                    f"Metric {name!r} must look like custom/<name>:sum or custom/<name>:mean."
                )
            totals.setdefault(name, []).append(float(value))
    return {
        name: sum(values) / (len(values) if name.endswith(":mean") else 1)
        for name, values in totals.items()
    }
