"""`SamplingClient`: sample from one set of weights and score prompts with it."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import random
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import attrs
from tinker_api import operations as api

from tinker_ext import forks, paths
from tinker_ext._wire.dialect import Ability
from tinker_ext._wire.json_codec import PLAIN, SampleOptions
from tinker_ext.batch.checks import check_sample
from tinker_ext.clients.arguments import (
    async_form,
    awaited_or_given_up,
    blocking,
    chained,
    check_base_model,
    check_retry_config,
)
from tinker_ext.core.completions import Completions
from tinker_ext.core.future import APIFuture, AwaitableConcurrentFuture, LightFuture
from tinker_ext.core.in_flight import PendingOperation
from tinker_ext.core.loop import Shared
from tinker_ext.core.retry_config import RetryConfig, portable
from tinker_ext.core.sample_pool import Sample, Source
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import (
    FeatureMissingError,
    InvalidInputError,
    NotFoundError,
    TinkerError,
)
from tinker_ext.types.enums import QueueState
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.records import check_type
from tinker_ext.types.sampling import SampleResponse, SamplingParams
from tinker_ext.types.tensor_data import TensorData

CLONE_STEP = 1_000_000_000
"""The requests of a copy are numbered from copy × 10⁹ on, as official ones are."""


def new_clone_id() -> int:
    """A number for a copy of a client; drawn at random, since copies cannot ask each other."""
    return random.SystemRandom().randint(1, CLONE_STEP)


class _NotGiven(int):
    """Equal to False, as the default of the official client, and told apart from it."""

    def __repr__(self) -> str:
        return "False"

    __str__ = __repr__


NOT_GIVEN: Any = _NotGiven(0)

_SCORE = SamplingParams(max_tokens=1)
_NOTHING = attrs.astuple(PLAIN)


class SamplingClient:
    """Samples from one set of weights; made by a `ServiceClient` or a `TrainingClient`.

    Any number of calls may be made at once: what the server does not take yet waits in a fair
    queue. The client pickles into worker processes, which read their own credential. A wrong
    argument raises `InvalidInputError` at the call, before anything is sent.

    Example:
        >>> import tinker_ext
        >>> from tinker_ext import ModelInput, SamplingParams
        >>> service = tinker_ext.ServiceClient(base_url="embedded")
        >>> client = service.create_sampling_client(base_model="tinker-ext/tiny")
        >>> prompt = ModelInput.from_ints([1, 2, 3])
        >>> reply = client.sample(prompt, 2, SamplingParams(max_tokens=4, seed=1)).result()
        >>> len(reply.sequences)
        2
        >>> service.close("success").result()
    """

    def __init__(
        self,
        holder: Workspace,
        *,
        sampling_session_id: str | None = None,
        shadow: bool = False,
        retry_config: RetryConfig | None = None,
        record_stability_info: bool = False,
        model_path: str | None = None,
        base_model: str | None = None,
        clone_id: int | None = None,
    ) -> None:
        # The official SDK calls the argument so, and code that makes clients by hand passes it.
        self._workspace = workspace = holder
        self._owner = workspace.owner()
        self._sampling_session_id = sampling_session_id
        self._retry_config = retry_config
        self._record_stability_info = record_stability_info
        self.model_path = model_path
        self.base_model = base_model
        self._clone_id = clone_id if clone_id is not None else new_clone_id() * shadow
        """Number of the copy; 0 is the original."""
        self._source = self._make_source()
        if shadow and sampling_session_id is not None:
            settle_in = functools.partial(self._settle_in, sampling_session_id, clone_id is None)
            self._source.prepare = Shared(settle_in).get
        model = base_model or workspace.watchers.model_of(model_path or "")
        workspace.watchers.name_model(self._source.key, model)
        workspace.server.in_flight.listen(self._source.key, self)
        forks.register(self)

    def __repr__(self) -> str:
        return f"SamplingClient({self._source.key!r})"

    def _repr_html_(self) -> str:
        from tinker_ext import displays

        facts = [
            ("weights", self.model_path or self.base_model),
            ("session", self._sampling_session_id),
            ("server", self._workspace.server.base_url),
        ]
        return displays.card("SamplingClient", facts, displays.pending(self.pending()))

    def _make_source(self) -> Source:
        retry = self._retry_config
        session_id = self._sampling_session_id
        if session_id is None:
            address = _address(self.model_path, self.base_model)
            return Source(next(iter(address.values())), address, None, retry)
        address = {"sampling_session_id": session_id}
        source = Source(session_id, address, None, retry)
        self._count_as(self._clone_id, source, session_id)
        return source

    def _count_as(self, clone_id: int, source: Source, session_id: str) -> None:
        """Number samples, from any thread, and ask for their results as one copy among others."""
        self._clone_id = clone_id
        source.next_seq_id = itertools.count(clone_id * CLONE_STEP).__next__
        server = self._workspace.server
        batched = server.dialect is not None and server.dialect.config.sample_use_retrieve_futures
        source.completions = Completions(server, session_id, clone_id) if batched else None

    def after_fork(self) -> None:
        """In a forked child: a copy with numbers of its own and nothing in flight."""
        self._source.in_flight, self._source.progress = 0, None
        if self._sampling_session_id is not None:
            self._count_as(new_clone_id(), self._source, self._sampling_session_id)

    async def _settle_in(self, session_id: str, unnumbered: bool) -> None:
        """Before the first sample of a copy: keep its session alive, get a number of its own."""
        server, clone_id = self._workspace.server, self._clone_id
        await self._workspace.session.ensure()
        dialect = await server.ready()
        if unnumbered and dialect.config.sample_join_sampling_session:
            # Where the server gives no number, the one that was drawn at random must do.
            with contextlib.suppress(FeatureMissingError, NotFoundError):
                op = api.JOIN_SAMPLING_SESSION
                reply = await server.call(op, sampling_session_id=session_id)
                clone_id = int(reply.client_counter)
        self._count_as(clone_id, self._source, session_id)
        self._source.prepare = None

    # -- making ----------------------------------------------------------------------------

    @staticmethod
    def create(
        holder: Workspace,
        *,
        model_path: str | None = None,
        base_model: str | None = None,
        sampling_session_id: str | None = None,
        retry_config: RetryConfig | None = None,
        record_stability_info: bool = False,
    ) -> APIFuture[SamplingClient]:
        """Make a client of saved weights, a base model, or an existing sampling session.

        Raises:
            InvalidInputError: Neither is given, or the path is not one, or an
                argument has the wrong type.
        """
        check_retry_config(retry_config)
        address = None if sampling_session_id is not None else _address(model_path, base_model)

        async def make() -> SamplingClient:
            return SamplingClient(
                holder,
                sampling_session_id=sampling_session_id
                if address is None
                else await _new_session(holder, address),
                retry_config=retry_config,
                record_stability_info=record_stability_info,
                model_path=model_path,
                base_model=base_model,
            )

        return AwaitableConcurrentFuture(holder.submit(make()))

    # -- sampling --------------------------------------------------------------------------

    def sample(
        self,
        prompt: ModelInput,
        num_samples: int,
        sampling_params: SamplingParams,
        include_prompt_logprobs: bool = NOT_GIVEN,
        topk_prompt_logprobs: int = 0,
        topk_sample_logprobs: int = 0,
        target_prompt_logprobs: TensorData | None = None,
        prompt_alt_tokens_k: int = 0,
        prompt_logprobs_last_n: int | None = None,
    ) -> LightFuture[SampleResponse]:
        """Sample continuations of a prompt.

        Args:
            prompt: What the model reads.
            num_samples: How many sequences to draw.
            sampling_params: How to draw them.
            include_prompt_logprobs: Also return the log-probability of every prompt token. Left
                out, the server is not told; an explicit False is sent.
            topk_prompt_logprobs: Also return this many likeliest tokens per prompt position.
            topk_sample_logprobs: The same per sampled position.
            target_prompt_logprobs: Token ids whose logprobs to return, k for every position
                after the first: row i is about position i + 1.
            prompt_alt_tokens_k: Also return this many alternatives per prompt position.
            prompt_logprobs_last_n: Prompt logprobs of the last positions only.

        Returns:
            Future of the response; cancelling it gives the sample up.
        """
        try:
            with_logprobs = bool(include_prompt_logprobs)
        except (ValueError, RuntimeError):  # an array, a tensor
            raise InvalidInputError(
                f"include_prompt_logprobs must be True or False, not {include_prompt_logprobs!r}."
            ) from None
        asked = (
            None if include_prompt_logprobs is NOT_GIVEN else with_logprobs,
            topk_prompt_logprobs,
            topk_sample_logprobs,
            target_prompt_logprobs,
            prompt_alt_tokens_k,
            prompt_logprobs_last_n,
            self._record_stability_info,
        )
        # One record for all samples that ask for nothing: there may be 100,000 of them.
        options = PLAIN if all(map(operator.is_, asked, _NOTHING)) else SampleOptions(*asked)
        return self._submit(prompt, num_samples, sampling_params, options)

    sample_async = awaited_or_given_up(sample)

    def compute_logprobs(
        self, prompt: ModelInput, prompt_logprobs_last_n: int | None = None
    ) -> Future[list[float | None]]:
        """Log-probability of every prompt token, None for the first.

        Args:
            prompt: The tokens to score.
            prompt_logprobs_last_n: Score the last positions only.
        """
        options = SampleOptions(True, prompt_logprobs_last_n=prompt_logprobs_last_n)

        def read(done: Future[SampleResponse]) -> list[float | None]:
            values = done.result().prompt_logprobs
            if values is None:
                missing = FeatureMissingError("prompt logprobs", self._workspace.server.base_url)
                raise missing.with_context(operation="compute_logprobs")
            return values

        return chained(self._submit(prompt, 1, _SCORE, options), read)

    compute_logprobs_async = awaited_or_given_up(compute_logprobs)

    def _submit(
        self,
        prompt: ModelInput,
        num_samples: int,
        params: SamplingParams | Mapping[str, Any],
        options: SampleOptions,
    ) -> LightFuture[SampleResponse]:
        check_sample(prompt, num_samples, None if options is PLAIN else options)
        dialect = self._workspace.server.dialect
        if options.topk_sample_logprobs and dialect is not None:
            dialect.require(Ability.SAMPLE_TOPK)
        if not isinstance(params, SamplingParams):
            # Official requests make a record of a dict, and packages rely on it.
            params = _params_of(params)
        workspace = self._workspace
        now, seconds = workspace.begin()
        watchers = workspace.watchers
        watch = None
        if watchers.ledger is not None or watchers.observers.each:
            watch = watchers.begin_sample(self._source.key, prompt, num_samples, params.max_tokens)
        sample = Sample(self._source, prompt, num_samples, params, options, now, now + seconds)
        if watch is not None:
            watch.follow(sample, sample.result)
        return workspace.samples.submit(sample)

    # -- look-ups --------------------------------------------------------------------------

    @blocking
    def get_base_model(self) -> Future[str]:
        """Name of the base model that is sampled from."""
        return self._workspace.submit(self._base_model())

    get_base_model_async = async_form(get_base_model)

    async def _base_model(self) -> str:
        if self._sampling_session_id is None:
            if self.base_model is not None:
                return self.base_model
            raise FeatureMissingError("sampling sessions", self._workspace.server.base_url)
        try:
            reply = await self._workspace.server.call(
                api.GET_SAMPLER, sampler_id=self._sampling_session_id
            )
        except FeatureMissingError:
            if self.base_model is not None:
                return self.base_model
            raise
        return str(reply.base_model)

    def get_tokenizer(self) -> Any:
        """The tokenizer of the base model, from this machine's files or the hub."""
        from tinker_ext import tokenizers

        name = self.get_base_model().split(":", 1)[0]
        return tokenizers.load(tokenizers.tokenizer_for_model(name))

    def pending(self) -> list[PendingOperation]:
        """Samples of this client in flight or queued, oldest first."""
        return self._workspace.pending(self._source.key)

    def on_queue_state_change(
        self, queue_state: QueueState, queue_state_reason: str | None = None
    ) -> None:
        """Called when the server holds work back; override it to act on that."""

    def get_telemetry(self) -> None:
        """Nothing: telemetry is an observer of the connection here."""

    # -- other processes -------------------------------------------------------------------

    def get_sampler_handle(self) -> str:
        """A text from which another process makes the same client; holds no credential."""
        from tinker_ext.clients.handles import encode_handle

        return encode_handle(self._state())

    @staticmethod
    def from_sampler_handle(handle: str, *, api_key: str | None = None) -> SamplingClient:
        """Make a client from the text of `get_sampler_handle`.

        Args:
            handle: The text.
            api_key: Credential; by default the one this process is configured with, if the handle
                leads to the server it is configured with or has a client of.

        Raises:
            InvalidInputError: The text is not a handle.
            ConfigurationError: It leads to a server that the credential of this process is not
                for.
        """
        check_type("handle", handle, str, "the text that get_sampler_handle gave")
        from tinker_ext.clients.handles import decode_handle, revive

        return revive(decode_handle(handle), api_key, foreign=True)

    def _state(self) -> dict[str, Any]:
        retry = self._retry_config
        return {
            "retry_config": None if retry is None else portable(retry),
            "session_id": self._workspace.session.session_id,
            "sampling_session_id": self._sampling_session_id,
            "model_path": self.model_path,
            "base_model": self.base_model,
            "record_stability_info": self._record_stability_info,
            **self._workspace.description,
        }

    def __copy__(self) -> SamplingClient:
        # A pickle would forget the credential and the headers; nothing here changes with use.
        return self

    def __deepcopy__(self, _: dict[int, Any]) -> SamplingClient:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        from tinker_ext.clients.handles import revive

        return revive, (self._state(), None, self._retry_config)


def _params_of(values: Mapping[str, Any]) -> SamplingParams:
    check_type("sampling_params", values, Mapping, "SamplingParams")
    try:
        return SamplingParams(**values)
    except TypeError as error:
        raise InvalidInputError(f"sampling_params: {error}.") from None


def _address(model_path: str | None, base_model: str | None) -> Mapping[str, str]:
    """What to sample from: a path, a base model, or both, as the official SDK takes them."""
    address = {}
    if model_path is not None:
        if not paths.looks_like_weights(model_path):
            raise InvalidInputError(
                f"model_path {model_path!r} is not a checkpoint path such as "
                "tinker://<run>/sampler_weights/<name>; a model's name goes to base_model."
            )
        address["model_path"] = model_path
    if base_model is not None:
        check_base_model(base_model)
        address["base_model"] = base_model
    if not address:
        raise InvalidInputError("Pass model_path or base_model.")
    return address


async def _new_session(workspace: Workspace, address: Mapping[str, Any]) -> str | None:
    """Open a sampling session; None on servers without them, which take the address itself."""
    session_id = await workspace.session.ensure()
    try:
        reply = await workspace.server.call(
            api.CREATE_SAMPLING_SESSION,
            session_id=session_id,
            sampling_session_seq_id=workspace.session.next_sampling_session_seq_id(),
            **address,
        )
    except FeatureMissingError:
        return None
    if not reply.sampling_session_id:
        raise TinkerError("The server opened a sampling session without an id.")
    return reply.sampling_session_id
