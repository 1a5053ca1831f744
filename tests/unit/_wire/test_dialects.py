"""The choice of wire, era and seq rule as a table."""

from __future__ import annotations

import pytest

from tinker_ext._wire import dialect as dialects
from tinker_ext._wire.dialect import Ability, Seq, ServerConfig, Wire, choose
from tinker_ext.errors import ConfigurationError, FeatureMissingError

HOSTED = "https://tinker.thinkingmachines.dev/services/tinker-prod"
FULL = {"parallel_fwdbwd_chunks": True, "fwdbwd_max_chunk_len": 1024}


@pytest.mark.parametrize(
    ("url", "reply", "wire", "era", "seq"),
    [
        ("http://x", None, Wire.JSON, "0.4.1", Seq.UNKNOWN),
        ("http://x", {}, Wire.JSON, "0.4.1", Seq.UNKNOWN),
        ("http://x", {"pjwt_auth_enabled": False}, Wire.JSON, "0.4.1", Seq.UNKNOWN),
        ("http://x", FULL, Wire.PROTO, "0.36.0", Seq.UNKNOWN),
        ("http://x", {"fwdbwd_max_chunk_len": 9}, Wire.PROTO, "0.36.0", Seq.UNKNOWN),
        ("http://x", {**FULL, "parallel_fwdbwd_chunks": False}, Wire.PROTO, "0.36.0", Seq.UNKNOWN),
        ("http://x", {**FULL, "seq_ids": "ignore"}, Wire.PROTO, "0.36.0", Seq.IGNORE),
        ("http://x", {**FULL, "seq_ids": "gap"}, Wire.PROTO, "0.36.0", Seq.ORDER),
        ("http://x", {**FULL, "seq_ids": "strict"}, Wire.PROTO, "0.36.0", Seq.STRICT),
        ("http://x", {**FULL, "seq_ids": "?"}, Wire.PROTO, "0.36.0", Seq.UNKNOWN),
        (HOSTED, {}, Wire.PROTO, "0.36.0", Seq.ORDER),
        (f"http://x/{HOSTED}", {}, Wire.JSON, "0.4.1", Seq.UNKNOWN),
    ],
)
def test_what_a_config_reply_means(url, reply, wire, era, seq):
    """F3 M27 M28 M43: probing client/config decides wire, era and the rule for repeats."""
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


def test_what_was_found_out_is_remembered_as_far_as_that_is_safe():
    """F1 M27 M43: the accepted wire for later clients, the rule for repeats for this one."""
    try:
        found = choose("http://a", FULL).found(wire=Wire.JSON, seq=Seq.DEDUPE)
        assert (found.wire, found.chosen_by, found.seq_by) == (Wire.JSON, "found", "found")
        later = choose("http://a", FULL)
        assert (later.wire, later.chosen_by, later.seq) == (Wire.JSON, "found", Seq.UNKNOWN)
        assert choose("http://b", FULL).wire is Wire.PROTO
        assert choose("http://a", FULL, argument="proto").wire is Wire.PROTO
    finally:
        dialects.forget("http://a")
    assert choose("http://a", FULL).wire is Wire.PROTO


def test_abilities_have_names():
    """F16 M28: what an older server cannot do is refused in words, before anything is sent."""
    old, new = choose("http://x", None), choose("http://x", FULL)
    for ability in Ability:
        assert new.can(ability)
        assert not old.can(ability)
        with pytest.raises(FeatureMissingError, match="has no"):
            old.require(ability)


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
    ahead = {seq for seq, dialect in rules.items() if dialect.pipelined}
    again = {seq for seq, dialect in rules.items() if dialect.resends}
    assert ahead == {Seq.ORDER, Seq.UNKNOWN}  # it invites parallel chunks, so it must sort them
    assert again == {Seq.ORDER, Seq.DEDUPE, Seq.STRICT, Seq.LATE}
    assert not choose("http://x", {"fwdbwd_max_chunk_len": 9}).pipelined
