"""Unpacking: good archives arrive whole, hostile ones leave nothing anywhere."""

import gzip
import io
import tarfile
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.downloads.archives import BODY, corpus, file, tar

from tinker_ext.downloads import UnpackLimits, unpack
from tinker_ext.errors import DownloadError

CORPUS = corpus()
GOOD = {
    "adapter_config.json": b"{}",
    "weights/adapter_model.safetensors": bytes(range(256)) * 500,
    "caf\u00e9.txt": BODY,
}


def good_tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in GOOD.items():
            archive.addfile(file(name, len(data)), io.BytesIO(data))
    return out.getvalue()


FORMS = {
    "tar": good_tar(),
    "tar.gz": gzip.compress(good_tar()),
}


def tree(root):
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("form", FORMS)
def test_good_archives_arrive_whole(tmp_path, form):
    """M37: tar and tar.gz unpack to the same tree, and progress reaches the end."""
    source = tmp_path / f"checkpoint.{form}"
    source.write_bytes(FORMS[form])
    seen = []
    unpack(source, tmp_path / "out", progress=seen.append)
    assert tree(tmp_path / "out") == GOOD
    assert seen[-1] == sum(map(len, GOOD.values()))


def test_the_corpus_is_large_enough():
    """M37: at least sixty ways to misbehave, each with a name of its own."""
    assert len(CORPUS) >= 60


@pytest.mark.parametrize("name", CORPUS)
def test_hostile_archives_leave_nothing(tmp_path, name):
    """M37: no escape, no leftover, a typed error, bounded memory."""
    room = tmp_path / "room"
    room.mkdir()
    source = tmp_path / "archive"
    source.write_bytes(CORPUS[name]())
    tracemalloc.start()
    try:
        with pytest.raises(DownloadError):
            unpack(source, room / "out", limits=UnpackLimits(max_files=200))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert list(room.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "room"]
    assert peak < 32 << 20


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    form=st.sampled_from(sorted(FORMS)),
    edits=st.lists(st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=24)), max_size=6),
    cut=st.integers(0, 200),
)
def test_mutated_archives_never_escape(tmp_path_factory, form, edits, cut):
    """M37: whatever is changed in a good archive, the answer is a tree inside or a typed error."""
    data = bytearray(FORMS[form])
    for position, patch in edits:
        data[position : position + len(patch)] = patch
    base = tmp_path_factory.mktemp("mutated")
    room = base / "room"
    room.mkdir()
    source = base / "archive"
    source.write_bytes(bytes(data[: len(data) - cut]))
    try:
        unpack(source, room / "out")
    except DownloadError:
        assert list(room.iterdir()) == []
    else:
        assert [path.name for path in room.iterdir()] == ["out"]
        assert not any(path.is_symlink() for path in room.rglob("*"))
    assert sorted(path.name for path in base.iterdir()) == ["archive", "room"]


def test_an_existing_target_is_kept(tmp_path):
    """M37: nothing of the user's is overwritten."""
    source = tmp_path / "a.tar"
    source.write_bytes(FORMS["tar"])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("keep")
    with pytest.raises(DownloadError, match="already there"):
        unpack(source, tmp_path / "out")
    assert (tmp_path / "out" / "mine").read_text() == "keep"


def test_limits_can_be_raised_for_a_trusted_archive(tmp_path):
    """M37: a legitimate archive that compresses well has a way through."""
    zeros = bytes(8 << 20)
    source = tmp_path / "a.tar.gz"
    source.write_bytes(gzip.compress(tar(file("zeros", len(zeros)), data=zeros)))
    with pytest.raises(DownloadError, match="max_ratio"):
        unpack(source, tmp_path / "out")
    unpack(source, tmp_path / "out", limits=UnpackLimits(max_ratio=5000))
    assert (tmp_path / "out" / "zeros").stat().st_size == len(zeros)
