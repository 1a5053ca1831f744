"""Credentials: resolution order, token exchange without tight loops, and silence."""

import asyncio
import base64
import json
import pickle
import stat

import pytest

from tinker_ext import auth
from tinker_ext.config import Secret
from tinker_ext.credentials import CredentialStore
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
