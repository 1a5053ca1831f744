"""pytest fixtures around the embedded server: `tinker_server`, `tinker_client`, `tinker_faults`.

Settings come from a marker:

    @pytest.mark.tinker_server(seq="strict", latency=0.1)
    def test_something(tinker_client, tinker_server): ...

A reply of the server that breaks the API document fails the test that provoked it, unless the
test plants bugs on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tinker_ext.mock.faults import FaultPlan
    from tinker_ext.mock.server import Server


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that carries settings."""
    config.addinivalue_line(
        "markers", "tinker_server(**settings): settings of the embedded server of this test"
    )


@pytest.fixture
def tinker_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Give a running embedded server on a free port of this machine.

    Yields:
        A :class:`tinker_ext.mock.Server` with `url`, `log`, `faults` and `state`.
    """
    from tinker_ext.mock.server import Server
    from tinker_ext.mock.settings import Settings

    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("tinker_server"))):
        options.update(marker.kwargs)
    with Server(Settings(**options)) as server:
        yield server
        violations = list(server.log.violations)
    if violations and not server.settings.bugs:
        pytest.fail("the server broke the API document:\n" + "\n".join(violations), pytrace=False)


@pytest.fixture
def tinker_client(tinker_server: Server) -> Iterator[Any]:
    """Give a `ServiceClient` on the server, closed after the test.

    Yields:
        A :class:`tinker_ext.ServiceClient`.
    """
    import tinker_ext

    client = tinker_ext.ServiceClient(base_url=tinker_server.url, api_key="tml-embedded")
    try:
        yield client
    finally:
        close = getattr(client, "close", None)
        if close is not None:
            close("success")


@pytest.fixture
def tinker_faults(tinker_server: Server) -> FaultPlan:
    """Give the fault plan of the server.

    Returns:
        Call `.add("drop_response", path="optim_step", nth=1)` to put a rule in force.
    """
    return tinker_server.faults
