"""Futures in a forked child: threads of the parent are not there, whatever idents they had."""

from __future__ import annotations

import threading

import pytest

from tinker_ext.core import future as futures
from tinker_ext.core.future import LightFuture


def test_a_thread_with_the_ident_of_the_parents_loop_may_wait(monkeypatch):
    """F19: an ident is used again; only the loop's own thread would wait for itself."""
    monkeypatch.setattr(futures, "_process", futures._process)
    mine = threading.get_ident()
    monkeypatch.setattr(futures, "_core_threads", {mine})
    with pytest.raises(RuntimeError, match="own loop thread"):
        LightFuture().result(0.01)
    futures.after_fork()
    assert futures._core_threads == set()
    with pytest.raises(TimeoutError):
        LightFuture().result(0.01)
