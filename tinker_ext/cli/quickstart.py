"""`tinker-ext quickstart`: the lesson with a live display, pictures and the code behind it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tinker_ext.cli.connect import patience
from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Command, screen_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from tinker_ext.cli.screen import Screen
    from tinker_ext.quickstart.lesson import Answer, Lesson, Step

SHOWN = (0, 5, 11, 14, 24, 45)
"""Questions of the data set whose answers are printed."""

EXAMPLES = """
tinker-ext quickstart                                   # offline, nothing to set up
tinker-ext quickstart --steps 50 --out /tmp/lesson      # a quick look
tinker-ext --base-url http://127.0.0.1:8000 quickstart  # the same on another server
"""


@click.command(
    cls=Command,
    name="quickstart",
    examples=EXAMPLES,
    server="The server; by default the embedded one, also with TINKER_BASE_URL set.",
)
@click.option("--steps", type=click.IntRange(1), default=150, show_default=True,
              help="Optimizer steps.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              default=Path("tinker-ext-quickstart"), show_default=True,
              help="Directory of the loss curve and the log.")  # fmt: skip
@click.option("--model", default="tinker-ext/tiny", show_default=True, help="Base model.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the adapter.")
@click.pass_context
def command(context: click.Context, steps: int, out: Path, model: str, seed: int) -> None:
    """Fine-tune a tiny model on this machine, in a minute.

    Starts the embedded server in this process, trains a LoRA adapter on 64 sentences about
    animals, samples before and after, plots the loss, saves a checkpoint, restores it and
    compares, then prints the lines of Python that did it. Nothing leaves this machine unless
    --base-url names a server.
    """
    from tinker_ext import ServiceClient
    from tinker_ext.quickstart.lesson import ANSWER_TOKENS, LEARNING_RATE, RANK, Lesson
    from tinker_ext.quickstart.listing import lines

    screen = screen_of(context)
    begin = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    log = out / "metrics.jsonl"
    log.unlink(missing_ok=True)
    url = screen.base_url or "embedded"
    with ServiceClient(base_url=url, config=patience(url), run_log=log) as service:
        lesson = Lesson(service, model, steps, seed)
        story = _Story(screen)
        story.opening(lesson, screen.base_url)
        before = lesson.answers()
        with story.training(lesson) as on_step:
            lesson.train(on_step)
        after = lesson.answers()
        restored = lesson.save_and_restore()
    program = lines(
        url=url,
        model=model,
        steps=steps,
        seed=seed,
        rank=RANK,
        rate=LEARNING_RATE,
        answer_tokens=ANSWER_TOKENS,
    )
    files = _write(out, lesson, program)
    seconds = time.monotonic() - begin
    if screen.is_json:
        screen.json(
            {
                "model": model,
                "run_id": lesson.model_id,
                "steps": steps,
                "losses": lesson.losses,
                "before": [_record(answer) for answer in before],
                "after": [_record(answer) for answer in after],
                "checkpoint": restored.path,
                "restored_equal": restored.same,
                "files": [str(file) for file in files],
                "seconds": round(seconds, 3),
            }
        )
    else:
        story.ending(lesson, before, after, restored, files, program, seconds)
    if not restored.same:
        raise CommandError(
            f"the restored checkpoint differs: {restored.equal} of {restored.compared} logprobs "
            "are equal",
            "The server does not restore what it saved; run `tinker-ext conform` on it.",
        )


def _record(answer: Answer) -> dict[str, Any]:
    return {
        "prompt": answer.question.prompt,
        "answer": answer.text,
        "expected": answer.question.answer,
        "right": answer.right,
    }


def _write(out: Path, lesson: Lesson, program: str) -> list[Path]:
    from tinker_ext.quickstart.picture import png, svg

    (out / "loss.svg").write_text(svg(lesson.losses, "Loss per token"), encoding="utf-8")
    (out / "loss.png").write_bytes(png(lesson.losses))
    (out / "quickstart.py").write_text(program, encoding="utf-8")
    return [out / name for name in ("loss.svg", "loss.png", "metrics.jsonl", "quickstart.py")]


class _Story:
    """What a person sees of the lesson: live in a terminal, line by line in a file."""

    def __init__(self, screen: Screen) -> None:
        self._quiet = screen.is_json
        self._console: Console = screen.console()

    def opening(self, lesson: Lesson, base_url: str | None) -> None:
        if self._quiet:
            return
        where = base_url or "the embedded server in this process"
        self._print(f"Server   {where}", "dim")
        self._print(f"Model    {lesson.model}, a LoRA adapter of rank 16", "dim")
        self._print(
            f"Data     64 sentences about animals, {lesson.tokens_per_step:,} tokens a step", "dim"
        )
        self._print("")

    @contextmanager
    def training(self, lesson: Lesson) -> Iterator[Callable[[Step], None]]:
        if self._quiet:
            yield lambda step: None
        elif self._console.is_terminal:
            with self._live(lesson.steps) as on_step:
                yield on_step
        else:
            yield lambda step: self._line(step, lesson.steps)

    @contextmanager
    def _live(self, steps: int) -> Iterator[Callable[[Step], None]]:
        from rich import progress

        bar = progress.Progress(
            progress.TextColumn("Training"),
            progress.BarColumn(bar_width=None),
            progress.TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            progress.TextColumn("loss per token {task.fields[loss]}", style="bold cyan"),
            progress.TextColumn("{task.fields[speed]} tokens/s"),
            progress.TextColumn("ETA {task.fields[eta]} s"),
            console=self._console,
        )
        with bar:
            task = bar.add_task("", total=steps, loss="–", speed="–", eta="–")

            def on_step(step: Step) -> None:
                bar.update(
                    task,
                    completed=step.number,
                    loss=f"{step.loss:.3f}",
                    speed=f"{step.tokens_per_second:,.0f}",
                    eta=f"{step.seconds_left:.0f}",
                )

            yield on_step

    def _line(self, step: Step, steps: int) -> None:
        if step.number % max(steps // 10, 1) == 0 or step.number == 1:
            print(
                f"step {step.number:>4}/{steps}  loss per token {step.loss:.3f}  "
                f"{step.tokens_per_second:,.0f} tokens/s  ETA {step.seconds_left:.0f} s",
                flush=True,
            )

    def ending(
        self,
        lesson: Lesson,
        before: list[Answer],
        after: list[Answer],
        restored: Any,
        files: list[Path],
        program: str,
        seconds: float,
    ) -> None:
        from tinker_ext.quickstart.chart import chart

        self._print("")
        width = min(64, max(self._console.width - 12, 16))
        self._print(chart(lesson.losses, width=width, label="loss per token"), "cyan")
        self._print("")
        self._samples(before, after)
        self._print("")
        equal = "all equal to the last bit" if restored.same else f"only {restored.equal} equal"
        self._print(f"Saved    {restored.path}")
        self._print(f"Restored into a new client: {restored.compared:,} logprobs, {equal}")
        self._print(f"Wrote    {', '.join(str(file) for file in files)}")
        self._print("")
        self._print("The Python that did it:", "bold")
        self._print("")
        self._code(program)
        self._print(
            f"Done in {seconds:.1f} s. Next: see the run with `tinker-ext ui {files[0].parent}`, "
            "start a server with `tinker-ext serve`, or read the scripts in examples/."
        )

    def _samples(self, before: list[Answer], after: list[Answer]) -> None:
        self._print(f"{'Prompt':<24} {'Before training':<18} After training", "bold")
        for index in SHOWN:
            first, last = before[index], after[index]
            mark = "✓" if last.right else "✗"
            prompt = f"{first.question.prompt} …"
            self._print(f"{prompt:<24} {_shown(first.text):<18} {_shown(last.text)} {mark}")
        right = [sum(answer.right for answer in answers) for answers in (before, after)]
        self._print(
            f"{'Right answers':<24} {right[0]:>2} of {len(before):<12} {right[1]} of {len(after)}"
        )

    def _code(self, text: str) -> None:
        if not self._console.is_terminal:
            print(text)
            return
        from rich.syntax import Syntax

        self._console.print(Syntax(text, "python", background_color="default", word_wrap=True))

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style or None, soft_wrap=True)


def _shown(text: str) -> str:
    """Return what was sampled on one line, bytes that are no text as dots."""
    clean = text.strip().replace("\n", "⏎")
    return "".join(
        letter if letter.isprintable() and letter != "\ufffd" else "·" for letter in clean
    )
