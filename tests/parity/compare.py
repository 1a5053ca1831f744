"""Whether what two clients saw is the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def close(one: Sequence[float], other: Sequence[float], tolerance: float = 1e-5) -> bool:
    """Tell whether two lists of numbers agree."""
    return len(one) == len(other) and all(
        a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
        for a, b in zip(one, other, strict=True)
    )


def agrees(step: str, theirs: Any, mine: Any) -> bool:
    """Tell whether a step of the driver gave the same to both clients."""
    if step == "train":
        return theirs[-1] < theirs[0] / 10 and close(theirs, mine)
    if step in ("forward", "restore"):
        return close([theirs], [mine])
    if step == "policy":
        return all(close([value], [mine[name]]) for name, value in theirs.items())
    if step in ("sample", "ephemeral"):
        return (
            theirs["tokens"] == mine["tokens"]
            and theirs["prompt"][0] is None
            and close(theirs["prompt"][1:], mine["prompt"][1:])
        )
    if step == "custom":
        return (
            theirs is not None
            and theirs["squares"] > 0
            and (mine is None or close([theirs["squares"]], [mine["squares"]]))
        )
    return bool(theirs == mine)
