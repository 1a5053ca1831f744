"""The lesson and the ten lines, on a server in this process."""

import contextlib
import io

from tinker_ext import ServiceClient
from tinker_ext.quickstart.data import animals, questions
from tinker_ext.quickstart.lesson import Lesson
from tinker_ext.quickstart.listing import TEN_LINES


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


def test_ten_lines_are_ten_and_work():
    """M36: the printed program is ten lines after its imports, and it runs as printed."""
    lines = [line for line in TEN_LINES.splitlines() if line and "import" not in line]
    assert len(lines) == 10
    printed = io.StringIO()
    space = {}
    with contextlib.redirect_stdout(printed):
        exec(TEN_LINES.replace("150", "3"), space)
    assert "saved as tinker://" in printed.getvalue()
    assert max(map(len, TEN_LINES.splitlines())) <= 100
