"""`ModelInput`: what a model reads, as a list of chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self, cast

import attrs

from tinker_ext.errors import InvalidInputError
from tinker_ext.types.chunks import (
    CHUNK_TYPES,
    EncodedTextChunk,
    ModelInputChunk,
    Tokens,
    chunk_from_dict,
    text_chunk,
)


def _chunks(value: Iterable[Any]) -> list[ModelInputChunk]:
    # Batches are built of lists of chunks: nothing else is looked at before that is ruled out.
    chunks = list(value) if type(value) is list else _listed(value)
    for chunk in chunks:
        if not isinstance(chunk, CHUNK_TYPES):
            return [_chunk(index, item) for index, item in enumerate(chunks)]
    return chunks


def _listed(value: Any) -> list[Any]:
    try:
        if not isinstance(value, (Mapping, str, bytes)):
            return list(value)
    except TypeError:
        pass
    raise InvalidInputError(
        f"ModelInput.chunks: expected a list of chunks, got {type(value).__name__}."
    )


def _chunk(index: int, value: Any) -> ModelInputChunk:
    if isinstance(value, CHUNK_TYPES):
        return cast("ModelInputChunk", value)
    if not isinstance(value, Mapping):
        raise InvalidInputError(
            f"ModelInput.chunks: {type(value).__name__} is not a chunk; "
            "wrap token ids in EncodedTextChunk or use ModelInput.from_ints."
        )
    try:
        return chunk_from_dict(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"ModelInput.chunks[{index}]: {error}") from None


@attrs.frozen(kw_only=True)
class ModelInput:
    """The input of a model: text tokens, images and audio in order.

    Args:
        chunks: The chunks; a dict with the fields of a chunk becomes that chunk.

    Raises:
        InvalidInputError: This is no list, or holds something that is no chunk.

    Example:
        >>> prompt = ModelInput.from_ints([1, 2]).append_int(3)
        >>> prompt.length, prompt.to_ints()
        (3, [1, 2, 3])
    """

    chunks: list[ModelInputChunk] = attrs.field(converter=_chunks)

    @classmethod
    def from_ints(cls, tokens: Tokens) -> Self:
        """One text chunk with these token ids."""
        made = cls.__new__(cls)  # batches are made of these: nothing is left to check
        _put_chunks(made, [text_chunk(tokens)])
        return made

    @classmethod
    def from_text(cls, text: str, tokenizer: Any, *, add_special_tokens: bool = True) -> Self:
        """One text chunk with the token ids of a text.

        Args:
            text: What to read.
            tokenizer: Of the model: from `client.get_tokenizer()`, transformers or tokenizers.
            add_special_tokens: Whether the tokenizer puts its start or end token around the text.

        Raises:
            InvalidInputError: The text is not a string, or the tokenizer gives no token ids.

        Example:
            >>> class Letters:
            ...     def encode(self, text, add_special_tokens=True):
            ...         return [ord(letter) for letter in text]
            >>> ModelInput.from_text("ab", Letters()).to_ints()
            [97, 98]
        """
        if not isinstance(text, str):
            raise InvalidInputError(f"ModelInput.from_text: expected a text, not {text!r:.100}.")
        if isinstance(tokenizer, str) or not hasattr(tokenizer, "encode"):
            raise InvalidInputError(
                f"ModelInput.from_text: {type(tokenizer).__name__} is not a tokenizer; use the one "
                "of `client.get_tokenizer()`."
            )
        encoded = tokenizer.encode(text, add_special_tokens=add_special_tokens)
        return cls.from_ints(getattr(encoded, "ids", encoded))

    @classmethod
    def empty(cls) -> Self:
        """An input without chunks."""
        return cls(chunks=[])

    def append(self, chunk: ModelInputChunk) -> Self:
        """A new input with `chunk` at the end."""
        return attrs.evolve(self, chunks=[*self.chunks, chunk])

    def append_int(self, token: int) -> Self:
        """A new input with one more token at the end."""
        return self.append(EncodedTextChunk(tokens=[token]))

    def to_ints(self) -> list[int]:
        """All token ids.

        Raises:
            InvalidInputError: A chunk is not text.
        """
        tokens: list[int] = []
        for chunk in self.chunks:
            if not isinstance(chunk, EncodedTextChunk):
                raise InvalidInputError(
                    f"ModelInput.to_ints: a {type(chunk).__name__} has no token ids."
                )
            tokens.extend(chunk.tokens)
        return tokens

    @property
    def length(self) -> int:
        """Number of positions, images and audio included.

        Raises:
            InvalidInputError: The length of an image is not declared.
        """
        return sum(chunk.length for chunk in self.chunks)

    def __hash__(self) -> int:
        return hash(tuple(self.chunks))


_put_chunks = ModelInput.__dict__["chunks"].__set__
