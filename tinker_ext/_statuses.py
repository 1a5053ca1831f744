"""The one table of HTTP statuses: what each of them says about the request it answers."""

from __future__ import annotations

from typing import Final

UNSUPPORTED: Final = 501
"""The server does not do this at all: it is well, did nothing, and will not do it later."""
NOT_YET: Final = 408
"""A poll was held as long as the server likes; any other request may have taken effect."""
CONFLICT: Final = 409
GONE: Final = 410

MISSING: Final = frozenset({404, 405, UNSUPPORTED})
"""The server has no such endpoint; a 404 may also mean that it has no such object."""
BODY_REFUSED: Final = frozenset({400, 415, 422, UNSUPPORTED})
"""The body was read and not accepted; another encoding of it may be."""
UNREAD: Final = frozenset({405, 415, 501})
"""The body was not even read: the server does not take this encoding, or no such request at all."""
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
NOTHING_TO_UNDO: Final = frozenset({400, 404})
"""How servers refuse to take back what was not done, such as publishing a checkpoint."""
FILE_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""After these a file server, which is not a Tinker server, may well answer the next time."""

ABOUT_THE_REQUEST: Final = frozenset({400, 404, CONFLICT, GONE, 422})
"""A poll answered so tells what became of the request that it asks for."""
ACCEPTED: Final = frozenset(range(200, 300))
"""The server took the request."""
FAILED: Final = frozenset(range(500, 1000)) - {UNSUPPORTED}
"""The server itself is unwell; three digits are all that a status line has."""
MAY_HAVE_ACTED: Final = FAILED | {NOT_YET}
"""The server may have done the work although it answered with this error."""
PASSING: Final = MAY_HAVE_ACTED | {BUSY}
"""The same request may well be accepted later."""
