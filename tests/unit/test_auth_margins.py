"""Times and sizes of credentials, as numbers: when a token is renewed, how long an error stands.

M33 F26: each is a request to the token endpoint more or less, or a key that somebody reads.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import warnings

import pytest

from tinker_ext import auth
from tinker_ext.errors import TinkerError

KEY = "tml-canary-0123456789"


def jwt(**claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{body}.sig"


class Issuer:
    """Gives a new token each time, good for so many seconds; fails while it is broken."""

    def __init__(self, life: float = 3600.0) -> None:
        self.life, self.now, self.asked, self.broken = life, 1000.0, 0, False
        self.credentials = auth.ExchangedToken(
            auth.StaticKey(KEY), self.exchange, now=lambda: self.now
        )

    async def exchange(self, _: str) -> str:
        self.asked += 1
        if self.broken:
            raise TinkerError("no tokens today")
        return jwt(exp=self.now + self.life, number=self.asked)

    async def at(self, seconds: float) -> tuple[bool, int]:
        """A request then: whether it gets another token than the first, how often was asked."""
        self.now = 1000.0
        first = await self.credentials.header()
        self.now = 1000.0 + seconds
        again = await self.credentials.header()
        for _ in range(3):
            await asyncio.sleep(0)
        return again != first, self.asked


@pytest.mark.parametrize("step", ["os.fsync", "os.replace"])
def test_a_disk_that_is_full_keeps_no_copy_of_a_key(tmp_path, monkeypatch, step):
    """M33: what was stored before is still there, and nothing beside it."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    store = auth.CredentialStore(tmp_path / "credentials.json")
    store.add("tml-first", key_id="1", name="laptop")
    with monkeypatch.context() as patched:
        patched.setattr(step, full)
        with pytest.raises(OSError, match="No space"):
            store.add(KEY, key_id="2", name="desk")
    assert store.default_key() == "tml-first"
    assert [path.name for path in tmp_path.iterdir()] == ["credentials.json"]


@pytest.mark.parametrize(
    ("life", "seconds", "expected"),
    [
        (3600, 3299, (False, 1)),
        (3600, 3300, (False, 2)),  # five minutes are left: renewed beside the request
        (3600, 3539, (False, 2)),
        (3600, 3540, (True, 2)),  # one minute is left: waited for
        (90, 59, (False, 1)),  # a third of its life is the margin of a short one
        (90, 60, (True, 2)),
        (600, 399, (False, 1)),
        (600, 400, (False, 2)),
    ],
)
def test_a_token_is_renewed_five_minutes_before_its_end_and_waited_for_in_the_last(
    life, seconds, expected
):
    """M33: to the second, and a third of its life where that is less."""
    assert asyncio.run(Issuer(life).at(seconds)) == expected


@pytest.mark.parametrize(
    ("start", "rest"),
    [
        (3600.0, 5.0),  # no token is left: asked for again five seconds after a failure
        (3300.0, 60.0),  # the old one is still good: a minute after it
    ],
)
def test_after_a_failure_nobody_asks_for_a_while(start, rest):
    """M33: the error stands for five seconds; with a token in hand nobody asks for a minute."""

    async def use() -> list[int]:
        issuer = Issuer()
        await issuer.credentials.header()
        issuer.broken = True
        asked = []
        for seconds in (start, start + rest - 0.5, start + rest):
            issuer.now = 1000.0 + seconds
            try:
                await issuer.credentials.header()
            except TinkerError:
                assert start == 3600.0
            for _ in range(3):
                await asyncio.sleep(0)
            asked.append(issuer.asked)
        return asked

    assert asyncio.run(use()) == [2, 2, 3]


def test_a_clock_that_is_set_back_ends_the_rest():
    """M33: a failure that lies in the future by the clock holds nobody up."""

    async def use() -> int:
        issuer = Issuer()
        issuer.broken = True
        for now in (1000.0, 900.0):
            issuer.now = now
            with pytest.raises(TinkerError, match="no tokens"):
                await issuer.credentials.header()
        return issuer.asked

    assert asyncio.run(use()) == 2


@pytest.mark.parametrize(("age", "asked"), [(29.9, 1), (30.0, 2)])
def test_a_refused_value_is_replaced_once_it_is_half_a_minute_old(age, asked):
    """F26: one that is newer is kept, since a server may need a moment to know it."""

    async def use() -> int:
        issuer = Issuer()
        value = await issuer.credentials.header()
        issuer.now += age
        issuer.credentials.refused(value)
        await issuer.credentials.header()
        return issuer.asked

    assert asyncio.run(use()) == asked


@pytest.mark.parametrize(
    ("claims", "life"),
    [
        ({}, 3600.0),
        ({"exp": 1600.0}, 600.0),
        ({"exp": 1000.0}, 60.0),  # ended by our clock alone, and nobody says when it was made
        ({"exp": 900.0}, 60.0),
        ({"exp": 1600.0, "iat": 1100.0}, 500.0),
        ({"exp": 1600.0, "iat": 400.0}, 600.0),
        ({"exp": 1000.0, "iat": 700.0}, 300.0),
        ({"exp": 900.0, "iat": 700.0}, 200.0),
        ({"exp": 1600.0, "iat": 1600.0}, 600.0),
        ({"exp": 900.0, "iat": 950.0}, 60.0),
    ],
)
def test_how_long_a_token_is_good(claims, life):
    """M33: what it says, by whichever clock; an hour or a minute where it says nothing."""
    assert auth.jwt_life(jwt(**claims), 1000.0) == life


def test_what_a_command_prints_is_kept_for_five_minutes(monkeypatch):
    """F26: the command runs again at the end of that, and may take half a minute."""
    runs: list[float] = []

    def run(*_, timeout, **__):
        runs.append(timeout)
        return subprocess.CompletedProcess("", 0, stdout=f"tml-{len(runs)}\n")

    monkeypatch.setattr(auth.subprocess, "run", run)
    clock = [1000.0]

    async def use() -> list[str]:
        key = auth.CommandKey("x", now=lambda: clock[0])
        values = [await key.header()]
        for clock[0] in (1199.0, 1240.0):  # in the last third beside the request, then waited for
            values.append(await key.header())
        return values

    assert asyncio.run(use()) == ["tml-1", "tml-1", "tml-2"]
    assert runs == [30.0, 30.0]


def test_a_command_that_does_not_end_is_told(monkeypatch):
    """M33: after half a minute, and how to see why."""

    def run(*_, timeout, **__):
        raise subprocess.TimeoutExpired("x", timeout)

    monkeypatch.setattr(auth.subprocess, "run", run)
    with pytest.raises(TinkerError, match="did not finish within 30 s; run it in a shell"):
        auth.run_credential_command("x")


def test_a_token_needs_a_key_and_claims():
    """M33: the error says which of them is missing."""

    async def exchange(_: str) -> str:
        return KEY

    with pytest.raises(TinkerError, match="there is no key to exchange"):
        asyncio.run(auth.ExchangedToken(auth.StaticKey(None), exchange).header())
    for claims in ("[1]", '"x"', "7", "null"):
        token = f"a.{base64.urlsafe_b64encode(claims.encode()).decode()}.b"
        with pytest.raises(TinkerError, match="carries no claims object"):
            auth.jwt_claims(token)


def test_what_cannot_be_a_key_of_the_hosted_service(tmp_path):
    """M33: it is not sent there; another server may take it."""
    absent = tmp_path / "absent"
    hosted = "https://tinker.thinkingmachines.dev/services/tinker-prod"
    with pytest.raises(TinkerError, match="does not look like one of the hosted service"):
        auth.resolve("other", base_url=hosted, env={}, stored=absent)
    other = auth.resolve("other", base_url="http://127.0.0.1:1", env={}, stored=absent)
    assert asyncio.run(other.header()) == "other"


def test_a_store_that_cannot_be_read_is_named(tmp_path):
    """M33: with the reason of the system."""
    with pytest.raises(TinkerError, match=f"cannot read {tmp_path}: Is a directory"):
        auth.CredentialStore(tmp_path).default_key()


@pytest.mark.parametrize(("key", "warned"), [("k" * 15, 0), ("k" * 16, 1), (None, 0)])
def test_only_a_real_key_is_worth_a_warning(monkeypatch, key, warned):
    """M33: sixteen letters are a key; fewer are a stand-in such as "tml-test"."""
    monkeypatch.setattr(auth, "_warned", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            auth.warn_if_exposed("http://example.org", auth.StaticKey(key))
    assert len(caught) == warned
