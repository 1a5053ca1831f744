"""The lesson and its program, on a server in this process."""

import contextlib
import io
import re

from tinker_ext import ServiceClient
from tinker_ext.quickstart.data import animals, questions
from tinker_ext.quickstart.lesson import ANSWER_TOKENS, LEARNING_RATE, RANK, Lesson
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
    """M36: as printed it trains the same model, answers the same and saves under the same name."""
    options = {"url": "embedded", "model": "tinker-ext/tiny", "steps": 40, "seed": 5}
    program = lines(**options, rank=RANK, rate=LEARNING_RATE, answer_tokens=ANSWER_TOKENS)
    assert max(map(len, program.splitlines())) <= 100
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    with ServiceClient(base_url="embedded") as service:
        lesson = Lesson(service, steps=40, seed=5)
        lesson.train(lambda step: None)
        (said,) = [a for a in lesson.answers() if a.question.prompt == "The cow says"]
        name = lesson.save_and_restore().path.rpartition("/")[2]
    assert re.search(rf"^saved as tinker://.*/{name}$", printed.getvalue(), re.M)
    assert f"The cow says {said.text.strip()}\n" in printed.getvalue()
    assert f"loss per token {lesson.losses[-1]:.3f}\n" in printed.getvalue()
