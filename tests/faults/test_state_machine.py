"""Anything users do, in any order and from several threads: the server's log stays in order."""

from __future__ import annotations

import concurrent.futures
import random
import threading
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from in_process import MODEL, adam, datum
from simulation.network import Network, Weather

from tinker_ext import ModelInput, SamplingParams, ServiceClient
from tinker_ext.config import Config
from tinker_ext.core.workspace import deadline
from tinker_ext.errors import ClientClosedError, TinkerError, UnsafeToRetryError
from tinker_ext.mock import Settings

THREADS = 3
PATIENCE = 300.0
KINDS = {
    "forward_backward": "forward_backward",
    "optim_step": "optim_step",
    "forward": "forward",
    "save_state": "save_weights",
    "load_state": "load_weights",
}


@attrs.define(eq=False)
class Submitted:
    """One call and what its user did with it."""

    effect: str
    future: Any
    given_up: bool = False


class _Crashing(Network):
    """A perfect network to a server that can be killed from any thread."""

    def __init__(self, seq: str) -> None:
        settings = Settings(inline_engine=True, seq=seq, long_poll=0.2, latency=0.002)
        weather = Weather(0.0, ("restart_after",), longest=0.05)
        super().__init__(settings, weather, random.Random(1))
        self.loop: Any = None

    async def handle_async_request(self, request: Any) -> Any:
        import asyncio

        self.loop = asyncio.get_running_loop()
        return await super().handle_async_request(request)

    def crash(self) -> None:
        """Kill the server, on the loop that uses it, and wait until it is back."""
        if self.loop is None or self.loop.is_closed():
            return
        done = threading.Event()

        def kill() -> None:
            self._restart()
            done.set()

        self.loop.call_soon_threadsafe(kill)
        done.wait(300)


class Users(RuleBasedStateMachine):
    """Several threads that train, sample, give up, crash the server and start anew."""

    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.pool = [concurrent.futures.ThreadPoolExecutor(1) for _ in range(THREADS)]
        self.network: _Crashing | None = None
        self.service: ServiceClient | None = None
        self.models: dict[str, list[Submitted]] = {}
        self.saved = False

    @initialize(seq=st.sampled_from(["dedupe", "gap", "strict"]))
    def start(self, seq: str) -> None:
        self.network = _Crashing(seq)
        self._connect()

    def _connect(self) -> None:
        self.service = ServiceClient(
            base_url="http://server.test",
            api_key="tml-test",
            transport=self.network,
            config=Config(chunk_datums=1, retry_base=0.01, retry_cap=0.05),
        )
        self.training = self.service.create_lora_training_client(MODEL, rank=1)
        self.sampling = self.service.create_sampling_client(base_model=MODEL)
        self.models[self.training.model_id] = []
        self.saved = False

    def _in(self, thread: int, call: Any) -> Any:
        return self.pool[thread].submit(call).result(PATIENCE)

    @rule(
        target=calls,
        thread=st.integers(0, THREADS - 1),
        kind=st.sampled_from(sorted(KINDS)),
        size=st.integers(1, 2),
        seconds=st.sampled_from([PATIENCE, PATIENCE, PATIENCE, 0.01]),
    )
    def submit(self, thread: int, kind: str, size: int, seconds: float) -> Submitted:
        """Call one operation; the order of these calls is the order of the program."""
        training = self.training
        if kind == "load_state" and not self.saved:
            kind = "optim_step"

        def call() -> Any:
            with deadline(seconds):
                if kind in ("forward_backward", "forward"):
                    data = [datum(2, first=i) for i in range(size)]
                    return getattr(training, kind)(data, "cross_entropy")
                if kind == "optim_step":
                    return training.optim_step(adam())
                if kind == "save_state":
                    return training.save_state("s")
                return training.load_state(f"tinker://{training.model_id}/weights/s")

        future = self._in(thread, call)
        self.saved = self.saved or (kind == "save_state" and seconds == PATIENCE)
        made = Submitted(KINDS[kind], future, given_up=seconds < PATIENCE)
        count = size if kind in ("forward_backward", "forward") else 1
        self.models[training.model_id] += [made] * count
        return made

    @rule(call=calls)
    def cancel(self, call: Submitted) -> None:
        if call.future.cancel():
            call.given_up = True

    @rule(call=calls, thread=st.integers(0, THREADS - 1))
    def look_without_patience(self, call: Submitted, thread: int) -> None:
        """A wait that times out leaves the operation alone."""
        try:
            self._in(thread, lambda: call.future.result(0.0001))
        except (TimeoutError, concurrent.futures.CancelledError, TinkerError):
            return

    @rule(call=calls)
    def wait(self, call: Submitted) -> None:
        self._end(call)

    @rule(thread=st.integers(0, THREADS - 1))
    def sample(self, thread: int) -> None:
        prompt, params = ModelInput.from_ints([1, 2]), SamplingParams(max_tokens=2, seed=1)
        reply = self._in(thread, lambda: self.sampling.sample(prompt, 1, params).result(PATIENCE))
        assert len(reply.sequences[0].tokens) == 2

    @rule()
    def crash(self) -> None:
        assert self.network is not None
        self.network.crash()

    @rule()
    def reconnect(self) -> None:
        """Close with work under way: everything ends at once; then begin anew."""
        self._close()
        self._connect()

    def _close(self) -> None:
        assert self.service is not None
        mine = self.models[self.training.model_id]
        self.service.close().result(PATIENCE)
        for call in mine:
            assert call.future.done(), "a future outlived its client"
            if not call.future.future().cancelled() and isinstance(
                call.future.exception(0), ClientClosedError
            ):
                call.given_up = True

    def _end(self, call: Submitted) -> None:
        """Wait for a call; errors are those its user can expect."""
        try:
            call.future.result(PATIENCE)
        except concurrent.futures.CancelledError:
            assert call.given_up
        except UnsafeToRetryError:
            assert self.network is not None
            assert self.network._settings.seq == "strict"
        except TinkerError:
            # A load whose save was given up has nothing to load.
            mine = self.models[self.training.model_id]
            if not (call.given_up or any(each.given_up for each in mine)):
                raise

    @invariant()
    def numbers_rise_without_repeats(self) -> None:
        if self.network is None:
            return
        for model_id in self.models:
            numbers = [effect.seq for effect in self.network.app.log.training(model_id)]
            assert numbers == list(range(1, len(numbers) + 1)), numbers

    def teardown(self) -> None:
        if self.network is None:
            return
        try:
            for call in self.models[self.training.model_id]:
                self._end(call)
            self._close()
            for model_id, calls in self.models.items():
                self._judge(model_id, calls)
        finally:
            for thread in self.pool:
                thread.shutdown()
            self.network.close()

    def _judge(self, model_id: str, calls: list[Submitted]) -> None:
        """Every call took effect once and in order, except those that were given up."""
        assert self.network is not None
        effects = [effect.op for effect in self.network.app.log.training(model_id)]
        places = {0}  # how many effects the calls so far may account for
        for call in calls:
            taken = {at + 1 for at in places if effects[at : at + 1] == [call.effect]}
            places = taken | (places if call.given_up else set())
            assert places, (call.effect, effects, [each.effect for each in calls])
        assert len(effects) in places, (effects, [call.effect for call in calls])


Users.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=20,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # threads: a shrunk case would be another case
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


# They load into a client in use, from threads whose warnings no block here could catch.
@pytest.mark.filterwarnings("ignore:load_state and load_state_with_optimizer:FutureWarning")
class TestUsers(Users.TestCase):
    """M17 M19 M20 M21: submit, cancel, time out, save, load, sample, crash, reconnect, close."""
