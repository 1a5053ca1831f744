"""Wrong framing ends in our errors: lengths, chunks, trailers and heads by seed, bounded."""

from __future__ import annotations

import random
import resource

import pytest
from faults.framing import MODELS, RawServer, reply

from tinker_ext import Config, ServiceClient
from tinker_ext.errors import TinkerError

CASES = 150


@pytest.mark.parametrize("first", range(0, 2 * CASES, CASES))
def test_wrong_framing(first):
    """M22: whatever the bytes, a call ends in the true answer or in an error of ours, soon."""
    results = errors = 0
    with RawServer() as server:
        config = Config(
            base_url=server.url, api_key="x", retry_attempts=1, request_timeout=2.0, telemetry=False
        )
        server.answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"
        with ServiceClient(config=config) as service:
            with pytest.raises(TinkerError):
                service.get_server_capabilities()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for case in range(first, first + CASES):
                server.answer = reply(random.Random(f"framing {case}"))
                try:
                    found = service.get_server_capabilities()
                except TinkerError:
                    errors += 1
                    continue
                results += 1
                names = [model.model_name for model in found.supported_models]
                assert names == MODELS, f"case {case}: {server.answer[:300]!r}"
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert results > CASES // 10
    assert errors > CASES // 10
    assert grown * 1024 < 64 << 20
