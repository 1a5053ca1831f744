"""The programs of the simulation over real sockets, through a proxy that breaks connections."""

from __future__ import annotations

import os
import threading
from urllib.parse import urlsplit

import pytest
from faults.tcp_proxy import FAULTS, TcpProxy
from in_process import MODEL
from simulation.execution import reference
from simulation.program import Step, call, expected_effects, fingerprint, program

from tinker_ext import ServiceClient
from tinker_ext.config import Config
from tinker_ext.errors import APIConnectionError, UnsafeToRetryError
from tinker_ext.mock import Server, Settings

SEEDS = 8


def _files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _play(service: ServiceClient, steps: tuple[Step, ...], ahead: bool) -> tuple[str, int]:
    import asyncio

    async def scenario() -> tuple[str, int]:
        for attempt in range(5):
            try:
                training = await service.create_lora_training_client_async(MODEL, rank=1, seed=3)
                break
            except APIConnectionError:
                assert attempt < 4
        told = 0
        futures = []
        for step in steps:
            futures.append(await call(training, step))
            if not ahead:
                told += await _ended(futures[-1])
        for future in futures if ahead else []:
            told += await _ended(future)
        return training.model_id, told

    return asyncio.run(scenario())


async def _ended(future: object) -> int:
    try:
        await future.result_async(60.0)
    except UnsafeToRetryError:
        return 1
    return 0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_training_through_a_broken_line(seed):
    """M19 M20 M25: resets, cuts, silence and noise; each step takes effect once, in order."""
    seq = ("dedupe", "gap", "strict", "gap")[seed % 4]
    wire = ("json", "proto")[seed // 2 % 2]
    steps = program(seed)
    threads, files = set(threading.enumerate()), _files()
    settings = Settings(seq=seq, inline_engine=True, validate=False, epoch=1.7e9)
    with Server(settings) as server, TcpProxy(urlsplit(server.url).port, seed) as proxy:
        config = Config(chunk_datums=1, retry_base=0.01, retry_cap=0.05, poll_timeout=2.0)
        with ServiceClient(
            base_url=proxy.url, api_key="tml-test", wire=wire, config=config
        ) as service:
            model_id, told = _play(service, steps, ahead=seed % 2 == 0)
            weights = fingerprint(server.app, model_id)  # closing frees the model
        effects = server.app.log.training(model_id)
        assert [effect.seq for effect in effects] == list(range(1, len(effects) + 1))
        assert [effect.op for effect in effects] == expected_effects(steps)
        assert weights == reference(seed, wire)
        assert told == 0 or seq == "strict"
        assert proxy.struck
    left = [t for t in threading.enumerate() if t not in threads and t.name.startswith("tinker")]
    assert left == []
    assert _files() <= files + 2


def test_every_fault_occurs():
    """The seeds above draw every kind of broken line, each the same way every time."""
    proxies = [TcpProxy(1, seed, rate=1.0) for seed in (*range(SEEDS), 0)]
    drawn = [[proxy._draw() for _ in range(12)] for proxy in proxies]
    assert {fault for faults in drawn for fault in faults} == set(FAULTS)
    assert drawn[0] == drawn[-1]
    assert drawn[0] != drawn[1]
