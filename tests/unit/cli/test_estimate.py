"""`tinker-ext estimate`: what it says before is what the ledger says afterwards."""

import json

import pytest
from in_process import MODEL, adam

from tinker_ext import Datum, ModelInput, SamplingParams, ServiceClient
from tinker_ext.cli import main

PRICES = """
currency = "EUR"
date = 2026-11-01
[models."tinker-ext/tiny"]
train = 40.0
prefill = 13.0
sample = 120.0
"""
ROWS = [[1, 2, 3, 4, 5], [7, 8, 9], list(range(1, 12))]


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    return path


def data(tmp_path, rows, name="data.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["--format", "json", "estimate", *map(str, words)])
    said = capsys.readouterr()
    return json.loads(said.out) if ended.value.code == 0 else said.err


@pytest.fixture
def service(prices, tmp_path):
    with ServiceClient(base_url="embedded", prices=prices) as made:
        yield made


def test_sft_costs_what_was_estimated(service, prices, tmp_path, capsys):
    """M34: tokens and cost are equal, to the token and the cent, for three epochs."""
    path = data(tmp_path, [{"tokens": row} for row in ROWS])
    said = run(capsys, path, "--epochs", 3, "--model", MODEL, "--prices", prices)
    training = service.create_lora_training_client(MODEL, rank=4)
    for _ in range(3):
        for row in ROWS:
            datum = Datum(ModelInput.from_ints(row[:-1]), {"target_tokens": row[1:]})
            training.forward_backward([datum], "cross_entropy").result()
            training.optim_step(adam()).result()
    assert said["tokens"]["low"] == said["tokens"]["high"] == service.ledger.used.to_dict()
    assert said["cost"]["low"] == pytest.approx(service.ledger.cost, rel=1e-12)
    assert (said["currency"], said["prices_of"], said["rows"]) == ("EUR", "2026-11-01", 3)


def test_rl_costs_between_the_two(service, prices, tmp_path, capsys):
    """M34: a group per prompt is sampled and trained on; the ledger lies in the interval."""
    path = data(tmp_path, [{"tokens": row} for row in ROWS])
    said = run(
        capsys,
        path,
        "--rl",
        "--group",
        3,
        "--max-tokens",
        6,
        "--epochs",
        2,
        "--model",
        MODEL,
        "--prices",
        prices,
    )
    training = service.create_lora_training_client(MODEL, rank=4)
    for _ in range(2):
        sampler = training.save_weights_and_get_sampling_client()
        for row in ROWS:
            reply = sampler.sample(
                ModelInput.from_ints(row), 3, SamplingParams(max_tokens=6, stop=list(range(40)))
            ).result()
            for sequence in reply.sequences:
                whole = row + sequence.tokens
                datum = Datum(ModelInput.from_ints(whole[:-1]), {"target_tokens": whole[1:]})
                training.forward_backward([datum], "cross_entropy").result()
            training.optim_step(adam()).result()
    used = service.ledger.used.to_dict()
    for kind, count in used.items():
        assert said["tokens"]["low"][kind] <= count <= said["tokens"]["high"][kind], kind
    assert said["cost"]["low"] < service.ledger.cost < said["cost"]["high"]
    assert used["prefill"] == said["tokens"]["low"]["prefill"]


def test_rows_of_every_form_are_counted(tmp_path, capsys):
    """M34: datums as they are, text by the tokenizer, cut at a length, full batches only."""
    rows = [
        {
            "model_input": {
                "chunks": [{"tokens": [1, 2, 3]}, {"type": "image", "expected_tokens": 4}]
            }
        },
        {"text": "four"},
        {"prompt": "ab", "completion": "cd"},
        {"tokens": list(range(100))},
    ]
    path = data(tmp_path, rows)
    said = run(capsys, path, "--model", MODEL)
    text = run(capsys, data(tmp_path, rows[1:2], "one.jsonl"), "--model", MODEL)
    assert text["tokens"]["low"]["train"] > 0
    assert said["tokens"]["low"]["train"] == 7 + 2 * text["tokens"]["low"]["train"] + 99
    assert said["cost"] is None
    cut = run(capsys, path, "--model", MODEL, "--max-length", 5)
    assert cut["tokens"]["low"]["train"] == 5 + 2 * min(5, text["tokens"]["low"]["train"]) + 5
    batches = run(capsys, data(tmp_path, [{"tokens": [1] * 11}] * 7, "b.jsonl"), "--drop-last", 3)
    assert batches["tokens"]["low"]["train"] == 60


@pytest.mark.parametrize(
    ("rows", "words", "said"),
    [
        ([{"x": 1}], [], "Row 1 has no tokens to count"),
        ([{"prompt": "half"}], ["--model", MODEL], "Row 1 has no tokens to count"),
        ([{"prompt": "a", "completion": 5}], ["--model", MODEL], "Row 1 has no tokens to count"),
        ([{"messages": [1]}], ["--model", MODEL], "Row 1 has no tokens to count"),
        *(
            ([{"tokens": [1, 2]}, {"model_input": odd}], [], "Row 2 has a model_input that is")
            for odd in (
                5,
                "text",
                {},
                {"chunks": [5]},
                {"chunks": [{"tokens": None}]},
                {"chunks": [{"tokens": "text"}]},
                {"chunks": [{"expected_tokens": "x"}]},
            )
        ),
        ([{"text": "a"}], [], "a tokenizer is needed"),
        ([], [], "has no rows"),
        ([{"tokens": [1, 2]}], ["--rl"], "needs --max-tokens"),
        ([{"tokens": [1, 2]}], ["--prices", "PRICES", "--model", "other"], "no prices for other"),
        ([{"tokens": [1, 2]}], ["--prices", "UNDATED", "--model", MODEL], "date = 2026"),
    ],
)
def test_what_is_missing_is_said(tmp_path, prices, capsys, rows, words, said):
    """M6: one line, and what to do."""
    undated = tmp_path / "undated.toml"
    undated.write_text(PRICES.replace("date", "# date"))
    names = {"PRICES": str(prices), "UNDATED": str(undated)}
    text = run(capsys, data(tmp_path, rows), *(names.get(word, word) for word in words))
    assert said in text
    assert text.startswith("Error: ")


def test_a_broken_line_is_named(tmp_path, capsys):
    """M6: with its number."""
    path = tmp_path / "data.jsonl"
    path.write_text('{"tokens": [1, 2]}\n{torn\n')
    assert "line 2 is not JSON" in run(capsys, path)
    path.write_bytes(b"\xff\xfe\n")
    assert "line 1 is not JSON" in run(capsys, path)
    assert "there is no file" in run(capsys, tmp_path / "nothing.jsonl")


def test_people_get_a_table(tmp_path, prices, capsys):
    """M34: tokens, price and cost, with the date of the prices."""
    with pytest.raises(SystemExit):
        main(
            [
                "estimate",
                str(data(tmp_path, [{"tokens": [1] * 1001}])),
                "--epochs",
                "2",
                "--prices",
                str(prices),
                "--model",
                MODEL,
            ]
        )
    said = capsys.readouterr().out
    assert "1 examples, 2 epochs" in said
    assert "2,000" in said
    assert "0.0800" in said
    assert "prices of 2026-11-01" in said
