"""What to type to get an optional part of the package."""

from __future__ import annotations

NEEDS = {
    "cli": ("click", "rich"),
    "server": ("jsonschema-rs", "uvicorn"),
    "ui": ("click", "rich", "starlette", "uvicorn"),
    "proto": ("protobuf", "zstandard"),
    "otel": ("opentelemetry-api",),
    "hf": ("huggingface-hub",),
    "chat": ("jinja2",),
    "progress": ("tqdm",),
    "fleet": ("redis",),
    "trackio": ("trackio",),
    "wandb": ("wandb",),
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow",),
    "ray": ("ray",),
    "torch": ("torch",),
}
"""The packages behind each extra."""

APART = ("trackio", "wandb", "tensorboard", "mlflow", "ray", "torch")
"""Large ones that `all` does not bring."""


def how_to_install(extra: str) -> str:
    """Return the command that brings what an extra needs, however the package was installed.

    Example:
        >>> how_to_install("cli")
        'pip install click rich'
    """
    found = NEEDS.get(extra) or [p for name, ps in NEEDS.items() if name not in APART for p in ps]
    return f"pip install {' '.join(dict.fromkeys(found))}"
