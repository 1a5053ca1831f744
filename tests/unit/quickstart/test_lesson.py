"""The lesson and its program, on a server in this process."""

import contextlib
import io

from tinker_ext import ServiceClient
from tinker_ext.quickstart.data import animals, questions
from tinker_ext.quickstart.lesson import LEARNING_RATE, RANK, Lesson
from tinker_ext.quickstart.listing import lines


def test_the_data_set_has_one_answer_to_each_question():
    """M36: 64 different sentences, and no question with two answers."""
    assert len(set(animals())) == len(animals()) == 64
    prompts = [question.prompt for question in questions()]
    assert len(set(prompts)) == len(prompts)
    assert all(line.endswith(".\n") for line in animals())


def test_a_short_lesson():
    """M36: the loss falls, every step is told, and the checkpoint restores to the last bit."""
    steps = []
    with ServiceClient(base_url="embedded") as service:
        lesson = Lesson(service, steps=6)
        lesson.train(steps.append)
        restored = lesson.save_and_restore()
    assert [step.number for step in steps] == [1, 2, 3, 4, 5, 6]
    assert lesson.losses[-1] < 0.8 * lesson.losses[0]
    assert steps[-1].seconds_left == 0
    assert restored.same
    assert restored.compared == lesson.tokens_per_step


def test_the_printed_program_is_the_lesson_with_its_options():
    """M36: as printed it trains the same model with the same steps, seed and rate."""
    options = {"url": "embedded", "model": "tinker-ext/tiny", "steps": 3, "seed": 5}
    program = lines(**options, rank=RANK, rate=LEARNING_RATE)
    assert max(map(len, program.splitlines())) <= 100
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    assert "saved as tinker://" in printed.getvalue()
    with ServiceClient(base_url="embedded") as service:
        lesson = Lesson(service, steps=3, seed=5)
        lesson.train(lambda step: None)
    assert f"loss per token {lesson.losses[-1]:.3f}\n" in printed.getvalue()
