"""What a display says, to the letter: rows, cuts, and every step of a progress bar."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from tinker_ext import AwaitableConcurrentFuture, SampleResponse, displays, progress
from tinker_ext.core.future import LightFuture
from tinker_ext.types import SampledSequence


class Bar:
    """Stands in for tqdm: notes what it is told."""

    def __init__(self, **options):
        self.options, self.n, self.texts, self.steps = options, 0, [], []
        Bar.last = self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True

    def update(self, more=1):
        self.n += more
        self.steps.append(more)

    def set_postfix_str(self, text, refresh=True):
        assert refresh is False  # update draws it
        self.texts.append(text)


class Step:
    def __init__(self, loss):
        self.metrics, self.loss = {"loss:mean": loss}, loss


@pytest.fixture(autouse=True)
def bars(monkeypatch):
    monkeypatch.setattr(displays, "_bar_class", lambda: Bar)


@pytest.mark.parametrize(
    ("count", "more"), [(20, None), (21, "… and 1 more"), (45, "… and 25 more")]
)
def test_twenty_rows_are_shown(count, more):
    """M36: a notebook is not filled by a long queue."""
    shown = displays.table(("n",), [(f"row-{i}",) for i in range(count)])
    assert shown.count("row-") == 20
    assert ("more" in shown) is (more is not None)
    assert more is None or more in shown


@pytest.mark.parametrize(
    ("length", "end"),
    [(600, "x"), (601, "x… (1 more characters)"), (2100, "x… (1,500 more characters)")],
)
def test_six_hundred_letters_are_shown(length, end):
    """M36: what comes from elsewhere is cut, and says how much is missing."""
    assert displays.text("x" * length) == "x" * 599 + end


def test_text_keeps_its_lines_and_shows_what_cannot_be_seen():
    """M36: a dash for nothing, a mark for a control character, lines as lines."""
    assert displays.text(None) == "–"
    assert displays.text("a\nb\tc\x07<") == "a<br>b\tc⟨U+0007⟩&lt;"


def test_long_cells_wrap_and_short_ones_do_not():
    """M36: "2.0 s" stays on one line."""
    shown = displays.table(("",), [("x" * 24,), ("x" * 25,)])
    assert shown.count("nowrap") == shown.count("white-space:normal") == 1
    assert shown.index("nowrap") < shown.index("white-space:normal")


def test_facts_without_a_value_are_left_out():
    """M36: nothing is said of what is not known."""
    shown = displays.card("Run", [("name", "a"), ("budget", None), ("steps", 0)])
    assert "budget" not in shown
    assert "steps" in shown


def test_a_result_with_metrics_shows_them():
    """M36: the type and every number."""

    shown = displays.future(True, None, Step(0.5), None)
    assert "Future: done, Step" in shown
    assert "loss:mean" in shown
    assert "0.5" in shown
    assert "&#x27;" in displays.future(True, None, "text", None)  # any other as its repr


def test_samples_say_how_they_ended_and_how_likely_they_were():
    """M36: numbered from 0, with the mean log-probability and the first 16 tokens."""
    tokens = np.arange(100, 120)
    response = SampleResponse(
        [
            SampledSequence("stop", tokens_np=tokens, logprobs_np=np.array([-1.0, -2.0] * 10)),
            SampledSequence("length", tokens_np=tokens[:1]),
        ]
    )
    shown = displays.samples(response)
    assert "2 sampled sequences" in shown
    assert "-1.500" in shown
    assert "–" in shown
    assert "100 101" in shown
    assert "115" in shown
    assert "116" not in shown
    assert shown.index(">0<") < shown.index("stop") < shown.index(">1<") < shown.index("length")


def test_the_bar_is_told_of_every_result_and_its_loss():
    """M36: three at once, then one by one; the loss of each behind the bar."""
    futures = [LightFuture() for _ in range(5)]
    for number in (0, 1, 3):
        futures[number].settle(Step(0.123456) if number == 1 else number)
    results = iter(progress(futures, desc="ask", leave=False))
    assert next(results) == 0
    bar = Bar.last
    assert bar.options == {"total": 5, "desc": "ask", "leave": False}
    assert (bar.n, bar.texts) == (3, [""])
    assert next(results).loss == 0.123456
    assert (bar.n, bar.texts[-1]) == (3, "loss 0.1235")
    futures[2].settle(2)
    assert next(results) == 2
    assert bar.n == 4
    assert next(results) == 3
    timer = threading.Timer(0.05, futures[4].settle, [Step(None)])
    timer.start()
    assert next(results).loss is None
    timer.join()
    assert next(results, "end") == "end"
    assert (bar.n, bar.texts[-1], bar.closed) == (5, "", True)


def test_a_result_is_passed_on_when_it_comes_and_not_at_the_next_look(monkeypatch):
    """M36: who waits is woken by the future itself."""
    future = LightFuture()

    class Woken(threading.Event):
        def wait(self, timeout=None):
            future.settle(7)
            assert self.is_set()
            return True

    monkeypatch.setattr(displays, "threading", SimpleNamespace(Event=Woken))
    assert list(progress([future], disable=True)) == [7]


def test_the_bar_counts_items_after_they_were_used():
    """M36: a training loop whose first step is under way has done none."""
    assert [Bar.last.n for _ in progress([5, 6, 7])] == [0, 1, 2]
    assert (Bar.last.n, Bar.last.options["total"]) == (3, 3)
    list(progress(iter([1, 2])))
    assert (Bar.last.n, Bar.last.options["total"]) == (2, None)
    list(progress(iter([1, 2]), total=9))
    assert Bar.last.options["total"] == 9


def test_async_results_are_counted_as_they_end():
    """M36: what is done in any order counts; plain items pass through and count as well."""

    async def scenario():
        first, second = LightFuture(), LightFuture()
        second.settle("b")
        items = [AwaitableConcurrentFuture(first), AwaitableConcurrentFuture(second), 7]
        asyncio.get_running_loop().call_later(0.05, first.settle, "a")
        return [(value, Bar.last.n) async for value in progress(items)]

    assert asyncio.run(scenario()) == [("a", 2), ("b", 2), (7, 2)]
    assert Bar.last.n == 3
    assert Bar.last.options["total"] == 3


def test_futures_and_other_items_are_not_mixed():
    """M36: nobody could say what the bar counts."""
    done = LightFuture()
    done.settle(1)
    with pytest.raises(TypeError, match="not both"):
        list(progress([done, 5]))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("queue state paused_capacity, reason: busy)", "paused_capacity: busy"),
        ("queue state paused_rate_limit)", "paused_rate_limit"),
        ("queue state active)", ""),
        ("nothing to say", ""),
    ],
)
def test_why_the_server_holds_work_back(state, said):
    """M26: its state and reason; nothing where it works."""

    class Waiting(LightFuture):
        pass

    future = Waiting()
    future.on_cancel = type("Call", (), {"describe": lambda _: f"asample (waiting, {state}"})()
    assert displays._why(future) == said
    assert displays._why(LightFuture()) == ""
