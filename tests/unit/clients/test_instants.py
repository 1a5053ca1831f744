"""Moments and days that a look-up is asked about: one form is sent, whatever was given."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from tinker_ext.clients.rest import AdminClient, _instant
from tinker_ext.errors import InvalidInputError

EAST = timezone(timedelta(hours=5, minutes=30))


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=EAST), "2026-01-01T21:34:05.600000Z"),
        (date(2026, 1, 2), "2026-01-02T00:00:00Z"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("yesterday", "yesterday"),  # the server says what it thinks of it
    ],
)
def test_moments_are_sent_in_utc(given, sent):
    """M36: a day begins at midnight in UTC."""
    assert _instant(given) == sent


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (datetime(2026, 1, 2, 3, 4, 5), "has no time zone; use datetime"),
        (None, "Give a datetime, a date or a text"),
        (1_700_000_000, "Give a datetime, a date or a text"),
        (datetime.min.replace(tzinfo=EAST), "outside of the calendar"),
    ],
)
def test_what_is_no_moment_is_refused(given, words):
    """M38: nobody guesses the time zone of a user."""
    with pytest.raises(InvalidInputError, match=words):
        _instant(given)


def test_a_day_is_a_date():
    """M38: a text may be any day."""
    sent: list[object] = []
    admin: Any = AdminClient.__new__(AdminClient)
    admin._ask = lambda op, **given: sent.append(given["day"])
    admin.get_audit_log(day=date(2026, 1, 2))
    admin.get_audit_log()
    assert sent == ["2026-01-02", None]
    for given in ("2026-01-02", 5):
        with pytest.raises(InvalidInputError, match=r"day must be a datetime\.date"):
            admin.get_audit_log(day=given)
