"""The shipped text: 64 sentences about animals, and the questions they answer."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tinker_ext.types import Datum

FILE = Path(__file__).with_name("animals.txt")


class Question(NamedTuple):
    """The start of a sentence, and the words that finish it."""

    prompt: str
    answer: str


@cache
def animals() -> tuple[str, ...]:
    """Return the sentences, each with the newline that ends it.

    Example:
        >>> len(animals()), animals()[0]
        (64, 'The cow says moo.\\n')
    """
    return tuple(FILE.read_text(encoding="utf-8").splitlines(keepends=True))


def questions() -> tuple[Question, ...]:
    """Return each sentence without its last word, and that word."""
    cuts = ((line, line.rindex(" ")) for line in animals())
    return tuple(Question(line[:cut], line[cut:].rstrip()) for line, cut in cuts)


def conversations() -> tuple[list[dict[str, str]], ...]:
    """Return the sentences as chats of one question and one answer.

    Example:
        >>> [message["content"] for message in conversations()[0]]
        ['What does the cow say?', 'moo']
    """
    asked = {
        "says": "What does the {animal} say?",
        "eats": "What does the {animal} eat?",
        "lives": "Where does the {animal} live?",
        "likes": "What does the {animal} like to do?",
    }
    chats = []
    for line in animals():
        _, animal, verb, answer = line.rstrip(".\n").split(" ", 3)
        question = asked[verb].format(animal=animal)
        answer = answer.removeprefix("to ")
        messages = (("user", question), ("assistant", answer))
        chats.append([{"role": role, "content": text} for role, text in messages])
    return tuple(chats)


def data_for(tokenizer: Any) -> list[Datum]:
    """Return the sentences as training data: each token predicts the next one."""
    from tinker_ext.types import Datum, ModelInput

    rows = [tokenizer.encode(line) for line in animals()]
    return [Datum(ModelInput.from_ints(row[:-1]), {"target_tokens": row[1:]}) for row in rows]
