"""`tinker-ext estimate`: the tokens and the cost of a run, before it is started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Command, screen_of

if TYPE_CHECKING:
    from tinker_ext.cli.estimates import Estimate
    from tinker_ext.ledger import Prices

EXAMPLES = """
tinker-ext estimate train.jsonl --model Qwen/Qwen3-8B --epochs 3 --prices prices.toml
tinker-ext estimate tokens.jsonl --epochs 2                                   # tokens only
tinker-ext estimate prompts.jsonl --rl --group 16 --max-tokens 512 --prices prices.toml --model M
tinker-ext --format json estimate train.jsonl --prices prices.toml --model M  # for programs
"""

KINDS = {"train": "trained", "prefill": "read as prompts", "sample": "sampled"}


@click.command(cls=Command, name="estimate", examples=EXAMPLES)
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--model", metavar="NAME", help="Base model, for its price and its tokenizer.")
@click.option("--prices", "table", type=click.Path(path_type=Path), metavar="FILE",
              help="Your price table: per million tokens, by model, with a date.")  # fmt: skip
@click.option("--epochs", type=click.IntRange(1), default=1, show_default=True,
              help="Times that the data is used.")  # fmt: skip
@click.option("--tokenizer", metavar="PATH|NAME", help="When the data is text; that of --model "
              "by default.")  # fmt: skip
@click.option("--max-length", type=click.IntRange(1), metavar="N",
              help="Inputs are cut to N tokens.")  # fmt: skip
@click.option("--drop-last", type=click.IntRange(1), metavar="BATCH",
              help="Examples beyond the last full batch of this size are left out.")  # fmt: skip
@click.option("--rl", "is_rl", is_flag=True, help="The data is prompts: sample and train on them.")
@click.option("--group", type=click.IntRange(1), default=1, show_default=True,
              help="RL: sequences sampled per prompt.")  # fmt: skip
@click.option("--max-tokens", type=click.IntRange(1), metavar="N",
              help="RL: most tokens of a sequence.")  # fmt: skip
@click.option("--min-tokens", type=click.IntRange(1), default=1, show_default=True, metavar="N",
              help="RL: fewest tokens of a sequence.")  # fmt: skip
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Print the tokens and the cost of training on DATA, before anything is sent.

    DATA is a .jsonl file (or a .json list). A row is a datum (model_input), a list of tokens, chat
    messages, prompt and completion, or text. For SFT the result is what the ledger says afterwards;
    for RL it is the interval that the run lies in. Prices are yours: a file with a date.
    """
    screen = screen_of(context)
    prices = _prices(options["table"], options["model"])
    found = _count(screen, options)
    costs = [None if prices is None else prices.cost(t, options["model"])
             for t in (found.low, found.high)]  # fmt: skip
    if screen.is_json:
        screen.json(
            {
                "rows": found.rows,
                "tokens": {"low": found.low.to_dict(), "high": found.high.to_dict()},
                "cost": None if prices is None else {"low": costs[0], "high": costs[1]},
                "currency": prices and prices.currency,
                "prices_of": prices and prices.date,
            }
        )
        return
    rows = []
    low, high = found.low.to_dict(), found.high.to_dict()
    for kind, word in KINDS.items():
        if high[kind]:
            price = None if prices is None else (prices.row(options["model"]) or {}).get(kind, 0.0)
            rows.append((f"tokens {word}", _range(low[kind], high[kind]),
                         "–" if price is None else f"{price:g} / M"))  # fmt: skip
    if prices is not None:
        currency = prices.currency
        rows.append((f"cost in {currency}", _range(*costs), f"prices of {prices.date}"))
    what = "prompts" if options["is_rl"] else "examples"
    title = f"{found.rows:,} {what}, {options['epochs']} epoch{'s' * (options['epochs'] > 1)}"
    screen.table(title, ("", "Estimate", "Price"), rows)
    if options["is_rl"]:
        screen.say("The run lies between the two: how much is sampled is for the model to say.")


def _range(low: Any, high: Any) -> str:
    def shown(value: Any) -> str:
        if isinstance(value, int):
            return f"{value:,}"
        return f"{value:,.4f}" if abs(value) < 100 else f"{value:,.2f}"

    return shown(low) if low == high else f"{shown(low)} – {shown(high)}"


def _prices(path: Path | None, model: str | None) -> Prices | None:
    from tinker_ext.ledger import Prices

    if path is None:
        return None
    prices = Prices.load(path)
    if prices.date is None:
        raise CommandError(
            f"{path} does not say from when its prices are",
            "Add a line such as: date = 2026-11-01",
        )
    if prices.row(model) is None:
        raise CommandError(
            f"{path} has no prices for {model or 'a model (no --model was given)'}",
            f"It has: {', '.join(prices.models)}.",
        )
    return prices


def _count(screen: Any, options: dict[str, Any]) -> Estimate:
    from tinker_ext.cli import estimates

    path: Path = options["data"]
    if not path.is_file():
        raise CommandError(f"there is no file {path}", "DATA is a .jsonl file of examples.")
    counter = estimates.Counter(lambda: _tokenizer(options), options["max_length"])
    count = counter.prompt if options["is_rl"] else counter.example
    lengths = []
    with screen.progress("counting") as advance:
        for number, row in estimates.read_rows(path):
            lengths.append(count(number, row))
            if number % 256 == 0:
                advance(number)
    if not lengths:
        raise CommandError(f"{path} has no rows")
    if not options["is_rl"]:
        return estimates.sft(lengths, epochs=options["epochs"], batch_size=options["drop_last"])
    most = options["max_tokens"]
    if most is None or most < options["min_tokens"]:
        raise CommandError(
            "--rl needs --max-tokens, at least --min-tokens",
            "It is the max_tokens of your SamplingParams.",
        )
    return estimates.rl(lengths, epochs=options["epochs"], group=options["group"],
                       max_tokens=most, min_tokens=options["min_tokens"])  # fmt: skip


def _tokenizer(options: dict[str, Any]) -> Any:
    from tinker_ext import tokenizers

    name = options["tokenizer"] or options["model"]
    if name is None:
        raise CommandError(
            "the data is text, so a tokenizer is needed", "Pass --model NAME or --tokenizer PATH."
        )
    wanted = options["tokenizer"] or tokenizers.tokenizer_for_model(name)
    return tokenizers.load(wanted)
