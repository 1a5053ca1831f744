"""Where the archive of a checkpoint is asked for, on servers with and without kinds in paths."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tinker_ext import ServiceClient
from tinker_ext.errors import InvalidInputError


class OldServer(httpx.AsyncBaseTransport):
    """Knows archives by the name alone, like SkyRL; remembers what it was asked."""

    def __init__(self):
        self.paths = []

    async def handle_async_request(self, request):
        path = request.url.path.removeprefix("/api/v1/")
        self.paths.append(path)
        if path == "training_runs/run/checkpoints/final/archive":
            return httpx.Response(302, headers={"location": "http://x/final.tar.gz"})
        return httpx.Response(404, json={"detail": "Not Found"})


@pytest.fixture
def server():
    return OldServer()


@pytest.fixture
def rest(server):
    with ServiceClient(base_url="http://x", api_key="tml-x", transport=server) as service:
        yield service.create_rest_client()


@pytest.mark.parametrize(
    "path",
    ["tinker://run/sampler_weights/final", "tinker://run/final"],
)
def test_paths_with_and_without_a_kind_find_the_archive(rest, path):
    """M28, M35: any path scheme of known servers leads to the archive."""
    began = datetime.now(UTC)
    found = rest.get_checkpoint_archive_url_from_tinker_path(path).result()
    assert found.url == "http://x/final.tar.gz"
    # A server that does not say how long it can be used means a quarter of an hour.
    least, most = (moment + timedelta(minutes=15) for moment in (began, datetime.now(UTC)))
    assert least <= found.expires <= most


def test_an_id_without_a_kind_is_asked_for_once(rest, server):
    """M28: ids as such servers list them are taken as they are."""
    assert rest.get_checkpoint_archive_url("run", "final").result().url.endswith("final.tar.gz")
    assert [path for path in server.paths if path.endswith("archive")] == [
        "training_runs/run/checkpoints/final/archive"
    ]


@pytest.mark.parametrize("path", ["tinker://run", "tinker://run/x/y/z", "/tmp/weights"])
def test_what_is_no_checkpoint_path_fails_at_the_call(rest, server, path):
    """M38: nothing is sent."""
    with pytest.raises(InvalidInputError, match="tinker path"):
        rest.get_checkpoint_archive_url_from_tinker_path(path)
    assert server.paths == []
