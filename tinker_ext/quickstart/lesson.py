"""The lesson: train on the animals, ask before and after, save, restore and compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from tinker_ext.quickstart.data import Question, data_for, questions

if TYPE_CHECKING:
    from tinker_ext.clients.sampling import SamplingClient
    from tinker_ext.clients.service import ServiceClient
    from tinker_ext.clients.training import TrainingClient
    from tinker_ext.types import Datum

MODEL = "tinker-ext/tiny"
STEPS = 150
LEARNING_RATE = 0.01
RANK = 16
ANSWER_TOKENS = 8
AHEAD = 2
"""Steps sent before the first result is read, so that the server never waits for us."""


@attrs.frozen
class Step:
    """One optimizer step.

    Attributes:
        number: From 1.
        loss: Loss per token, in nats.
        tokens_per_second: Since the first step.
        seconds_left: Estimate for the steps that remain.
    """

    number: int
    loss: float
    tokens_per_second: float
    seconds_left: float


@attrs.frozen
class Answer:
    """What the model said to a question."""

    question: Question
    text: str

    @property
    def right(self) -> bool:
        """Whether it is the word of the data set."""
        return self.text.startswith(self.question.answer)


@attrs.frozen
class Restored:
    """What was compared after loading the checkpoint into a new client."""

    path: str
    compared: int
    equal: int

    @property
    def same(self) -> bool:
        """Whether every number is the same to the last bit."""
        return self.compared > 0 and self.equal == self.compared


class Lesson:
    """One run of the quickstart on one server.

    Args:
        service: The server.
        model: Base model to fine-tune.
        steps: Optimizer steps.
        seed: Seed of the adapter.
    """

    def __init__(
        self, service: ServiceClient, model: str = MODEL, steps: int = STEPS, seed: int = 1
    ) -> None:
        self._service = service
        self.model = model
        self.steps = steps
        self.losses: list[float] = []
        self._trainer: TrainingClient = service.create_lora_training_client(
            model, rank=RANK, seed=seed
        )
        self._tokenizer: Any = self._trainer.get_tokenizer()
        self._data: list[Datum] = data_for(self._tokenizer)
        self.tokens_per_step = sum(datum.model_input.length for datum in self._data)

    @property
    def model_id(self) -> str:
        """Return the id of the model in training."""
        return self._trainer.model_id

    def answers(self) -> list[Answer]:
        """Ask the model, as it is now, to finish every sentence."""
        return ask(self._trainer.save_weights_and_get_sampling_client(), self._tokenizer)

    def train(self, on_step: Callable[[Step], None]) -> None:
        """Train, telling `on_step` after each step; results are read two steps behind."""
        from tinker_ext.types import AdamParams

        begin = time.monotonic()
        waiting: list[Any] = []
        for number in range(self.steps + AHEAD):
            if number < self.steps:
                rate = LEARNING_RATE * (1 - number / self.steps)
                waiting.append(self._trainer.forward_backward(self._data, "cross_entropy"))
                self._trainer.optim_step(AdamParams(learning_rate=rate))
            if number >= AHEAD:
                loss = waiting[number - AHEAD].result().loss_per_token
                self.losses.append(loss)
                done = len(self.losses)
                spent = max(time.monotonic() - begin, 1e-9)
                left = spent / done * (self.steps - done)
                on_step(Step(done, loss, done * self.tokens_per_step / spent, left))

    def save_and_restore(self) -> Restored:
        """Save a checkpoint, load it into a new client, and compare every logprob."""
        import numpy as np

        path = self._trainer.save_state("quickstart").result().path
        here = self._trainer.forward(self._data, "cross_entropy")
        twin = self._service.create_training_client_from_state(path)
        there = twin.forward(self._data, "cross_entropy")
        pairs = list(zip(_logprobs(here.result()), _logprobs(there.result()), strict=True))
        return Restored(
            path,
            compared=sum(mine.size for mine, _ in pairs),
            equal=sum(int(np.count_nonzero(mine == theirs)) for mine, theirs in pairs),
        )


def ask(sampler: SamplingClient, tokenizer: Any) -> list[Answer]:
    """Let a model finish every sentence of the data set, all at once and without chance."""
    from tinker_ext.types import ModelInput, SamplingParams

    asked: Sequence[Question] = questions()
    params = SamplingParams(max_tokens=ANSWER_TOKENS, temperature=0, stop=["\n"], seed=0)
    pending = [
        sampler.sample(ModelInput.from_ints(tokenizer.encode(item.prompt)), 1, params)
        for item in asked
    ]
    texts = [tokenizer.decode(future.result().sequences[0].tokens) for future in pending]
    return [Answer(item, text) for item, text in zip(asked, texts, strict=True)]


def _logprobs(output: Any) -> list[Any]:
    return [item["logprobs"].to_numpy() for item in output.loss_fn_outputs]
