"""The picture of who may import whom; it fails when an import points the wrong way."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tinker_ext"

# A layer may import itself and the layers after it (design: clients → … → generated).
LAYERS = ["compat", "cli", "conform", "runs", "clients", "fleet", "core", "observe"]
LAYERS += ["_transport", "_wire"]
LEAVES = {"errors", "config", "paths", "tensors", "tokenizers", "types", "batch", "_version"}
LEAVES |= {
    "auth",
    "credentials",
    "downloads",
    "forks",
    "tls",
    "journal",
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


def test_one_door_to_generated_code():
    """Only the wire layer, the re-exported records and the server touch generated packages."""
    doors = {"_wire", "types", "mock", "_transport", "conform"}
    wrong = [
        f"{module} imports {target}"
        for module, path in sources()
        if room(module) not in doors
        for target in imported(path)
        if target.split(".")[0] in {"tinker_api", "tinker_proto"}
    ]
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_every_file_says_what_it_owns():
    """Style: the first sentence of each module names its one responsibility."""
    silent = [
        module for module, path in sources() if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent, silent
