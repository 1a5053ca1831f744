"""`Prices`: a price table read from a JSON or TOML file.

The table gives prices per million tokens, by base model; ``*`` stands for every model that is not
named, and ``date`` says from when the prices are::

    currency = "USD"
    date = 2026-11-01

    [models."Qwen/Qwen3-8B"]
    train = 0.40
    prefill = 0.13
    sample = 0.40

    [models."*"]
    train = 1.0
    prefill = 0.3
    sample = 1.0
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tinker_ext.errors import ConfigurationError
from tinker_ext.types.tokens import Tokens

KINDS = ("train", "prefill", "sample")
PER_TOKENS = 1_000_000
ANY_MODEL = "*"


@attrs.frozen
class Prices:
    """Prices per million tokens by model.

    Example:
        >>> table = Prices({"*": {"train": 2.0, "prefill": 1.0, "sample": 3.0}})
        >>> table.cost(Tokens(train=500_000), "any/model")
        1.0
    """

    models: Mapping[str, Mapping[str, float]]
    currency: str = "USD"
    date: str | None = None

    def __attrs_post_init__(self) -> None:
        for model, row in self.models.items():
            _check(model, row)

    @classmethod
    def load(cls, path: str | Path) -> Prices:
        """Read a table from a ``.json`` or ``.toml`` file.

        Raises:
            ConfigurationError: The file cannot be read or is not a price table; says why.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            data: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except OSError as error:
            raise ConfigurationError(
                f"Cannot read the price table {path}: {error.strerror}."
            ) from None
        except ValueError as error:
            kind = "JSON" if path.suffix == ".json" else "TOML"
            raise ConfigurationError(
                f"The price table {path} is not valid {kind}: {error}."
            ) from None
        models = data.get("models") if isinstance(data, dict) else None
        if not isinstance(models, dict) or not models:
            raise ConfigurationError(
                f"The price table {path} has no `models`: name each model (or '*') with its "
                "prices of train, prefill and sample per million tokens."
            )
        date = data.get("date")
        return cls(models, str(data.get("currency", "USD")), None if date is None else str(date))

    def row(self, model: str | None) -> Mapping[str, float] | None:
        """Prices of a model, those of `*` when it is not listed, else None."""
        return self.models.get(model or ANY_MODEL, self.models.get(ANY_MODEL))

    def cost(self, tokens: Tokens, model: str | None) -> float | None:
        """What tokens cost on a model; None when the table does not know it."""
        row = self.row(model)
        if row is None:
            return None
        counts = tokens.to_dict()
        return sum(counts[kind] * row.get(kind, 0.0) for kind in KINDS) / PER_TOKENS


def _check(model: str, row: Any) -> None:
    if not isinstance(row, Mapping):
        raise ConfigurationError(f"The prices of {model!r} must be a table, not {row!r}.")
    for kind, price in row.items():
        if kind not in KINDS:
            raise ConfigurationError(
                f"The prices of {model!r} name {kind!r}; known are {', '.join(KINDS)}."
            )
        number = isinstance(price, int | float) and not isinstance(price, bool)
        if not number or not math.isfinite(price) or price < 0:
            raise ConfigurationError(
                f"The price of {kind} for {model!r} must be a number of at least 0, not {price!r}."
            )
