"""Credentials: resolution order, token exchange without tight loops, and silence."""

import asyncio
import base64
import json
import pickle
import stat
import warnings

import pytest

from tinker_ext import auth
from tinker_ext.auth import CredentialStore, origin_of, stored_origins
from tinker_ext.config import Secret
from tinker_ext.errors import TinkerError

KEY = "tml-canary-0123456789"
HOSTED = "https://tinker.thinkingmachines.dev/services/tinker-prod"
LOCAL = "http://127.0.0.1:8000"


def header(credentials):
    return asyncio.run(credentials.header())


@pytest.mark.parametrize(
    ("argument", "env", "expected"),
    [
        ("tml-arg", {"TINKER_API_KEY": "tml-env"}, "tml-arg"),
        (None, {"TINKER_API_KEY": "tml-env", "TINKER_CREDENTIAL_CMD": "echo tml-cmd"}, "tml-env"),
        (None, {"TINKER_CREDENTIAL_CMD": "echo tml-cmd"}, "tml-cmd"),
        ("wrong-shape", {"TINKER_CREDENTIAL_CMD": "echo tml-cmd"}, "tml-cmd"),
        (None, {}, "tml-stored"),
    ],
)
def test_resolution_order(tmp_path, argument, env, expected):
    """M33: argument, environment, command, stored key; a misshapen key yields to the command."""
    store = CredentialStore(tmp_path / "credentials.json")
    store.add("tml-stored", key_id="1", name="laptop")
    found = auth.resolve(argument, base_url=HOSTED, env=env, stored=store.path)
    assert header(found) == expected


def test_the_hosted_service_needs_a_key(tmp_path):
    """M33: the error names every way out."""
    with pytest.raises(TinkerError, match=r"TINKER_API_KEY.*embedded"):
        auth.resolve(base_url=HOSTED, env={}, stored=tmp_path / "none.json")


def test_other_servers_take_any_key_or_none(tmp_path):
    """M28: key shapes are the hosted service's business alone."""
    found = auth.resolve("any shape", base_url=LOCAL, env={}, stored=tmp_path / "none.json")
    assert header(found) == "any shape"
    nothing = auth.resolve(base_url=LOCAL, env={}, stored=tmp_path / "none.json")
    assert header(nothing) is None


@pytest.mark.parametrize("command", ["exit 3", "true", "echo secret-output >&2; exit 1"])
def test_a_failing_command_tells_what_to_do_and_not_what_it_printed(command):
    """M33: the command's output may hold a credential, so it is not repeated."""
    with pytest.raises(TinkerError, match="TINKER_CREDENTIAL_CMD") as caught:
        header(auth.CommandKey(command))
    assert "secret-output" not in str(caught.value)


def token(lifetime: float, now: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": now + lifetime}).encode()).decode()
    return f"eyJhbGciOiJub25lIn0.{claims.rstrip('=')}.sig"


class Issuer:
    """Hands out tokens of a fixed lifetime and counts how often it was asked."""

    def __init__(self, lifetime: float) -> None:
        self.lifetime, self.now, self.asked, self.broken = lifetime, 1000.0, 0, False

    async def exchange(self, credential: str) -> str:
        assert credential == KEY
        self.asked += 1
        if self.broken:
            raise TinkerError("no tokens today")
        return token(self.lifetime, self.now)

    def credentials(self) -> auth.ExchangedToken:
        return auth.ExchangedToken(auth.StaticKey(KEY), self.exchange, now=lambda: self.now)


@pytest.mark.parametrize("lifetime", [2, 30, 299, 301, 3600])
def test_renewal_never_loops_tightly(lifetime):
    """M33: whatever the lifetime, a token is asked for at most about three times per lifetime."""
    issuer = Issuer(lifetime)

    async def use() -> None:
        credentials = issuer.credentials()
        for _ in range(600):
            assert (await credentials.header()).startswith("eyJ")
            await asyncio.sleep(0)
            issuer.now += lifetime / 60

    asyncio.run(use())
    assert 10 <= issuer.asked <= 31


def test_a_failed_renewal_keeps_the_old_token_while_it_lasts():
    """M33: an outage of the token endpoint does not stop work before the token ends."""
    issuer = Issuer(3600)

    async def use() -> None:
        credentials = issuer.credentials()
        first = await credentials.header()
        issuer.broken = True
        issuer.now += 3500
        assert await credentials.header() == first
        issuer.now += 200
        with pytest.raises(TinkerError, match="no tokens today"):
            await credentials.header()

    asyncio.run(use())


def test_many_callers_share_one_exchange():
    """M33: a burst of requests at start exchanges the key once."""
    issuer = Issuer(3600)

    async def use() -> None:
        credentials = issuer.credentials()
        await asyncio.gather(*(credentials.header() for _ in range(50)))

    asyncio.run(use())
    assert issuer.asked == 1


def test_keys_do_not_show():
    """M33: no repr, format or pickle of any credential object holds the key."""
    issuer = Issuer(3600)
    exchanged = issuer.credentials()
    asyncio.run(exchanged.header())
    for thing in (Secret(KEY), auth.StaticKey(KEY), auth.CommandKey(f"echo {KEY}"), exchanged):
        assert KEY not in f"{thing!r} {thing!s} {thing}"
        with pytest.raises(TypeError, match=r"does not pickle|cannot pickle"):
            pickle.dumps(thing)


def test_the_default_key_stays_until_it_is_removed_itself(tmp_path):
    """M33: then the oldest of the others takes its place; without one there is no default."""
    store = CredentialStore(tmp_path / "credentials.json")
    for number in ("1", "2", "3"):
        store.add(f"tml-{number}", key_id=number, name=number)
    first = store.default_key()
    assert f"tml-{store.default_id()}" == first
    left = [n for n in ("1", "2", "3") if f"tml-{n}" != first]
    assert store.remove(left[1])
    assert store.default_key() == first
    assert not store.remove(left[1])
    assert store.remove(first.removeprefix("tml-"))
    assert store.default_key() == f"tml-{left[0]}"
    assert store.default_id() == left[0]
    assert store.remove(left[0])
    assert store.default_key() is None
    assert store.default_id() is None


def test_the_file_is_private_and_replaced_whole(tmp_path):
    """M33: 0700 directory, 0600 file, and a listing without key texts."""
    store = CredentialStore(tmp_path / "tinker" / "credentials.json")
    store.add(KEY, key_id="7", name="laptop")
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert KEY not in json.dumps(store.keys())
    assert list(store.path.parent.iterdir()) == [store.path]
    assert store.remove("7")
    assert not store.remove("7")
    assert store.default_key() is None


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 9}'])
def test_a_damaged_file_is_refused_and_kept(tmp_path, text):
    """M33: nothing is overwritten that was not understood."""
    path = tmp_path / "credentials.json"
    path.write_text(text)
    with pytest.raises(TinkerError, match="move it away"):
        CredentialStore(path).add(KEY, key_id="7", name="laptop")
    assert path.read_text() == text


@pytest.mark.parametrize("content", [b"\xff\xfe{\x00}\x00", b"[" * 100_000], ids=["utf-16", "deep"])
def test_a_key_file_that_is_no_json_text_is_said_to_be_none(tmp_path, content):
    """M33: in another encoding, or nested without end."""
    path = tmp_path / "credentials.json"
    path.write_bytes(content)
    with pytest.raises(TinkerError, match="not valid JSON; move it away"):
        CredentialStore(path).add(KEY, key_id="7", name="laptop")
    assert path.read_bytes() == content


class Command:
    """A credential command that counts its runs."""

    def __init__(self, tmp_path, prints):
        self.log = tmp_path / "runs"
        self.text = f"echo run >> {self.log}; {prints}"

    @property
    def runs(self):
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


def test_a_command_is_not_run_for_every_request(tmp_path):
    """F26: one run serves many requests, also at once, until its output is five minutes old."""
    command, clock = Command(tmp_path, "echo tml-printed"), [1000.0]

    async def use():
        credentials = auth.CommandKey(command.text, now=lambda: clock[0])
        assert set(await asyncio.gather(*(credentials.header() for _ in range(20)))) == {
            "tml-printed"
        }
        for _ in range(43):
            await credentials.header()
        assert command.runs == 1
        clock[0] += 301
        await credentials.header()
        assert command.runs == 2

    asyncio.run(use())


def test_a_command_that_prints_a_jwt_is_run_again_before_that_ends(tmp_path):
    """F26: the token itself says how long it is good."""
    clock = [1000.0]
    command = Command(tmp_path, f"echo {token(7200, 1000.0)}")

    async def use():
        credentials = auth.CommandKey(command.text, now=lambda: clock[0])
        await credentials.header()
        clock[0] += 3600
        await credentials.header()
        assert command.runs == 1
        clock[0] += 3570  # thirty seconds are left
        await credentials.header()
        assert command.runs == 2

    asyncio.run(use())


def test_a_refused_value_is_replaced_unless_it_is_new(tmp_path):
    """F26: after a 401 the next request gets a new value, but not a new one each time."""
    command, clock = Command(tmp_path, "echo tml-printed"), [1000.0]

    async def use():
        credentials = auth.CommandKey(command.text, now=lambda: clock[0])
        for _ in range(10):
            credentials.refused(await credentials.header())
        assert command.runs == 1
        clock[0] += 30
        for _ in range(10):
            credentials.refused(await credentials.header())
        assert command.runs == 2
        credentials.refused("another value")
        await credentials.header()
        assert command.runs == 2

    asyncio.run(use())


def test_a_failing_command_is_not_run_by_every_request(tmp_path):
    """F26: everybody gets the error, one run in a few seconds finds out whether it is over."""
    command, clock = Command(tmp_path, "exit 3"), [1000.0]

    async def use():
        credentials = auth.CommandKey(command.text, now=lambda: clock[0])
        for _ in range(20):
            with pytest.raises(TinkerError, match="exit code 3"):
                await credentials.header()
        assert command.runs == 1
        clock[0] += 5
        with pytest.raises(TinkerError, match="exit code 3"):
            await credentials.header()
        assert command.runs == 2

    asyncio.run(use())


@pytest.mark.parametrize("claims", [{}, {"iat": -7200}])
def test_a_token_that_has_ended_by_our_clock_is_used(claims):
    """F26: clocks differ; a token is used for its life, and not exchanged for each request."""
    issuer = Issuer(-3600)

    async def exchange(credential):
        issuer.asked += 1
        times = {name: issuer.now + offset for name, offset in claims.items()}
        body = {"exp": issuer.now - 3600, **times}
        return f"h.{base64.urlsafe_b64encode(json.dumps(body).encode()).decode()}.s"

    async def use():
        credentials = auth.ExchangedToken(auth.StaticKey(KEY), exchange, now=lambda: issuer.now)
        for _ in range(24):
            await credentials.header()
            issuer.now += 0.5
        assert issuer.asked == 1
        issuer.now += 7200
        await credentials.header()
        assert issuer.asked == 2

    asyncio.run(use())


@pytest.mark.parametrize("wrong", [None, "tomorrow", True, [], {}, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["exp", "iat"])
def test_times_that_are_no_numbers_are_an_error_of_ours(name, wrong):
    """F26: `exp: null` was a TypeError."""
    body = {"exp": 5000.0, name: wrong}
    text = f"h.{base64.urlsafe_b64encode(json.dumps(body).encode()).decode()}.s"
    with pytest.raises(TinkerError, match=f"token says {name} = "):
        auth.jwt_life(text, 1000.0)


def test_a_token_is_renewed_before_it_ends():
    """F26: nobody is sent out with a token that may end on the way."""
    issuer = Issuer(3600)

    async def use():
        credentials = issuer.credentials()
        first = await credentials.header()
        issuer.now += 3541  # still good for 59 seconds
        assert await credentials.header() != first
        assert issuer.asked == 2
        issuer.now += 3301  # good for 299: renewed beside the request
        second = await credentials.header()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert issuer.asked == 3
        assert await credentials.header() != second

    asyncio.run(use())


def test_an_unhealthy_token_endpoint_is_not_asked_by_every_request():
    """F26: without a good token it is asked once in five seconds, with one once in a minute."""
    issuer = Issuer(3600)

    async def use():
        credentials = issuer.credentials()
        issuer.broken = True
        for _ in range(20):
            with pytest.raises(TinkerError, match="no tokens today"):
                await credentials.header()
        assert issuer.asked == 1
        issuer.broken = False
        issuer.now += 5
        await credentials.header()
        issuer.broken = True
        issuer.now += 3550
        for _ in range(20):
            await credentials.header()
        assert issuer.asked == 3

    asyncio.run(use())


def test_an_early_renewal_that_fails_is_not_tried_by_every_request():
    """F26: minutes before the end, too, an unhealthy endpoint is asked once in a minute."""
    issuer = Issuer(3600)

    async def use():
        credentials = issuer.credentials()
        await credentials.header()
        issuer.broken = True
        issuer.now += 3301
        for _ in range(20):
            await credentials.header()
            await asyncio.sleep(0.001)  # the renewal goes on beside the request
        assert issuer.asked == 2
        issuer.now += 60
        await credentials.header()
        await asyncio.sleep(0.001)
        assert issuer.asked == 3

    asyncio.run(use())


@pytest.mark.parametrize("good", [False, True], ids=["the first", "a renewal"])
def test_who_gives_up_leaves_the_exchange_to_the_others(good):
    """M33: a cancelled request does not cancel the exchange that others wait for."""
    issuer = Issuer(3600)
    gate = asyncio.Event()

    async def slow(credential):
        await gate.wait()
        return await issuer.exchange(credential)

    async def use():
        credentials = auth.ExchangedToken(auth.StaticKey(KEY), slow, now=lambda: issuer.now)
        if good:
            gate.set()
            await credentials.header()
            gate.clear()
            issuer.asked = 0
            issuer.now += 3541
        first, second = (asyncio.ensure_future(credentials.header()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        gate.set()
        assert (await second).startswith("eyJ")
        assert issuer.asked == 1

    asyncio.run(use())


# -- where a key goes --------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("pathlib.Path.home", lambda: tmp_path)
    return tmp_path


def test_a_stored_key_goes_to_its_own_origin_alone(home):
    """F32 F39 M45: not to another host, port, scheme, nor to a name that only looks alike."""
    CredentialStore().add("tml-hosted", key_id="1", name="hosted")
    CredentialStore(origin=origin_of("http://10.0.0.5:8000/x")).add("lan", key_id="2", name="lan")

    def key(url):
        return header(auth.resolve(base_url=url, env={}))

    assert key(HOSTED) == "tml-hosted"
    assert key("https://TINKER.thinkingmachines.dev:443/other") == "tml-hosted"
    assert key("http://10.0.0.5:8000") == "lan"
    for other in (
        LOCAL,
        "https://10.0.0.5:8000",
        "http://10.0.0.5",
        "http://10.0.0.5:8001",
        "http://tinker.thinkingmachines.dev/services/tinker-prod",
        "https://tinker.thinkingmachines.dev.example.org",
        "https://example.org/tinker.thinkingmachines.dev",
        "https://tinker.thinkingmachines.dev@example.org",
    ):
        assert key(other) is None, other
    assert stored_origins() == ["https://tinker.thinkingmachines.dev", "http://10.0.0.5:8000"]
    assert "lan" not in CredentialStore().path.read_text()


@pytest.mark.parametrize(
    "record", [{"type": "passkey", "key": "tml-x"}, {"key": "tml-x"}, "tml-x", None]
)
def test_a_record_of_another_kind_is_refused(tmp_path, record):
    """F55: a key that may need other handling is not sent, and its text is not shown."""
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps({"version": 1, "default": "9", "keys": {"9": record}}))
    with pytest.raises(TinkerError, match="'9'") as caught:
        auth.resolve(base_url=HOSTED, env={}, stored=path)
    assert "tml-x" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "exposed"),
    [
        ("http://10.0.0.5:8000", True),
        ("http://example.org", True),
        ("http://0.0.0.0:1", True),
        ("http://localhost.example.org", True),
        ("https://example.org", False),
        ("http://127.0.0.1:8000", False),
        ("http://127.8.0.1", False),
        ("http://[::1]:8000", False),
        ("http://localhost:8000", False),
        ("http://box.localhost", False),
        ("embedded", False),
    ],
)
def test_an_unencrypted_way_is_warned_of_once(monkeypatch, url, exposed):
    """F32 M45: a real key over plain http to another machine; not a stand-in, not at home."""
    monkeypatch.setattr(auth, "_warned", set())
    assert auth.is_exposed(url) is exposed
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for credentials in (auth.StaticKey(None), auth.StaticKey("dummy")):
            auth.warn_if_exposed(url, credentials)
        assert not caught
        for _ in range(3):
            auth.warn_if_exposed(url, auth.StaticKey(KEY))
    assert len(caught) == exposed
    assert not any(KEY in str(each.message) for each in caught)


def test_a_given_command_is_used_before_the_environment(home):
    """F22: `Config(credential_cmd=…)` sent no key."""
    env = {"TINKER_API_KEY": "tml-env"}
    assert header(auth.resolve(base_url=LOCAL, command="echo given", env=env)) == "given"
    assert header(auth.resolve("tml-arg", base_url=LOCAL, command="echo given", env=env)) == (
        "tml-arg"
    )
