"""A user's function as an observer."""

from __future__ import annotations

from collections.abc import Callable

from tinker_ext._transport.events import Event

EventCallback = Callable[[Event], object]
"""Called with every event, usually on the core loop's thread: it must return quickly."""


class Callback:
    """Calls a function with every event; its errors never reach the call it watches."""

    def __init__(self, function: EventCallback) -> None:
        self._function = function

    def notice(self, event: Event) -> None:
        """Pass the event on."""
        self._function(event)
