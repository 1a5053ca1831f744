"""Notebook displays and progress bars: short, safe, and without a server."""

import asyncio
import concurrent.futures
import io
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from in_process import MODEL, adam, client, datum, run, server

from tinker_ext import (
    AdamParams,
    AwaitableConcurrentFuture,
    Run,
    SampleResponse,
    ServiceClient,
    progress,
)
from tinker_ext.core.future import LightFuture
from tinker_ext.core.in_flight import PendingOperation, PendingOperations
from tinker_ext.mock.settings import Pause
from tinker_ext.types import SampledSequence

HOSTILE = "<script>alert(1)</script>\x1b\u202e"


def operation(**fields):
    usual = {
        "operation": "asample",
        "target": "s",
        "stage": "waiting",
        "seconds": 2.0,
        "attempt": 1,
        "request_id": None,
        "seq_id": None,
        "queue_state": "paused_capacity",
        "reason": HOSTILE,
    }
    return PendingOperation(**{**usual, **fields})


def test_clients_show_themselves_without_a_server():
    """M36: nobody listens at that address, and the display neither waits nor fails."""
    service = ServiceClient(base_url="http://127.0.0.1:9", api_key="tml-secret-key", budget=1000)
    shown = service._repr_html_()
    assert "127.0.0.1:9" in shown
    assert "Nothing is pending" in shown
    assert "tml-secret-key" not in shown
    rest = service.create_rest_client()._repr_html_()
    assert "RestClient" in rest
    assert "127.0.0.1:9" in rest
    service.close().result()


def test_a_sampling_client_shows_what_it_samples_from():
    """M36: a base model or a path."""

    async def scenario():
        async with client(server()) as service:
            made = await service.create_sampling_client_async(base_model=MODEL)
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            saved = await (await training.save_weights_for_sampler_async("a"))
            other = await training.create_sampling_client_async(saved.path)
            return [(MODEL, made._repr_html_()), (saved.path, other._repr_html_())]

    for weights, shown in run(scenario):
        assert "SamplingClient" in shown
        assert weights in shown


def test_what_is_pending_is_a_table():
    """M26: `pending()` in a notebook says what waits, how long and why."""
    app = server(pause=Pause(state="paused_capacity", seconds=60.0, reason="busy"))

    async def scenario():
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            future = await training.optim_step_async(adam())
            await asyncio.sleep(40)
            shown = training.pending()._repr_html_()
            also = service._repr_html_(), training._repr_html_(), future._repr_html_()
            await future
            return shown, also, future._repr_html_(), isinstance(service.pending(), list)

    shown, also, done, is_list = run(scenario)
    for each in (shown, *also):
        assert "optim_step" in each
        assert "paused_capacity" in each
    assert "Future: done" in done
    assert is_list


def test_a_display_is_escaped_and_bounded():
    """Safe: names and reasons come from elsewhere."""
    shown = PendingOperations([operation(target="x" * 10_000)] * 50)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "\x1b" not in shown
    assert "⟨U+202E⟩" in shown
    assert "and 30 more" in shown
    assert len(shown) < 40_000


def test_futures_show_what_they_came_to():
    """M36: pending, a result with a display of its own, an error, a cancellation."""
    pending, good, bad, gone = (LightFuture() for _ in range(4))
    good.settle(SampleResponse([SampledSequence("stop", tokens_np=np.array([1, 2]))]))
    bad.fail(ValueError(HOSTILE))
    gone.cancel()
    assert "pending" in pending._repr_html_()
    assert "1 sampled sequences" in AwaitableConcurrentFuture(good)._repr_html_()
    assert "ValueError" in bad._repr_html_()
    assert "<script>" not in bad._repr_html_()
    assert "CancelledError" in gone._repr_html_()


def test_a_run_shows_its_journal_and_step(tmp_path):
    """M36: without opening anything."""
    with Run(tmp_path / "run", base_model=MODEL, base_url="embedded") as started:
        assert "next step" in started._repr_html_()


# -- progress ------------------------------------------------------------------------------


def test_results_come_in_order_and_the_bar_counts_what_is_done():
    """M36: one line around a list of futures."""
    futures = [LightFuture() for _ in range(4)]
    for number in (3, 1, 0, 2):
        futures[number].settle(number)
    screen = io.StringIO()
    found = list(progress((AwaitableConcurrentFuture(f) for f in futures), desc="ask", file=screen))
    assert found == [0, 1, 2, 3]
    assert "ask: 100%" in screen.getvalue()
    assert "4/4" in screen.getvalue()


def test_a_training_loop_gets_the_same_line():
    """M36: other items pass through, from lists and generators."""
    assert list(progress([5, 6], disable=True)) == [5, 6]
    assert list(progress((n for n in range(3)), disable=True)) == [0, 1, 2]
    assert list(progress([], disable=True)) == []
    assert list(progress(iter([None, 0]), disable=True)) == [None, 0]


def test_the_bar_says_why_the_server_holds_back(monkeypatch):
    """M26: queue state and reason stand behind the bar while one waits."""
    monkeypatch.setattr("tinker_ext.displays.LOOK_SECONDS", 0.01)

    class Waiting:
        looks = 0

        def __call__(self):
            pass

        def describe(self):
            self.looks += 1
            if self.looks == 2:
                threading.Thread(target=future.settle, args=[1]).start()
            return str(operation(reason="all machines are busy"))

    def plainly(future, screen):
        return list(progress([future], file=screen, mininterval=0))

    async def within(future, screen):
        line = progress([AwaitableConcurrentFuture(future)], file=screen, mininterval=0)
        return [value async for value in line]

    for wait in (plainly, lambda *given: asyncio.run(within(*given))):
        future = LightFuture()
        future.on_cancel = Waiting()
        screen = io.StringIO()
        assert wait(future, screen) == [1]
        assert "paused_capacity: all machines are busy" in screen.getvalue()


def test_bulk_work_on_a_server_shows_losses():
    """M36: forward_backward futures, the loss behind the bar."""
    screen = io.StringIO()
    with ServiceClient(base_url="embedded") as service:
        training = service.create_lora_training_client(MODEL, rank=4)
        futures = [training.forward_backward([datum(4)], "cross_entropy") for _ in range(3)]
        outputs = list(progress(futures, file=screen, mininterval=0))
        training.optim_step(AdamParams()).result()
    assert [output.loss for output in outputs] == pytest.approx([outputs[0].loss] * 3)
    assert "3/3" in screen.getvalue()


def test_a_bar_is_looked_after_a_few_times_a_second(monkeypatch):
    """M36: and when a future is done; in between the program sleeps."""
    waits = []

    class Bell(threading.Event):
        def wait(self, timeout=None):
            waits.append((self.is_set(), timeout))
            if len(waits) == 3:
                first.settle("slow")

    monkeypatch.setattr("tinker_ext.displays.threading", SimpleNamespace(Event=Bell))
    first, second = LightFuture(), LightFuture()
    second.settle("quick")
    assert list(progress([first, second], disable=True)) == ["slow", "quick"]
    assert waits == [(True, 0.2), (False, 0.2), (False, 0.2)]


class Untold(concurrent.futures.Future):
    """A future that is done and has not called back yet."""

    def add_done_callback(self, fn):
        pass


def test_a_bar_is_full_before_the_last_future_has_called_back():
    """M36: a future is done a moment before it tells; what was passed counts all the same."""
    screen, futures = io.StringIO(), [Untold(), Untold()]
    for future in futures:
        future.set_result(1)
    assert list(progress(futures, file=screen)) == [1, 1]
    assert "2/2" in screen.getvalue()


def test_async_code_gets_the_same_line():
    """M36: `async for` over futures and coroutines, in order, without blocking the loop."""
    screen = io.StringIO()

    async def later(value):
        await asyncio.sleep(0.05 * (4 - value))
        return value

    async def scenario():
        future = LightFuture()
        ticks = []

        async def tick():
            while True:
                ticks.append(1)
                await asyncio.sleep(0.01)

        task = asyncio.ensure_future(tick())
        items = [later(1), later(2), AwaitableConcurrentFuture(future), later(3)]
        asyncio.get_running_loop().call_later(0.3, future.settle, "own")
        found = [value async for value in progress(items, file=screen, mininterval=0)]
        task.cancel()
        plain = [value async for value in progress([5, None], disable=True)]
        return found, plain, len(ticks)

    found, plain, ticks = asyncio.run(scenario())
    assert (found, plain) == ([1, 2, "own", 3], [5, None])
    assert ticks > 3
    assert "4/4" in screen.getvalue()


def test_an_error_of_a_future_is_raised_at_its_place():
    """M36: results before it have been handed out."""
    futures = [LightFuture(), LightFuture()]
    futures[0].settle(1)
    futures[1].fail(ValueError("no"))
    results = iter(progress(futures, disable=True))
    assert next(results) == 1
    with pytest.raises(ValueError, match="no"):
        next(results)


def test_without_tqdm_it_says_what_to_install(monkeypatch):
    """M39: an extra, named in the error."""
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        progress([1])
