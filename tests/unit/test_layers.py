"""The picture of who may import whom; it fails when an import points the wrong way."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tinker_ext"

# A layer may import itself and the layers after it (design: clients → … → generated).
LAYERS = ["compat", "cli", "conform", "runs", "clients", "fleet", "journal", "core", "observe"]
LAYERS += ["_transport", "_wire"]
LEAVES = {"errors", "config", "paths", "tensors", "tokenizers", "types", "batch", "_version"}
LEAVES |= {
    "auth",
    "credentials",
    "downloads",
    "forks",
    "tls",
    "ui",
    "displays",
    "progress_bars",
    "_reply_parts",
}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported(path: Path) -> set[str]:
    """Every tinker_ext module that `path` imports at run time, lazily or not."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


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


def test_nothing_is_typed_that_the_document_says():
    """M41: no path of the API, and no list of statuses, outside the spine."""
    spine = {"tinker_ext._transport.statuses", "tinker_ext._transport.retry", "tinker_ext.errors"}
    wrong = []
    for module, path in sources():
        if room(module) in {"mock", "conform"} or module in spine:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if node.value.startswith(("/api/v1/", "api/v1/")):
                    wrong.append(f"{module}:{node.lineno} types the path {node.value}")
            elif isinstance(node, ast.Set | ast.Tuple | ast.List) and len(node.elts) > 2:
                numbers = [e.value for e in node.elts if isinstance(e, ast.Constant)]
                if len(numbers) == len(node.elts) and all(
                    type(n) is int and 400 <= n < 600 for n in numbers
                ):
                    wrong.append(f"{module}:{node.lineno} lists statuses {numbers}")
    assert not wrong, "\n".join(wrong)


def test_one_function_waits_between_attempts():
    """M42: requests are repeated by one loop, and one function waits in it."""
    loops = [
        f"{module}:{node.lineno}"
        for module, path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("AsyncRetrying", "Retrying")
    ]
    assert [where.partition(":")[0] for where in loops] == ["tinker_ext._transport.retry"]
    source = (PACKAGE / "_transport" / "retry.py").read_text()
    waiting = {
        function.name
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.AsyncFunctionDef)
        and any(isinstance(n, ast.Attribute) and n.attr == "sleep" for n in ast.walk(function))
    }
    assert waiting == {"_pause"}


def test_every_file_says_what_it_owns():
    """Style: the first sentence of each module names its one responsibility."""
    silent = [
        module for module, path in sources() if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent, silent
