"""Which HTTP statuses mean what: every set at its first and last member."""

from __future__ import annotations

import pytest

import tinker_ext._statuses as statuses


@pytest.mark.parametrize(
    ("status", "accepted", "failed"),
    [
        (100, False, False),
        (199, False, False),
        (200, True, False),
        (202, True, False),
        (299, True, False),
        (300, False, False),
        (304, False, False),
        (400, False, False),
        (499, False, False),
        (500, False, True),
        (501, False, False),
        (502, False, True),
        (599, False, True),
        (999, False, True),
        (1000, False, False),
    ],
)
def test_what_is_accepted_and_what_has_failed(status, accepted, failed):
    """M15 M24: 2xx is an answer; from 500 on the server has failed, but for what it never does."""
    assert (status in statuses.ACCEPTED) is accepted
    assert (status in statuses.FAILED) is failed


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("MISSING", {404, 405, 501}),
        ("BODY_REFUSED", {400, 415, 422, 501}),
        ("UNREAD", {405, 415, 501}),
        ("REFUSED_FOR_NOW", {402, 429}),
        ("CREDENTIAL_REFUSED", {401, 403}),
        ("ABSENT", {400, 403, 404, 405, 410, 415, 422, 501}),
        ("REDIRECTS", {301, 302, 303, 307, 308}),
        ("NOTHING_TO_UNDO", {400, 404}),
        ("FILE_PASSING", {408, 425, 429, 500, 502, 503, 504}),
        ("ABOUT_THE_REQUEST", {400, 404, 409, 410, 422}),
    ],
)
def test_the_members_of_each_set(name, members):
    """M15: one status more or less is another error, or a request that is sent again."""
    assert getattr(statuses, name) == members


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("UNSUPPORTED", 501),
        ("NOT_YET", 408),
        ("CONFLICT", 409),
        ("GONE", 410),
        ("BUSY", 429),
        ("UNPAID", 402),
    ],
)
def test_statuses_with_a_name(name, status):
    """M15: they are what the document of the API has."""
    assert getattr(statuses, name) == status
