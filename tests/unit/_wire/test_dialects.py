"""The choice of wire, era and seq rule as a table."""

from __future__ import annotations

import pytest

from tinker_ext._wire import dialects
from tinker_ext._wire.dialects import Seq, ServerConfig, Wire, choose
from tinker_ext.errors import ConfigurationError

HOSTED = "https://tinker.thinkingmachines.dev/services/tinker-prod"
FULL = {"parallel_fwdbwd_chunks": True, "fwdbwd_max_chunk_len": 1024}


@pytest.mark.parametrize(
    ("url", "reply", "wire", "era", "seq"),
    [
        ("http://x", None, Wire.JSON, "0.4.1", Seq.IGNORE),
        ("http://x", {}, Wire.JSON, "0.4.1", Seq.IGNORE),
        ("http://x", {"pjwt_auth_enabled": False}, Wire.JSON, "0.4.1", Seq.IGNORE),
        ("http://x", FULL, Wire.PROTO, "0.36.0", Seq.ORDER),
        ("http://x", {"fwdbwd_max_chunk_len": 9}, Wire.PROTO, "0.36.0", Seq.DEDUPE),
        ("http://x", {**FULL, "parallel_fwdbwd_chunks": False}, Wire.PROTO, "0.36.0", Seq.DEDUPE),
        ("http://x", {**FULL, "seq_ids": "ignore"}, Wire.PROTO, "0.36.0", Seq.IGNORE),
        ("http://x", {**FULL, "seq_ids": "gap"}, Wire.PROTO, "0.36.0", Seq.ORDER),
        ("http://x", {**FULL, "seq_ids": "strict"}, Wire.PROTO, "0.36.0", Seq.STRICT),
        ("http://x", {**FULL, "seq_ids": "?"}, Wire.PROTO, "0.36.0", Seq.ORDER),
        (HOSTED, {}, Wire.PROTO, "0.36.0", Seq.ORDER),
        (f"http://x/{HOSTED}", {}, Wire.JSON, "0.4.1", Seq.IGNORE),
    ],
)
def test_what_a_config_reply_means(url, reply, wire, era, seq):
    """M27 M28: probing client/config decides wire, era and the rule for repeats."""
    dialect = choose(url, reply)
    assert (dialect.wire, dialect.era, dialect.seq) == (wire, era, seq)


def test_argument_wins_over_environment_wins_over_probe():
    """M27: overridable by argument and environment."""
    assert choose("http://x", FULL, argument="json", environment="proto").chosen_by == "argument"
    assert choose("http://x", FULL, environment="json").wire is Wire.JSON
    assert choose("http://x", FULL, argument="auto", environment="json").wire is Wire.JSON
    assert choose("http://x", FULL, protobuf=False).wire is Wire.JSON
    assert choose("http://x", None, seq="dedupe").seq is Seq.DEDUPE
    for wrong in ({"argument": "xml"}, {"environment": "xml"}, {"seq": "maybe"}):
        with pytest.raises(ConfigurationError):
            choose("http://x", FULL, **wrong)
    with pytest.raises(ConfigurationError, match=r"tinker-ext\[proto\]"):
        choose("http://x", FULL, argument="proto", protobuf=False)


def test_refusals_are_remembered_per_server():
    """M27: what a server refused is not tried again."""
    dialects.remember_refusal("http://a", Wire.PROTO)
    try:
        chosen = choose("http://a", FULL, refused=dialects.refusals("http://a"))
        assert (chosen.wire, chosen.chosen_by) == (Wire.JSON, "refusal")
        assert dialects.refusals("http://b") == frozenset()
        both = frozenset(Wire)
        assert choose("http://a", FULL, refused=both).wire is Wire.PROTO
    finally:
        dialects.forget_refusals("http://a")


def test_flags_of_the_wrong_type_read_as_default():
    """M28: a hostile config changes nothing."""
    wild = {field.name: [None] for field in ServerConfig.__attrs_attrs__}
    assert ServerConfig.read(wild) == ServerConfig()
    assert ServerConfig.read({"fwdbwd_max_chunk_len": -1}) == ServerConfig()
    assert ServerConfig.read({"fwdbwd_max_chunk_len": True}) == ServerConfig()
    assert ServerConfig.read({"fwdbwd_max_chunk_len": 7}).fwdbwd_max_chunk_len == 7


def test_what_is_safe_on_which_server():
    """M20: posts run ahead only where the server sorts, and repeat only where it recognises."""
    rules = {seq: choose("http://x", FULL, seq=seq.value) for seq in Seq}
    assert [d.pipelined for d in rules.values()] == [True, False, False, False]
    assert [d.resends for d in rules.values()] == [True, True, True, False]
