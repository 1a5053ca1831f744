"""Bugs that can be planted in a source file: where, what kind, and the text that makes it."""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[2]
# Folders and files of the package that are not its core: servers, tools and faces.
NOT_CORE = ("mock", "conform", "cli", "compat", "quickstart", "ui", "fleet", "__main__.py")
GIVES_BACK = (
    "release",
    "cancel",
    "close",
    "aclose",
    "discard",
    "clear",
    "pop",
    "popleft",
    "remove",
    "unlink",
    "gave_up",
    "ended",
    "forget",
    "set",
    "settle",
    "resolve",
)


@attrs.frozen
class Bug:
    """One change of one place.

    Attributes:
        path: File, relative to the root.
        line: Where; the tests that reach it judge the bug.
        statement: First line of the statement around it.
        kind: Name of the operator.
        start: Offset of the replaced bytes in the file.
        end: Offset behind them.
        text: What stands there instead.
        was: What stood there.
        function: Where in the file.
        loads: Whether it runs when the file is loaded.
        bound: If so, the name that it gives a value to.
        around: The expressions around it, the innermost first, and its statement if that is simple.
    """

    path: str
    line: int
    statement: int
    kind: str
    start: int
    end: int
    text: str
    was: str
    function: str = ""
    loads: bool = False
    bound: str = ""
    around: tuple[str, ...] = ()

    def planted(self, source: bytes) -> bytes:
        """The file with the bug in it; it must be the one the bug was found in."""
        if source[self.start : self.end] != self.was.encode():
            raise ValueError(f"{self.path} has changed since the bugs were drawn")
        return source[: self.start] + self.text.encode() + source[self.end :]

    @property
    def name(self) -> str:
        """A line for a report, the same in every run."""
        was, text = (" ".join(part.split())[:60] for part in (self.was, self.text))
        return f"{self.path}:{self.line} {self.kind}: {was!r} -> {text!r}"


class _File:
    """A parsed file, and how to cut pieces out of it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path.relative_to(ROOT))
        self.source = path.read_bytes()
        self.tree = ast.parse(self.source)
        self._starts = [0]
        for line in self.source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        for parent in ast.walk(self.tree):
            for child in ast.iter_child_nodes(parent):
                child.parent = parent  # type: ignore[attr-defined]

    def offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, (ast.expr, ast.stmt, ast.ExceptHandler))
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno, node.end_col_offset),
        )

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def around(self, node: ast.AST) -> tuple[str, ...]:
        texts = []
        while not isinstance(node, ast.stmt):
            node = node.parent  # type: ignore[attr-defined]
            if isinstance(node, ast.expr | ast.stmt) and not hasattr(node, "body"):
                texts.append(" ".join(self.text(node).split()))
        return tuple(texts)

    def bug(self, node: ast.AST, kind: str, text: str) -> Bug:
        start, end = self.span(node)
        line = getattr(node, "lineno", 0)
        first = _statement(node).lineno
        was = self.source[start:end].decode()
        place = (_function(node), _loads(node), _bound(node), self.around(node))
        return Bug(self.path, line, first, kind, start, end, text, was, *place)


def _function(node: ast.AST) -> str:
    """The function that a node is in, with its class; empty at the top of a file."""
    names = []
    while node is not None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
        node = getattr(node, "parent", None)  # type: ignore[assignment]
    return ".".join(reversed(names))


def _loads(node: ast.AST) -> bool:
    """Whether a node runs when its file is loaded: not in the body of a function."""
    while (parent := getattr(node, "parent", None)) is not None:
        if isinstance(parent, ast.Lambda):
            return False
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and node in parent.body:
            return False
        node = parent
    return True


def _bound(node: ast.AST) -> str:
    """The name that the statement around a node binds; for a default that of its function."""
    statement = _statement(node)
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        return getattr(target, "id", "")
    return getattr(statement, "name", "")


def _statement(node: ast.AST) -> ast.stmt:
    while not isinstance(node, ast.stmt):
        node = node.parent  # type: ignore[attr-defined]
    return node


Operator = Callable[[_File, ast.AST], Iterator[Bug]]

_OTHER: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}


def comparison(file: _File, node: ast.AST) -> Iterator[Bug]:
    """`<` for `<=`, `is not` for `is`."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = (_whole(file, side) for side in (node.left, node.comparators[0]))
        other = _OTHER[type(node.ops[0])]
        yield file.bug(node, "comparison", f"({left} {other} {right})")


def _whole(file: _File, node: ast.expr) -> str:
    """The text of an operand; a comparison in it must not become part of a chain."""
    text = file.text(node)
    return f"({text})" if isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp) else text


def boolean(file: _File, node: ast.AST) -> Iterator[Bug]:
    """`or` for `and`, a condition turned round, True for False."""
    if isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        # A lambda or an assignment among them would end the expression.
        parts = word.join(f"({file.text(value)})" for value in node.values)
        yield file.bug(node, "boolean", f"({parts})")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield file.bug(node, "boolean", f"bool({file.text(node.operand)})")
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield file.bug(node, "boolean", str(not node.value))


def constant(file: _File, node: ast.AST) -> Iterator[Bug]:
    """Another number: the next one, or twice a large one, whose neighbour means the same."""
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return
    if isinstance(node.value, int):
        other = node.value + 1 if abs(node.value) <= 16 else node.value * 2
        yield file.bug(node, "constant", str(other))
    elif isinstance(node.value, float):
        yield file.bug(node, "constant", repr(node.value * 2 or 1.0))


def removed_statement(file: _File, node: ast.AST) -> Iterator[Bug]:
    """A call, an assignment to an attribute or an early end that is not made."""
    if isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Await)):
        if _gives_back(node.value) is None:
            yield file.bug(node, "removed statement", "pass")
    elif isinstance(node, ast.Assign | ast.AugAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Attribute | ast.Subscript):
            yield file.bug(node, "removed statement", "pass")
    elif isinstance(node, ast.Raise | ast.Continue | ast.Break):
        yield file.bug(node, "removed statement", "pass")
    if isinstance(node, ast.Return) and isinstance(getattr(node, "parent", None), ast.If):
        yield file.bug(node, "removed statement", "pass")


def _gives_back(node: ast.expr) -> str | None:
    """The name of a call that gives something back."""
    call = node.value if isinstance(node, ast.Await) else node
    if not isinstance(call, ast.Call):
        return None
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name if any(name.lstrip("_").startswith(word) for word in GIVES_BACK) else None


def removed_release(file: _File, node: ast.AST) -> Iterator[Bug]:
    """Something that is not given back, a shield that is gone."""
    if isinstance(node, ast.Expr) and _gives_back(node.value) is not None:
        yield file.bug(node, "removed release or shield", "pass")
    elif isinstance(node, ast.Call) and file.text(node.func).endswith("shield") and node.args:
        yield file.bug(node, "removed release or shield", file.text(node.args[0]))


def swapped_arguments(file: _File, node: ast.AST) -> Iterator[Bug]:
    """Two arguments in the wrong order."""
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return
    first, second = node.args[:2]
    if isinstance(first, ast.Starred) or isinstance(second, ast.Starred):
        return
    name = file.text(node.func)
    if file.text(first) == file.text(second) or name in (
        "isinstance",
        "getattr",
        "setattr",
        "issubclass",
        "cast",
        "min",
        "max",
        "contextlib.suppress",
        "np.array_equal",
        "os.path.samestat",
    ):
        return  # the order means nothing, or another order fails wherever it is run
    start, end = file.span(node)
    a, b = file.span(first), file.span(second)
    whole = file.source
    text = whole[start : a[0]] + whole[slice(*b)] + whole[a[1] : b[0]] + whole[slice(*a)]
    yield file.bug(node, "swapped arguments", (text + whole[b[1] : end]).decode())


def wider_except(file: _File, node: ast.AST) -> Iterator[Bug]:
    """Errors that are caught although they should pass."""
    if not isinstance(node, ast.ExceptHandler) or node.type is None:
        return
    was = file.text(node.type)
    if was not in ("Exception", "BaseException"):
        start, end = file.span(node.type)
        line = node.lineno
        # A handler that is as wide as Exception already can only become wider than that.
        whole = any(name in was for name in ("Exit", "Cancelled", "(Exception", "Exception)"))
        wider = "BaseException" if whole else "Exception"
        yield Bug(file.path, line, line, "wider except", start, end, wider, was, _function(node))


OPERATORS: tuple[Operator, ...] = (
    comparison,
    boolean,
    constant,
    removed_statement,
    removed_release,
    swapped_arguments,
    wider_except,
)


def core_files(root: Path = ROOT) -> list[Path]:
    """The hand-written files of the core."""
    package = root / "tinker_ext"
    return [
        path
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0] not in NOT_CORE
    ]


def bugs_of(path: Path) -> list[Bug]:
    """Every bug that can be planted in a file."""
    return [bug for bug, reason in _all_of(path) if reason is None]


def left_out(paths: list[Path]) -> Counter[str]:
    """How many are not planted because nobody would see them, by the reason."""
    return Counter(reason for path in paths for _, reason in _all_of(path) if reason is not None)


def _all_of(path: Path) -> Iterator[tuple[Bug, str | None]]:
    file = _File(path)
    for node in ast.walk(file.tree):
        bugs = [bug for operator in OPERATORS for bug in operator(file, node)]
        if bugs and not _is_typing(node):
            reason = _unseen(node)
            for bug in bugs:
                yield bug, reason


def drawn(bugs: list[Bug], count: int, seed: int) -> list[Bug]:
    """So many bugs by seed, kinds in equal parts as far as there are any."""
    rng = random.Random(f"mutation {seed}")
    by_kind: dict[str, list[Bug]] = {}
    for bug in bugs:
        by_kind.setdefault(bug.kind, []).append(bug)
    for group in by_kind.values():
        rng.shuffle(group)
    kinds = sorted(by_kind)
    chosen: list[Bug] = []
    while len(chosen) < count and any(by_kind.values()):
        for kind in kinds:
            if by_kind[kind] and len(chosen) < count:
                chosen.append(by_kind[kind].pop())
    return chosen


def _is_typing(node: ast.AST) -> bool:
    """Whether a node is part of an annotation, of a type variable or of `if TYPE_CHECKING`."""
    while node is not None:
        parent = getattr(node, "parent", None)
        if isinstance(parent, ast.Call) and getattr(parent.func, "id", "") == "TypeVar":
            return True
        if isinstance(parent, ast.If) and getattr(parent.test, "id", "") == "TYPE_CHECKING":
            return True
        if isinstance(parent, ast.AnnAssign | ast.arg) and node is parent.annotation:
            return True
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and node is parent.returns:
            return True
        node = parent
    return False


def _unseen(node: ast.AST) -> str | None:
    """What a change would only show in, where nobody looks; None where someone may."""
    while node is not None:
        if isinstance(node, ast.Assert) or _is_strict(node):
            return "an assert, or what stands for one"
        if isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "__str__"):
            return "how an object is printed"
        if isinstance(node, ast.FunctionDef) and (
            node.name.startswith("_torch") or any(map(_imports_torch, node.body))
        ):
            return "what torch does, see `nox -s tests_torch`"
        if isinstance(node, ast.Expr) and getattr(_called(node.value), "attr", "") == "debug":
            return "what is logged for ourselves"
        if isinstance(node, ast.Call):
            function = node.func
            if getattr(function, "attr", getattr(function, "id", "")) == "lru_cache":
                return "how much is remembered"
            owner = getattr(function, "value", None)
            if isinstance(owner, ast.Name) and owner.id in ("log", "logger", "warnings"):
                return "what is logged"
        node = getattr(node, "parent", None)  # type: ignore[assignment]
    return None


def _called(node: ast.expr) -> ast.expr | None:
    return node.func if isinstance(node, ast.Call) else None


def _is_strict(node: ast.AST) -> bool:
    """Whether a node is the `strict` of a `zip`, whose sides are equally long wherever it is."""
    parent = getattr(node, "parent", None)
    return isinstance(parent, ast.keyword) and parent.arg == "strict"


def _imports_torch(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import) and any(name.name == "torch" for name in node.names)
