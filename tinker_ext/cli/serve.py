"""`tinker-ext serve`: the embedded server on a port, well-behaved or misbehaving on order."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Command, screen_of

if TYPE_CHECKING:
    from tinker_ext.cli.screen import Screen
    from tinker_ext.mock.settings import Settings

KEY = "tml-embedded"
"""Any key is let in unless --api-key is given; official clients insist on this prefix."""

EXAMPLES = """
tinker-ext serve                                                   # port 8000, this machine only
tinker-ext serve --port 0 --state ./state                          # any port; survives a restart
tinker-ext serve --model Qwen/Qwen3-8B=path/to/tokenizer           # a model name your code uses
tinker-ext serve --profile hosted                                  # as strict as the hosted service
tinker-ext serve --era 0.4.1 --seq strict --wire json              # an older, stricter server
tinker-ext serve --fault status:optim_step:nth=2,status=503        # the second optim_step fails
tinker-ext serve --fault drop_response:*:probability=0.1 --seed 7  # one reply in ten is lost
tinker-ext serve --bug adam_bias                                   # a bug that `conform` must find
"""


def _listed(kind: str) -> Any:
    def show(context: click.Context, _: click.Parameter, value: bool) -> None:
        if not value or context.resilient_parsing:
            return
        if kind == "rules":
            from tinker_ext.mock.hosted import RULES

            for rule in RULES:
                click.echo(f"{rule.name}: {rule.text}\n    source: {rule.source}")
            context.exit()
        if kind == "bugs":
            from tinker_ext.mock.settings import BUGS as names
        else:
            from tinker_ext.mock.faults import KINDS as names
        width = max(map(len, names))
        for name, text in names.items():
            click.echo(f"{name:<{width}}  {text}")
        context.exit()

    return show


@click.command(cls=Command, name="serve", examples=EXAMPLES)
@click.option("--host", default="127.0.0.1", show_default=True, help="Interface to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True,
              help="Port; 0 takes any free one, which is printed.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True,
              help="Seed of weights, samples and faults; if given, of ids too.")  # fmt: skip
@click.option("--model", "models", multiple=True, metavar="NAME[=TOKENIZER]",
              help="Serve one more base model, with the tokenizer.json (or its directory) given, "
              "or with bytes. May be repeated.")  # fmt: skip
@click.option("--state", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Keep everything in DIR, so that a restart loses nothing.")  # fmt: skip
@click.option("--profile", type=click.Choice(["default", "hosted"]), default="default",
              show_default=True, help="hosted enforces the published rules of the hosted service; "
              "--list-rules shows them with their sources.")  # fmt: skip
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME",
              help="Also answer requests for this host name, for use behind a proxy. May be "
              "repeated.")  # fmt: skip
@click.option("--era", type=click.Choice(["0.4.1", "0.36.0", "both"]), default="both",
              show_default=True, help="API version to implement.")  # fmt: skip
@click.option("--seq", type=click.Choice(["dedupe", "strict", "ignore", "gap", "late"]),
              default="dedupe", show_default=True,
              help="What a repeated or early seq_id means.")  # fmt: skip
@click.option("--undeclared", is_flag=True,
              help="Do not announce in client/config what a repeated seq_id means; other servers "
              "do not either.")  # fmt: skip
@click.option("--wire", type=click.Choice(["json", "proto", "both"]),
              help="Bodies of training and sampling; by default those of the era.")  # fmt: skip
@click.option("--pending", type=click.Choice(["408", "try_again"]), default="408",
              show_default=True, help="Answer to a poll without news.")  # fmt: skip
@click.option("--without", multiple=True, metavar="PATH",
              help="Answer 404 to this path, for example telemetry. May be repeated.")  # fmt: skip
@click.option("--api-key", "api_keys", multiple=True, metavar="KEY",
              help="Accept only this key; by default any. May be repeated.")  # fmt: skip
@click.option("--latency", type=click.FloatRange(0), default=0.0, metavar="SECONDS",
              help="Delay every result by this long.")  # fmt: skip
@click.option("--request-latency", type=click.FloatRange(0), default=0.0, metavar="SECONDS",
              help="Delay every reply by this long.")  # fmt: skip
@click.option("--long-poll", type=click.FloatRange(0), default=30.0, show_default=True,
              metavar="SECONDS", help="How long a poll waits for news.")  # fmt: skip
@click.option("--session-ttl", type=click.FloatRange(0), default=600.0, show_default=True,
              metavar="SECONDS", help="Time without heartbeats that ends a session.")  # fmt: skip
@click.option("--sample-limit", type=click.IntRange(1), metavar="N",
              help="Answer 429 to samples beyond N in flight.")  # fmt: skip
@click.option("--models-limit", type=click.IntRange(1), metavar="N",
              help="Let models beyond N wait (paused_capacity).")  # fmt: skip
@click.option("--rate-limit", type=click.FloatRange(0, min_open=True), metavar="N",
              help="Answer 429 beyond N training and sampling requests a second.")  # fmt: skip
@click.option("--retry-after", type=click.FloatRange(0), default=1.0, show_default=True,
              metavar="SECONDS", help="Retry-after time sent with 429.")  # fmt: skip
@click.option("--pause", metavar="STATE[:SECONDS]",
              help="Report paused_capacity or paused_rate_limit first, for 5 s or as "
              "given.")  # fmt: skip
@click.option("--fault", "faults", multiple=True, metavar="KIND[:PATH[:OPTION=VALUE,…]]",
              help="Inject a fault; --list-faults shows the kinds. May be repeated.")  # fmt: skip
@click.option("--bug", "bugs", multiple=True, metavar="NAME",
              help="Enable a known bug; --list-bugs shows the names. May be repeated.")  # fmt: skip
@click.option("--list-rules", is_flag=True, is_eager=True, expose_value=False,
              callback=_listed("rules"),
              help="Show the rules of --profile hosted and exit.")  # fmt: skip
@click.option("--list-faults", is_flag=True, is_eager=True, expose_value=False,
              callback=_listed("faults"), help="Show the kinds of faults and exit.")  # fmt: skip
@click.option("--list-bugs", is_flag=True, is_eager=True, expose_value=False,
              callback=_listed("bugs"), help="Show the known bugs and exit.")  # fmt: skip
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Run the embedded server on a port.

    It trains a small transformer with LoRA on this machine; the loss falls, samples change and
    checkpoints restore. Ctrl-C stops it, with exit code 0.
    """
    screen = screen_of(context)
    given = _given(context)
    settings = settings_from(options, given)
    if "seed" not in given and settings.state is None:
        import attrs  # not at the top: `--help` does without it

        settings = attrs.evolve(settings, ids=secrets.token_hex(8))
    _warn(screen, settings)
    from tinker_ext.mock import serve

    try:
        serve(settings, on_ready=lambda url: _announce(screen, settings, url))
    except ValueError as error:  # the state folder is in use, or of another server
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
            "Use --port 0 for any free port.",
        ) from None


def _given(context: click.Context) -> set[str]:
    """Return the options the command line names; the rest is left to the profile."""
    return {
        name
        for name in context.params
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    }


def settings_from(options: dict[str, Any], given: set[str] | None = None) -> Settings:
    """Return the settings of the server that the options describe.

    Args:
        options: Values of all options.
        given: Those that were typed; they win over the profile. None means all.

    Raises:
        CommandError: An option cannot be understood; says which.
    """
    from tinker_ext.mock.base_models import tokenizer_file
    from tinker_ext.mock.faults import KINDS, Fault, parse
    from tinker_ext.mock.settings import Settings

    values = dict(options)
    profile = values.pop("profile", "default")
    undeclared = values.pop("undeclared", False)
    values["pause"] = _pause(values["pause"])
    values["api_keys"] = values["api_keys"] or None
    rules: list[Fault] = []
    for text in values["faults"]:
        if text.partition(":")[0] not in KINDS:
            raise CommandError(
                f"there is no fault {text.partition(':')[0]!r}",
                f"Kinds: {', '.join(KINDS)}; `tinker-ext serve --list-faults` explains them.",
            )
        try:
            rules.append(parse(text))
        except ValueError as error:
            raise CommandError(f"--fault {text}: {error}") from None
    values["faults"] = rules
    if profile != "default" and given is not None:
        values = {k: v for k, v in values.items() if k in given or k in ("faults", "pause", "port")}
    if undeclared:
        values["declared"] = False
    try:
        settings = Settings.of_profile(profile, **values)
        for place in settings.models.values():
            tokenizer_file(place)
    except ValueError as error:
        raise CommandError(str(error).splitlines()[0]) from None
    return settings


def _pause(text: str | None) -> Any:
    if text is None:
        return None
    from tinker_ext.mock.settings import Pause

    state, _, seconds = text.partition(":")
    try:
        return Pause(state=state, seconds=float(seconds or 5))
    except ValueError:
        raise CommandError(
            f"--pause {text} is not understood",
            "Write paused_capacity:10 or paused_rate_limit:10.",
        ) from None


def _warn(screen: Screen, settings: Settings) -> None:
    if settings.host not in ("127.0.0.1", "::1", "localhost") and settings.api_keys is None:
        screen.note(
            f"Warning: anybody who reaches {settings.host} can use this server; "
            "--api-key lets in only who knows the key."
        )


def _announce(screen: Screen, settings: Settings, url: str) -> None:
    from tinker_ext.mock.base_models import BaseModels

    key = min(settings.api_keys) if settings.api_keys else KEY
    names = list(BaseModels(settings.models))
    if screen.is_json:
        screen.json({"url": url, "api_key": key, "models": names})
    else:
        print(f"Serving {', '.join(names)} on {url}")
        print(f"  export TINKER_BASE_URL={url}")
        print(f"  export TINKER_API_KEY={key}")
        print("Stop with Ctrl-C.")
    sys.stdout.flush()
