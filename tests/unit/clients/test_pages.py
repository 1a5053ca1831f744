"""Listings that are read page by page: which pages are asked for, and when it ends (M23)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from virtual_clock import run_virtual

from tinker_ext import RestClient
from tinker_ext.clients.rest import Pages


class Told:
    """A future that is done."""

    def __init__(self, value):
        self.value = value

    def result(self):
        return self.value

    def __await__(self):
        yield from ()
        return self.value


def listing(count, size, *, cursor=True, stuck=False):
    """A server with so many items, and the offsets it was asked for."""
    asked = []

    def fetch(offset):
        asked.append(offset)
        items = list(range(count))[0 if stuck else offset :][:size]
        total = SimpleNamespace(total_count=count) if cursor else None
        return Told(SimpleNamespace(items=items, cursor=total))

    return Pages(fetch, lambda page: page.items, size), asked


def both(pages):
    async def read():
        return [item async for item in pages]

    return list(pages), run_virtual(read())


@pytest.mark.parametrize(
    ("count", "cursor", "offsets"),
    [
        (0, True, [0]),
        (1, True, [0]),
        (3, True, [0]),
        (4, True, [0, 3]),
        (6, True, [0, 3]),
        (7, True, [0, 3, 6]),
        (0, False, [0]),
        (2, False, [0]),
        (3, False, [0, 3]),
        (4, False, [0, 3]),
    ],
)
def test_every_item_comes_once_with_no_page_too_many(count, cursor, offsets):
    """M23: where the server says how many there are, a full last page is the last."""
    pages, asked = listing(count, 3, cursor=cursor)
    assert both(pages) == (list(range(count)), list(range(count)))
    assert asked == offsets * 2


def test_a_server_that_does_not_know_offsets_gives_its_page_once():
    """M23: the same page again ends the listing."""
    pages, asked = listing(3, 3, cursor=False, stuck=True)
    assert both(pages) == ([0, 1, 2], [0, 1, 2])
    assert asked == [0, 3] * 2


@pytest.mark.parametrize(
    ("name", "asks", "rest"),
    [
        ("training_runs", "list_training_runs", ("owned", None)),
        ("checkpoints", "list_user_checkpoints", ()),
        ("sessions", "list_sessions", ("owned",)),
    ],
)
def test_pages_have_a_hundred_items(monkeypatch, name, asks, rest):
    """M23: unless the caller says otherwise."""
    seen = []

    def ask(self, *args):
        seen.append(args)
        return Told(SimpleNamespace(training_runs=[], checkpoints=[], sessions=[]))

    monkeypatch.setattr(RestClient, asks, ask)
    client = RestClient.__new__(RestClient)
    assert list(getattr(client, name)()) == []
    assert list(getattr(client, name)(7)) == []
    assert seen == [(100, 0, *rest), (7, 0, *rest)]
