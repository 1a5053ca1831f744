"""What is wrong with a store is said at the start, in one error."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from fleet.conftest import overwrite
from fleet.redis_server import RedisServer
from fleet.test_members import Work, fleet_of, member_of, wait_for

from tinker_ext import ServiceClient
from tinker_ext.cli.run import run
from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet import without_password
from tinker_ext.fleet.store import FILE
from tinker_ext.ledger import Budget, Ledger, Tokens

ROOT = Path(__file__).parents[2]


def joined(address):
    return ServiceClient(base_url="http://127.0.0.1:9", api_key="k", fleet=address)


def complaint(address):
    with pytest.raises(ConfigurationError) as caught:
        joined(address)
    return str(caught.value)


@pytest.mark.parametrize("address", ["http://host", "postgres://host/db"])
def test_a_place_that_is_not_a_store(address):
    """M49: says what would be one."""
    assert "give a folder, or redis://" in complaint(address)


@pytest.mark.parametrize("address", [7, ["a"], True])
def test_something_that_is_not_an_address(address):
    """M49."""
    assert "fleet must be" in complaint(address)


def test_a_file_in_place_of_a_folder(tmp_path):
    """M49."""
    place = tmp_path / "file"
    place.write_text("")
    assert f"store {place} cannot be used: [Errno 17] File exists" in complaint(place)


def test_a_damaged_database(tmp_path):
    """M49."""
    (tmp_path / FILE).write_text("this is not a database, and long enough to be seen as such" * 20)
    text = complaint(tmp_path)
    assert "cannot be used: file is not a database" in text
    assert "can be deleted when no fleet uses it" in text


READ_ONLY = """
import os, sys
import tinker_ext.fleet.store
from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet import open_store
os.setuid(65534)
try:
    open_store(sys.argv[1]).open()
except ConfigurationError as error:
    print(error)
"""


def test_a_read_only_folder(request):
    """M49: tried as another user where the tests run as root, who may write everywhere."""
    # Not below pytest's own folder, which every run of pytest closes to other users when it starts.
    folder = tempfile.TemporaryDirectory()
    request.addfinalizer(folder.cleanup)
    Path(folder.name).chmod(0o755)
    place = Path(folder.name, "fleet")
    place.mkdir()
    place.chmod(0o555)
    if os.geteuid() != 0:
        assert "cannot be used: [Errno 13] Permission denied" in complaint(place)
        return
    path = os.pathsep.join([str(ROOT), str(ROOT / "generated")])
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(place)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert "cannot be used: [Errno 13] Permission denied" in done.stdout, done.stderr
    assert "must be able to write to this folder" in done.stdout


@pytest.mark.parametrize(("layout", "age"), [("5", "an older"), ("7", "a newer")])
def test_another_layout_in_a_folder(tmp_path, layout, age):
    """M49: says which layout, and that one version is needed; nothing is changed."""
    joined(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("UPDATE meta SET value = ? WHERE key = 'layout'", (layout,))
    database.close()
    text = complaint(tmp_path)
    assert f"written by {age} version" in text
    assert f"layout is {layout}" in text


def test_another_layout_in_redis(redis_server):
    """M49."""
    import redis

    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
        client.set("tinker-ext:fleet:layout", "9")
        assert "written by a newer version" in complaint(redis_server.url)
        client.flushall()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("layout", b"\xff", "holds is damaged"),
        ("salt", b"\xff", "holds is damaged"),
        ("layout", "²", "its layout is ²"),
    ],
)
def test_what_another_program_wrote_into_redis_about_it(redis_server, name, value, words):
    """M49: one error, as for a key of another type."""
    import redis

    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
        client.set(f"tinker-ext:fleet:{name}", value)
        assert words in complaint(redis_server.url)
        client.flushall()


def test_two_versions_at_once(address, monkeypatch):
    """M49: a store in use by another version is refused, and the error names who uses it."""
    monkeypatch.setattr("tinker_ext.fleet.member.__version__", "9.3.0")
    other = member_of(address, Work(), "http://127.0.0.1:9")
    monkeypatch.setattr("tinker_ext.fleet.store.Store.name_of", lambda *_: "one")
    monkeypatch.setattr(other, "_start", lambda: None)
    other.join()
    try:
        monkeypatch.setattr("tinker_ext.fleet.member.__version__", "0.1.0")
        text = complaint(address)
        assert f"in use by tinker-ext 9.3.0 ({other.id})" in text
    finally:
        other.leave()


DAMAGES = {
    "not JSON": lambda kept: "{",
    "unknown parts": lambda kept: kept | {"bogus": 1},
    "a member without a report": lambda kept: kept | {"rows": {"x": {}}},
    "a plan of another form": lambda kept: kept | {"plan": {"bogus": 1}},
    "a budget of another kind": lambda kept: kept | {"limits": {"bogus": 1}},
    "a pause of another form": lambda kept: kept | {"plan": kept["plan"] | {"pause": {}}},
    "a budget in words": lambda kept: kept | {"limits": {"tokens": "much"}},
    "another type": lambda kept: "[]",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_rows(address, damage):
    """M49: one error for who joins; who works there goes on, as without a store."""
    one = member_of(address, Work(), "http://127.0.0.1:9")
    one.sync()
    ledger = one.share(Ledger(Budget(tokens=1000)))
    made = DAMAGES[damage](json.loads(fleet_of(one).text()))
    overwrite(address, made if isinstance(made, str) else json.dumps(made))
    ledger.hold(Tokens(sample=100))
    wait_for(lambda: one.sync() is None)  # at the latest when it makes a plan
    ledger.hold(Tokens(sample=100))
    two = member_of(address, Work(), "http://127.0.0.1:9")
    with pytest.raises(ConfigurationError) as caught:
        two.join()
    assert one.store.place in str(caught.value)
    one.leave()
    two.leave()


def test_nobody_listens():
    """M49: a wrong host or port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = complaint(f"redis://127.0.0.1:{port}/0")
    assert f"redis://127.0.0.1:{port}/0 cannot be used: " in text
    assert "Connection refused. Check host and port" in text


def test_a_url_that_is_not_one():
    """M49."""
    assert "redis" in complaint("redis://127.0.0.1:notaport/0")


@pytest.mark.parametrize(
    "address",
    [
        "redis://127.0.0.1:1/0?password=pass-canary",
        "redis://127.0.0.1:1/0?db=3&pasword=pass-canary",
        "unix:///tmp/nobody.sock?password=pass-canary",
        "redis://:half#pass-canary@127.0.0.1:1/0",
        "redis://:half/pass-canary@127.0.0.1:1/0",
        "redis://:half?pass-canary@127.0.0.1:1/0",
        "redis://:pass-canary/half@127.0.0.1:1/0",
        "redis://:pass-canary@[::1",
        "redis://:pass-canary[@127.0.0.1:1/0",
        "redis://u:pass-canary@127.0.0.1:1/0?bogus=1",
        "rediss://:pass-canary@127.0.0.1:1/0?ssl_cert_reqs=bogus",
        "redis:pass-canary@127.0.0.1",
        "rediss:/u:pass-canary@127.0.0.1",
        "redis://:pass-canary",
        "redis://u:pass-canary/0",
    ],
)
def test_a_password_in_a_wrong_address_is_not_shown(address, tmp_path, monkeypatch, capsys):
    """M49: one error, for a client and for `tinker-ext fleet`, and no folder of that name."""
    monkeypatch.chdir(tmp_path)
    assert "pass-canary" not in complaint(address)
    assert run(["fleet", address]) != 0
    assert "pass-canary" not in "".join(capsys.readouterr())
    assert list(tmp_path.iterdir()) == []


def test_options_that_are_not_secret_travel():
    """M49: a worker that was sent a client must not end up in another database."""
    url = "redis://u:secret@host:1?db=3&password=secret&ssl_ca_certs=/a/b#secret"
    assert without_password(url) == "redis://u@host:1?db=3&ssl_ca_certs=/a/b"
    assert without_password("unix:///a/b?password=secret") == "unix:///a/b"


@pytest.mark.parametrize("address", ["~nobody-of-this-name/x", "\ud800"])
def test_a_folder_that_cannot_be_named(address):
    """M49."""
    assert "fleet's folder" in complaint(address)


def test_a_wrong_password(tmp_path):
    """M49: refused without showing it."""
    if not RedisServer.installed() and "TINKER_FLEET_REDIS" not in os.environ:
        pytest.skip("redis-server is not installed; `nox -s fleet` needs it")
    server = RedisServer(tmp_path, password="right").start()
    try:
        for url in (server.url, server.url.replace("//", "//:wrong-canary@")):
            text = complaint(url)
            assert "cannot be used: it refused the user or password" in text
            assert "REDISCLI_AUTH" in text
            assert "wrong-canary" not in text
    finally:
        server.stop()


def test_the_package_is_missing(monkeypatch):
    """M49: names what to install."""
    monkeypatch.setitem(sys.modules, "redis", None)
    assert "pip install redis" in complaint("redis://127.0.0.1:1/0")
