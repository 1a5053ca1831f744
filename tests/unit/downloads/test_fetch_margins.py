"""A download at its margins, against a scripted file server without sockets, on a clock by hand.

F29 M37: what is asked for, kept, joined, thrown away and waited for.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import sys
from types import SimpleNamespace

import httpx
import pytest
import tenacity

from tinker_ext.downloads.fetch import FetchLimits, Part, Version, fetch, validator_of
from tinker_ext.errors import DownloadError

URL = "http://files.test/a?sig=SECRET"
DATA = bytes(range(256)) * 8
SIZE = len(DATA)
ETAG = '"v1"'
SHA = hashlib.sha256(DATA).hexdigest()


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        self.slept = []
        stand_in = SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        monkeypatch.setattr(sys.modules["tinker_ext.downloads.fetch"], "time", stand_in)
        monkeypatch.setattr(tenacity.nap, "time", stand_in)

    def sleep(self, seconds):
        self.slept.append(round(seconds, 6))
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


class Blocks(httpx.SyncByteStream):
    """Bytes that come one after another."""

    def __init__(self, *blocks):
        self.blocks = blocks

    def __iter__(self):
        yield from self.blocks


class Files:
    """Answers requests by a script, one entry each; the last one stays."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def __call__(self, request):
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        answer = answer(request) if callable(answer) else answer
        stream = Blocks(answer.content) if hasattr(answer, "_content") else answer.stream
        return httpx.Response(answer.status_code, headers=answer.headers, stream=stream)

    @property
    def client(self):
        return httpx.Client(transport=httpx.MockTransport(self))


class Cut(httpx.SyncByteStream):
    """Some bytes, then the connection is gone."""

    def __init__(self, data):
        self.data = data

    def __iter__(self):
        yield self.data
        raise httpx.ReadError("cut")


def whole(data=DATA, etag=ETAG, **headers):
    return httpx.Response(200, content=data, headers={"etag": etag, **headers} if etag else headers)


def cut(count, etag=ETAG, total=SIZE, start=0, status=200):
    headers = {"content-length": str(total - start)} | ({"etag": etag} if etag else {})
    if status == 206:
        headers["content-range"] = f"bytes {start}-{total - 1}/{total}"
    return httpx.Response(status, stream=Cut(DATA[start : start + count]), headers=headers)


def rest(request, etag=ETAG, total=None, start=None):
    first = int(request.headers["range"].removeprefix("bytes=").removesuffix("-"))
    first = first if start is None else start
    headers = {"content-range": f"bytes {first}-{SIZE - 1}/{total or SIZE}", "etag": etag}
    return httpx.Response(206, content=DATA[first:], headers=headers)


def got(tmp_path, files, **options):
    target = tmp_path / "a"
    fetch(URL, target, client=files.client, **options)
    left = sorted(path.name for path in tmp_path.iterdir())
    return target.read_bytes(), left


def test_the_bounds_that_hold_when_nobody_names_others():
    """M37: 256 GiB, six hours, a minute without a byte, six attempts in vain."""
    limits = FetchLimits()
    assert (limits.max_bytes, limits.total_seconds) == (256 * 2**30, 6 * 3600.0)
    assert (limits.stall_seconds, limits.attempts) == (60.0, 6)


def test_a_whole_file_costs_one_request_without_a_credential(tmp_path, clock):
    """M37: unpacked, from its start; progress ends with all of it, and nothing is left beside."""
    seen = []
    files = Files(whole())
    data, left = got(tmp_path, files, progress=lambda *told: seen.append(told))
    assert (data, left) == (DATA, ["a"])
    (request,) = files.asked
    assert request.headers["accept-encoding"] == "identity"
    assert "range" not in request.headers
    assert "authorization" not in request.headers
    assert seen[-1] == (SIZE, SIZE)
    assert clock.slept == []


def test_what_was_cut_is_continued(tmp_path, clock):
    """F29: by the range that is missing and the version it is of."""
    files = Files(cut(1000), rest)
    assert got(tmp_path, files)[0] == DATA
    asked = files.asked[1].headers
    assert (asked["range"], asked["if-range"]) == ("bytes=1000-", ETAG)
    assert clock.slept == [0.1]


@pytest.mark.parametrize(
    "etag", [None, 'W/"v1"', "", '"naïve"', '"\x7f"'], ids=["none", "weak", "empty", "a", "b"]
)
def test_what_names_no_version_is_fetched_from_its_start(tmp_path, clock, etag):
    """F29, RFC 9110 §13.1.5: two halves that may be of two files are not joined."""
    headers = [(b"content-length", str(SIZE).encode())]
    if etag is not None:
        headers.append((b"etag", etag.encode("latin-1")))
    first = httpx.Response(200, stream=Cut(DATA[:1000]), headers=headers)
    files = Files(first, whole())
    assert got(tmp_path, files)[0] == DATA
    assert "range" not in files.asked[1].headers


WRONG = [
    lambda request: rest(request, etag='"v2"'),
    lambda request: rest(request, total=SIZE + 1),
    lambda request: rest(request, start=999),
    lambda request: httpx.Response(206, content=DATA[1000:]),
    lambda request: httpx.Response(
        206, content=DATA[1000:], headers={"content-range": f"bytes */{SIZE}"}
    ),
    lambda request: httpx.Response(416, headers={"content-range": "bytes */7"}),
    lambda request: whole(etag='"v2"'),
]


@pytest.mark.parametrize("answer", WRONG)
def test_what_does_not_fit_starts_over(tmp_path, clock, answer):
    """F29: another version, length or range is never joined to what is there."""
    files = Files(cut(1000), answer, whole())
    assert got(tmp_path, files)[0] == DATA
    assert "range" in files.asked[1].headers
    assert all("range" not in request.headers for request in files.asked[2:])


def test_a_range_that_nobody_asked_for_is_refused(tmp_path, clock):
    """F29: a 206 to a whole request is not the whole file."""
    files = Files(httpx.Response(206, content=DATA[5:], headers={
        "content-range": f"bytes 5-{SIZE - 1}/{SIZE}"}), whole())  # fmt: skip
    assert got(tmp_path, files)[0] == DATA
    assert len(files.asked) == 2


def test_a_file_that_was_whole_already_is_not_sent_again(tmp_path, clock):
    """F29: 416 to the range behind its end says so, if it is still the same file."""
    (tmp_path / "a.part").write_bytes(DATA)
    Version(ETAG, SIZE).write(tmp_path / "a.part.json")
    done = httpx.Response(416, headers={"content-range": f"bytes */{SIZE}", "etag": ETAG})
    files = Files(done)
    assert got(tmp_path, files) == (DATA, ["a"])
    (tmp_path / "a.part").write_bytes(DATA)
    Version(ETAG, SIZE).write(tmp_path / "a.part.json")
    other = httpx.Response(416, headers={"content-range": f"bytes */{SIZE}", "etag": '"v2"'})
    assert got(tmp_path, Files(other, whole()))[0] == DATA


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_passes_is_asked_again(tmp_path, clock, status):
    """M37: after a pause that doubles, up to the server's wish, at most a minute."""
    slow = httpx.Response(status, headers={"retry-after": "7"})
    absurd = httpx.Response(status, headers={"retry-after": "70"})
    plain = httpx.Response(status)
    assert got(tmp_path, Files(plain, plain, slow, absurd, whole()))[0] == DATA
    assert clock.slept == [0.1, 0.2, 7.0, 60.0]


def test_the_pauses_of_a_line_that_stays_dead(tmp_path, clock):
    """M37: six attempts in vain end it, and say what is there and what to do."""
    files = Files(httpx.ConnectError("no route"))
    with pytest.raises(DownloadError, match=r"at 0 bytes .no route. and got no further in 6"):
        got(tmp_path, files)
    assert len(files.asked) == 6
    assert clock.slept == [0.1, 0.2, 0.4, 0.8, 1.6]
    with pytest.raises(DownloadError, match=r"at 0 bytes \(HTTP 503\) and got no further in 6"):
        got(tmp_path, Files(httpx.Response(503)))
    clock.slept.clear()
    with pytest.raises(DownloadError, match="in 9 attempts"):
        got(tmp_path, files, limits=FetchLimits(attempts=9))
    assert clock.slept[-3:] == [3.2, 5.0, 5.0]


def test_every_new_byte_begins_the_count_anew(tmp_path, clock):
    """F29: a line that is cut again and again still ends."""
    counter = itertools.count(100, 100)

    def drip(request):
        start = next(counter)
        return cut(100, start=start, status=206) if start < SIZE else rest(request)

    files = Files(cut(100), drip)
    assert got(tmp_path, files, limits=FetchLimits(attempts=3))[0] == DATA
    assert len(files.asked) > 10
    assert set(clock.slept) == {0.1}


def test_a_server_that_makes_us_start_over_is_given_up(tmp_path, clock):
    """F29: bytes that are thrown away in turn would never end."""
    versions = itertools.count()

    def other(request):
        return cut(500, etag=f'"v{next(versions)}"')

    files = Files(other)
    with pytest.raises(DownloadError, match="in 4 attempts"):
        got(tmp_path, files, limits=FetchLimits(attempts=4))
    assert len(files.asked) == 4


@pytest.mark.parametrize("seconds", [5.0, 12.0])
def test_the_whole_takes_no_longer_than_it_may(tmp_path, clock, seconds):
    """F29: a pause is cut at the end of the time; the error says so and what is kept."""
    slow = httpx.Response(503, headers={"retry-after": "10"})
    with pytest.raises(DownloadError, match=f"more than {seconds:g} s; 0 bytes are kept"):
        got(tmp_path, Files(slow), limits=FetchLimits(total_seconds=seconds))
    assert clock.now == 1000.0 + seconds


def test_a_drip_ends_when_the_time_is_over(tmp_path, clock):
    """F29: ten bytes a second are movement, but not for ever; they are kept."""

    class Drip(httpx.SyncByteStream):
        def __iter__(self):
            for i in range(0, SIZE, 10):
                clock.now += 1.0
                yield DATA[i : i + 10]

    def drip(request):
        headers = {"etag": ETAG, "content-length": str(SIZE)}
        return httpx.Response(200, stream=Drip(), headers=headers)

    with pytest.raises(DownloadError, match="30 bytes are kept"):
        got(tmp_path, Files(drip), limits=FetchLimits(total_seconds=3.0))
    assert (tmp_path / "a.part").read_bytes() == DATA[:30]


@pytest.mark.parametrize(
    ("stall", "total", "wanted"), [(60.0, 100.0, 60.0), (60.0, 20.0, 20.0), (3.0, 20.0, 3.0)]
)
def test_a_connection_may_be_silent_for_so_long(tmp_path, clock, stall, total, wanted):
    """M37: the time without a byte, or what is left of the whole."""
    files = Files(whole())
    got(tmp_path, files, limits=FetchLimits(stall_seconds=stall, total_seconds=total))
    assert files.asked[0].extensions["timeout"]["read"] == wanted


@pytest.mark.parametrize(
    ("size", "most", "word"),
    [
        (SIZE, SIZE, None),
        (None, SIZE, None),
        (SIZE - 1, None, "where 2047 were expected"),
        (SIZE + 1, None, "where 2049 were expected"),
        (None, SIZE - 1, "more than the 2047 allowed"),
    ],
)
@pytest.mark.parametrize("told", [True, False])
def test_a_file_has_the_size_it_should_have(tmp_path, clock, size, most, word, told):
    """F29 M37: as announced, or as it comes where nothing is announced; wrong bytes do not stay."""

    def answer(request):
        headers = {"etag": ETAG} | ({"content-length": str(SIZE)} if told else {})
        return httpx.Response(200, stream=Blocks(DATA), headers=headers)

    limits = FetchLimits() if most is None else FetchLimits(max_bytes=most)
    if word is None:
        assert got(tmp_path, Files(answer), size=size, limits=limits)[0] == DATA
        return
    with pytest.raises(DownloadError) as caught:
        got(tmp_path, Files(answer), size=size, limits=limits)
    if told:
        assert word in str(caught.value)
    assert not (tmp_path / "a").exists()
    assert "SECRET" not in str(caught.value)


def test_more_bytes_than_announced_are_thrown_away(tmp_path, clock):
    """M37: what follows is of another message, or a lie."""
    headers = {"content-length": str(SIZE), "etag": ETAG}
    with pytest.raises(DownloadError, match="more bytes than it announced"):
        got(tmp_path, Files(httpx.Response(200, stream=Blocks(DATA, b"x"), headers=headers)))
    assert list(tmp_path.iterdir()) == []


def test_what_comes_packed_is_refused(tmp_path, clock):
    """M37: its bytes could not be resumed nor compared."""
    for coding in ("gzip", " GZIP "):
        packed = httpx.Response(200, stream=Cut(b"x"), headers={"content-encoding": coding})
        with pytest.raises(DownloadError, match="packed as 'gzip'"):
            got(tmp_path, Files(packed))
    plain = httpx.Response(200, content=DATA, headers={"content-encoding": " Identity"})
    assert got(tmp_path, Files(plain))[0] == DATA


def b64(data):
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


TOLD = [
    {"repr-digest": f"sha-256=:{b64(DATA)}:"},
    {"digest": f"SHA-256={b64(DATA)}"},
    {"digest": f"md5=x, sha-256={b64(DATA)}"},
    {"x-amz-checksum-sha256": b64(DATA)},
]


@pytest.mark.parametrize("headers", TOLD)
def test_a_digest_that_the_server_tells_is_compared(tmp_path, clock, headers):
    """F29: also after the file came in two halves; the caller's goes before the server's."""
    assert got(tmp_path, Files(whole(**headers)))[0] == DATA
    wrong = {name: text.replace(b64(DATA), b64(b"x")) for name, text in headers.items()}
    with pytest.raises(DownloadError, match="SHA-256"):
        got(tmp_path, Files(whole(**wrong)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]
    first = cut(1000)
    first.headers.update(wrong)
    with pytest.raises(DownloadError, match="SHA-256"):
        got(tmp_path, Files(first, rest))
    assert got(tmp_path, Files(whole(**wrong)), sha256=SHA.upper())[0] == DATA


def test_what_is_no_digest_of_a_file_is_passed_over(tmp_path, clock):
    """F29: of pieces, too short, or not base64."""
    for text in (f"{b64(DATA)}-12", "AAAA", "%%%", ""):
        assert got(tmp_path, Files(whole(**{"x-amz-checksum-sha256": text})))[0] == DATA


STAMP = "Tue, 17 Nov 2026 04:{:02}:{:02} GMT"


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"etag": ETAG}, ETAG),
        ({"etag": 'W/"x"', "date": STAMP.format(9, 0), "last-modified": STAMP.format(1, 0)}, None),
        ({"date": STAMP.format(2, 0), "last-modified": STAMP.format(1, 0)}, STAMP.format(1, 0)),
        ({"date": STAMP.format(1, 59), "last-modified": STAMP.format(1, 0)}, None),
        ({"date": STAMP.format(2, 0)}, None),
        ({"last-modified": STAMP.format(1, 0)}, None),
        ({"date": "soon", "last-modified": STAMP.format(1, 0)}, None),
        ({"date": "Tue, 17 Nov 9999999 04:00:00 GMT", "last-modified": STAMP.format(1, 0)}, None),
        ({}, None),
    ],
)
def test_what_tells_one_version_from_another(headers, found):
    """F29, RFC 9110 §8.8.2.2: a strong ETag, or a date a minute older than the reply."""
    assert validator_of(httpx.Headers(headers)) == found


@pytest.mark.parametrize(
    "notes",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"validator": "\\"v\\""}',
        b'{"validator": 1, "total": 1, "sha256": null}',
        b'{"validator": "W/\\"v\\"", "total": 1, "sha256": null}',
        b'{"validator": "", "total": 1, "sha256": null}',
        b'{"validator": "\\"v\\"", "total": -1, "sha256": null}',
        b'{"validator": "\\"v\\"", "total": true, "sha256": null}',
        b'{"validator": "\\"v\\"", "total": 1.5, "sha256": null}',
        b'{"validator": "\\"v\\"", "total": 1, "sha256": 3}',
        b"\xff\xfe",
    ],
)
def test_notes_that_are_damaged_prove_nothing(tmp_path, notes):
    """F29: the bytes beside them are thrown away."""
    (tmp_path / "a.part").write_bytes(b"old")
    (tmp_path / "a.part.json").write_bytes(notes)
    part = Part.of(tmp_path / "a")
    assert (part.size, part.version) == (0, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("total", "kept"), [(None, 3), (4, 3), (3, 3), (2, 0)])
def test_a_part_that_is_longer_than_its_file_is_thrown_away(tmp_path, total, kept):
    """F29: it cannot be of that file."""
    (tmp_path / "a.part").write_bytes(b"old")
    Version(ETAG, total, SHA).write(tmp_path / "a.part.json")
    part = Part.of(tmp_path / "a")
    assert part.size == kept
    assert part.version == (Version(ETAG, total, SHA) if kept else None)


def test_a_kept_target_is_asked_about_and_replaced_when_it_changed(tmp_path, clock):
    """F29: 304, or the same validator, keeps it; anything else fetches it."""
    got(tmp_path, Files(whole()), keep=True)
    notes = json.loads((tmp_path / "a.version.json").read_text())
    assert (notes["validator"], notes["total"]) == (ETAG, SIZE)
    same = Files(httpx.Response(304))
    assert got(tmp_path, same, keep=True) == (DATA, ["a", "a.version.json"])
    (request,) = same.asked
    assert request.headers["if-none-match"] == ETAG
    again = Files(whole())
    got(tmp_path, again, keep=True)
    assert len(again.asked) == 1
    new = bytes(reversed(DATA))
    changed = Files(whole(new, etag='"v2"'))
    assert got(tmp_path, changed, keep=True)[0] == new
    assert len(changed.asked) == 1
    for options in ({"size": SIZE + 1}, {"sha256": SHA}):
        wrong = Files(whole(new, etag='"v2"'))
        with pytest.raises(DownloadError):
            got(tmp_path, wrong, keep=True, **options)
        assert len(wrong.asked) == 1  # it is not asked whether a wrong file is still the same
    (tmp_path / "a").write_bytes(b"damaged")
    assert got(tmp_path, Files(whole(new, etag='"v2"')), keep=True)[0] == new
    lost = Files(httpx.ConnectError("x"), whole(new, etag='"v2"'))
    assert got(tmp_path, lost, keep=True)[0] == new
    assert len(lost.asked) == 2


def test_a_date_is_asked_about_as_a_date(tmp_path, clock):
    """F29: a server without ETags compares when the file was changed."""
    dated = {"date": STAMP.format(9, 0), "last-modified": STAMP.format(1, 0)}
    got(tmp_path, Files(whole(etag=None, **dated)), keep=True)
    same = Files(httpx.Response(304))
    got(tmp_path, same, keep=True)
    assert same.asked[0].headers["if-modified-since"] == STAMP.format(1, 0)
    assert "if-none-match" not in same.asked[0].headers


def hop(to, status=302):
    return httpx.Response(status, headers={"location": to})


@pytest.mark.parametrize(("hops", "fine"), [(1, True), (5, True), (6, False)])
def test_a_few_redirects_are_followed(tmp_path, clock, hops, fine):
    """M37: five, and the range goes with them."""
    files = Files(*[hop(f"http://files.test/{i}") for i in range(hops)], whole())
    if fine:
        assert got(tmp_path, files)[0] == DATA
    else:
        with pytest.raises(DownloadError, match="more than 5 times"):
            got(tmp_path, files)
    assert len(files.asked) == min(hops + 1, 6)


def test_progress_tells_what_is_there_and_then_the_whole(tmp_path, clock):
    """M37: in this order, after every block."""
    headers = {"content-length": str(SIZE), "etag": ETAG}
    stream = Blocks(DATA[:500], DATA[500:])
    seen = []
    files = Files(httpx.Response(200, stream=stream, headers=headers))
    got(tmp_path, files, progress=lambda *told: seen.append(told))
    assert seen[-1] == (SIZE, SIZE)
    assert (500, SIZE) in seen


def test_a_redirect_holds_no_connection(tmp_path, clock):
    """M37: its reply is let go of before the next request, whatever it still had to say."""
    closed = []

    class Body(Blocks):
        def close(self):
            closed.append(len(files.asked))

    onward = {"location": "http://files.test/b"}
    files = Files(httpx.Response(302, headers=onward, stream=Body(b"moved")), whole())
    assert got(tmp_path, files)[0] == DATA
    assert closed == [1]


@pytest.mark.parametrize(
    ("url", "to", "word"),
    [
        ("https://files.test/a", "http://files.test/a", "from https to http"),
        ("http://files.test/a", "ftp://files.test/a", "only http and https"),
        ("http://files.test/a", "http://me:secret@files.test/a", "user name"),
        ("http://me:secret@files.test/a", None, "user name"),
        ("file:///etc/passwd", None, "only http and https"),
    ],
)
def test_what_would_show_or_change_the_file_is_refused(tmp_path, clock, url, to, word):
    """F29 M37: and the error repeats no secret of the address."""
    files = Files(hop(to) if to else whole())
    with pytest.raises(DownloadError, match=word) as caught:
        fetch(url, tmp_path / "a", client=files.client)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "hint"), [(403, "expired"), (404, "gone"), (410, ""), (400, "")]
)
def test_a_refusal_ends_it_at_once(tmp_path, clock, status, hint):
    """M37: with what to do about it."""
    files = Files(httpx.Response(status))
    with pytest.raises(DownloadError, match=f"HTTP {status}.*{hint}"):
        got(tmp_path, files)
    assert len(files.asked) == 1
    assert clock.slept == []


def test_folders_on_the_way_to_a_target_are_made(tmp_path, clock):
    """M37: as many as are missing; those that are there are fine."""
    target = tmp_path / "some" / "folders" / "a"
    for _ in range(2):
        target.unlink(missing_ok=True)
        fetch(URL, target, client=Files(whole()).client)
        assert target.read_bytes() == DATA


@pytest.mark.parametrize(
    "url", ["http://[::1/a", "http://files.test:port/a", "http://files.test/\x00"]
)
def test_an_address_that_is_no_url_is_an_error_of_ours(tmp_path, clock, url):
    """M37: nothing is asked, and no file is left that looks like one."""
    files = Files(whole())
    with pytest.raises(DownloadError, match="not a URL"):
        fetch(url, tmp_path / "a", client=files.client)
    assert files.asked == []
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("answer", [whole(), httpx.Response(404)])
@pytest.mark.parametrize("given", [True, False])
def test_a_client_that_was_made_for_a_download_ends_with_it(given, answer, tmp_path, monkeypatch):
    """M37: no connection is left; a client of the caller's stays open."""
    client = Files(answer).client
    monkeypatch.setattr(sys.modules["tinker_ext.downloads.fetch"], "_client", lambda: client)
    with contextlib.suppress(DownloadError):
        fetch(URL, tmp_path / "a", client=client if given else None)
    assert client.is_closed is not given
    client.close()


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY"])
def test_a_proxy_that_cannot_be_used_is_told(tmp_path, monkeypatch, name):
    """M37: which settings to look at; nothing is fetched past it."""
    monkeypatch.setenv(name, "gopher://127.0.0.1:1")
    with pytest.raises(DownloadError, match="HTTP_PROXY, HTTPS_PROXY or ALL_PROXY: "):
        fetch("http://127.0.0.1:9/x", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
