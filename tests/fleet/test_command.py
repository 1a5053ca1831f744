"""`tinker-ext fleet`: the table, the JSON, and what is said when there is nothing to show."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fleet.test_members import Work, member_of, wait_for

from tinker_ext.cli.run import run
from tinker_ext.fleet.state import MOST_LEFT
from tinker_ext.ledger import Budget, Ledger, Tokens

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fleet(place):
    """Two members with work, one of which waits, and something spent."""
    made = []
    for work in (Work(in_flight=20, queued=500), Work(queued=3)):
        member = member_of(place, work, "http://server", "my-run")
        member.join()
        made.append(member)
    # What is under way without a permit would keep one from the member that it belongs to.
    wait_for(lambda: made[1].value >= 3)
    work.in_flight, work.queued = 3, 0
    ledger = made[0].share(Ledger(Budget(tokens=1000)))
    ledger.hold(Tokens(sample=400)).settle(Tokens(sample=400))
    for member in made:
        member.sync()
    yield made
    for member in made:
        member.leave()


def test_members_waits_and_spend_as_json(fleet, place, capsys):
    """M49: who is alive, what it waits for and since when, what was spent, for programs."""
    assert run(["--format", "json", "fleet", place]) == 0
    shown = json.loads(capsys.readouterr().out)
    (about,) = shown["fleets"]
    assert about["base_url"] == "http://server"
    assert about["budget"] == {"tokens": 1000}
    assert about["spend"]["sample"] == 400
    members = {member["id"]: member for member in about["members"]}
    assert set(members) == {member.id for member in fleet}
    first = members[fleet[0].id]
    assert (first["waiting"], first["run"], first["queued"]) == ("permits", "my-run", 500)
    assert first["waiting_seconds"] >= 0
    assert first["process"] > 0
    assert first["spend"]["sample"] == 400
    assert members[fleet[1].id]["waiting"] == "server"


def test_what_was_refused_waits_and_is_not_in_flight(place, capsys):
    """M49: a fleet never shows more in flight than its limit because requests were refused."""
    member = member_of(place, Work(in_flight=30, queued=5, refused=12))
    member.join()
    try:
        assert run(["--format", "json", "fleet", place]) == 0
        (about,) = json.loads(capsys.readouterr().out)["fleets"]
        assert (about["in_flight"], about["queued"]) == (18, 17)
    finally:
        member.leave()


def test_a_table_for_people(fleet, place, capsys, monkeypatch):
    """M49: one look; TINKER_EXT_FLEET names the store."""
    monkeypatch.setenv("TINKER_EXT_FLEET", place)
    monkeypatch.setenv("COLUMNS", "160")
    assert run(["fleet", "--once"]) == 0
    out = capsys.readouterr().out
    assert "2 members" in out
    assert "of 1,000" in out
    assert fleet[0].id in out
    assert "permits" in out


def test_who_left_still_counts(fleet, place, capsys):
    """M49: what a member spent stays when it leaves."""
    fleet[0].leave()
    assert run(["--format", "json", "fleet", place]) == 0
    (about,) = json.loads(capsys.readouterr().out)["fleets"]
    assert about["spend_of_those_gone"][fleet[0].id]["sample"] == 400
    assert about["spend"]["sample"] == 400


def test_of_many_that_left_the_number_is_not_known(fleet, place, capsys):
    """M49: those whose spending is added up are not one member."""

    def shown():
        assert run(["fleet", "--once", place]) == 0
        return " ".join(capsys.readouterr().out.split())

    for number in range(MOST_LEFT + 2):
        told = fleet[0]._report(None) | {"id": f"w{number}", "new": False}
        fleet[0].store.report(fleet[0]._server, told)
        if number == 1:
            assert "; 2 members left" in shown()
    assert f"; more than {MOST_LEFT} members left" in shown()


def test_damage_that_only_people_would_see_is_one_line(fleet, place, capsys):
    """M49: members do not read all that they write."""
    told = fleet[0]._report(fleet[0]._pool()) | {"id": "another program"}
    del told["said"]["run"]
    fleet[0].store.report(fleet[0]._server, told)
    assert run(["fleet", "--once", place]) == 1
    assert "holds is damaged" in capsys.readouterr().err


def test_the_live_table_follows(fleet, place):
    """M49: in a terminal the table stays in place until Ctrl-C."""
    code = "import sys; from tinker_ext.cli import main; main(sys.argv[1:])"
    path = f"{ROOT}:{ROOT / 'generated'}"
    command = ["script", "-qec", f"{sys.executable} -c '{code}' fleet {place} --interval 0.2"]
    process = subprocess.Popen(
        [*command, "/dev/null"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env={"PYTHONPATH": path, "TERM": "xterm", "COLUMNS": "160", "PATH": "/usr/bin:/bin"},
        # The end of its terminal ends the command, also where nohup started the tests.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    out = b""
    while out.count(b"2 members") < 2 and (more := process.stdout.read1()):
        out += more
    process.terminate()
    process.communicate(timeout=300)
    assert out.count(b"2 members") >= 2


def test_looking_leaves_an_empty_redis_empty(redis_server, capsys):
    """M49: looking changes nothing."""
    import redis

    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
        assert run(["fleet", redis_server.url]) == 0
        assert "has no fleet yet" in capsys.readouterr().out
        assert client.keys("*") == []


def test_nothing_to_show(tmp_path, capsys, monkeypatch):
    """M49: no store named, no such folder, no fleet yet; each is one line with the way on."""
    monkeypatch.delenv("TINKER_EXT_FLEET", raising=False)
    assert run(["fleet"]) == 1
    assert "TINKER_EXT_FLEET" in capsys.readouterr().err
    assert run(["fleet", str(tmp_path / "none")]) == 1
    assert "no folder" in capsys.readouterr().err
    assert run(["fleet", str(tmp_path)]) == 0
    assert "has no fleet yet" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert run(["fleet", "ftp://host"]) == 1
    assert "redis://" in capsys.readouterr().err
