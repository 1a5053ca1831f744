"""What a refused redirect says about the place it pointed to."""

import httpx
import pytest

from tinker_ext._transport.messages import Call, Reply
from tinker_ext._transport.origin import refusal


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("http://127.0.0.1:8001/x", "to http://127.0.0.1:8001;"),
        ("https://user:word@host.test:8443/word?key=word#word", "to https://host.test:8443;"),
        ("https://host.test/word", "to https://host.test;"),
        ("http://[::1]:8001/x", "to http://[::1]:8001;"),
        ("/word", "to another place;"),
        ("http://host.test:word/", "to an unreadable place;"),
    ],
)
def test_a_refused_redirect_names_host_and_port(location, place):
    """M33: host and port tell one server from another; user, path and query may be secrets."""
    reply = Reply(307, httpx.Headers({"location": location}), b"")
    said = str(refusal(Call("optim_step", "POST", "/optim_step"), reply))
    assert place in said
    assert "word" not in said
