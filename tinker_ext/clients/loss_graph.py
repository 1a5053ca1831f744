"""Custom losses as graphs: traced by torch.fx, held to what a server can run, written as JSON."""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Callable, Mapping
from types import EllipsisType
from typing import Any

from tinker_ext._extras import how_to_install
from tinker_ext.errors import InvalidInputError

METRIC = re.compile(r"custom/[a-z0-9_./-]{1,64}:(sum|mean)")

_FUNCTION_MODULES = frozenset({"torch", "math", "operator", "_operator"})
_LEAVES_TORCH = frozenset({"item", "numpy", "tolist"})


def trace(fn: Callable[..., Any], name: str) -> Any:
    """Trace a loss function.

    Args:
        fn: (logprobs, *loss inputs) → (scalar, metrics).
        name: What to call it in errors.

    Returns:
        A `torch.fx.GraphModule` that computes the same.

    Raises:
        ImportError: torch is not installed.
        InvalidInputError: The function cannot be traced, or does what a server cannot run.
    """
    try:
        import torch.fx
    except ImportError as error:
        raise ImportError(
            "create_custom_loss traces the function with torch, which is not installed: "
            f"{how_to_install('torch')}. Without torch, pass a function that returns "
            "(loss, metrics, gradients) to forward_backward_custom."
        ) from error
    try:
        module = torch.fx.symbolic_trace(fn)
    except Exception as error:
        raise InvalidInputError(
            f"{name} cannot be traced by torch.fx ({error}). A custom loss may not branch on the "
            "values of tensors, use torch.nn modules, or call anything but torch and math."
        ) from error
    for node in module.graph.nodes:
        _check_node(node, name)
    return module


def _check_node(node: Any, name: str) -> None:
    if node.op == "call_function":
        home = (getattr(node.target, "__module__", None) or "").partition(".")[0]
        if node.target is not builtins.getattr and home not in _FUNCTION_MODULES:
            called = getattr(node.target, "__qualname__", repr(node.target))
            raise InvalidInputError(
                f"{name} calls {called} of module {home or '?'}; a custom loss may only call "
                "functions of torch, math and operator."
            )
    elif node.op == "call_method":
        _check_method(str(node.target), name)
    elif node.op == "call_module":
        raise InvalidInputError(
            f"{name} calls the module {node.target}; use functions such as torch.nn.functional's."
        )
    elif node.op == "get_attr":
        raise InvalidInputError(
            f"{name} uses a tensor from outside ({node.target}); pass it as a loss input."
        )
    elif node.op == "output":
        _check_output(node.args[0], name)


def _check_method(method: str, name: str) -> None:
    import torch

    if method == "backward":
        raise InvalidInputError(
            f"{name} calls backward(); return the loss, its gradient is computed for you."
        )
    if method in _LEAVES_TORCH:
        raise InvalidInputError(
            f"{name} calls {method}(), which leaves torch; keep losses and metrics as tensors."
        )
    if not hasattr(torch.Tensor, method):
        raise InvalidInputError(f"{name} calls {method}(), which torch.Tensor does not have.")


def _check_output(output: Any, name: str) -> None:
    from torch.fx import Node

    if not isinstance(output, (tuple, list)) or len(output) != 2:
        raise InvalidInputError(f"{name} must return (loss, metrics).")
    loss, metrics = output
    if not isinstance(loss, Node):
        raise InvalidInputError(f"{name} must return a tensor as its loss, not {loss!r}.")
    if not isinstance(metrics, Mapping):
        raise InvalidInputError(f"{name} must return a dict of metrics, not {metrics!r}.")
    for key, value in metrics.items():
        check_metric(key)
        if not isinstance(value, Node):
            raise InvalidInputError(f"Metric {key!r} of {name} must be a tensor, not {value!r}.")


def check_metric(key: object) -> None:
    """Refuse a metric whose name does not say how it combines over datums."""
    if not isinstance(key, str) or not METRIC.fullmatch(key):
        raise InvalidInputError(
            f"Metric {key!r} must look like custom/<name>:sum or custom/<name>:mean, in at most "
            "64 lowercase letters, digits and _ . / -"
        )


def encode(module: Any, name: str) -> list[dict[str, Any]]:
    """The nodes of a traced loss as the request carries them.

    Raises:
        InvalidInputError: A constant in the graph has no place in the request.
    """
    return [
        {
            "op": node.op,
            "name": node.name,
            "target": _target(node),
            "args": [_argument(value, name) for value in node.args],
            "kwargs": {key: _argument(value, name) for key, value in node.kwargs.items()},
        }
        for node in module.graph.nodes
    ]


def _target(node: Any) -> str:
    from torch.fx.node import _get_qualified_name

    if node.op != "call_function":
        return str(node.target)
    qualified = str(_get_qualified_name(node.target))
    # CPython keeps the functions of `operator` in a private module.
    return qualified.removeprefix("_") if qualified.startswith("_operator.") else qualified


def _argument(value: Any, name: str) -> Any:
    """One argument: plain JSON where that says it all, else an object of one key."""
    import torch
    from torch.fx import Node

    def each(values: Any) -> list[Any]:
        return [_argument(item, name) for item in values]

    match value:
        case Node():
            return {"ref": value.name}
        case float() if not math.isfinite(value):
            return {"float": str(value)}
        case None | bool() | int() | float() | str():
            return value
        case list():
            return each(value)
        case tuple():
            return {"tuple": each(value)}
        case dict() if all(isinstance(key, str) for key in value):
            return {"dict": {key: _argument(item, name) for key, item in value.items()}}
        case slice():
            return {"slice": each((value.start, value.stop, value.step))}
        case EllipsisType():
            return {"ellipsis": True}
    for kind in ("dtype", "device", "layout", "memory_format"):
        if isinstance(value, getattr(torch, kind)):
            return {kind: str(value).removeprefix("torch.")}
    raise InvalidInputError(
        f"{name} uses a constant of type {type(value).__name__}, which cannot be sent."
    )
