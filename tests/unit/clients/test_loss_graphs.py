"""What a traced loss may do, and what a batch of it comes to, with stand-ins for torch (M15)."""

from __future__ import annotations

import math
import re
import sys
from types import SimpleNamespace

import pytest

from tinker_ext.clients import losses
from tinker_ext.clients.losses import LossHandle, read_inputs
from tinker_ext.errors import InvalidInputError


def loss(logprobs, advantages):
    return -(logprobs * advantages).sum(), {}


INPUTS = read_inputs(loss, {"logprobs": 1, "advantages": 1})


def node(op, target="x", args=()):
    return SimpleNamespace(op=op, target=target, args=args)


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (node("placeholder"), None),
        (node("call_function", math.exp), None),
        (node("call_function", getattr), None),
        (node("call_function", pytest.raises), "may only call"),
        (node("call_function", print), "of module builtins"),
        (node("call_module", "layer"), "calls the module layer"),
        (node("get_attr", "weights"), "from outside .weights."),
    ],
)
def test_what_a_traced_loss_may_call(node, said):
    """M15: functions of torch, math and operator; nothing from outside, no modules."""
    fault = losses._fault(node)
    assert fault is None if said is None else re.search(said, fault)


def test_methods_and_results_are_checked_too(monkeypatch):
    """M15: by the name of the method, and by what the function returns."""
    seen = []
    monkeypatch.setattr(losses, "_method_fault", lambda *args: seen.append(("method", *args)))
    monkeypatch.setattr(losses, "_output_fault", lambda *args: seen.append(("output", *args)))
    losses._fault(node("call_method", "sum"))
    losses._fault(node("output", args=("returned",)))
    losses._fault(node("placeholder"))
    assert seen == [("method", "sum"), ("output", "returned")]


def test_what_a_traced_loss_returns(monkeypatch):
    """M15: a loss and metrics, each of them traced."""

    class Node:
        pass

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch.fx", SimpleNamespace(Node=Node))
    traced = Node()
    assert losses._output_fault((traced, {})) is None
    assert losses._output_fault([traced, {"custom/a:sum": traced}]) is None
    for output, said in (
        (traced, "must return (loss, metrics)"),
        ((traced,), "must return (loss, metrics)"),
        ((0.5, {}), "must return a tensor as its loss, not 0.5"),
        ((traced, [traced]), "must return a dict of metrics"),
        ((traced, {"custom/a:sum": 0.5}), "returns 0.5 as metric 'custom/a:sum'"),
    ):
        assert said in losses._output_fault(output)
    with pytest.raises(InvalidInputError, match="must look like custom/"):
        losses._output_fault((traced, {"a": traced}))


class Number(float):
    """A tensor of one number."""

    ndim = 0


def batch(*values):
    tensor = lambda value: SimpleNamespace(to_torch=lambda: value)  # noqa: E731
    return [SimpleNamespace(loss_fn_inputs={"advantages": tensor(value)}) for value in values]


def test_the_loss_of_a_batch_is_the_sum_and_metrics_are_as_their_names_say():
    """M15: `:mean` is divided by the datums, everything else is summed."""

    def graph(logprobs, advantages):
        value = Number(logprobs * advantages)
        return value, {"a:mean": advantages, "b:sum": advantages}

    handle = LossHandle("loss", INPUTS, "S", graph)
    total, metrics = handle.on_batch(batch(1.0, 2.0, 6.0), [10.0, 20.0, 30.0])
    assert total == 10.0 + 40.0 + 180.0
    assert metrics == {"a:mean": 3.0, "b:sum": 9.0}


def test_a_loss_that_is_not_one_number_is_refused():
    """M15: with its shape and what to do."""

    def graph(logprobs, advantages):
        return SimpleNamespace(ndim=1, shape=(3,)), {}

    with pytest.raises(InvalidInputError, match=r"scalar, not a tensor of shape \[3\]"):
        LossHandle("loss", INPUTS, "S", graph).on_batch(batch(1.0), [1.0])
