"""Custom loss handles without torch: what is checked first, and what is said then."""

from __future__ import annotations

import sys

import pytest
from in_process import client, datum, run
from stub_server import StubServer

from tinker_ext.clients.losses import LossHandle, check_metric, read_inputs
from tinker_ext.errors import InvalidInputError


def loss(logprobs, advantages):
    return -(logprobs * advantages).sum(), {}


def test_inputs_are_the_parameters_in_their_order():
    """M15: names of the parameters with the declared ranks, logprobs first."""
    inputs = read_inputs(loss, {"advantages": 0, "logprobs": 2})
    assert [(each.name, each.rank) for each in inputs] == [("logprobs", 2), ("advantages", 0)]


@pytest.mark.parametrize(("count", "fits"), [(16, True), (17, False)])
def test_a_loss_has_at_most_sixteen_inputs(count, fits):
    """M15: logprobs among them."""
    names = ["logprobs", *(f"input_{n}" for n in range(1, count))]
    wide = eval(f"lambda {', '.join(names)}: None")
    ranks = dict.fromkeys(names, 1)
    if fits:
        assert len(read_inputs(wide, ranks)) == count
        return
    with pytest.raises(InvalidInputError, match="at most 16 parameters"):
        read_inputs(wide, ranks)


@pytest.mark.parametrize(
    ("text", "ranks", "words"),
    [
        ("lambda logprobs, *more: None", {}, "more: only plain parameters"),
        ("lambda logprobs, *, more: None", {}, "more: only plain parameters"),
        ("lambda logprobs, more=1: None", {}, "more: a default value is not possible"),
        ("lambda logprobs, More: None", {}, "More: use at most 64 lowercase letters"),
        ("lambda: None", {}, "takes logprobs first"),
        ("lambda more, logprobs: None", {}, "takes logprobs first"),
        ("lambda logprobs: None", {"logprobs": 0}, r"logprobs: rank 0 is not in \(1, 2\)"),
        ("lambda logprobs: None", {"logprobs": 3}, r"logprobs: rank 3 is not in \(1, 2\)"),
        ("lambda logprobs, x: None", {"logprobs": 1, "x": 3}, r"x: rank 3 is not in \(0, 1, 2\)"),
    ],
)
def test_a_signature_that_cannot_be_a_loss_is_told(text, ranks, words):
    """M38: the parameter and what is wrong with it."""
    with pytest.raises(InvalidInputError, match=words):
        read_inputs(eval(text), ranks)


@pytest.mark.parametrize("data", [None, datum(), (each for each in ()), [1], []])
def test_a_handle_refuses_what_is_no_batch(data):
    """M38: as a plain loss does, with an error that says what to pass."""
    handle = LossHandle("loss", read_inputs(loss, {"logprobs": 1, "advantages": 1}), "S", None)
    with pytest.raises(InvalidInputError, match=r"data|batch"):
        handle.check(data, "S")


def test_without_torch_the_error_says_what_to_do(monkeypatch):
    """M15 M39: torch is optional; nothing is sent, and both ways out are named."""
    monkeypatch.setitem(sys.modules, "torch", None)

    async def scenario():
        stub = StubServer()
        async with client(stub) as service:
            with pytest.raises(ValueError, match="differ in: advantages"):
                service.create_custom_loss(loss, {"logprobs": 1})
            with pytest.raises(ImportError, match=r"pip install torch.*gradients"):
                service.create_custom_loss(loss, {"logprobs": 1, "advantages": 1})
            return stub.requests

    assert run(scenario) == []


@pytest.mark.parametrize(
    ("key", "fine"),
    [
        ("custom/a:sum", True),
        ("custom/a.b/c-d_9:mean", True),
        (f"custom/{'a' * 64}:sum", True),
        (f"custom/{'a' * 65}:sum", False),
        ("custom/:sum", False),
        ("custom/a", False),
        ("custom/a:max", False),
        ("custom/A:sum", False),
        ("a:sum", False),
        (3, False),
    ],
)
def test_metric_names(key, fine):
    """M15: custom/ + 1 to 64 characters + how it combines."""
    if fine:
        check_metric(key)
    else:
        with pytest.raises(InvalidInputError, match="custom/<name>"):
            check_metric(key)
