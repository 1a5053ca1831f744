"""Which base models are served, and with which tokenizer each of them speaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import attrs
import orjson

BYTES = Path(__file__).with_name("tokenizer")
CONTEXT = 32768

# Served out of the box, offline; they differ in their initial weights.
BUILT_IN = ("tinker-ext/tiny", "tinker-ext/tiny-base")
_END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "</s>", "<eos>")


@attrs.frozen(slots=False)
class BaseModel:
    """A model that can be trained and sampled.

    Attributes:
        name: The name clients ask for.
        tokenizer_file: Its tokenizer.json.
    """

    name: str
    tokenizer_file: Path

    @property
    def bytewise(self) -> bool:
        """Tell whether the ids 0–255 are the bytes themselves."""
        return self.tokenizer_file.parent == BYTES

    @property
    def tokenizer_id(self) -> str:
        """Return what get_info reports: a local directory when it holds a full tokenizer."""
        folder = self.tokenizer_file.parent
        if (folder / "tokenizer_config.json").exists():
            return str(folder)
        return str(self.tokenizer_file)

    @cached_property
    def _description(self) -> dict[str, Any]:
        loaded: dict[str, Any] = orjson.loads(self.tokenizer_file.read_bytes())
        return loaded

    @cached_property
    def vocabulary(self) -> int:
        """Return the number of token ids, added tokens included."""
        vocab = self._description["model"]["vocab"]
        highest = max(vocab.values()) if isinstance(vocab, dict) else len(vocab) - 1
        added = [token["id"] for token in self._description.get("added_tokens", ())]
        return int(max([highest, *added])) + 1

    @cached_property
    def end_tokens(self) -> tuple[int, ...]:
        """Return the ids that end a sample when the caller names no stop."""
        added = {t["content"]: t["id"] for t in self._description.get("added_tokens", ())}
        return tuple(added[text] for text in _END_TOKENS if text in added)

    @cached_property
    def tokenizer(self) -> Any:
        """Return the loaded tokenizer, needed for stop strings only."""
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(self.tokenizer_file))


class BaseModels(Mapping[str, BaseModel]):
    """The served models by name.

    Args:
        extra: More names, each with a tokenizer.json, a directory holding one, or None (bytes).
    """

    def __init__(self, extra: Mapping[str, str | None] | None = None) -> None:
        self._models = {name: _built_in(name) for name in BUILT_IN}
        for name, place in (extra or {}).items():
            self._models[name] = BaseModel(name, tokenizer_file(place))

    def __getitem__(self, name: str) -> BaseModel:
        return self._models[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    def explain_missing(self, name: str) -> str:
        """Say which models there are and how to add one."""
        near = get_close_matches(name, self._models, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        return (
            f"base model {name!r} is not served here{hint} Served: {', '.join(self._models)}. "
            f"Register it with `tinker-ext serve --model {name}` (byte tokenizer) or "
            f"`--model {name}=TOKENIZER_JSON_OR_DIR`; in Python: "
            f"Settings(models={{{name!r}: tokenizer_or_None}})."
        )


@cache
def _built_in(name: str) -> BaseModel:
    """Return a model that every server has; its tokenizer is read once."""
    return BaseModel(name, BYTES / "tokenizer.json")


def tokenizer_file(place: str | None) -> Path:
    """Find the tokenizer.json a `--model NAME=PLACE` names.

    Raises:
        ValueError: There is no such model.
    """
    if place is None:
        return BYTES / "tokenizer.json"
    path = Path(place).expanduser().resolve()
    if path.is_dir():
        path = path / "tokenizer.json"
    if not path.is_file():
        raise ValueError(
            f"no tokenizer.json at {path}; give a tokenizer.json file or a directory that holds one"
        )
    return path
