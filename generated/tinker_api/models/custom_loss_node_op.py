"""CustomLossNodeOp. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

CustomLossNodeOp: TypeAlias = Literal[
    "placeholder",
    "get_attr",
    "call_function",
    "call_method",
    "call_module",
    "output",
]

CUSTOM_LOSS_NODE_OP_VALUES: tuple[CustomLossNodeOp, ...] = (
    "placeholder",
    "get_attr",
    "call_function",
    "call_method",
    "call_module",
    "output",
)

__all__ = ["CUSTOM_LOSS_NODE_OP_VALUES", "CustomLossNodeOp"]
