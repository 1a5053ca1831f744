"""Where a base URL points, checked once; which redirects stay there: a GET within its origin."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import re
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import attrs

from tinker_ext._transport.messages import Call, RedirectRefusedError, Reply
from tinker_ext.errors import ConfigurationError, TinkerError

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9._~\-]+|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._~\-]+)?\]")
_PLAIN_TARGET = re.compile(r"[\x21\x24-\x3b\x3d\x3f-\x5a\x5f\x61-\x7a\x7e]*")
_SAFE = "%/:?[]@!$&'()*+,;=~-._"
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@attrs.frozen
class Origin:
    """The part of a URL that an API key belongs to."""

    scheme: str
    host: str
    port: int

    @property
    def secure(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Value of the Host header."""
        return self.host if self.port == _PORTS[self.scheme] else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


def split_base_url(url: str) -> tuple[Origin, str]:
    """Check a base URL and split it into its origin and its path without a trailing slash.

    Raises:
        ConfigurationError: Not http(s), no host, or a user name, query or fragment in it.

    Example:
        >>> origin, path = split_base_url("https://example.org:8443/services/prod/")
        >>> str(origin), path
        ('https://example.org:8443', '/services/prod')
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        if str(error).startswith("Port"):
            raise ConfigurationError("the port of the base URL is no number up to 65535") from None
        raise ConfigurationError("the base URL is not a URL") from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        given, rest = url.strip()[:200], ""
        if "://" in url:
            rest = f", not {scheme}://"
        elif difflib.get_close_matches(given.partition(":")[0].lower(), ["embedded"]):
            rest = ", or be 'embedded'"
        elif "@" not in url:  # else it stays out of the message: it may hold a password
            rest = f": did you mean http://{given} or https://{given}?"
        raise ConfigurationError(f"the base URL must start with http:// or https://{rest}")
    if port == 0:
        raise ConfigurationError("the base URL has port 0, on which no server can be reached")
    if "@" in parts.netloc:
        # The text stays out of the message: it may hold a password.
        raise ConfigurationError("the base URL must not contain a user name or password")
    if parts.query or parts.fragment:
        raise ConfigurationError("the base URL must not contain a query or a fragment")
    try:
        host = (parts.hostname or "").encode("idna").decode()
    except UnicodeError:  # an empty or endless label
        host = ""
    if ":" in host:
        host = f"[{host}]"
    if not _HOST.fullmatch(host):
        raise ConfigurationError("the base URL has no valid host")
    return Origin(scheme, host, port or _PORTS[scheme]), encode_target(parts.path.rstrip("/"))


@functools.lru_cache(maxsize=1024)
def encode_target(path: str) -> str:
    """Percent-encode what may not stand in a request line; everything else stays as given."""
    return path if _PLAIN_TARGET.fullmatch(path) else quote(path, safe=_SAFE)


@functools.lru_cache(maxsize=256)
def _is_header_name(name: str) -> bool:
    return _HEADER_NAME.fullmatch(name) is not None


def encode_header(name: str, value: str) -> str:
    r"""Return `name: value\r\n`.

    Raises:
        ConfigurationError: A character that would end the header; the value is not shown.
    """
    if not _is_header_name(name):
        raise ConfigurationError(f"{name!r} is not a header name")
    # Printable ASCII is the usual case, and asking for it is much faster than the pattern.
    if not (value.isascii() and value.isprintable()) and not _HEADER_VALUE.fullmatch(value):
        raise ConfigurationError(f"the value of header {name} has a forbidden character")
    return f"{name}: {value}\r\n"


def proxy_for(origin: Origin) -> str | None:
    """Return the proxy that the standard environment variables name for this origin.

    Raises:
        ConfigurationError: It is of a kind that there is no way through, or not a URL; the text is
            not shown, since it may hold a password.
    """
    host = origin.host.strip("[]")
    if proxy_bypass(f"{host}:{origin.port}") or proxy_bypass(host):
        return None
    proxies = getproxies()
    kind = origin.scheme if proxies.get(origin.scheme) else "all"
    proxy = proxies.get(kind)
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    _check_proxy(proxy, f"{kind.upper()}_PROXY")
    return proxy


def _check_proxy(proxy: str, variable: str) -> None:
    scheme = proxy.partition("://")[0].lower()
    hint = f"Correct {variable}, or name the server in NO_PROXY."
    if scheme in ("socks5", "socks5h"):
        if importlib.util.find_spec("socksio") is None:
            raise ConfigurationError(
                f"{variable} names a SOCKS proxy, which needs the package socksio"
            ).with_context(hint=f"Install httpx[socks]. {hint}")
    elif scheme not in _PORTS:
        raise ConfigurationError(
            f"{variable} names a proxy of the unknown kind {scheme[:20]!r}; http, https and socks5 "
            "can be used"
        ).with_context(hint=hint)
    try:
        host = urlsplit(proxy).hostname
        _ = urlsplit(proxy).port
    except ValueError:
        host = None
    if not host:
        raise ConfigurationError(f"{variable} is not the URL of a proxy").with_context(hint=hint)


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
