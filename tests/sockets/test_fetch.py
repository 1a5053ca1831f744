"""Fetching: resume, verification and refusals, against a local server that can misbehave."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler

import pytest
from sockets.loopback import ThreadedServer

from tinker_ext.downloads import FetchLimits, fetch
from tinker_ext.errors import DownloadError

DATA = bytes(range(256)) * 4096
DIGEST = hashlib.sha256(DATA).hexdigest()
QUICK = FetchLimits(attempts=3, stall_seconds=5)


class Archive(BaseHTTPRequestHandler):
    """Serves DATA with ranges; the query says how to misbehave, `cuts` how often to hang up."""

    protocol_version = "HTTP/1.1"
    cuts = 0
    requests: list

    def log_message(self, *args):
        pass

    def do_GET(self):
        kind = self.path.partition("?")[2]
        self.requests.append((self.path, dict(self.headers)))
        if kind.startswith("status="):
            self.send_response(int(kind[7:]))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if kind == "loop" or kind.startswith("to="):
            self.send_response(302)
            self.send_header("Location", self.path if kind == "loop" else kind[3:])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start = 0
        wanted = self.headers.get("Range")
        same = self.headers.get("If-Range") in (None, self.server.etag)
        if wanted and same and kind != "norange":
            start = int(wanted[6:-1])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
            if kind == "wrongrange":
                start += 1
        else:
            self.send_response(200)
        body = DATA[start:]
        self.send_header("ETag", self.server.etag)
        if kind != "nolength":
            self.send_header("Content-Length", str(len(body) * (10**9 if kind == "huge" else 1)))
        if kind == "nolength":
            self.send_header("Connection", "close")
        self.end_headers()
        if type(self).cuts > 0:
            type(self).cuts -= 1
            body = body[: len(body) // 2]
            self.close_connection = True
        self.wfile.write(body)
        if kind == "nolength":
            self.close_connection = True


@pytest.fixture
def shelf():
    Archive.cuts, Archive.requests = 0, []
    server = ThreadedServer(Archive)
    server.etag = '"v1"'
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}/weights.tar"
    yield server
    server.shutdown()
    server.server_close()


def test_a_whole_file_arrives_verified(shelf, tmp_path):
    """M37: size and digest are checked, progress is told, no part file is left."""
    seen = []
    target = fetch(
        shelf.url, tmp_path / "w", size=len(DATA), sha256=DIGEST, progress=lambda *a: seen.append(a)
    )
    assert target.read_bytes() == DATA
    assert seen[-1] == (len(DATA), len(DATA))
    assert [path.name for path in tmp_path.iterdir()] == ["w"]


def test_a_cut_stream_is_continued_where_it_stopped(shelf, tmp_path):
    """M37: after a hang-up the rest is asked for with Range and If-Range, not the whole again."""
    Archive.cuts = 2
    assert fetch(shelf.url, tmp_path / "w", sha256=DIGEST, limits=QUICK).read_bytes() == DATA
    ranges = [headers.get("Range") for _, headers in Archive.requests]
    assert ranges[0] is None
    assert all(ranges[1:])
    assert len(ranges) == 3


def test_a_later_call_continues_an_earlier_one(shelf, tmp_path):
    """M37: the part file of a failed call is used by the next one."""
    Archive.cuts = 1
    with pytest.raises(DownloadError, match="run it again"):
        fetch(shelf.url, tmp_path / "w", limits=FetchLimits(attempts=1))
    assert (tmp_path / "w.part").stat().st_size > 0
    fetch(shelf.url, tmp_path / "w", sha256=DIGEST)
    assert Archive.requests[-1][1]["Range"].startswith("bytes=")


def test_a_changed_file_is_fetched_anew(shelf, tmp_path):
    """M37: halves of two different files are never joined."""
    (tmp_path / "w.part").write_bytes(b"other" * 100)
    notes = {"validator": '"v0"', "total": len(DATA), "sha256": None}
    (tmp_path / "w.part.json").write_text(json.dumps(notes))
    assert fetch(shelf.url, tmp_path / "w", sha256=DIGEST).read_bytes() == DATA


@pytest.mark.parametrize("query", ["norange", "nolength"])
def test_servers_without_ranges_or_lengths_work(shelf, tmp_path, query):
    """M37: a plain server is good enough."""
    assert fetch(f"{shelf.url}?{query}", tmp_path / "w", sha256=DIGEST).read_bytes() == DATA


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"size": 5}, "bytes where 5"), ({"sha256": "0" * 64}, "SHA-256")],
)
def test_a_file_that_is_not_the_expected_one_is_discarded(shelf, tmp_path, wrong, words):
    """M37: a wrong file never takes the target's name."""
    with pytest.raises(DownloadError, match=words):
        fetch(shelf.url, tmp_path / "w", **wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("status=403", "expired"),
        ("status=404", "gone"),
        ("status=503", "3 attempts"),
        ("huge", "more than"),
        ("to=file:///etc/passwd", "http and https"),
        ("to=ftp://example.invalid/x", "http and https"),
        ("to=http://user:pw@127.0.0.1/x", "user name"),
        ("loop", "redirects more than"),
    ],
)
def test_refusals_say_why(shelf, tmp_path, query, words):
    """M37: expired links, endless redirects, other schemes and giants are refused in words."""
    with pytest.raises(DownloadError, match=words):
        fetch(f"{shelf.url}?{query}", tmp_path / "w", limits=QUICK)
    assert not (tmp_path / "w").exists()


def test_signatures_stay_out_of_messages(shelf, tmp_path):
    """M33: the query of a signed URL is not repeated."""
    with pytest.raises(DownloadError) as caught:
        fetch(f"{shelf.url}?status=404", tmp_path / "w")
    assert "status=404" not in str(caught.value)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x"])
def test_only_http_is_fetched(tmp_path, url):
    """M37: other schemes are refused before anything is opened."""
    with pytest.raises(DownloadError, match="http and https"):
        fetch(url, tmp_path / "w")
