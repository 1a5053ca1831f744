"""The one table of HTTP statuses: what each of them says about the request it answers."""

from __future__ import annotations

from typing import Final

NOT_YET: Final = 408
"""A poll was held as long as the server likes; any other request may have taken effect."""
CONFLICT: Final = 409
GONE: Final = 410

MISSING: Final = frozenset({404, 405, 501})
"""The server has no such endpoint; a 404 may also mean that it has no such object."""
BODY_REFUSED: Final = frozenset({400, 415, 422, 501})
"""The body was read and not accepted; another encoding of it may be."""
NO_SETTINGS: Final = MISSING | BODY_REFUSED
"""How servers without client/config answer a request for it."""
REFUSED_FOR_NOW: Final = frozenset({402, 429})
"""Refused before anything was done, and accepted later: no money, or too much at once."""
BUSY: Final = 429
UNPAID: Final = 402
CREDENTIAL_REFUSED: Final = frozenset({401, 403})
UNWANTED: Final = MISSING | CREDENTIAL_REFUSED | {GONE}
"""The server will never take this kind of request from this client."""
ABSENT: Final = MISSING | BODY_REFUSED | {403, GONE}
"""How servers say that they do not have an object, or that it belongs to somebody else."""
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


def accepted(status: int) -> bool:
    """Whether the server took the request."""
    return 200 <= status < 300


def failed(status: int) -> bool:
    """Whether the server itself is unwell."""
    return status >= 500


def may_have_acted(status: int) -> bool:
    """Whether the server may have done the work although it answered with this error."""
    return failed(status) or status == NOT_YET


def passes(status: int) -> bool:
    """Whether the same request may well be accepted later."""
    return may_have_acted(status) or status == BUSY
