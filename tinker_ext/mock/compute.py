"""The engine behind the server's operations, with the planted mistakes in one place."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from tinker_ext.mock import engine
from tinker_ext.mock.base_models import BaseModel, BaseModels
from tinker_ext.mock.results import Generated, LossResult, SampleResult, Topk
from tinker_ext.mock.settings import Settings
from tinker_ext.mock.training_input import BadInput, Batch

Weights = engine.Sampler

SMALL_VOCABULARY = 2048
"""Weights of larger ones are megabytes, and go when their server does."""


@attrs.frozen
class SampleOrder:
    """What one asample request wants."""

    prompt: npt.NDArray[np.int64]
    seed: int
    num_samples: int = 1
    params: Mapping[str, Any] = attrs.field(factory=dict)
    prompt_logprobs: bool = False
    last_n: int | None = None
    topk_prompt: int = 0
    topk_sample: int = 0
    targets: npt.NDArray[Any] | None = None
    alternatives: int = 0


class Trainable:
    """One model under training.

    Args:
        adapter: The engine's model.
        bugs: Planted mistakes.
    """

    def __init__(self, adapter: engine.Adapter, bugs: frozenset[str]) -> None:
        self.adapter = adapter
        self._bugs = bugs
        self._birth = adapter.snapshot() if "sampler_stale" in bugs else None

    def run(self, batch: Batch) -> LossResult:
        """Compute losses and, unless `batch.forward_only`, add up gradients."""
        data = [
            engine.Datum(example.tokens, self._loss_inputs(batch, example.inputs))
            for example in batch.examples
        ]
        config: dict[str, Any] = dict(batch.config)
        if batch.loss_fn == "custom":
            raise BadInput(
                "this server stores custom losses but does not run their graphs; use "
                "forward_backward_custom with a function instead of a handle"
            )
        if not data:
            raise BadInput("the batch is empty; send at least one datum")
        if batch.forward_only and "forward_trains" not in self._bugs:
            outputs = self.adapter.forward(data, batch.loss_fn, config)
        else:
            if "no_accumulate" in self._bugs:
                self._forget_gradients()
            outputs = self.adapter.forward_backward(data, batch.loss_fn, config)
        return self._report(outputs)

    def optim_step(self, params: Mapping[str, Any]) -> dict[str, float]:
        """Apply the gradients."""
        values = dict(params)
        kind = values.pop("type", "adamw")
        missing = [name for name, value in values.items() if value is None]
        if missing:
            raise BadInput(
                f"{missing[0]} is null; clients write null for a number that is not finite"
            )
        if "lr_ignored" in self._bugs:
            values["learning_rate"] = 1e-4
        if "grad_clip_ignored" in self._bugs:
            values.pop("grad_clip_norm", None)
        if "weight_decay_ignored" in self._bugs:
            values.pop("weight_decay", None)
        optimizer: engine.OptimParams
        if kind == "dimuon":
            optimizer = engine.Dimuon(**values)
        elif kind == "adamw":
            optimizer = engine.AdamW(**values)
            if "adam_bias" in self._bugs:
                optimizer = self._without_bias_correction(optimizer)
        else:
            raise BadInput(f"optimizer {kind!r} is not served here; use adamw or dimuon")
        metrics = self.adapter.optim_step(optimizer)
        return {} if "metrics_empty" in self._bugs else metrics

    def save(self, *, optimizer: bool) -> dict[str, Any]:
        """Return the weights as named arrays, with the optimizer when asked."""
        keep = optimizer and "checkpoint_no_optimizer" not in self._bugs
        return self.adapter.state_dict(optimizer=keep)

    def load(self, blob: Mapping[str, Any], *, optimizer: bool) -> None:
        """Take over saved weights; pending gradients are dropped."""
        if "load_ignored" not in self._bugs:
            self.adapter.load_state_dict(blob, optimizer=optimizer)

    def snapshot(self) -> Weights:
        """Return the weights as they are now, to sample from."""
        return self._birth or self.adapter.snapshot()

    def dump(self) -> dict[str, Any]:
        """Return everything a restart needs, bit for bit."""
        return self.adapter.state_dict(optimizer=True, pending=True)

    def restore(self, blob: Mapping[str, Any]) -> None:
        """Take over what `dump` gave."""
        self.adapter.load_state_dict(blob, optimizer=True)

    def _forget_gradients(self) -> None:
        state = self.adapter.state_dict(optimizer=True)
        self.adapter.load_state_dict(state, optimizer=True)

    def _without_bias_correction(self, params: engine.AdamW) -> engine.AdamW:
        step = self.adapter.step + 1
        factor = (1 - params.beta1**step) / (1 - params.beta2**step) ** 0.5
        return attrs.evolve(params, learning_rate=params.learning_rate * factor)

    def _loss_inputs(
        self, batch: Batch, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> Mapping[str, npt.NDArray[Any]]:
        wanted = {"weights_ignored", "chunk_mean", "negative_weight_clamped"} & self._bugs
        if not wanted or batch.loss_fn != "cross_entropy":
            return inputs
        targets = inputs.get("target_tokens")
        shape = targets.shape if targets is not None else ()
        weights = np.asarray(inputs.get("weights", np.ones(shape)), dtype=np.float32)
        if "weights_ignored" in wanted:
            weights = np.ones_like(weights)
        if "negative_weight_clamped" in wanted:
            weights = np.maximum(weights, 0)
        if "chunk_mean" in wanted:
            weights = weights / np.float32(len(batch.examples))
        return {**inputs, "weights": weights}

    def _report(self, outputs: engine.Outputs) -> LossResult:
        metrics = dict(outputs.metrics)
        arrays = outputs.loss_fn_outputs
        if "loss_scale" in self._bugs:
            metrics["loss:sum"] *= 2
        if "metric_suffix" in self._bugs:
            metrics = {name.partition(":")[0]: value for name, value in metrics.items()}
        if "metrics_empty" in self._bugs:
            metrics = {}
        if "outputs_reversed" in self._bugs:
            arrays = arrays[::-1]
        return LossResult(arrays, metrics)


class Compute:
    """Base models by name, models under training, samples.

    Args:
        settings: Seed and planted mistakes.
        models: The served base models.
    """

    def __init__(self, settings: Settings, models: BaseModels) -> None:
        self._settings = settings
        self._models = models
        self._bases: dict[str, engine.BaseModel] = {}
        self.lock = threading.Lock()
        self._draws = 0

    def base(self, model: BaseModel) -> engine.BaseModel:
        """Return the frozen weights of a base model, made on first use."""
        with self.lock:
            found = self._bases.get(model.name)
            if found is None:
                make = _kept if model.vocabulary <= SMALL_VOCABULARY else _made
                found = make(model.name, model.vocabulary, self._settings.seed, model.bytewise)
                self._bases[model.name] = found
            return found

    def create(self, model: BaseModel, lora: Mapping[str, Any] | None) -> Trainable:
        """Create a model to train; without a LoRA config it gets an adapter of rank 32."""
        config = dict(lora or {"rank": 32})
        seed = config.pop("seed", None)
        if seed is None or "lora_seed_ignored" in self._settings.bugs:
            seed = self._settings.seed
        adapter = engine.Adapter(self.base(model), seed=int(seed), **config)
        return Trainable(adapter, self._settings.bugs)

    def base_weights(self, model: BaseModel) -> Weights:
        """Return the base model itself, to sample from."""
        return engine.Sampler.of_base(self.base(model))

    def saved_weights(
        self, model: BaseModel, lora: Mapping[str, Any] | None, blob: Mapping[str, Any]
    ) -> Weights:
        """Return the weights of a checkpoint, to sample from."""
        trainable = self.create(model, lora)
        trainable.adapter.load_state_dict(blob)
        return trainable.adapter.snapshot()

    def sample(self, model: BaseModel, weights: Weights, order: SampleOrder) -> SampleResult:
        """Sample continuations and score the prompt."""
        bugs = self._settings.bugs
        count = 1 if "num_samples_one" in bugs else order.num_samples
        sequences = [
            self._sequence(sample)
            for sample in weights.sample(
                order.prompt,
                count,
                self._params(order),
                eos=model.end_tokens,
                decode=lambda ids: str(model.tokenizer.decode(ids, skip_special_tokens=False)),
                topk=order.topk_sample,
            )
        ]
        wanted = order.prompt_logprobs or order.topk_prompt or order.alternatives
        if not wanted and order.targets is None:
            return SampleResult(sequences)
        return self._scored(weights, order, sequences)

    def _scored(
        self, weights: Weights, order: SampleOrder, sequences: Sequence[Generated]
    ) -> SampleResult:
        scores = weights.score(
            order.prompt,
            topk=order.topk_prompt,
            targets=order.targets,
            alternatives=order.alternatives,
            temperature=float(order.params.get("temperature", 1.0)),
            seed=order.seed,
            last_n=order.last_n,
        )
        logprobs = scores.logprobs
        if "prompt_logprob_shift" in self._settings.bugs:
            logprobs = np.roll(logprobs, 1)
        alternatives = None
        if scores.alt_tokens is not None and scores.alt_logprobs is not None:
            alternatives = (scores.alt_tokens, scores.alt_logprobs)
        return SampleResult(
            sequences,
            prompt_logprobs=logprobs if order.prompt_logprobs else None,
            topk_prompt=_topk(scores.topk_ids, scores.topk_logprobs),
            targets=scores.target_logprobs,
            alternatives=alternatives,
        )

    def _sequence(self, sample: engine.Sample) -> Generated:
        logprobs = sample.logprobs
        if "logprob_shift" in self._settings.bugs:
            logprobs = np.roll(logprobs, 1)
        topk = _topk(sample.topk_ids, sample.topk_logprobs)
        return Generated(sample.tokens, logprobs, sample.stop_reason, topk)

    def _params(self, order: SampleOrder) -> engine.SampleParams:
        bugs = self._settings.bugs
        given = {
            name: value
            for name, value in order.params.items()
            if name in ("max_tokens", "temperature", "top_k", "top_p", "stop") and value is not None
        }
        seed = order.seed
        if "seed_ignored" in bugs:
            self._draws += 1
            seed = self._draws * 7919
        if "stop_ignored" in bugs:
            given["stop"] = []
        if "temperature_ignored" in bugs:
            given["temperature"] = 1.0
        if "max_tokens_plus_one" in bugs and "max_tokens" in given:
            given["max_tokens"] += 1
        return engine.SampleParams(seed=seed, **given)


def _made(name: str, size: int, seed: int, bytewise: bool) -> engine.BaseModel:
    prior = engine.byte_log_prior(size) if bytewise else None
    return engine.BaseModel.create(name, size, seed, log_prior=prior)


# Nothing changes frozen weights, and a program that makes many servers made them for each.
_kept = functools.lru_cache(maxsize=16)(_made)


def _topk(ids: Any, logprobs: Any) -> Topk | None:
    return None if ids is None or logprobs is None else Topk(ids, logprobs)
