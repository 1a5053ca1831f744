"""M37: what networks, servers and neighbours do to a download, each as one test."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import threading
from http.server import BaseHTTPRequestHandler

import httpx
import pytest
from sockets.loopback import ThreadedServer

from tinker_ext.downloads import FetchLimits, fetch
from tinker_ext.downloads.fetch import Part, _Download, _Interrupted
from tinker_ext.errors import DownloadError

ONE = random.Random(1).randbytes(1_000_000)
TWO = random.Random(2).randbytes(1_000_000)
QUICK = FetchLimits(attempts=3, stall_seconds=10, total_seconds=50)


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Store(BaseHTTPRequestHandler):
    """One file with ranges; the attributes of its server say how it misbehaves."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        shop = self.server
        shop.requests.append(dict(self.headers))
        shop.before(shop)
        data, etag = shop.data, shop.etag
        start, status = 0, 200
        wanted = self.headers.get("Range")
        asked = self.headers.get("If-Range")
        if wanted and (shop.careless or asked in (None, etag, shop.modified)):
            start, status = int(wanted[6:-1]), 206
        if etag and self.headers.get("If-None-Match") == etag:
            status = 304
        if status == 206 and start >= len(data):
            status = 416
        body = data[start:] if status in (200, 206) else b""
        self.send_response_only(status)
        self.send_header("Date", "Mon, 16 Nov 2026 12:00:00 GMT")
        if etag:
            self.send_header("ETag", etag)
        if shop.modified:
            self.send_header("Last-Modified", shop.modified)
        for name, value in shop.headers.items():
            self.send_header(name, value)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        elif status == 416 and "Content-Range" not in shop.headers:
            self.send_header("Content-Range", f"bytes */{len(data)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.deliver(body)

    def deliver(self, body):
        shop = self.server
        if shop.drip:
            for at in range(len(body)):
                if shop.over.wait(0.1):
                    break
                self.wfile.write(body[at : at + 1])
            return
        if shop.cut is not None and len(body) > shop.cut:
            body = body[: shop.cut]
            self.close_connection = True
        self.wfile.write(body)


class Shop(ThreadedServer):
    block_on_close = False

    def __init__(self):
        super().__init__(Store)
        self.data, self.etag, self.modified, self.headers = ONE, '"one"', None, {}
        self.cut, self.drip, self.careless, self.requests = None, False, False, []
        self.before = lambda shop: None
        self.over = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/w"


@pytest.fixture
def shop():
    shop = Shop()
    thread = threading.Thread(target=shop.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield shop
    shop.over.set()
    shop.shutdown()
    shop.server_close()


def test_a_drip_does_not_outlast_the_time_allowed(shop, tmp_path):
    """F29: ten bytes a second are movement, but not for longer than `total_seconds`."""
    shop.drip = True
    with pytest.raises(DownloadError, match="took more than 1 s"):
        fetch(shop.url, tmp_path / "w", limits=FetchLimits(total_seconds=1, stall_seconds=30))
    assert 0 < (tmp_path / "w.part").stat().st_size < 1000


def test_a_silent_server_does_not_outlast_the_time_allowed(shop, tmp_path):
    """F29: nor does one that accepts and says nothing, however long a stall may last."""
    shop.before = lambda shop: shop.over.wait(300)
    with pytest.raises(DownloadError, match="took more than 1 s"):
        fetch(shop.url, tmp_path / "w", limits=FetchLimits(total_seconds=1, stall_seconds=60))


def test_a_line_that_is_cut_again_and_again_gets_there(shop, tmp_path):
    """F29: every byte that arrived is kept, so each attempt starts where the last one ended."""
    shop.cut = 200_000
    fetch(shop.url, tmp_path / "w", sha256=digest(ONE), limits=QUICK)
    starts = [int(headers["Range"][6:-1]) for headers in shop.requests[1:]]
    assert starts == [200_000, 400_000, 600_000, 800_000]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w"]


def test_a_file_that_changes_on_the_way_is_never_joined(shop, tmp_path):
    """F29: the 206 of a careless server names another ETag, so the file starts over."""
    shop.cut, shop.careless = 300_000, True

    def change(shop):
        if len(shop.requests) == 2:
            shop.data, shop.etag = TWO, '"two"'
        if len(shop.requests) == 3:
            shop.cut = None

    shop.before = change
    assert fetch(shop.url, tmp_path / "w", limits=QUICK).read_bytes() == TWO
    assert "Range" not in shop.requests[2]


def test_a_file_of_another_length_is_never_joined(shop, tmp_path):
    """F29: nor where the server names no ETag with the rest, but another whole length."""
    shop.cut, shop.careless = 300_000, True

    def change(shop):
        if len(shop.requests) == 2:
            shop.data, shop.etag = TWO[:-5], ""
        if len(shop.requests) == 3:
            shop.cut = None

    shop.before = change
    assert fetch(shop.url, tmp_path / "w", limits=QUICK).read_bytes() == TWO[:-5]


@pytest.mark.parametrize("length", [1, 299_999, 500_000])
def test_a_file_that_has_shrunk_is_fetched_anew(shop, tmp_path, length):
    """F29: 416 failed for ever; what is there is longer than the file."""
    shop.cut = 600_000
    with pytest.raises(DownloadError):
        fetch(shop.url, tmp_path / "w", limits=FetchLimits(attempts=1))
    shop.cut, shop.careless = None, True
    shop.data, shop.etag = TWO[:length], '"two"'
    assert fetch(shop.url, tmp_path / "w", limits=QUICK).read_bytes() == TWO[:length]


def test_a_part_that_is_whole_needs_no_more_bytes(shop, tmp_path):
    """M37: killed between the last byte and the new name."""
    notes = {"validator": '"one"', "total": len(ONE), "sha256": None}
    (tmp_path / "w.part").write_bytes(ONE)
    (tmp_path / "w.part.json").write_text(json.dumps(notes))
    assert fetch(shop.url, tmp_path / "w", sha256=digest(ONE), limits=QUICK).read_bytes() == ONE
    assert len(shop.requests) == 1  # 416 with the same length says that it is whole


def test_a_part_that_is_whole_and_not_the_expected_file_is_thrown_away(shop, tmp_path):
    """M37: its server says that nothing is missing, and its size is another one."""
    notes = {"validator": '"one"', "total": len(ONE), "sha256": None}
    (tmp_path / "w.part").write_bytes(ONE)
    (tmp_path / "w.part.json").write_text(json.dumps(notes))
    with pytest.raises(DownloadError, match="5 were expected; discarded"):
        fetch(shop.url, tmp_path / "w", size=5, limits=QUICK)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("etag", "modified", "joins"),
    [
        ('"one"', None, True),
        ('W/"one"', None, False),
        ('W/"one"', "Sun, 15 Nov 2026 12:00:00 GMT", False),
        (None, "Sun, 15 Nov 2026 12:00:00 GMT", True),
        (None, "Mon, 16 Nov 2026 11:59:30 GMT", False),
        (None, "yesterday", False),
        (None, None, False),
    ],
)
def test_only_a_strong_validator_joins_halves(shop, tmp_path, etag, modified, joins):
    """F29, RFC 9110 §13.1.5: a weak ETag or a date of the same minute may hide another file."""
    shop.etag, shop.modified, shop.cut = etag, modified, 600_000
    with pytest.raises(DownloadError):
        fetch(shop.url, tmp_path / "w", limits=FetchLimits(attempts=1))
    shop.cut = None
    fetch(shop.url, tmp_path / "w", sha256=digest(ONE), limits=QUICK)
    assert ("Range" in shop.requests[-1]) is joins


def test_a_weak_validator_joins_nothing_within_one_call_either(shop, tmp_path):
    """F29: after a hang-up the file is fetched from its start."""
    shop.etag, shop.cut = 'W/"one"', 600_000

    def heal(shop):
        if len(shop.requests) == 2:
            shop.cut = None

    shop.before = heal
    fetch(shop.url, tmp_path / "w", sha256=digest(ONE), limits=QUICK)
    assert ["Range" in headers for headers in shop.requests] == [False, False]


@pytest.mark.parametrize(
    "notes",
    [
        "",
        "{",
        "[]",
        "null",
        '"x"',
        "{}",
        '{"etag": "\\"one\\"", "total": 5}',
        '{"validator": 7, "total": null, "sha256": null}',
        '{"validator": "a\\r\\nX-Evil: 1", "total": null, "sha256": null}',
        '{"validator": "W/\\"one\\"", "total": null, "sha256": null}',
        '{"validator": "\\"one\\"", "total": "many", "sha256": null}',
        '{"validator": "\\"one\\"", "total": true, "sha256": null}',
        '{"validator": "\\"one\\"", "total": 10, "sha256": null}',
        '{"validator": "\\"one\\"", "total": null, "sha256": 5}',
        b"\xff\xfe",
        None,
    ],
)
def test_damaged_notes_start_the_file_over(shop, tmp_path, notes):
    """F29: what cannot be read proves nothing about the bytes beside it."""
    (tmp_path / "w.part").write_bytes(b"x" * 1000)
    if notes is not None:
        content = notes if isinstance(notes, bytes) else notes.encode()
        (tmp_path / "w.part.json").write_bytes(content)
    assert fetch(shop.url, tmp_path / "w", limits=QUICK).read_bytes() == ONE
    assert "Range" not in shop.requests[0]


def test_two_downloads_of_one_target(shop, tmp_path):
    """F29: the second is refused in words while the first goes on, and may come afterwards."""
    arrived, go_on = threading.Event(), threading.Event()

    def hold(shop):
        arrived.set()
        go_on.wait(300)

    shop.before = hold
    ends = []
    first = threading.Thread(
        target=lambda: ends.append(fetch(shop.url, tmp_path / "w", sha256=digest(ONE)))
    )
    first.start()
    assert arrived.wait(300)
    with pytest.raises(DownloadError, match="by somebody else"):
        fetch(shop.url, tmp_path / "w")
    go_on.set()
    first.join(300)
    assert ends[0].read_bytes() == ONE
    assert fetch(shop.url, tmp_path / "w", sha256=digest(ONE)).read_bytes() == ONE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w"]


def test_many_at_once_never_leave_a_wrong_file(shop, tmp_path):
    """F29: whoever says ok has the whole file, and nothing is left beside it."""
    ends = []

    def one():
        try:
            ends.append(fetch(shop.url, tmp_path / "w").read_bytes() == ONE)
        except DownloadError as error:
            ends.append(str(error))

    threads = [threading.Thread(target=one) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert len(ends) == 12
    assert True in ends
    assert all(end is True or "by somebody else" in end for end in ends)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w"]


# -- what the server tells ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["Repr-Digest", "Digest", "x-amz-checksum-sha256"], ids=["rfc9530", "old", "s3"]
)
def test_a_digest_that_the_server_tells_is_checked(shop, tmp_path, name):
    """M37: also after a resume, without the caller knowing it."""

    def told(data):
        coded = base64.b64encode(hashlib.sha256(data).digest()).decode()
        return {"Repr-Digest": f"sha-256=:{coded}:", "Digest": f"SHA-256={coded}"}.get(name, coded)

    shop.headers = {name: told(ONE)}
    shop.cut = 600_000
    assert fetch(shop.url, tmp_path / "w", limits=QUICK).read_bytes() == ONE
    shop.cut, shop.headers = None, {name: told(TWO)}
    with pytest.raises(DownloadError, match="SHA-256"):
        fetch(shop.url, tmp_path / "w", limits=QUICK)
    assert (tmp_path / "w").read_bytes() == ONE
    assert not (tmp_path / "w.part").exists()


def test_a_digest_of_pieces_is_not_mistaken_for_one(shop, tmp_path):
    """S3: a checksum that ends in the number of pieces is not of the bytes."""
    coded = base64.b64encode(hashlib.sha256(TWO).digest()).decode()
    shop.headers = {"x-amz-checksum-sha256": f"{coded}-3"}
    assert fetch(shop.url, tmp_path / "w", limits=QUICK).read_bytes() == ONE


def test_another_size_than_expected_is_refused_at_once(shop, tmp_path):
    """M37: before a byte of the wrong file is fetched."""
    with pytest.raises(DownloadError, match="1000000 bytes where 5 were expected"):
        fetch(shop.url, tmp_path / "w", size=5, limits=QUICK)
    assert list(tmp_path.iterdir()) == []


def test_a_packed_reply_is_refused(shop, tmp_path):
    """M37: bytes that were packed on the way are not the file's."""
    shop.headers = {"Content-Encoding": "gzip"}
    with pytest.raises(DownloadError, match="packed as 'gzip'"):
        fetch(shop.url, tmp_path / "w", limits=QUICK)


@pytest.mark.parametrize("onward", ["http://a.test/x", "HTTP://b.test/x"])
def test_a_redirect_never_leaves_tls(tmp_path, onward):
    """F29: https → http would show the signature and let anybody change the file."""
    asked = []

    def answer(request):
        asked.append(request.url.scheme)
        if request.url.scheme == "https":
            return httpx.Response(302, headers={"location": onward})
        return httpx.Response(200, content=b"evil")

    with (
        httpx.Client(transport=httpx.MockTransport(answer)) as client,
        pytest.raises(DownloadError, match="https to http; refused"),
    ):
        fetch("https://a.test/w", tmp_path / "w", client=client)
    assert asked == ["https"]
    assert list(tmp_path.iterdir()) == []


# -- files that are kept -----------------------------------------------------------------------


def test_a_kept_file_is_not_fetched_again(shop, tmp_path):
    """F29: the server is asked whether it is still the same, and that is all."""
    fetch(shop.url, tmp_path / "w", keep=True)
    fetch(shop.url, tmp_path / "w", keep=True, sha256=digest(ONE), size=len(ONE))
    assert len(shop.requests) == 2
    assert shop.requests[1]["If-None-Match"] == '"one"'


@pytest.mark.parametrize("how", ["changed", "cut", "touched", "unproved", "unnoted"])
def test_a_kept_file_of_another_version_is_fetched_again(shop, tmp_path, how):
    """F29: neither a new file under the same name nor a damaged old one passes for the other."""
    if how == "unproved":
        shop.etag = 'W/"one"'
    fetch(shop.url, tmp_path / "w", keep=how != "unnoted")
    wanted = ONE
    if how == "changed":
        shop.data, shop.etag, wanted = TWO, '"two"', TWO
    elif how == "cut":
        (tmp_path / "w").write_bytes(ONE[:-1])
    elif how == "touched":
        (tmp_path / "w").write_bytes(TWO)
    expected = {"sha256": digest(wanted)} if how == "touched" else {}
    assert fetch(shop.url, tmp_path / "w", keep=True, **expected).read_bytes() == wanted


# -- the disk, and the policy ------------------------------------------------------------------


def test_a_disk_that_takes_nothing_is_an_error_of_ours(shop, tmp_path):
    """M37: the path and the system's reason, not a traceback."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(DownloadError, match="cannot be written"):
        fetch(shop.url, tmp_path / "file" / "w")
    (tmp_path / "w.part").mkdir()
    with pytest.raises(DownloadError, match="cannot be written"):
        fetch(shop.url, tmp_path / "w")


def test_only_attempts_in_vain_count(tmp_path, monkeypatch):
    """M37: new bytes start the count anew; a delay that the server names is waited for."""
    come: list[tuple[bytes, float | None]] = []

    def attempt(download):
        data, asked = come.pop(0)
        with download.part.path.open("ab") as file:
            file.write(data)
        raise _Interrupted("cut", asked)

    def waits(attempts, *each):
        part = Part(tmp_path / f"w{attempts}.part")
        part.path.write_bytes(b"")
        limits = FetchLimits(attempts=attempts)
        download = _Download(None, "http://x/w", part, None, None, limits, print, 1e9)
        come[:] = each
        for _ in each:
            download._try()
            yield None if download.exhausted() else download.delay()

    monkeypatch.setattr(_Download, "_attempt", attempt)
    monkeypatch.setattr(_Download, "_left", lambda self: 1e6)
    nothing, some = (b"", None), (b"x", None)
    told = [*waits(3, nothing, nothing, some, (b"", 7.0), nothing)]
    assert told == pytest.approx([0.1, 0.2, 0.1, 7.0, None])
    assert [*waits(99, (b"", 1e9))] == [60.0]
    assert max(waits(98, *[nothing] * 50)) == 5.0


@pytest.mark.parametrize("digits", [20, 5_000])
def test_a_size_that_is_not_a_number_of_bytes_is_not_read(shop, tmp_path, digits):
    """M37: Python refuses to read 5,000 digits, with a ValueError."""
    notes = {"validator": '"one"', "total": len(ONE), "sha256": None}
    (tmp_path / "w.part").write_bytes(ONE[:1000])
    (tmp_path / "w.part.json").write_text(json.dumps(notes))
    shop.careless = True

    def claim(shop):
        first = len(shop.requests) == 1
        shop.data = ONE[:10] if first else ONE
        shop.headers = {"Content-Range": "bytes */" + "9" * digits} if first else {}

    shop.before = claim
    assert fetch(shop.url, tmp_path / "w", limits=QUICK).read_bytes() == ONE


def test_an_etag_that_cannot_be_sent_back_is_no_validator(shop, tmp_path):
    """M37: a header that is not ASCII is a UnicodeEncodeError of the client when sent."""
    shop.etag = '"\xe9"'
    shop.cut = 400_000

    def mend(shop):
        shop.cut = None if len(shop.requests) > 1 else shop.cut

    shop.before = mend
    assert fetch(shop.url, tmp_path / "w", limits=QUICK).read_bytes() == ONE
    assert "Range" not in shop.requests[1]


def test_a_server_that_makes_us_start_over_in_turn_is_given_up(shop, tmp_path):
    """M37: a 200 that is cut and a 416, again and again: bytes come and none of them stay."""
    shop.cut, shop.careless = 400_000, True

    def turn(shop):
        shop.data = ONE if len(shop.requests) % 2 else b"abc"

    shop.before = turn
    limits = FetchLimits(attempts=3, stall_seconds=10, total_seconds=8)
    with pytest.raises(DownloadError, match="got no further in 3 attempts"):
        fetch(shop.url, tmp_path / "w", limits=limits)
    assert len(shop.requests) == 6
