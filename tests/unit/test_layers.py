"""The picture of who may import whom; it fails when an import points the wrong way."""

import ast
import functools
import gc
import graphlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tinker_api.operations import OPERATIONS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tinker_ext"

# A layer may import itself and the layers after it (design: clients → … → generated).
LAYERS = [
    "compat",
    "cli",
    "ui",
    "conform",
    "runs",
    "clients",
    "fleet",
    "journal",
    "core",
    "observe",
]
LAYERS += ["downloads", "_transport", "_wire"]
LEAVES = {"errors", "config", "paths", "tensors", "tokenizers", "types", "batch", "_version"}
LEAVES |= {
    "auth",
    "forks",
    "ledger",
    "_statuses",
    "displays",
}


@pytest.fixture(autouse=True, scope="module")
def trees_let_go() -> Iterator[None]:
    """Half a million nodes, which every garbage collection would walk through, then and later."""
    gc.disable()
    yield
    parsed.cache_clear()
    nodes.cache_clear()
    gc.enable()


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    """Every node of a file, walked once for all tests."""
    return list(ast.walk(parsed(path)))


def for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in {
        getattr(part, "id", None) for part in ast.walk(node.test)
    }


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@functools.cache
def imported(path: Path) -> set[str]:
    """Every tinker_ext module that `path` imports at run time, lazily or not."""
    kinds = (ast.If, ast.Import, ast.ImportFrom)
    chosen = [node for node in nodes(path) if isinstance(node, kinds)]
    typing_only = {id(inner) for node in chosen if for_types_only(node) for inner in ast.walk(node)}
    found = set()
    for node in chosen:
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


@functools.cache
def sources() -> list[tuple[str, Path]]:
    files = sorted(PACKAGE.rglob("*.py"))
    return [(".".join(f.relative_to(ROOT).with_suffix("").parts), f) for f in files]


def test_imports_point_one_way():
    """The house: clients → core → observe → _transport → _wire; leaves know nobody above."""
    wrong = []
    for module, path in sources():
        mine = room(module)
        if mine not in LAYERS and mine not in LEAVES:
            continue
        for target in imported(path):
            if not target.startswith("tinker_ext."):
                continue
            theirs = room(target)
            up = mine in LEAVES and theirs in LAYERS
            if mine in LAYERS and theirs in LAYERS:
                up = LAYERS.index(theirs) < LAYERS.index(mine)
            if up:
                wrong.append(f"{module} imports {target}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_the_server_never_imports_the_client():
    """M40: the embedded server stands on generated code and leaves alone."""
    allowed = LEAVES | {"mock", "__init__"}
    wrong = [
        f"{module} imports {target}"
        for module, path in sources()
        if room(module) == "mock" and not module.endswith("pytest_plugin")
        for target in imported(path)
        if target.startswith("tinker_ext.") and room(target) not in allowed
    ]
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_records_of_generated_code_stay_with_the_wire():
    """M41: everybody may name an operation; its records are read and built in few places."""
    doors = {"_wire", "types", "mock", "conform"}
    readers = {"tinker_ext.core.polling"}
    wrong = [
        f"{module} imports {target}"
        for module, path in sources()
        if room(module) not in doors and module not in readers
        for target in imported(path)
        if target.startswith(("tinker_api.models", "tinker_proto"))
    ]
    assert not wrong, "\n".join(sorted(set(wrong)))


SPINE = {"tinker_ext._statuses", "tinker_ext._transport.retry", "tinker_ext.errors"}


def test_nothing_is_typed_that_the_document_says():
    """M41: no path of the API, and no list of statuses, outside the spine."""
    wrong = []
    for module, path in sources():
        if room(module) in {"mock", "conform"} or module in SPINE:
            continue
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if node.value.startswith(("/api/v1/", "api/v1/")):
                    wrong.append(f"{module}:{node.lineno} types the path {node.value}")
            elif isinstance(node, ast.Set | ast.Tuple | ast.List) and len(node.elts) > 1:
                numbers = [e.value for e in node.elts if isinstance(e, ast.Constant)]
                if len(numbers) == len(node.elts) and all(
                    type(n) is int and 400 <= n < 600 for n in numbers
                ):
                    wrong.append(f"{module}:{node.lineno} lists statuses {numbers}")
    assert not wrong, "\n".join(wrong)


def test_no_body_is_typed_outside_the_wire():
    """M41: a body is arguments checked by the generated model, or written in `_wire`."""
    known = {name for row in OPERATIONS.values() for name in row.arguments}
    wrong = []
    for module, path in sources():
        if room(module) in {"mock", "conform", "_wire"}:
            continue
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                keys = re.findall(r'"(\w+)":', text) if text.startswith('{"') else []
                if keys and known.issuperset(keys):
                    wrong.append(f"{module}:{node.lineno} types the body {text}")
            elif isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                given = [kw.value for kw in node.keywords if kw.arg in ("content", "json", "data")]
                given += node.args[:1] if name == "dumps" else []
                for value in given:
                    keys = [getattr(k, "value", "") for k in getattr(value, "keys", [])]
                    if isinstance(value, ast.Dict) and keys and known.issuperset(keys):
                        wrong.append(f"{module}:{node.lineno} types a body of {keys}")
    assert not wrong, "\n".join(wrong)


SLEEPERS = {
    "tinker_ext._transport.retry:_pause": "between attempts",
    "tinker_ext._transport.limits:wait": "for the pause that a server asked everybody for",
    "tinker_ext.core.session:_beat": "for the next heartbeat, whatever became of the last",
    "tinker_ext.fleet.member:after_refusal": "for a permit",
    "tinker_ext.fleet.member:_keep_reporting": "between looks at the store",
    "tinker_ext.fleet.store:_step": "after another step was faster, so that all get their turn",
    "tinker_ext.conform.checks.listings:_stays": "for a checkpoint to expire",
}
"""Every function that sleeps, and what for; the server and what draws screens apart."""


def test_one_function_waits_between_attempts():
    """M42: requests are repeated by one loop, and one function waits in it."""
    loops, sleepers = set(), set()
    for module, path in sources():
        if room(module) in {"mock", "cli", "ui"}:
            continue
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and node.attr in ("AsyncRetrying", "Retrying"):
                loops.add(module)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                called = {
                    getattr(inner.func, "attr", getattr(inner.func, "id", ""))
                    for inner in ast.walk(node)
                    if isinstance(inner, ast.Call)
                }
                if "sleep" in called:
                    sleepers.add(f"{module}:{node.name}")
    assert loops == {"tinker_ext._transport.retry"}
    assert sleepers == SLEEPERS.keys()


def test_every_file_says_what_it_owns():
    """Style: the first sentence of each module names its one responsibility."""
    silent = [module for module, path in sources() if not ast.get_docstring(parsed(path))]
    assert not silent, silent


def run_at_import(tree: ast.Module) -> Iterator[ast.stmt]:
    """Every statement that importing a module executes: not those inside a function."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if for_types_only(node):
            waiting += node.orelse
            continue
        if isinstance(node, ast.stmt):
            yield node
        waiting += ast.iter_child_nodes(node)


def test_no_import_needs_itself():
    """M41: importing a module never comes back to it, so any of them can be imported first."""
    modules = {name.removesuffix(".__init__"): path for name, path in sources()}
    needs: dict[str, set[str]] = {}
    for module, path in modules.items():
        named: set[str] = set()
        for node in run_at_import(parsed(path)):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{module}:{node.lineno} imports relatively"
                named |= {f"{node.module}.{alias.name}" for alias in node.names}
                named.add(str(node.module))
        needs[module] = (named & modules.keys()) - {module}
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as cycle:
        raise AssertionError(" imports ".join(reversed(cycle.args[1]))) from None


def pictures() -> list[list[str]]:
    """Return the lines of the first two drawings of docs/architecture.md: folders, then layers."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawings = [part.partition("```")[0] for part in page.split("```text\n")[1:]]
    return [drawing.splitlines() for drawing in drawings[:2]]


def named_in(line: str) -> list[str]:
    """Return what a line of a drawing names: the words before the gap that explains them."""
    words = line.split("   ")[0] if "   " in line else line
    return [word.rstrip("/") for word in words.split()]


def test_the_page_draws_the_folders_that_are_there():
    """The first drawing names every folder of the repository that people edit, and no other."""
    drawn = {name for line in pictures()[0] for name in named_in(line)} - {"noxfile.py"}
    assert {name for name in drawn if not (ROOT / name).is_dir()} == set()
    # What commands write here, such as the quickstart's pictures, is not the repository's.
    kept = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    folders = {line.partition("/")[0] for line in kept.splitlines() if "/" in line}
    assert {name for name in folders if not name.startswith(".")} - drawn == set()


def test_the_page_draws_the_layers_that_are_there():
    """The second drawing names every folder of the package, in the order this test holds."""
    rows = [named_in(line) for line in pictures()[1]]
    drawn = [name for row in rows for name in row]
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    files = {path.stem for path in PACKAGE.glob("*.py")}
    assert len(drawn) == len(set(drawn)), "named twice"
    assert folders - set(drawn) == set(), "folders that are not drawn"
    assert set(drawn) - folders - files - {"generated"} == set(), "drawn and not there"
    height = {name: number for number, row in enumerate(rows) for name in row}
    order = [height[layer] for layer in LAYERS]
    assert order == sorted(order), "drawn in another order than imports point"


def test_the_training_queue_is_drawn_on_the_page_that_its_module_names():
    """M19: one picture of what can become of a request, with every state it can have."""
    module = ast.get_docstring(parsed(PACKAGE / "core" / "training_queue.py")) or ""
    assert "docs/architecture.md draws the states" in module
    page = (ROOT / "docs" / "architecture.md").read_text().partition("## The training queue")[2]
    drawn = page.partition("```text\n")[2].partition("```")[0]
    begun = ("queued", "numbered", "sent", "accepted", "done")
    ended = ("dropped", "given back", "took effect", "unsettled", "in doubt", "has the number")
    assert [state for state in (*begun, *ended) if state not in drawn] == []
