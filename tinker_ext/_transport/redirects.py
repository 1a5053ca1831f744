"""Which redirects may be followed: a GET, within its own origin; nothing else ever."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

from tinker_ext._transport.faults import RedirectRefusedError
from tinker_ext._transport.messages import Call, Reply
from tinker_ext._transport.origin import Origin, encode_target, split_base_url
from tinker_ext.errors import TinkerError

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS = 5


def onward_target(call: Call, origin: Origin, target: str, location: str | None) -> str | None:
    """Return the target to ask next, or None when the redirect must not be followed."""
    if call.method != "GET" or not location:
        return None
    try:
        parts = urlsplit(urljoin(f"{origin}{target}", location))
        onward, path = split_base_url(f"{parts.scheme}://{parts.netloc}{parts.path or '/'}")
    except (TinkerError, ValueError):
        return None
    if onward != origin:
        return None
    path = f"{path}/" if parts.path.endswith("/") else path
    return encode_target(f"{path}?{parts.query}" if parts.query else path)


def refusal(call: Call, reply: Reply) -> RedirectRefusedError:
    """Return the error for a redirect that was not followed."""
    try:
        where = urlsplit(reply.headers.get("location", ""))
        # Scheme, host and port only: user, path and query of a signed URL are secrets.
        host = f"[{where.hostname}]" if ":" in (where.hostname or "") else where.hostname
        port = f":{where.port}" if where.port is not None else ""
        place = f"{where.scheme}://{host}{port}" if host else "another place"
    except ValueError:
        place = "an unreadable place"
    return RedirectRefusedError(
        f"{call.operation} was redirected ({reply.status}) to {place}; not followed", reply.status
    )
