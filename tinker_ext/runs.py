"""`Run`: a training loop with a journal, which goes on where the last process stopped."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, Self

from tinker_ext.batch.checks import check_count
from tinker_ext.clients import endings, models
from tinker_ext.clients.models import Resumption
from tinker_ext.clients.service import ServiceClient
from tinker_ext.clients.training import TrainingClient
from tinker_ext.core.future import AwaitableConcurrentFuture
from tinker_ext.errors import InvalidInputError
from tinker_ext.journal import Journal, JournalError
from tinker_ext.types.optimizer import OptimizerConfig

__all__ = ["Journal", "JournalError", "Resumption", "Run"]

log = logging.getLogger("tinker_ext")

SAVE_SECONDS: Final = 120.0
"""How long the save at the end of a run may hold up the end of the program."""
_LAST_NAME: Final = "exit"


class Run:
    """A training run in steps that may be killed at any moment and started again.

    Everything is written to the journal before and after it takes effect. Started again with the
    same file, the run goes on with the model on the server where the server still has it, else
    with its last checkpoint; no step takes effect twice. For that a step must depend on its
    number (and `notes`) alone. A step is complete when all its training calls have succeeded, so
    `steps` waits for them before it gives the next number.

    Args:
        journal: The file; a run starts when it does not exist, and is resumed when it does.
        base_model: Name of the model to train.
        rank: Rank of the adapter.
        seed: Seed of its initial weights; chosen, and recorded, when it is None.
        train_mlp: Whether the MLP layers get an adapter.
        train_attn: Whether the attention layers do.
        train_unembed: Whether the output layer does.
        optimizer: Optimizer family; AdamW by default.
        user_metadata: Kept with the model.
        service: A new client to use; by default one is made from `service_options`, and closed
            at the end.
        save_every: Save a checkpoint after so many steps.
        reattach: False goes back to the last checkpoint even if the server has the model.
        repair: Cut off a last record of the journal that was not written to its end.
        **service_options: Arguments of `ServiceClient`, such as `base_url`.

    Raises:
        JournalError: The file is damaged, foreign, newer, in use, or of a run with other
            settings. It is left as it is.

    Example:
        >>> import tempfile, tinker_ext
        >>> from tinker_ext import AdamParams, Datum, ModelInput
        >>> datum = Datum(ModelInput.from_ints([1, 2]), {"target_tokens": [2, 3]})
        >>> path = tempfile.mkdtemp() + "/run.journal"
        >>> with tinker_ext.Run(
        ...     path, base_model="tinker-ext/tiny", rank=4, base_url="embedded"
        ... ) as run:
        ...     for step in run.steps(3):
        ...         future = run.training.forward_backward([datum], "cross_entropy")
        ...         _ = run.training.optim_step(AdamParams(learning_rate=1e-3))
        ...     saved = run.save("final")
        >>> saved.endswith("/weights/final-000003")
        True
    """

    def __init__(
        self,
        journal: str | os.PathLike[str],
        *,
        base_model: str,
        rank: int = 32,
        seed: int | None = None,
        train_mlp: bool = True,
        train_attn: bool = True,
        train_unembed: bool = True,
        optimizer: OptimizerConfig | None = None,
        user_metadata: dict[str, str] | None = None,
        service: ServiceClient | None = None,
        save_every: int | None = None,
        reattach: bool = True,
        repair: bool = False,
        **service_options: Any,
    ) -> None:
        if service is not None and service_options:
            raise InvalidInputError(
                f"Give Run a service or its options ({', '.join(sorted(service_options))}), "
                "not both."
            )
        if save_every is not None:
            check_count("save_every", save_every, least=1)
        where = train_mlp, train_attn, train_unembed
        self._model = models.new_model(base_model, rank, seed, *where, user_metadata, optimizer)
        self._save_every = save_every
        self._reattach = reattach
        self.journal = Journal(journal, repair=repair)
        try:
            plan = self._model.plan()
            if seed is None:
                del plan["seed"]  # one that was chosen by an earlier process is as good as any
            self.journal.check(plan)
            self._owned = service is None
            self.service = service or ServiceClient(journal=self.journal, **service_options)
            if service is not None:
                service.holder.follow(self.journal)
        except BaseException:
            self.journal.close()
            raise
        self._training: TrainingClient | None = None
        self._step: int | None = None
        self._closed = False
        self.how: str | None = None
        """After the start: `started`, `reattached`, `restored` or `restarted`."""
        self.notes: dict[str, Any] = dict(self.journal.state.notes)
        """Yours: JSON values, recorded with each complete step and restored after a crash."""

    def __repr__(self) -> str:
        return f"Run({str(self.journal.file.path)!r}, next_step={self.next_step})"

    def _repr_html_(self) -> str:
        from tinker_ext import displays

        facts = [("journal", self.journal.file.path), ("next step", self.next_step)]
        return displays.card("Run", facts)

    @property
    def next_step(self) -> int:
        """The first step that is not complete."""
        return self.journal.state.next_step

    @property
    def training(self) -> TrainingClient:
        """Client of the model; the first use starts or resumes the run."""
        if self._training is None:
            self._training = self.service.holder.submit(self._open()).result()
        return self._training

    # -- steps -----------------------------------------------------------------------------

    def steps(self, count: int) -> Iterator[int]:
        """The numbers of the steps that are not complete, up to `count` in all.

        Args:
            count: Steps of the whole run, the complete ones included.

        Yields:
            A step number; asking for the next one completes it.

        Raises:
            InvalidInputError: `count` is not a whole number.
        """
        check_count("count", count)
        return self._steps(count)

    def _steps(self, count: int) -> Iterator[int]:
        while self._begin(count):
            _ = self.training
            if self.next_step >= count:
                return
            self._step = self.next_step
            yield self._step
            self.service.holder.submit(self._complete()).result()

    def steps_async(self, count: int) -> AsyncIterator[int]:
        """Async form of `steps`."""
        check_count("count", count)
        return self._steps_async(count)

    async def _steps_async(self, count: int) -> AsyncIterator[int]:
        while self._begin(count):
            await self._training_async()
            if self.next_step >= count:
                return
            self._step = self.next_step
            yield self._step
            await self.service.holder.submit(self._complete())

    def save(self, name: str, ttl_seconds: int | None = None) -> str:
        """Save weights and optimizer; the run can go on from there.

        Args:
            name: First part of the checkpoint's name; the number of steps follows it, since a
                name that is used again would replace the checkpoint needed after a crash.
            ttl_seconds: Lifetime of the checkpoint; None keeps it.

        Returns:
            Its path.
        """
        return self.training.save_state(self._numbered(name), ttl_seconds).result().path

    async def save_async(self, name: str, ttl_seconds: int | None = None) -> str:
        """Async form of `save`."""
        training = await self._training_async()
        return (await training.save_state(self._numbered(name), ttl_seconds)).path

    def _numbered(self, name: str) -> str:
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"A checkpoint name must be a text, not {name!r}.")
        return f"{name}-{self.next_step + (self._step is not None):06d}"

    def _begin(self, count: int) -> bool:
        if self._closed:
            raise InvalidInputError("This run is closed; open it again with the same journal.")
        if self._step is not None:
            raise InvalidInputError(
                f"Step {self._step} was left before its end. Leave the Run and open it again: "
                "then it is done again without taking effect twice."
            )
        if self.next_step < count:
            return True
        # After a crash behind the last step the run may still have to go back to a checkpoint.
        state = self.journal.state
        return self._training is None and state.model is not None and state.ended is None

    # -- on the loop -----------------------------------------------------------------------

    async def _training_async(self) -> TrainingClient:
        if self._training is None:
            self._training = await self.service.holder.submit(self._open())
        return self._training

    async def _open(self) -> TrainingClient:
        workspace = self.service.holder
        resumed = await models.resume(workspace, self._reattach, self._model.user_metadata)
        if resumed is not None:
            self.how = resumed.how
            self.notes = dict(resumed.notes)
            await self._finish_save(resumed.training)
            return resumed.training
        self.how = "started"
        return await models.create(workspace, self._model)

    async def _complete(self) -> None:
        """Wait for the calls of the step under way and record that it is complete."""
        step = self._step
        assert step is not None
        if self._save_every is not None and (step + 1) % self._save_every == 0:
            training = await self._training_async()
            await training.save_state(self._numbered("step"))
        await models.complete_step(self.service.holder, step, self.notes)
        self._step = None

    # -- end -------------------------------------------------------------------------------

    def close(self, status: endings.Status = "success") -> None:
        """End the run; a complete one is not started again by `steps`.

        With `success` the model is saved first, optimizer included, when steps were completed
        since the last checkpoint: the server forgets a model with its session. If that takes
        longer than `SAVE_SECONDS` or fails, a warning says so.

        After an error the session is left as it is when no checkpoint shows its last steps: the
        server keeps the model for a while, and the same run started again goes on with it.

        Args:
            status: `success`, `errored` or `interrupted`. With `success` a step that was left
                with `break` counts as complete.
        """
        if self._closed:
            return
        try:
            if self._finishes(status):
                self.service.holder.submit(self._finish()).result()
        except BaseException as error:
            status = endings.status_of(error)
            raise
        finally:
            if (closing := self._end(status)) is not None:
                closing.result()

    async def close_async(self, status: endings.Status = "success") -> None:
        """Async form of `close`."""
        if self._closed:
            return
        try:
            if self._finishes(status):
                await self.service.holder.submit(self._finish())
        except BaseException as error:
            status = endings.status_of(error)
            raise
        finally:
            if (closing := self._end(status)) is not None:
                await closing

    def _finishes(self, status: str) -> bool:
        used = self._training is not None
        return status == "success" and used and not self.service.holder.closed

    async def _finish(self) -> None:
        """Complete a step that was left with `break`, and save what no checkpoint shows."""
        if self._step is not None:
            await self._complete()
        state = self.journal.state
        if not state.unsaved:
            return
        if state.has_gradients:
            log.warning(
                "The end of the run is not saved: gradients wait for an update, and a checkpoint "
                "would lose them. A later run goes back to the last checkpoint."
            )
            return
        training = await self._training_async()
        try:
            async with asyncio.timeout(SAVE_SECONDS):
                await models.keep_state(self.service.holder, training, self._numbered(_LAST_NAME))
        except Exception as error:  # what was trained and saved before is not undone by it
            log.warning(
                "The end of the run is not saved (%s); a later run goes back to the last "
                "checkpoint.",
                error if str(error) else f"it took more than {SAVE_SECONDS:g} s",
            )

    async def _finish_save(self, training: TrainingClient) -> None:
        """Repeat the save at the end of an earlier process that was killed meanwhile.

        Its number is used, so a step must not begin with it.
        """
        name = self._numbered(_LAST_NAME)
        if self.journal.state.names == [name]:
            await models.keep_state(self.service.holder, training, name)

    def _end(self, status: endings.Status) -> AwaitableConcurrentFuture[None] | None:
        """End the journal and, if it is this run's own, the service; then its future."""
        self._closed = True
        if self._training is not None:
            try:
                self.journal.note("end", status=status)
            except JournalError as error:  # the session must be ended all the same
                log.warning("%s", error)
        if not self._owned:
            if self.service.holder.journal is self.journal:  # and not that of a later run
                self.service.holder.journal = None
            self.journal.close()
            return None
        if status != "success" and self.journal.state.unsaved:
            # The session holds the only copy of some steps: a later run finds it.
            self.service.holder.session.leave()
        return self.service.close(status)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: object, exc_value: BaseException | None, traceback: object
    ) -> None:
        self.close(endings.status_of(exc_value))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: object, exc_value: BaseException | None, traceback: object
    ) -> None:
        await self.close_async(endings.status_of(exc_value))
