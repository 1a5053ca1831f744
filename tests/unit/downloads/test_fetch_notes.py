"""The note beside a kept file is about that file, also after a download that keeps none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tinker_ext import forks
from tinker_ext.downloads.fetch import alone, fetch
from tinker_ext.errors import DownloadError

URL = "http://files.test/a"


class Body(httpx.SyncByteStream):
    """Bytes that are read once."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __iter__(self) -> Iterator[bytes]:
        yield self._data


class Files:
    """One file under a version, which is confirmed to who has it."""

    def __init__(self, data: bytes, etag: str) -> None:
        self.data, self.etag, self.statuses = data, etag, []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        same = request.headers.get("if-none-match") == self.etag
        self.statuses.append(304 if same else 200)
        body = Body(b"" if same else self.data)
        return httpx.Response(self.statuses[-1], headers={"etag": self.etag}, stream=body)

    def fetch(self, target, **options):
        with httpx.Client(transport=httpx.MockTransport(self)) as client:
            return fetch(URL, target, client=client, **options)


@pytest.mark.parametrize("keep", [True, False])
def test_a_newer_download_takes_the_note_away(tmp_path, keep):
    """F29 M37: or the old version would be confirmed for the new bytes."""
    target, note = tmp_path / "a", tmp_path / "a.version.json"
    first, second = Files(b"one", '"v1"'), Files(b"two", '"v2"')
    first.fetch(target, keep=True)
    first.fetch(target, keep=True)
    assert first.statuses == [200, 304]
    second.fetch(target, keep=keep)
    assert target.read_bytes() == b"two"
    assert note.exists() is keep
    first.fetch(target, keep=True)
    assert target.read_bytes() == b"one"


def test_a_lock_whose_name_is_taken_away_is_opened_ten_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M37: whoever had it takes its name away when done, and somebody else may be quicker."""
    asked: list[object] = []
    monkeypatch.setattr(forks, "has_name", lambda held, path: asked.append(held))
    with pytest.raises(DownloadError, match="somebody else"), alone(tmp_path / "a"):
        pass
    assert len(asked) == 10
