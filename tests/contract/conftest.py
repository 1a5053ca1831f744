"""Clients are tested on the strictest server there is: what passes there passes in production."""

import pytest


@pytest.fixture(autouse=True)
def as_strict_as_production(request, monkeypatch):
    """M47: embedded servers of the client's tests obey the published rules of the hosted service.

    A test about another kind of server says which one in its settings.
    """
    if request.path.name.startswith("test_client_"):
        monkeypatch.setenv("TINKER_EXT_PROFILE", "hosted")
