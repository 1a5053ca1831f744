"""What the server says about the end of a feature (`x-deprecation-note`), logged once per text."""

from __future__ import annotations

import logging
from collections.abc import Mapping

_MOST_TEXTS = 100
_LONGEST_TEXT = 500


class DeprecationNotes:
    """Remembers which notes were logged already.

    Args:
        log: Where to write.
    """

    def __init__(self, log: logging.Logger | None = None) -> None:
        self._log = log or logging.getLogger("tinker_ext")
        self._seen: set[str] = set()

    def read(self, headers: Mapping[str, str]) -> None:
        """Log the note of a reply at the level it asks for."""
        note = headers.get("x-deprecation-note")
        if not note or note in self._seen or len(self._seen) >= _MOST_TEXTS:
            return
        self._seen.add(note)
        severe = headers.get("x-deprecation-level", "").lower() == "error"
        level = logging.ERROR if severe else logging.WARNING
        self._log.log(level, "the server says: %s", note[:_LONGEST_TEXT])
