"""Price tables: what a file may hold, what is said of one that does not, and what tokens cost."""

import json

import pytest

from tinker_ext.errors import ConfigurationError
from tinker_ext.runlog import Budget, Prices, Tokens

TABLE = {"models": {"big": {"train": 4.0, "sample": 8}, "*": {"prefill": 0}}, "date": 2026}


def test_a_table_is_read_by_the_ending_of_its_name(tmp_path):
    """M34: JSON and TOML give the same prices, with their currency and date."""
    (tmp_path / "a.json").write_text(json.dumps({**TABLE, "currency": "EUR"}))
    toml = 'currency = "EUR"\ndate = 2026\n[models.big]\ntrain = 4.0\nsample = 8\n'
    (tmp_path / "a.toml").write_text(toml + '[models."*"]\nprefill = 0\n')
    one, other = (Prices.load(tmp_path / name) for name in ("a.json", "a.toml"))
    assert one == other
    assert (one.currency, one.date) == ("EUR", "2026")
    (tmp_path / "b.json").write_text(json.dumps({"models": TABLE["models"]}))
    plain = Prices.load(str(tmp_path / "b.json"))
    assert (plain.currency, plain.date) == ("USD", None)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "{", r"a\.json is not valid JSON: "),
        ("a.toml", "{", r"a\.toml is not valid TOML: "),
        ("a.json", "[]", "has no `models`"),
        ("a.json", "{}", "has no `models`"),
        ("a.json", '{"models": {}}', "has no `models`"),
        ("a.json", '{"models": []}', "has no `models`"),
        ("a.json", '{"models": {"m": 1}}', "prices of 'm' must be a table, not 1"),
        ("a.json", '{"models": {"m": {"trian": 1}}}', "name 'trian'; known are train, prefill"),
        ("a.json", '{"models": {"m": {"train": "1"}}}', "price of train for 'm' .* not '1'"),
        ("a.json", '{"models": {"m": {"train": true}}}', "not True"),
        ("a.json", '{"models": {"m": {"train": -1}}}', "at least 0, not -1"),
        ("a.json", '{"models": {"m": {"train": Infinity}}}', "not inf"),
        ("a.json", '{"models": {"m": {"train": NaN}}}', "not nan"),
    ],
)
def test_what_is_no_table_is_refused_with_the_reason(tmp_path, name, text, said):
    """M34: a wrong file names itself and what is wrong with it."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        Prices.load(tmp_path / name)


def test_a_file_that_is_not_there_is_named(tmp_path):
    """M34: with what the system says."""
    with pytest.raises(ConfigurationError, match=r"none\.json: No such file"):
        Prices.load(tmp_path / "none.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(ConfigurationError, match=r"folder\.json: Is a directory"):
        Prices.load(tmp_path / "folder.json")


def test_every_kind_counts_at_its_price_per_million():
    """M34: a listed model at its own prices, any other at those of `*`, none at no price."""
    prices = Prices({"big": {"train": 4.0, "sample": 8.0}, "*": {"prefill": 1.0}})
    tokens = Tokens(train=500_000, prefill=250_000, sample=250_000)
    assert prices.cost(tokens, "big") == 4.0
    assert prices.cost(tokens, "other") == prices.cost(tokens, None) == 0.25
    assert Prices({"big": {}}).cost(tokens, "other") is None
    assert Prices({"big": {}}).cost(tokens, "big") == 0.0


@pytest.mark.parametrize("name", ["tokens", "train", "prefill", "sample", "cost"])
def test_a_limit_is_a_number_from_zero_on(name):
    """M34: 0 is a limit, a negative number, text and a truth value are not; None is no limit."""
    for value in (0, 1, 0.5, None):
        assert getattr(Budget(**{name: value}), name) == value
    for value in (-1, "1", True, float("nan")):
        with pytest.raises(ConfigurationError, match=f"budget of {name} .* at least 0"):
            Budget(**{name: value})
