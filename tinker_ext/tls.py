"""Whom TLS connections trust: the authorities that httpx finds, else an error that says why."""

from __future__ import annotations

import os
import ssl

import httpx

from tinker_ext.errors import ConfigurationError


def client_context() -> ssl.SSLContext:
    """A context that verifies servers, with SSL_CERT_FILE or SSL_CERT_DIR where they are set.

    Raises:
        ConfigurationError: What the variable names cannot be read as certificates.
    """
    try:
        return httpx.create_ssl_context()
    except OSError as error:  # also of the ssl module
        name = next((n for n in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(n)), None)
        if name is None:
            raise ConfigurationError(
                f"the certificates that come with httpx cannot be read: {_reason(error)}"
            ).with_context(hint="Install the package certifi again.") from error
        raise ConfigurationError(
            f"{name} is {os.environ[name]!r}, which cannot be read: {_reason(error)}"
        ).with_context(hint=f"Correct {name}, or unset it.") from error


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None)  # of the ssl module, whose strerror says less
    return str(reason or error.strerror or error)
