"""The choice of wire, era and seq rule as a table."""

from __future__ import annotations

import json
import os
from pathlib import Path

import attrs
import pytest
from tinker_api.models import ClientConfigResponse

from tinker_ext._wire import dialect as dialects
from tinker_ext._wire.dialect import Ability, DialectFile, Seq, Wire, choose, read_config
from tinker_ext.config import Config
from tinker_ext.errors import ConfigurationError, FeatureMissingError

HOSTED = "https://tinker.thinkingmachines.dev/services/tinker-prod"
FULL = {"parallel_fwdbwd_chunks": True, "fwdbwd_max_chunk_len": 1024}


@pytest.fixture(autouse=True)
def _nothing_found_yet(monkeypatch):
    """What clients of other tests found out about servers of the same name does not count."""
    monkeypatch.setattr(dialects, "_wires", {})


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
    for wrong in ({"argument": "xml"}, {"environment": "xml"}):
        with pytest.raises(ConfigurationError):
            choose("http://x", FULL, **wrong)
    with pytest.raises(ConfigurationError, match="seq must be one of auto, order"):
        Config(seq="maybe")
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
        dialects._wires.pop("http://a", None)
    assert choose("http://a", FULL).wire is Wire.PROTO


def test_abilities_have_names():
    """F16 M28: what an older server cannot do is refused in words, before anything is sent."""
    old, new = choose("http://x", None), choose("http://x", FULL)
    for ability in Ability:
        assert ability in new.abilities
        assert ability not in old.abilities
        with pytest.raises(FeatureMissingError, match="has no"):
            old.require(ability)


def test_flags_of_the_wrong_type_read_as_default():
    """M28: a hostile config changes nothing."""
    wild = {field.name: [None] for field in attrs.fields(ClientConfigResponse)}
    assert read_config(wild) == ClientConfigResponse()
    assert read_config({"fwdbwd_max_chunk_len": -1}) == ClientConfigResponse()
    assert read_config({"fwdbwd_max_chunk_len": True}) == ClientConfigResponse()
    assert read_config({"fwdbwd_max_chunk_len": 7}).fwdbwd_max_chunk_len == 7


def test_what_is_safe_on_which_server():
    """M20: posts run ahead only where the server sorts, and repeat only where it recognises."""
    rules = {seq: choose("http://x", FULL, seq=seq.value) for seq in Seq}
    ahead = {seq for seq, dialect in rules.items() if dialect.pipelined}
    again = {seq for seq, dialect in rules.items() if dialect.resends}
    assert ahead == {Seq.ORDER, Seq.UNKNOWN}  # it invites parallel chunks, so it must sort them
    assert again == {Seq.ORDER, Seq.DEDUPE, Seq.STRICT, Seq.LATE}
    assert not choose("http://x", {"fwdbwd_max_chunk_len": 9}).pipelined


@pytest.mark.parametrize(
    ("said", "reply", "wanted"),
    [
        ({"wire": "json"}, FULL, (Wire.JSON, "file", Seq.UNKNOWN, "assumed", "0.36.0", True)),
        ({"wire": "proto", "era": "0.36.0"}, None,
         (Wire.PROTO, "file", Seq.UNKNOWN, "assumed", "0.36.0", False)),
        ({"era": "0.4.1"}, FULL, (Wire.JSON, "probe", Seq.UNKNOWN, "assumed", "0.4.1", True)),
        ({"seq": "late"}, FULL, (Wire.PROTO, "probe", Seq.LATE, "file", "0.36.0", True)),
        ({"seq": "order", "reorders": False}, FULL,
         (Wire.PROTO, "probe", Seq.ORDER, "file", "0.36.0", False)),
        ({"seq": "dedupe"}, {**FULL, "seq_ids": "ignore"},
         (Wire.PROTO, "probe", Seq.IGNORE, "declared", "0.36.0", True)),
        ({"seq": "ignore"}, {**FULL, "seq_ids": "gap"},
         (Wire.PROTO, "probe", Seq.IGNORE, "file", "0.36.0", True)),
    ],
)  # fmt: skip
def test_what_a_file_says_is_not_found_out_again(said, reply, wanted):
    """F3 F35 M43: a file wins over flags; of two rules for repeats the careful one wins."""
    made = choose("http://x", reply, file=DialectFile(**said))
    assert (made.wire, made.chosen_by, made.seq, made.seq_by, made.era, made.sorts) == wanted


def test_what_the_user_says_wins_over_a_file():
    """M27 M43: arguments and settings are newer than any file."""
    file = DialectFile(wire="proto", seq="dedupe", lacks=["finish_session"])
    made = choose("http://x", FULL, argument="json", seq="strict", file=file)
    assert (made.wire, made.seq, made.seq_by) == (Wire.JSON, Seq.STRICT, "configured")
    assert made.lacks == {"finish_session"}
    assert choose("http://x", None, protobuf=False, file=file).wire is Wire.JSON


GOOD = {"format": dialects.FILE_FORMAT, "server": "HTTP://X:80/", "wire": "json", "newer": 1}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file"),
        ("{", r"is damaged \(JSONDecodeError"),
        ("[]", "is damaged"),
        ("[" * 100_000, "is damaged"),
        ("\udc80", "is damaged"),
        ({}, "is of the format None, not 'tinker-ext-dialect/1'"),
        ({**GOOD, "format": "tinker-ext-dialect/2", "wire": "xml"}, "is of the format"),
        ({**GOOD, "server": "http://y"}, "is about http://y, not about http://x"),
        ({**GOOD, "server": 7}, "is damaged"),
        ({"format": dialects.FILE_FORMAT}, "is damaged"),
        ({**GOOD, "wire": "xml"}, "'xml' is not a valid Wire"),
        ({**GOOD, "seq": "maybe"}, "'maybe' is not a valid Seq"),
        ({**GOOD, "era": "1.0"}, "'era' must be in"),
        ({**GOOD, "reorders": "yes"}, "'reorders' must be <class 'bool'>"),
        ({**GOOD, "lacks": "finish_session"}, "'lacks' must be <class 'list'>"),
        ({**GOOD, "lacks": [1]}, "'lacks' must be <class 'str'>"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_meant_is_one_sentence(tmp_path, content, reason):
    """M43: damaged, of another version or another server: told before anything is sent."""
    path = tmp_path / "dialect.json"
    if content is not None:
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigurationError, match=reason) as caught:
        DialectFile.read(str(path), "http://x")
    assert f"tinker-ext conform http://x --remember {path}" in str(caught.value)


def test_a_pipe_is_not_waited_for(tmp_path):
    """M43: a pipe that nobody writes to would hold the constructor for ever."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ConfigurationError, match="not a regular file"):
            DialectFile.read(str(path), "http://x")


def test_a_file_reads(tmp_path):
    """M43: the same server in another spelling; what a later version adds is passed over."""
    path = tmp_path / "dialect.json"
    path.write_text(json.dumps(GOOD))
    assert DialectFile.read(str(path), "http://x") == DialectFile(wire="json")
