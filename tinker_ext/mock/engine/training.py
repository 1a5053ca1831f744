"""One trainable model: an adapter on a base, its pending gradient and its optimizer.

Everything is exact about order: a datum's result does not depend on what else is in the batch,
and gradients are added datum by datum, so one call with ten data and ten calls with one datum
each leave the same bits. Different adapters may be used from different threads at once; calls on
one adapter must follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

import tinker_ext.mock.engine.model as model
import tinker_ext.mock.engine.unembed as unembed
from tinker_ext.mock.engine.base import UNEMBED, BaseModel
from tinker_ext.mock.engine.data import Datum, Outputs, targets_of
from tinker_ext.mock.engine.lora import LoraParameters, LoraSpec
from tinker_ext.mock.engine.losses import (
    LossConfig,
    LossFunction,
    check_settings,
    loss_named,
    measures,
)
from tinker_ext.mock.engine.optim import AdamW, OptimizerState, OptimParams
from tinker_ext.mock.engine.sampling import Sampler
from tinker_ext.mock.engine.scratch import SCRATCH
from tinker_ext.mock.engine.tiles import ROWS, Array, padded_length
from tinker_ext.mock.engine.weights import adapter_config

GROUP_TOKENS = 1024
GROUP_FLOATS = 1 << 24
"""Bounds of one group: padded tokens, and floats of per-datum gradients (64 MB)."""


@attrs.frozen(eq=False)
class _Row:
    """One datum on its way: its place in the batch and its targets as (n, k)."""

    index: int
    datum: Datum
    targets: Array

    @property
    def shape(self) -> tuple[int, int]:
        return padded_length(len(self.targets)), self.targets.shape[1]


class Adapter:
    """A LoRA adapter that trains.

    Example:
        >>> import numpy as np
        >>> base = BaseModel.create("tiny", vocab_size=259)
        >>> adapter = Adapter(base, rank=8, seed=1)
        >>> datum = Datum([1, 2, 3], {"target_tokens": np.array([2, 3, 4])})
        >>> first = adapter.forward_backward([datum], "cross_entropy").loss
        >>> metrics = adapter.optim_step(AdamW(learning_rate=1e-2))
        >>> adapter.forward([datum], "cross_entropy").loss < first
        True
    """

    def __init__(
        self,
        base: BaseModel,
        rank: int = 32,
        seed: int = 0,
        *,
        train_mlp: bool = True,
        train_attn: bool = True,
        train_unembed: bool = True,
    ) -> None:
        self.base = base
        self.spec = LoraSpec(rank, seed, train_mlp, train_attn, train_unembed)
        self._lora = LoraParameters(base, self.spec)
        self._optimizer = OptimizerState(self._lora.values.size, self._lora.values.dtype)
        self._weights: dict[str, Array] | None = None
        self._gradients: dict[str, Array] | None = None

    @property
    def step(self) -> int:
        """Number of optimizer steps taken."""
        return self._optimizer.step

    def forward(
        self,
        data: Sequence[Datum],
        loss_fn: str | LossFunction,
        config: LossConfig | None = None,
    ) -> Outputs:
        """Log-probabilities and loss of the data; changes nothing.

        Raises:
            ValueError: a datum does not fit the loss or its loss is not finite; the message names
                it.
        """
        return self._run(data, loss_fn, config or {}, None)

    def forward_backward(
        self,
        data: Sequence[Datum],
        loss_fn: str | LossFunction,
        config: LossConfig | None = None,
    ) -> Outputs:
        """Like `forward`, and adds the gradient to the pending one.

        Raises:
            ValueError: a datum does not fit the loss or its loss is not finite; the pending
                gradient is unchanged.
        """
        pending = self._gradients
        total = {
            name: np.zeros_like(self.base.weights[name])
            if pending is None
            else pending[name].copy()
            for name in self._lora.layers
        }
        outputs = self._run(data, loss_fn, config or {}, total)
        self._gradients = total
        return outputs

    def optim_step(self, params: OptimParams | None = None) -> dict[str, float]:
        """Applies the pending gradient (zero without one), then clears it.

        Raises:
            ValueError: the gradient or the step is not finite; the gradient is dropped, weights
                and moments stay.
        """
        lora, state = self._lora, self._optimizer
        gradients, self._gradients = self._gradients, None
        flat = np.zeros_like(lora.values) if gradients is None else lora.project(gradients)
        metrics = state.apply(
            lora.values, flat, params or AdamW(), lora.views(lora.values), lora.views(state.exp_avg)
        )
        self._weights = None
        return metrics

    def adapter_config(self) -> dict[str, Any]:
        """Content of adapter_config.json for this adapter."""
        return adapter_config(self.base.config.name, self.spec, self._lora.layers)

    def snapshot(self) -> Sampler:
        """An immutable copy of the weights as they are now, to sample from."""
        return Sampler(self.base, dict(self._merged()))

    def state_dict(self, *, optimizer: bool = False, pending: bool = False) -> dict[str, Array]:
        """The adapter as arrays: PEFT names, plus ``optimizer.`` and ``pending.`` when asked."""
        lora, state = self._lora, self._optimizer
        tensors = lora.export(lora.values)
        if optimizer:
            for label, vector in (("exp_avg", state.exp_avg), ("exp_avg_sq", state.exp_avg_sq)):
                for name, matrix in lora.export(vector).items():
                    tensors[f"optimizer.{label}.{name}"] = matrix
            tensors["optimizer.step"] = np.array([state.step], dtype=np.int64)
        if pending and self._gradients is not None:
            for name, gradient in self._gradients.items():
                tensors[f"pending.{name}"] = gradient.copy()
        return tensors

    def load_state_dict(self, tensors: Mapping[str, Array], *, optimizer: bool = False) -> None:
        """Restores what `state_dict` gave; the pending gradient becomes what it was there.

        With ``optimizer`` false, or when the arrays hold no optimizer, moments start at zero.

        Raises:
            ValueError: the arrays belong to another rank, flags or base; nothing is changed.
        """
        lora = self._lora
        values = np.empty_like(lora.values)
        lora.restore(values, tensors)
        state = OptimizerState(values.size, values.dtype)
        if optimizer and "optimizer.step" in tensors:
            for label, vector in (("exp_avg", state.exp_avg), ("exp_avg_sq", state.exp_avg_sq)):
                prefix = f"optimizer.{label}."
                part = {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
                lora.restore(vector, part)
            state.step = int(tensors["optimizer.step"][0])
        names = [name for name in lora.layers if f"pending.{name}" in tensors]
        lora.values, self._optimizer, self._weights = values, state, None
        self._gradients = {n: tensors[f"pending.{n}"].copy() for n in names} if names else None

    def _merged(self) -> dict[str, Array]:
        if self._weights is None:
            self._weights = self._lora.merged()
        return self._weights

    def _run(
        self,
        data: Sequence[Datum],
        loss_fn: str | LossFunction,
        config: LossConfig,
        total: dict[str, Array] | None,
    ) -> Outputs:
        loss = loss_named(loss_fn) if isinstance(loss_fn, str) else loss_fn
        if isinstance(loss_fn, str):
            check_settings(loss_fn, config)
        vocab = self.base.vocab_size
        rows = [_Row(i, datum, targets_of(datum, i, vocab)) for i, datum in enumerate(data)]
        outputs: list[dict[str, Array]] = [{} for _ in rows]
        losses = 0.0
        for group in self._groups(rows):
            gradients: dict[int, dict[str, Array]] = {}
            for bucket in _buckets(group):
                with SCRATCH:
                    gradients |= self._bucket(bucket, loss, config, outputs, total is not None)
            for row in group:
                losses += float(outputs[row.index]["elementwise_loss"].sum(dtype=np.float64))
                for name in self._lora.layers if total is not None else ():
                    assert total is not None
                    total[name] += gradients[row.index][name]
        metrics = {"loss:sum": losses}
        if isinstance(loss_fn, str):
            metrics |= _measured(loss_fn, rows, outputs, config)
        return Outputs(outputs, metrics)

    def _groups(self, rows: Sequence[_Row]) -> Iterator[list[_Row]]:
        size = sum(self.base.weights[name].size for name in self._lora.layers)
        most = max(1, GROUP_FLOATS // size)
        group: list[_Row] = []
        tokens = 0
        for row in rows:
            if group and (len(group) >= most or tokens + row.shape[0] > GROUP_TOKENS):
                yield group
                group, tokens = [], 0
            group.append(row)
            tokens += row.shape[0]
        if group:
            yield group

    def _bucket(
        self,
        rows: Sequence[_Row],
        loss: LossFunction,
        config: LossConfig,
        outputs: list[dict[str, Array]],
        differentiate: bool,
    ) -> dict[int, dict[str, Array]]:
        weights, shape = self._merged(), self.base.config
        length, k = rows[0].shape
        tokens = np.zeros((len(rows), length), dtype=np.int64)
        targets = np.zeros((len(rows), length, k), dtype=np.int64)
        for i, row in enumerate(rows):
            tokens[i, : len(row.targets)] = row.datum.tokens
            targets[i, : len(row.targets)] = row.targets
        trace = model.forward(shape, weights, self.base.embedding[tokens])
        tiled = (-1, ROWS, k)
        head, bias = weights[UNEMBED], self.base.bias
        hidden = trace.hidden.reshape(-1, ROWS, shape.d_model)
        scores = unembed.forward(hidden, targets.reshape(tiled), head, bias)
        logprobs = scores.logprobs.reshape(targets.shape)
        slopes = self._score(rows, logprobs, loss, config, outputs)
        if not differentiate:
            return {}
        want_head = UNEMBED in self._lora.layers
        dhidden, dhead = unembed.backward(
            scores, slopes.reshape(tiled), head, bias, len(rows), want_head
        )
        body = model.backward(
            shape, weights, trace, dhidden.reshape(trace.hidden.shape), self._lora.layers
        )
        if dhead is not None:
            body[UNEMBED] = dhead
        return {row.index: {n: g[i] for n, g in body.items()} for i, row in enumerate(rows)}

    def _score(
        self,
        rows: Sequence[_Row],
        logprobs: Array,
        loss: LossFunction,
        config: LossConfig,
        outputs: list[dict[str, Array]],
    ) -> Array:
        slopes = np.zeros_like(logprobs)
        for i, row in enumerate(rows):
            given: Any = row.datum.inputs["target_tokens"]
            own = logprobs[i, : len(row.targets)].reshape(np.shape(given)).copy()
            try:
                with np.errstate(over="ignore", invalid="ignore"):  # looked for below
                    elementwise, slope = loss(own, row.datum.inputs, config)
            except ValueError as error:
                raise ValueError(f"data[{row.index}]: {error}") from error
            # JSON has no word for it, and its gradient would spoil that of all other data.
            if not (np.isfinite(own).all() and np.isfinite(elementwise).all()):
                raise ValueError(
                    f"data[{row.index}]: the loss is not finite; look for infinite or huge numbers "
                    "among its loss inputs"
                )
            slopes[i, : len(row.targets)] = slope.reshape(row.targets.shape)
            outputs[row.index] = {"logprobs": own, "elementwise_loss": elementwise}
        return slopes


def _measured(
    loss_fn: str, rows: Sequence[_Row], outputs: Sequence[Mapping[str, Array]], config: LossConfig
) -> dict[str, float]:
    """Average what each datum measures; clients weigh chunks by their number of data."""
    found = [
        measures(loss_fn, outputs[row.index]["logprobs"], row.datum.inputs, config) for row in rows
    ]
    names = dict.fromkeys(name for values in found for name in values)
    averages = {name: sum(values.get(name, 0.0) for values in found) / len(rows) for name in names}
    return {name: value for name, value in averages.items() if math.isfinite(value)}


def _buckets(rows: Sequence[_Row]) -> list[list[_Row]]:
    buckets: dict[tuple[int, int], list[_Row]] = {}
    for row in rows:
        buckets.setdefault(row.shape, []).append(row)
    return list(buckets.values())
