"""The checks of `tinker-ext doctor`, in the order of the way from this machine to the server."""

from __future__ import annotations

import os
import platform
import socket
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, urlsplit

import attrs

from tinker_ext._extras import NEEDS, how_to_install
from tinker_ext._version import __version__

if TYPE_CHECKING:
    from tinker_ext.conform.subject import Subject
    from tinker_ext.errors import TinkerError

Status = Literal["ok", "warn", "fail", "info"]

CORE = ("attrs", "httptools", "httpx", "numpy", "orjson", "tenacity", "tokenizers")
NO_SETTINGS = {"TINKER_EXT_PROFILE", "TINKER_EXT_TOKENIZERS", "TINKER_EXT_UI_TOKEN"}
"""Variables that are read, and are not settings of a client."""
CLOCK_SECONDS = 60.0
CERTIFICATE_DAYS = 14
CLOSE_SECONDS = 2.0
"""Time to end a session on a server that has fallen silent."""


@attrs.frozen
class Finding:
    """One thing that was checked.

    Attributes:
        name: What was looked at.
        status: `ok`, `info` (worth knowing), `warn` (may hurt) or `fail` (will not work).
        detail: What was found.
        fix: What to do; empty when nothing is wrong.
    """

    name: str
    status: Status
    detail: str
    fix: str = ""


class _Stop(Exception):
    """A step failed and the later ones would only repeat it."""


def examine(
    base_url: str | None = None,
    *,
    timeout: float = 5.0,
    env: Mapping[str, str] | None = None,
) -> Iterator[Finding]:
    """Check everything between here and the server, yielding each finding as it is made.

    Args:
        base_url: The server; by default the one clients would use.
        timeout: Seconds for each step on the network.
        env: Environment to look at instead of that of the process.
    """
    values = os.environ if env is None else env
    yield from versions()
    yield from variables(values)
    url, source = chosen_url(base_url, values)
    if url is None:
        yield Finding("server", "warn", "no API key and no base URL: everything uses the embedded "
                      "server, a tiny model in the process itself",
                      "set TINKER_API_KEY for the hosted service or TINKER_BASE_URL for another; "
                      "TINKER_BASE_URL=embedded says that this is meant")  # fmt: skip
        yield from embedded()
        return
    if url.rstrip("/").rstrip(":") == "embedded" or url.startswith("embedded:"):
        yield Finding("server", "ok", f"embedded, from {source}")
        yield from embedded()
        return
    try:
        parts = yield from address(url, source)
        yield from key(url, values)
        proxy = proxy_for(url)
        yield from _proxy(proxy)
        if proxy is None:
            yield from network(parts, timeout)
        yield from health(url, timeout)
        yield from visit(url, timeout, values)
    except _Stop:
        return


def versions() -> Iterator[Finding]:
    """Look at Python, the package and what it needs."""
    here = f"tinker-ext {__version__}, Python {platform.python_version()}, {platform.system()}"
    missing = [name for name in CORE if _version(name) is None]
    found = ", ".join(f"{name} {_version(name)}" for name in CORE if name not in missing)
    if missing:
        yield Finding("versions", "fail", f"{here}; missing: {', '.join(missing)}",
                      f"pip install {' '.join(missing)}")  # fmt: skip
    else:
        yield Finding("versions", "ok", f"{here} ({found})")
    for extra, names in NEEDS.items():
        absent = [name for name in names if _version(name) is None]
        if absent and extra in ("server", "proto"):
            yield Finding(f"extra {extra}", "info", f"not installed: {', '.join(absent)}",
                          f"{how_to_install(extra)}, if you need it")  # fmt: skip


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def variables(env: Mapping[str, str]) -> Iterator[Finding]:
    """Look for settings that cannot be read, and for names that mean nothing."""
    from tinker_ext.config import Config
    from tinker_ext.errors import ConfigurationError

    known = {field.metadata["env"] for field in attrs.fields(Config)} | NO_SETTINGS
    try:
        Config.from_env(env)
    except ConfigurationError as error:
        yield Finding("settings", "fail", str(error), "correct or unset the variable")
    given = sorted(name for name in env if name.startswith("TINKER_"))
    unknown = [name for name in given if name.startswith("TINKER_EXT_") and name not in known]
    for name in unknown:
        from difflib import get_close_matches

        near = get_close_matches(name, known, n=1)
        yield Finding("settings", "warn", f"{name} means nothing here",
                      f"did you mean {near[0]}?" if near else "unset it")  # fmt: skip
    if not unknown:
        names = ", ".join(name for name in given if name in known) or "none"
        yield Finding("settings", "ok", f"variables in use: {names}")


def chosen_url(base_url: str | None, env: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the server clients would use and where that was said; None for the embedded one."""
    from tinker_ext import auth
    from tinker_ext.config import HOSTED_BASE_URL

    if base_url:
        return base_url, "--base-url"
    if env.get("TINKER_BASE_URL"):
        return env["TINKER_BASE_URL"], "TINKER_BASE_URL"
    if auth.has_credentials(env):
        return HOSTED_BASE_URL, "the default"
    return None, ""


def embedded() -> Iterator[Finding]:
    """Look at whether the embedded server can run."""
    absent = [name for name in NEEDS["server"] if _version(name) is None]
    if absent:
        yield Finding("embedded", "fail", f"needs {', '.join(absent)}",
                      how_to_install("server"))  # fmt: skip
    else:
        yield Finding("embedded", "ok", "ready; try `tinker-ext quickstart`")


def key(url: str, env: Mapping[str, str]) -> Iterator[Finding]:
    """Look at where the credential comes from, never at what it is."""
    from tinker_ext import auth
    from tinker_ext.auth import default_path, origin_of, stored_origins
    from tinker_ext.errors import TinkerError

    here = origin_of(url)
    place = default_path(here)
    try:
        auth.resolve(base_url=url, env=env)
        stored = auth.default_key(origin=here)
        others = [each for each in stored_origins() if each != here]
    except TinkerError as error:
        yield Finding("key", "fail", error.message, "set TINKER_API_KEY or run `tinker-ext auth "
                      "login`")  # fmt: skip
        return
    if env.get("TINKER_API_KEY"):
        yield Finding("key", "ok", f"from TINKER_API_KEY, sent to {here}")
        if env["TINKER_API_KEY"] != env["TINKER_API_KEY"].strip():
            yield Finding("key", "warn", "TINKER_API_KEY begins or ends with white space",
                          "set it again without")  # fmt: skip
    elif env.get("TINKER_CREDENTIAL_CMD"):
        yield from _command(env["TINKER_CREDENTIAL_CMD"], here)
    elif stored:
        yield Finding("key", "ok", f"from {place}, sent to {here}")
    else:
        yield Finding("key", "info", f"none is sent to {here}, which need not want one")
    if others:
        yield Finding("key", "info", f"stored for {', '.join(others)}; not sent to {here}")
    if place.exists() and os.name == "posix" and place.stat().st_mode & 0o077:
        yield Finding("key file", "warn", f"others can read {place}", f"chmod 600 {place}")


def _command(command: str, here: str) -> Iterator[Finding]:
    from tinker_ext.auth import run_credential_command
    from tinker_ext.errors import TinkerError

    try:
        run_credential_command(command)
    except TinkerError as error:
        yield Finding("key", "fail", error.message, "correct TINKER_CREDENTIAL_CMD")
    else:
        yield Finding("key", "ok", f"from TINKER_CREDENTIAL_CMD, which works, sent to {here}")


def address(url: str, source: str) -> Generator[Finding, None, SplitResult]:
    """Look at the form of the URL; return its parts."""
    from tinker_ext import auth

    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != -1
    except ValueError:  # a port that is not a number, half an IPv6 address
        is_url = False
    if not is_url or not url.isprintable():
        told = url if url.isprintable() else repr(url)
        yield Finding("server", "fail", f"{told} (from {source}) is not an http(s) URL",
                      "write it as https://host or http://127.0.0.1:8000")  # fmt: skip
        raise _Stop
    yield Finding("server", "ok", f"{url}, from {source}")
    if parts.path.rstrip("/").endswith("/api/v1"):
        yield Finding("server", "warn", "the URL ends in /api/v1, which clients add themselves",
                      "leave /api/v1 out")  # fmt: skip
    if auth.is_exposed(url):
        yield Finding("server", "warn", "http: the key travels where others can read it",
                      "use https")  # fmt: skip
    return parts


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for a URL."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxies = getproxies()
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")


def _proxy(proxy: str | None) -> Iterator[Finding]:
    if proxy is None:
        yield Finding("proxy", "ok", "none")
        return
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    where = f"{parts.hostname}:{parts.port or 80}"
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80), 5):
            yield Finding("proxy", "ok", f"through {where}; long polls must be let through")
    except OSError as error:
        yield Finding("proxy", "fail", f"{where} does not answer: {_reason(error)}",
                      "correct HTTPS_PROXY, or name the server in NO_PROXY")  # fmt: skip
        raise _Stop from None


def network(parts: SplitResult, timeout: float) -> Iterator[Finding]:
    """Resolve the name, connect, and shake hands."""
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    found, seconds = _timed(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    if isinstance(found, Exception):
        yield Finding("name", "fail", f"{host} cannot be resolved: {_reason(found)}",
                      "check the spelling of the URL and the network")  # fmt: skip
        raise _Stop
    yield Finding("name", "ok", f"{host} is {found[0][4][0]} ({seconds * 1000:.0f} ms)")
    opened, seconds = _timed(lambda: socket.create_connection((host, port), timeout))
    if isinstance(opened, Exception):
        yield Finding("connection", "fail", f"{host}:{port}: {_reason(opened)}",
                      "check that the server runs, its port, and firewalls in between")  # fmt: skip
        raise _Stop
    with opened:
        yield Finding("connection", "ok", f"port {port} answers ({seconds * 1000:.0f} ms)")
        if parts.scheme == "https":
            yield from tls(opened, host)


def tls(opened: socket.socket, host: str) -> Iterator[Finding]:
    """Look at the certificate as the client will."""
    context = ssl.create_default_context()
    shaken, seconds = _timed(lambda: context.wrap_socket(opened, server_hostname=host))
    if isinstance(shaken, ssl.SSLCertVerificationError):
        yield Finding("TLS", "fail", f"the certificate is refused: {shaken.verify_message}",
                      "set SSL_CERT_FILE when your network has an authority of its own, and check "
                      "this machine's clock")  # fmt: skip
        raise _Stop
    if isinstance(shaken, Exception):
        yield Finding("TLS", "fail", _reason(shaken), "is this port meant for https?")
        raise _Stop
    certificate: dict[str, Any] = shaken.getpeercert() or {}
    ends = datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)
    days = (ends - datetime.now(UTC)).days
    text = f"{shaken.version()}, certificate good for {days} days ({seconds * 1000:.0f} ms)"
    yield Finding("TLS", "warn" if days < CERTIFICATE_DAYS else "ok", text,
                  "tell whoever runs the server" if days < CERTIFICATE_DAYS else "")  # fmt: skip


def health(url: str, timeout: float, headers: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Ask whether this is a Tinker server, whether it is well, and what time it has."""
    from tinker_ext.conform.preflight import SECONDS, CannotJudge, look

    found, seconds = _timed(lambda: look(url, headers, min(timeout, SECONDS), needs_access=False))
    if isinstance(found, CannotJudge):
        yield Finding("health", "fail", str(found),
                      "check that the server runs, that its port speaks HTTP, and that the base "
                      "URL ends before /api/v1")  # fmt: skip
        raise _Stop
    if isinstance(found, Exception):
        raise found
    if 200 <= found.health < 300:
        yield Finding("health", "ok", f"HTTP {found.health} in {seconds * 1000:.0f} ms")
    else:
        yield Finding("health", "warn", f"healthz answers HTTP {found.health}",
                      "the server may still be starting")  # fmt: skip
    yield from clock(found.date, time.time())


def clock(date: str | None, now: float) -> Iterator[Finding]:
    """Compare the server's clock with ours; tokens depend on both."""
    try:
        theirs = parsedate_to_datetime(date or "").timestamp()
    except (TypeError, ValueError):
        yield Finding("clock", "info", "the server does not tell its time")
        return
    apart = now - theirs
    if abs(apart) > CLOCK_SECONDS:
        side = "ahead of" if apart > 0 else "behind"
        yield Finding("clock", "warn", f"this machine is {abs(apart):.0f} s {side} the server",
                      "set the clock (NTP); tokens expire too early or too late")  # fmt: skip
    else:
        yield Finding("clock", "ok", f"{abs(apart):.0f} s apart")


def visit(url: str, timeout: float, env: Mapping[str, str]) -> Iterator[Finding]:
    """Do as a client does before it trains: ask what the server offers, open a session, end it."""
    from tinker_ext import ServiceClient
    from tinker_ext.config import Config
    from tinker_ext.conform.subject import Subject
    from tinker_ext.errors import ConfigurationError

    settings = Config.from_env(
        env,
        base_url=url,
        retry_window=timeout,
        request_timeout=timeout,
        retry_attempts=1,
        close_timeout=min(timeout, CLOSE_SECONDS),
    )
    try:
        subject = Subject(lambda: ServiceClient(base_url=url, config=settings), None, timeout)
    except ConfigurationError as error:
        yield Finding("settings", "fail", error.message, "correct or unset the setting")
        return
    try:
        yield from dialect(subject, settings.dialect_file)
        yield from session(subject)
        yield from wires(subject)
    finally:
        subject.close()


def dialect(subject: Subject, file: str | None) -> Iterator[Finding]:
    """Ask as a client does: is the key good, what does the server speak and offer."""
    from tinker_ext.errors import (
        AuthenticationError,
        PermissionDeniedError,
        TinkerError,
        is_page,
    )

    try:
        models = subject.service.get_server_capabilities().supported_models
        spoken = subject.dialect
    except (AuthenticationError, PermissionDeniedError) as error:
        if is_page(error.body):
            yield _failure(
                "access", "a gateway in front of the server refuses the request: ", error
            )
            raise _Stop from None
        yield Finding("access", "fail", f"the server refuses the key: {error.message}",
                      "check TINKER_API_KEY, or run `tinker-ext auth login`")  # fmt: skip
        raise _Stop from None
    except TinkerError as error:
        yield _failure("access", "", error)
        raise _Stop from None
    yield Finding("access", "ok", f"the server lets you in and offers {len(models)} models")
    how = {"file": f"from {file}"}
    text = f"{spoken.wire} bodies ({how.get(spoken.chosen_by, spoken.chosen_by)})"
    seq = f"seq ids: {spoken.seq} ({how.get(spoken.seq_by, spoken.seq_by)})"
    yield Finding("wire", "ok", f"era {spoken.era}, {text}, {seq}")
    if spoken.era == "0.36.0" and any(_version(name) is None for name in NEEDS["proto"]):
        yield Finding("wire", "warn", "a server of this era may insist on protobuf",
                      how_to_install("proto"))  # fmt: skip
    if spoken.lacks:
        yield Finding("wire", "info", f"the server lacks: {', '.join(sorted(spoken.lacks))}")


def session(subject: Subject) -> Iterator[Finding]:
    """Open a session, which costs nothing; `visit` ends it."""
    from tinker_ext.errors import TinkerError

    opened, seconds = _timed(subject.session_id)
    if isinstance(opened, TinkerError):
        yield _failure("session", "the server opens no session: ", opened)
        raise _Stop
    if isinstance(opened, Exception):
        raise opened
    yield Finding("session", "ok", f"opened in {seconds * 1000:.0f} ms; closed at the end")


def wires(subject: Subject) -> Iterator[Finding]:
    """Ask, for a model that does not exist, which forms of training bodies the server reads."""
    from tinker_ext import _statuses as statuses
    from tinker_ext.conform.raw_model import RawModel
    from tinker_ext.errors import TinkerError

    model = RawModel(subject, f"{subject.session_id()}:train:0")
    unread, _ = _timed(model.unread)
    if isinstance(unread, TinkerError):
        yield _failure("bodies", "a training body was not answered: ", unread)
        return
    if isinstance(unread, Exception):
        raise unread
    if unread is None:
        yield Finding("bodies", "ok", "training bodies are read (asked for a model that does not "
                      "exist; nothing was trained)")  # fmt: skip
        return
    told = "; ".join(f"{wire}: {answer}" for wire, answer in unread.items())
    if any(answer.status in statuses.FAILED for answer in unread.values()):
        yield Finding("bodies", "warn", "whether the server reads training bodies is not known; "
                      f"for a model that does not exist it answers {told}",
                      "see what `tinker-ext conform` says")  # fmt: skip
    elif len(unread) == 1:
        yield Finding("bodies", "fail", f"the server does not take JSON training bodies ({told}), "
                      "and protobuf is not installed", how_to_install("proto"))  # fmt: skip
    else:
        yield Finding("bodies", "fail", "the server takes training bodies in neither wire "
                      f"({told})",
                      "it can sample at most; check that it is a training server")  # fmt: skip


def _failure(name: str, what: str, error: TinkerError) -> Finding:
    """A failed step in the client's own words."""
    return Finding(name, "fail", f"{what}{error.message}",
                   error.hint or "run the command again with --debug")  # fmt: skip


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what `work` gives, or the error it raises, and how long it took."""
    begin = time.perf_counter()
    try:
        value: Any = work()
    except Exception as error:
        value = error
    return value, time.perf_counter() - begin


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
