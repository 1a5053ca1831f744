"""Addresses that are not those of a server: what is said of them, and what is not shown."""

from __future__ import annotations

import pytest

from tinker_ext._transport.origin import split_base_url
from tinker_ext.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("host:8000", "did you mean http://host:8000 or https://host:8000?"),
        ("x" * 300, f"did you mean http://{'x' * 200} or https://{'x' * 200}?"),
        ("ftp://host", "must start with http:// or https://, not ftp://"),
        ("embeded", "or be 'embedded'"),
        ("http://host:0", "port 0"),
        ("http://host:port", "the port of the base URL is no number up to 65535"),
        ("http://host:99999", "the port of the base URL is no number up to 65535"),
        ("http://[::1", "is not a URL"),
        ("http://host/?a=b", "a query or a fragment"),
        ("http://host/#a", "a query or a fragment"),
    ],
)
def test_what_is_said_of_an_address(url, said):
    """F31: what is wrong with it, and what was probably meant."""
    with pytest.raises(ConfigurationError) as caught:
        split_base_url(url)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "user:secret@host",
        f"user:{'secret' * 50}@host",
        "http://user:secret@host",
        "ftp://user:secret@host",
    ],
)
def test_a_password_in_an_address_is_not_shown(url):
    """M32: however long it is."""
    with pytest.raises(ConfigurationError) as caught:
        split_base_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "origin", "path"),
    [
        ("http://host", "http://host", ""),
        ("HTTPS://Host:443/a/", "https://host", "/a"),
        (" http://host:8000/a/b ", "http://host:8000", "/a/b"),
    ],
)
def test_addresses_of_servers(url, origin, path):
    """F45: one server has one name."""
    found, below = split_base_url(url)
    assert (str(found), below) == (origin, path)
