"""`Tokens`: how many tokens were trained on, read as prompts, and sampled."""

from __future__ import annotations

import attrs


@attrs.frozen
class Tokens:
    """Token counts by the kinds a server bills apart.

    Attributes:
        train: Tokens of forward_backward.
        prefill: Tokens of prompts and of forward passes without gradient.
        sample: Tokens generated.

    Example:
        >>> Tokens(train=3) + Tokens(sample=2)
        Tokens(train=3, prefill=0, sample=2)
    """

    train: int = 0
    prefill: int = 0
    sample: int = 0

    @property
    def total(self) -> int:
        """All kinds together."""
        return self.train + self.prefill + self.sample

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.train + other.train, self.prefill + other.prefill, self.sample + other.sample
        )

    def __sub__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.train - other.train, self.prefill - other.prefill, self.sample - other.sample
        )

    def __bool__(self) -> bool:
        return self.total != 0

    def to_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {"train": self.train, "prefill": self.prefill, "sample": self.sample}
