"""The pages of the site that are made from code: command line, operations, tutorial."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import notebooks

ROOT = Path(__file__).parents[2]
WIDTH = 88
REPOSITORY = "https://github.com/tinker-ext/tinker-ext/blob/main"


def pages() -> dict[str, str]:
    """Return the text of each page by its path."""
    made = {f"reference/{page.path}.md": page.text() for page in REFERENCE}
    made["reference/more.md"] += "".join(f"\n::: tinker_ext.{name}\n" for name in _left_over())
    made["reference/types.md"] = other_types()
    made["reference/command-line.md"] = command_line()
    made["reference/operations.md"] = operations()
    return made | dict(tutorial())


class Reference(NamedTuple):
    """One page of the reference: names of modules, in the order in which they are shown."""

    path: str
    title: str
    about: str
    names: tuple[str, ...]

    def text(self) -> str:
        """Return the page; mkdocstrings fills in what each name is."""
        parts = [f"# {self.title}", self.about, *(f"::: {name}" for name in self.names)]
        return "\n\n".join(parts) + "\n"


def _of(module: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{module}.{name}" for name in names)


def _all_of(module: str) -> tuple[str, ...]:
    return _of(module, *sorted(import_module(module).__all__))


def _errors() -> tuple[str, ...]:
    """Return the error classes as the tree is drawn: the root first."""
    module = import_module("tinker_ext.errors")
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]
    return _of("tinker_ext.errors", *(each.__name__ for each in found if each.__name__[0] != "_"))


REFERENCE = (
    Reference(
        "clients",
        "Clients",
        "The objects that a training program uses. Each call has an `_async` form that does the "
        "same from an event loop.",
        _of(
            "tinker_ext",
            *("ServiceClient", "TrainingClient", "SamplingClient", "RestClient", "AdminClient"),
            *("APIFuture", "AwaitableConcurrentFuture", "LossHandle", "Run", "__version__"),
        ),
    ),
    Reference(
        "data",
        "Data and results",
        "What goes into a call and what comes back.",
        _of(
            "tinker_ext",
            *("Datum", "ModelInput", "ModelInputChunk", "EncodedTextChunk", "ImageChunk"),
            *("ImageAssetPointerChunk", "DmelChunk", "TensorData", "TensorDtype", "LossFnType"),
            *("ForwardBackwardOutput", "AdamParams", "DimuonParams", "OptimParams"),
            *("AdamOptimizerConfig", "DimuonOptimizerConfig", "OptimStepResponse", "LoraConfig"),
            *("SamplingParams", "SampleResponse", "SampledSequence", "StopReason"),
            *("PromptProvenanceSpan", "SampledProvenanceSpan", "Checkpoint", "CheckpointType"),
            *("ParsedCheckpointTinkerPath", "TrainingRun", "ModelID"),
        ),
    ),
    Reference(
        "settings",
        "Settings and credentials",
        "Settings come from the argument, else from the environment, else from the default.",
        (*_of("tinker_ext", "Config", "RetryConfig"), "tinker_ext.auth"),
    ),
    Reference(
        "errors",
        "Errors",
        "Every error is a `TinkerError`; each says what failed, after how many attempts, and what "
        "to do next. All of them can be imported from `tinker_ext` or from `tinker_ext.errors`.",
        _errors(),
    ),
    Reference(
        "testing",
        "The embedded server",
        "For tests and for offline work: see [Testing your training loop](../testing.md).",
        (*_all_of("tinker_ext.mock"), "tinker_ext.mock.pytest_plugin"),
    ),
    Reference(
        "more",
        "Runs, run log, events, downloads, conformance, compatibility",
        "Smaller public modules.",
        (
            *_all_of("tinker_ext.runs"),
            *_all_of("tinker_ext.runlog"),
            *_all_of("tinker_ext.telemetry"),
            *_all_of("tinker_ext.downloads"),
            *_all_of("tinker_ext.conform"),
            *_all_of("tinker_ext.compat"),
        ),
    ),
    Reference(
        "low-level",
        "The generated client",
        "`tinker_api` is generated from the contract; [Operations](operations.md) lists its calls.",
        _all_of("tinker_api"),
    ),
)


def _left_over() -> list[str]:
    """Return the public names that no page above has; modules have pages of their own."""
    shown = {name.rpartition(".")[2] for page in REFERENCE for name in page.names}
    package = import_module("tinker_ext")
    names = (name for name in package.__all__ if name not in shown)
    return [name for name in names if not isinstance(getattr(package, name), ModuleType)]


def other_types() -> str:
    """Return the page of the records that the pages above leave out."""
    shown = {name.rpartition(".")[2] for page in REFERENCE for name in page.names}
    names = [name for name in import_module("tinker_ext.types").__all__ if name not in shown]
    return Reference(
        "types",
        "All other records",
        "What `tinker_ext.types` has beyond [Data and results](data.md): the records of requests, "
        "replies and events, named as in the contract.",
        _of("tinker_ext.types", *names),
    ).text()


def operations() -> str:
    """Return a table of the operations of the contract."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load((ROOT / "openapi" / "tinker.yaml").read_text(encoding="utf-8"), loader)
    rows = ["| operation | request | what it does |", "|---|---|---|"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if isinstance(operation, dict) and "operationId" in operation:
                summary = operation.get("summary", "").replace("|", "\\|")
                name = operation["operationId"]
                rows.append(f"| `{name}` | `{method.upper()} {path}` | {summary} |")
    return "\n".join(
        [
            "# Operations",
            "",
            "Every operation of the [contract](../changing-the-contract.md)"
            " (`openapi/tinker.yaml`), by its name there.",
            "",
            *rows,
            "",
        ]
    )


def command_line() -> str:
    """Return the help of every command, one section each."""
    import click

    from tinker_ext.cli.catalog import COMMANDS, help_text

    parts = ["# Commands", "What `tinker-ext COMMAND --help` prints, for all of them."]
    parts += ["## tinker-ext", _code(help_text(WIDTH))]
    for entry in COMMANDS.values():
        top = import_module(f"tinker_ext.cli.{entry.module}").command
        for path, command in _walk((entry.name,), top):
            name = " ".join(("tinker-ext", *path))
            settings = command.context_settings | {"terminal_width": WIDTH}
            context = click.Context(command, info_name=name, **settings)
            level = "##" if len(path) == 1 else "###"
            parts += [f"{level} {' '.join(path)}", _code(command.get_help(context))]
    return "\n\n".join(parts) + "\n"


def _walk(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    import click

    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from _walk((*path, name), child)


def _code(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


def tutorial() -> Iterator[tuple[str, str]]:
    """Yield the page of each script of the tutorial."""
    for path in sorted((ROOT / "examples").glob("tutorial_*.py")):
        parts = []
        for kind, text in notebooks.cells(path.read_text(encoding="utf-8"), notebook=False):
            parts.append(text if kind == "markdown" else f"```python\n{text}\n```")
        parts.append(
            f"*This page is [`examples/{path.name}`]({REPOSITORY}/examples/{path.name}), run when "
            "the site was built; it is also available as a notebook.*"
        )
        number, _, name = path.stem.removeprefix("tutorial_").partition("_")
        yield f"tutorial/{number}-{name.replace('_', '-')}.md", "\n\n".join(parts) + "\n"
