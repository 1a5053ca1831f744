"""`tinker-ext model`: list the models the server offers."""

from __future__ import annotations

import click

from tinker_ext.cli.connect import service
from tinker_ext.cli.lazy import Group, screen_of
from tinker_ext.cli.screen import counted, yes_no


@click.command(cls=Group, name="model")
def command() -> None:
    """List the models the server offers."""


EXAMPLES = """
tinker-ext model list
tinker-ext model list qwen
tinker-ext --format json model list | jq '.models[].model_name'
"""


@command.command(name="list", examples=EXAMPLES)
@click.argument("substring", required=False)
@click.pass_context
def list_models(context: click.Context, substring: str | None) -> None:
    """List base models; SUBSTRING keeps those whose name contains it, ignoring case."""
    screen = screen_of(context)
    with service(screen) as client:
        models = list(client.get_server_capabilities().supported_models)
    if substring:
        models = [item for item in models if substring.lower() in (item.model_name or "").lower()]
    if screen.is_json:
        screen.json({"models": models})
        return
    if not models:
        screen.say(
            f"No model matches {substring!r}." if substring else "The server lists no model."
        )
        return
    screen.table(
        counted(len(models), "model"),
        ("Model", "Context", "Trainable", "Sampleable"),
        [
            (
                item.model_name or "–",
                str(item.max_context_length or "–"),
                yes_no(item.trainable),
                yes_no(item.sampleable),
            )
            for item in models
        ],
    )
