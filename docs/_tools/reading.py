"""How docstrings and fields of records are read for the reference."""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

_PRIVATE = r"\bOfThisProcess$|(^|\.)_[A-Za-z]\w*$"


class Reading(griffe.Extension):
    """Takes `Example:` for a section of examples and a field of attrs for its default.

    Bases that are not public are left out.
    """

    def on_object(self, *, obj: griffe.Object, **options: Any) -> None:
        """Change one object before it is shown."""
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", text, flags=re.M)
        if isinstance(obj, griffe.Class):
            # How a pickle or a fork is met is said where it matters; the name leads nowhere.
            obj.bases = [base for base in obj.bases if not re.search(_PRIVATE, str(base))]
        if isinstance(obj, griffe.Attribute) and str(obj.value).startswith("attrs.field("):
            # Converters and validators are how it is done, not what a reader asks for.
            obj.value = _default(str(obj.value))
            obj.labels.discard("class-attribute")


def _default(call: str) -> str | None:
    (node,) = ast.parse(call).body
    assert isinstance(node, ast.Expr)
    assert isinstance(node.value, ast.Call)
    given = {keyword.arg: keyword.value for keyword in node.value.keywords}
    if "default" in given:
        return ast.unparse(given["default"])
    if "factory" in given:
        return f"{ast.unparse(given['factory'])}()"
    return None
