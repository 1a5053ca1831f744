"""Small models and data for the tests of the engine."""

from collections.abc import Callable

import numpy as np
import pytest

from tinker_ext.mock.engine import BaseModel, Datum, byte_log_prior

VOCABULARY = 259

TEXT = (
    b"The engine is a small thing that learns quickly. It reads bytes, guesses the next one and "
    b"is corrected, again and again, until the guess is good. "
) * 4


@pytest.fixture(scope="session")
def base() -> BaseModel:
    return BaseModel.create("tests/tiny", VOCABULARY, seed=3, log_prior=byte_log_prior(VOCABULARY))


@pytest.fixture(scope="session")
def exact_base() -> BaseModel:
    """A float64 model, for comparing gradients with finite differences."""
    return BaseModel.create("tests/exact", 70, seed=5, dtype=np.float64)


@pytest.fixture
def text_datum() -> Callable[..., Datum]:
    def make(length: int, offset: int = 0, weight: float = 1.0) -> Datum:
        ids = np.frombuffer(TEXT[offset : offset + length + 1], dtype=np.uint8).astype(np.int64)
        weights = np.full(length, weight, dtype=np.float32)
        return Datum(ids[:-1], {"target_tokens": ids[1:], "weights": weights})

    return make


@pytest.fixture
def rl_datum() -> Callable[..., Datum]:
    def make(length: int, seed: int, vocabulary: int = VOCABULARY) -> Datum:
        rng = np.random.default_rng(seed)
        return Datum(
            rng.integers(0, vocabulary, length),
            {
                "target_tokens": rng.integers(0, vocabulary, length),
                "weights": rng.standard_normal(length).astype(np.float32),
                "advantages": rng.standard_normal(length).astype(np.float32),
                "logprobs": rng.normal(-np.log(vocabulary), 0.3, length).astype(np.float32),
            },
        )

    return make
