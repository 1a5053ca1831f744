"""What a template prints for one field, model, union, argument, answer or call."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from codegen.shapes import Shape

Imports = list[tuple[str, str]]


@frozen
class FieldPlan:
    """One attribute of a model class."""

    name: str
    key: str
    shape: Shape
    required: bool
    tag: bool
    null_matters: bool
    default: Any
    secret: bool
    always: bool
    closed: bool
    description: str

    @property
    def annotation(self) -> str:
        """Return the annotation: the type, and None where absence or null reads as None."""
        optional = not self.required and self.default is None
        if self.shape.type in ("Any", "None") or not (optional or self.shape.nullable):
            return self.shape.type
        return f"{self.shape.type} | None"

    @property
    def options(self) -> str:
        """Return the arguments of the attrs field, or nothing."""
        parts = []
        if self.tag or not self.required:
            if isinstance(self.default, (list, dict)):
                made = f"Factory(lambda self: self._absent({self.name!r}), takes_self=True)"
                empty = f"Factory({type(self.default).__name__})"
                parts.append(f"default={made if self.default else empty}")
            else:
                parts.append(f"default={self.default!r}")
        if self.closed:
            parts.append(f"validator=one_of({', '.join(map(repr, self.shape.values))})")
        if self.secret:
            parts.append("repr=False")
        return ", ".join(parts)

    @property
    def row(self) -> str:
        """Return the expression that describes this field to the runtime."""
        parts = [repr(self.name), repr(self.key), self.shape.codec]
        parts += ["required=True"] if self.required else []
        parts += ["nullable=True"] if self.shape.nullable else []
        parts += ["null_matters=True"] if self.null_matters else []
        parts += [f"default={self.default!r}"] if self.default is not None else []
        parts += ["always=True"] if self.always else []
        parts += [f"values={self.shape.values!r}"] if self.closed else []
        return f"Field({', '.join(parts)})"


@frozen
class ModelPlan:
    """One model class and the modules it needs."""

    name: str
    module: str
    description: str
    open: bool
    fields: tuple[FieldPlan, ...]

    @property
    def classes(self) -> Imports:
        """Return the (module, class) pairs that reading and writing needs."""
        return sorted(frozenset().union(*(f.shape.classes for f in self.fields)))


@frozen
class UnionPlan:
    """A union that the document names: an alias and a reader."""

    name: str
    module: str
    function: str
    description: str
    shape: Shape
    rules: bool


@frozen
class AnswerPlan:
    """What one status of a call may carry."""

    low: int
    high: int
    shape: Shape | None
    binary: tuple[str, ...]


@frozen
class ArgumentPlan:
    """One parameter of a call."""

    name: str
    key: str
    shape: Shape
    required: bool
    default: Any
    description: str

    @property
    def declaration(self) -> str:
        """Return the parameter as it stands in a signature."""
        optional = self.shape.type != "Any" and (self.shape.nullable or not self.required)
        kind = f"{self.shape.type} | None" if optional and self.default is None else self.shape.type
        return (
            f"{self.name}: {kind}" if self.required else f"{self.name}: {kind} = {self.default!r}"
        )

    @property
    def value(self) -> str:
        """Return the expression that puts the argument into the request."""
        if not self.shape.values:
            return self.name
        return f"refuse_unlisted({self.name!r}, {self.name}, {self.shape.values!r})"


@frozen
class RowPlan:
    """One row of the table of operations."""

    name: str
    path: str
    call: CallPlan
    lane: str
    retry: str
    seconds: float
    feature: str
    eras: tuple[str, ...]
    reply: str
    request: str | None
    media_types: tuple[str, ...]
    result: str | None
    request_type: str
    accept: str
    answers: tuple[AnswerPlan, ...]
    usual_errors: bool


@frozen
class TablePlan:
    """The table of operations.

    Attributes:
        rows: The operations in document order.
        errors: Answers of 400 and more that most operations share.
        union: What polling a future can bring, or None when no operation gives a future.
        waiting: Members of it that are not results.
    """

    rows: tuple[RowPlan, ...]
    errors: tuple[AnswerPlan, ...]
    union: UnionPlan | None
    waiting: tuple[str, ...]


@frozen
class CallPlan:
    """One operation."""

    name: str
    tag: str
    method: str
    path: str
    summary: str
    description: str
    path_arguments: tuple[ArgumentPlan, ...]
    query: tuple[ArgumentPlan, ...]
    headers: tuple[ArgumentPlan, ...]
    cookies: tuple[ArgumentPlan, ...]
    body: Shape | None
    body_required: bool
    json_body: bool
    binary_type: str | None
    answers: tuple[AnswerPlan, ...]

    @property
    def constant(self) -> str:
        """Return the name of its row in the table of operations."""
        return self.name.upper()

    @property
    def keyword_arguments(self) -> list[ArgumentPlan]:
        """Return the parameters given by keyword, required ones first."""
        every = [*self.query, *self.headers, *self.cookies]
        return sorted(every, key=lambda argument: not argument.required)

    @property
    def body_type(self) -> str:
        """Return the annotation of the body: a model, or bytes that are already encoded."""
        kind = f"{self.body.type} | bytes" if self.body is not None and self.json_body else "bytes"
        return kind if self.body_required else f"{kind} | None"

    def result(self, *, success: bool) -> str:
        """Return the annotation of the parsed body, of all answers or of 2xx only."""
        types: dict[str, None] = {}
        for answer in self.answers:
            if success and not 200 <= answer.low < 300:
                continue
            if answer.shape is not None:
                nullable = answer.shape.nullable and answer.shape.type != "Any"
                types.update(dict.fromkeys(answer.shape.type.split(" | ")))
                types.update({"None": None} if nullable else {})
                types.update({"Unknown": None} if answer.high >= 400 else {})
            for kind in answer.binary:
                types["str" if kind.startswith("text/") else "bytes"] = None
            if answer.high >= 400 or (answer.shape is None and not answer.binary):
                types["None"] = None
        return "Any" if "Any" in types else " | ".join(types) or "None"

    @property
    def classes(self) -> Imports:
        """Return the (module, class) pairs the answers need at run time."""
        shapes = [answer.shape for answer in self.answers if answer.shape is not None]
        return sorted(frozenset().union(*(shape.classes for shape in shapes)))
