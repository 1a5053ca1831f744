"""Break the core inside its own `try` blocks: does an error that no handler names pass them all?

`installed` replaces the code of every loaded function of the core that has such a block. At the
start of the block and of each handler stands a call of `Breaks`, and one sees what comes out.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import gc
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

PACKAGE = Path(__file__).resolve().parents[1] / "tinker_ext"
NOT_CORE = ("mock", "conform", "cli", "compat", "quickstart", "ui", "fleet")
BEGIN, HANDLE, END = "__block_begins__", "__block_is_handled__", "__block_is_left__"


class Broken(Exception):
    """An error that nobody expects and no handler names."""


class Stopped(BaseException):
    """What not even `except Exception` takes."""


@attrs.frozen
class Block:
    """A `try` with handlers: its file and function, which of the function it is, how many take."""

    path: str
    function: str
    number: int
    handlers: int

    @property
    def name(self) -> str:
        """As it stands in a list; the number only where a function has several."""
        return f"{self.path} {self.function}" + (f" {self.number}" if self.number > 1 else "")


class Breaks:
    """Which block is broken by what, which were entered, who took the error, what came out."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.entered: set[Block] = set()
        self.raised: BaseException | None = None
        self.taken_by: int | None = None
        self.left_by: BaseException | None = None
        self._armed: tuple[Block, type[BaseException]] | None = None

    def arm(self, block: Block, error: type[BaseException]) -> None:
        """Break a block the next time it is entered."""
        self.raised = self.left_by = self.taken_by = None
        self._armed = block, error

    @property
    def passed(self) -> bool:
        """Whether no handler saw the error, and it came out as it was."""
        return self.taken_by is None and self.left_by is self.raised is not None

    def begin(self, number: int) -> None:
        """A block is entered."""
        block = self.blocks[number]
        self.entered.add(block)
        if self._armed is not None and self._armed[0] == block:
            self.raised, self._armed = self._armed[1](block.name), None
            self._broken = number
            raise self.raised

    def handle(self, number: int, handler: int, error: BaseException) -> None:
        """A handler of a block is entered."""
        if error is self.raised and self._broken == number and self.taken_by is None:
            self.taken_by = handler

    def leave(self, number: int, error: BaseException) -> None:
        """An error comes out of a block."""
        if self.raised is not None and self._broken == number and self.left_by is None:
            self.left_by = error


class _Insert(ast.NodeTransformer):
    def __init__(self, path: str, breaks: Breaks) -> None:
        self._path, self._breaks = path, breaks
        self._names: list[str] = []
        self._counts: dict[str, int] = {}

    def _named(self, node: Any) -> Any:
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _named

    def visit_Try(self, node: ast.Try) -> ast.AST:
        name = ".".join(self._names)
        if not node.handlers or not name:
            return self.generic_visit(node)
        self._counts[name] = self._counts.get(name, 0) + 1
        number = len(self._breaks.blocks)
        block = Block(self._path, name, self._counts[name], len(node.handlers))
        self._breaks.blocks.append(block)
        self.generic_visit(node)
        for index, handler in enumerate(node.handlers):
            handler.name = handler.name or "__taken__"
            call = f"{HANDLE}({number}, {index}, {handler.name})"
            handler.body.insert(0, _at(call, handler.body[0]))
        node.body.insert(0, _at(f"{BEGIN}({number})", node.body[0]))
        around = _at(
            f"try: pass\nexcept BaseException as __left__:\n  {END}({number}, __left__)\n  raise",
            node,
        )
        assert isinstance(around, ast.Try)
        around.body = [node]
        return around


def _at(source: str, place: ast.AST) -> ast.stmt:
    statement = ast.parse(source).body[0]
    for node in ast.walk(statement):
        ast.copy_location(node, place)
    return statement


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _codes(const)


def core_files() -> list[str]:
    """Files of the core that handle errors."""
    paths = [(path, path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.py"))]
    return [
        place.as_posix()
        for path, place in paths
        if place.parts[0] not in NOT_CORE and " except " in path.read_text()
    ]


@contextlib.contextmanager
def installed() -> Iterator[Breaks]:
    """Put the calls in, and take them out again."""
    breaks = Breaks()
    codes: dict[tuple[str, str, int], types.CodeType] = {}
    for name in core_files():
        path = PACKAGE / name
        tree = _Insert(name, breaks).visit(ast.parse(path.read_bytes()))
        for code in _codes(compile(tree, str(path), "exec", dont_inherit=True)):
            if any(BEGIN in each.co_names for each in (code, *_codes(code))):
                codes[str(path), code.co_qualname, code.co_firstlineno] = code
    gc.unfreeze()  # what is frozen is not listed
    undo: list[tuple[types.FunctionType, types.CodeType]] = []
    for function in [each for each in gc.get_objects() if isinstance(each, types.FunctionType)]:
        old = function.__code__
        new = codes.get((old.co_filename, old.co_qualname, old.co_firstlineno))
        if new is not None:
            undo.append((function, old))
            function.__code__ = new
    calls = {BEGIN: breaks.begin, HANDLE: breaks.handle, END: breaks.leave}
    vars(builtins).update(calls)
    try:
        yield breaks
    finally:
        for function, code in undo:
            function.__code__ = code
        for name in calls:
            delattr(builtins, name)
