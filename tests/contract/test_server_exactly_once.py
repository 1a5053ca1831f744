"""M20: a caller that repeats itself through faults and restarts trains the server once."""

import asyncio

import httpx
import pytest
from raw_tinker import Raw
from virtual_clock import run_virtual

from tinker_ext.mock import Settings, create_app

STEPS = 4
FAULTS = [
    {"kind": "drop_request", "probability": 0.1},
    {"kind": "drop_response", "probability": 0.1},
    {"kind": "duplicate", "probability": 0.2},
    {"kind": "status", "status": 503, "probability": 0.1},
    {"kind": "status", "status": 429, "after": True, "probability": 0.1},
    {"kind": "delay", "delay": 20.0, "probability": 0.1},
    {"kind": "truncate", "probability": 0.05},
    {"kind": "html", "probability": 0.05},
]


class Stubborn(Raw):
    """Repeats the very same request until it is answered with JSON."""

    async def send(self, method, path, body=None, **options):
        while True:
            try:
                reply = await super().send(method, path, body, **options)
            except httpx.TransportError:
                await asyncio.sleep(1.0)
                continue
            if reply.status_code in (408, 429) or reply.status_code >= 500:
                await asyncio.sleep(1.0)
                continue
            return reply


async def weights(settings, restarts=0):
    """Train and return the bits of the weights and the effects in order."""
    raw = Stubborn(app=create_app(settings))
    model = await raw.model()
    for step in range(STEPS):
        await raw.train(model)
        if step < restarts:
            # The old application is simply forgotten, as a killed process would be; only the lock
            # on its folder, which the system takes back then, is given back by hand.
            raw.app._journal._lock.close()
            seq, raw = raw.seq, Stubborn(app=create_app(settings))
            raw.seq = seq
    trained = raw.app.world.models[model].trainable
    bits = b"".join(array.tobytes() for array in trained.dump().values())
    effects = [(e.seq, e.op) for e in raw.app.log.training(model)]
    await raw.http.aclose()
    return bits, effects


@pytest.fixture(scope="module")
def calm():
    return run_virtual(weights(Settings(inline_engine=True)))


@pytest.mark.parametrize("seq", ["dedupe", "gap"])
@pytest.mark.parametrize("seed", range(6))
def test_faults_leave_no_trace_in_the_weights(seq, seed, calm):
    """M20: bit-equal to the fault-free run, each operation once and in order."""
    settings = Settings(inline_engine=True, seq=seq, faults=FAULTS, seed=seed)
    faulty = run_virtual(weights(settings))
    reference = calm if seed == 0 else run_virtual(weights(Settings(inline_engine=True, seed=seed)))
    assert faulty == reference


def test_restarts_leave_no_trace_in_the_weights(tmp_path, calm):
    """M20, M40: three restarts from the journal, with faults on top."""
    settings = Settings(inline_engine=True, faults=FAULTS, state=tmp_path, fsync=False)
    assert run_virtual(weights(settings, restarts=3)) == calm


def test_without_deduplication_repeats_do_leave_a_trace(calm):
    """M20: the faults above are real: a server that ignores seq ids trains more than once."""
    settings = Settings(inline_engine=True, seq="ignore", faults=FAULTS)
    bits, effects = run_virtual(weights(settings))
    assert bits != calm[0]
    assert len(effects) > len(calm[1])
