"""`tinker-ext sample`: let a checkpoint or a base model go on from a text."""

from __future__ import annotations

import sys
from typing import Any

import click

from tinker_ext.cli.connect import service
from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Command, screen_of

EXAMPLES = """
tinker-ext sample tinker://RUN/sampler_weights/final "The cow says"
tinker-ext sample tinker://RUN/weights/final --chat "What does the cow say?" -n 4 --seed 1
tinker-ext --base-url embedded sample tinker-ext/tiny "Once upon a time" --max-tokens 40
echo "The cow says" | tinker-ext -f json sample tinker://RUN/weights/final -
"""


@click.command(cls=Command, name="sample", examples=EXAMPLES)
@click.argument("source", metavar="MODEL")
@click.argument("text")
@click.option("--chat", is_flag=True, help="TEXT is a message; use the model's chat template.")
@click.option("-n", "--num-samples", type=click.IntRange(1), default=1, show_default=True,
              help="How many samples.")  # fmt: skip
@click.option("--max-tokens", type=click.IntRange(1), default=128, show_default=True,
              help="Maximum number of tokens per sample.")  # fmt: skip
@click.option("--temperature", type=click.FloatRange(0), default=0.7, show_default=True,
              help="0 always takes the most likely token.")  # fmt: skip
@click.option("--top-p", type=click.FloatRange(0, 1), default=1.0, show_default=True,
              help="Sample from the most likely tokens with this total probability.")  # fmt: skip
@click.option("--stop", multiple=True, help="Text that ends a sample. May be repeated.")
@click.option("--seed", type=int, help="With a seed, the same call gives the same samples.")
@click.pass_context
def command(
    context: click.Context,
    source: str,
    text: str,
    chat: bool,
    num_samples: int,
    max_tokens: int,
    temperature: float,
    top_p: float,
    stop: tuple[str, ...],
    seed: int | None,
) -> None:
    """Sample from a checkpoint or a base model.

    MODEL is the path of a checkpoint (tinker://RUN/sampler_weights/NAME, or tinker://RUN/weights/NAME,
    whose weights are then saved for sampling first) or the name of a base model. TEXT is the
    prompt; - reads it from standard input.
    """
    from tinker_ext import ModelInput, SamplingParams

    screen = screen_of(context)
    prompt = sys.stdin.read().rstrip("\n") if text == "-" else text
    with service(screen) as client:
        sampler = _sampler(client, source)
        tokenizer = sampler.get_tokenizer()
        if chat:
            messages = [{"role": "user", "content": prompt}]
            tokens = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        else:
            tokens = tokenizer.encode(prompt)
        params = SamplingParams(
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            stop=list(stop) or None,
            seed=seed,
        )
        reply = sampler.sample(ModelInput.from_ints(tokens), num_samples, params).result()
    samples: list[dict[str, Any]] = [
        {
            "text": tokenizer.decode(sequence.tokens, skip_special_tokens=True),
            "tokens": len(sequence.tokens),
            "stop_reason": str(sequence.stop_reason),
        }
        for sequence in reply.sequences
    ]
    if screen.is_json:
        screen.json({"model": source, "prompt_tokens": len(tokens), "samples": samples})
        return
    for number, sample in enumerate(samples, 1):
        if num_samples > 1:
            screen.say(f"── {number} of {num_samples} ({sample['stop_reason']})")
        screen.say(sample["text"])


def _sampler(client: Any, source: str) -> Any:
    """A sampler of a base model or a checkpoint; of one made for training after saving it."""
    if "://" not in source:
        return client.create_sampling_client(base_model=source)
    from tinker_ext.errors import InvalidInputError
    from tinker_ext.paths import parse_checkpoint

    try:
        kind = parse_checkpoint(source).checkpoint_type
    except InvalidInputError:
        raise CommandError(
            f"{source} is not the path of a checkpoint",
            "A path looks like tinker://RUN_ID/sampler_weights/0001; `tinker-ext checkpoint list` "
            "shows yours, `tinker-ext model list` the base models.",
        ) from None
    if kind == "training":
        trainer = client.create_training_client_from_state(source)
        return trainer.save_weights_and_get_sampling_client()
    return client.create_sampling_client(model_path=source)
