"""What a record of each kind must hold, so that reading one never ends in a foreign error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

_Check = Callable[[Any], bool]
_Fields = Mapping[str, _Check]


def problem(record: Mapping[str, Any]) -> str | None:
    """Say what is wrong with a record.

    Args:
        record: The JSON object of one line.

    Returns:
        The fault, or None. Kinds and fields that are not known are right: a later writer of the
        same version may add some.
    """
    kind = record.get("t")
    fields = _KINDS.get(kind) if isinstance(kind, str) else None
    fault = None if fields is None else _fault(record, *fields)
    return None if fault is None else f"a record of kind {kind!r} without a usable {fault!r}"


def _fault(value: Mapping[str, Any], needed: _Fields, optional: _Fields) -> str | None:
    for name, check in needed.items():
        if name not in value or not check(value[name]):
            return name
    for name, check in optional.items():
        if name in value and not check(value[name]):
            return name
    return None


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _or_null(check: _Check) -> _Check:
    return lambda value: value is None or check(value)


def _shape(needed: _Fields, optional: _Fields) -> _Check:
    return lambda value: isinstance(value, dict) and _fault(value, needed, optional) is None


def _each(check: _Check) -> _Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _plan(value: Any) -> bool:
    if isinstance(value, dict) and value.get("state") is not None:
        return _FROM_STATE(value)
    return _NEW(value)


_FROM_STATE: Final = _shape(
    {"state": _text}, {"base_model": _or_null(_text), "with_optimizer": _flag}
)
_NEW: Final = _shape(
    {"base_model": _text, "rank": _number},
    {
        "seed": _or_null(_number),
        "train_mlp": _flag,
        "train_attn": _flag,
        "train_unembed": _flag,
        "optimizer": _or_null(_object),
    },
)
_LIFE: Final = _shape(
    {"session_id": _text, "model_id": _text, "number": _number},
    {"first_seq_id": _number, "base_url": _text},
)
_CHECKPOINT: Final = _shape({"path": _text, "next_step": _number}, {"notes": _object})

_KINDS: Final[Mapping[str, tuple[_Fields, _Fields]]] = {
    "plan": ({"plan": _plan}, {}),
    "model": (
        {"session": _text, "model": _text, "number": _number, "seq": _number, "step": _number},
        {"url": _text, "notes": _object},
    ),
    "leave": (
        {"op": _text, "seq": _number, "digest": _text},
        {"name": _or_null(_text), "wire": _or_null(_text)},
    ),
    "take": ({"seq": _number, "request_id": _text}, {}),
    "done": ({"seq": _number}, {"value": _or_null(_object)}),
    "void": ({"seq": _number}, {}),
    "step": ({"step": _number, "seq": _number}, {"notes": _object}),
    "saved": ({"seq": _number}, {}),
    "end": ({"status": _text}, {}),
    "state": (
        {},
        {
            "plan": _or_null(_plan),
            "life": _or_null(_LIFE),
            "attached": _number,
            "next_step": _number,
            "next_seq_id": _number,
            "notes": _object,
            "checkpoints": _each(_CHECKPOINT),
            "gradients": _flag,
            "ended": _or_null(_text),
            "wire": _or_null(_text),
        },
    ),
}
