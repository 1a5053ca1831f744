"""Small choices that clients make for their users, as tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tinker_ext import AdamParams, Config, SampleResponse
from tinker_ext.clients.service import is_wanted
from tinker_ext.clients.training import step_params
from tinker_ext.errors import ConfigurationError, InvalidInputError
from tinker_ext.types import SampledSequence

HOSTED = Config().base_url
OTHER = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("argument", "knob", "consent", "url"),
    list(
        itertools.product((None, True, False), (None, True, False), (True, False), (HOSTED, OTHER))
    ),
)
def test_telemetry_goes_only_where_it_is_wanted(argument, knob, consent, url):
    """M34 M42: who says nothing sends nothing but, with consent, to the hosted service."""
    config = Config(telemetry=knob, telemetry_consent=consent)
    said = argument if argument is not None else knob
    wanted = said if said is not None else consent and url == HOSTED
    assert is_wanted(argument, config, url) is wanted


def test_telemetry_is_on_or_off():
    """M34: a text is a mistake, since every text counts as true."""
    with pytest.raises(ConfigurationError, match="telemetry must be True, False or None"):
        is_wanted("off", Config(), OTHER)


def test_a_step_takes_its_settings_under_one_name():
    """F51: both names or neither is a mistake, and is told before anything is sent."""
    params = AdamParams(learning_rate=0.5)
    assert step_params(params, None).learning_rate == 0.5
    assert step_params(None, params).learning_rate == 0.5
    for wrong in ((None, None), (params, params)):
        with pytest.raises(InvalidInputError, match="only one"):
            step_params(*wrong)
    with pytest.raises(InvalidInputError, match="not the class"):
        step_params(AdamParams, None)
    with pytest.raises(InvalidInputError, match="or the like"):
        step_params(3, None)


@pytest.mark.parametrize(
    ("name", "fine", "wrong"),
    [
        ("learning_rate", (0.0, 1e9), (-1e-9, float("nan"))),
        ("beta1", (0.0, 0.999), (-0.1, 1.0)),
        ("beta2", (0.0, 0.999), (-0.1, 1.0)),
        ("eps", (0.0, 1.0), (-1e-12,)),
        ("weight_decay", (0.0, 10.0), (-0.1,)),
        ("grad_clip_norm", (0.0, 10.0), (-0.1,)),
    ],
)
def test_the_bounds_of_a_step(name, fine, wrong):
    """M17: a value at the edge is taken, one beyond it is refused by name."""
    for value in fine:
        step_params(AdamParams(**{"learning_rate": 0.1, name: value}), None)
    for value in wrong:
        with pytest.raises((InvalidInputError, ValueError), match=name):
            step_params(AdamParams(**{"learning_rate": 0.1, name: value}), None)


def test_an_answer_is_printed_as_users_read_it():
    """M34: a notebook shows lists, not the arrays behind them."""
    sequence = SampledSequence("stop", tokens_np=np.array([1, 2]), logprobs_np=np.zeros(2))
    assert repr(sequence).startswith("SampledSequence(stop_reason='stop', sequence_id='', tokens=[")
    assert "array(" not in repr(SampleResponse([sequence]))
    assert sequence == SampledSequence("stop", tokens_np=np.array([1, 2]), logprobs_np=np.zeros(2))
