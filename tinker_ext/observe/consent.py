"""Whether a client reports at all: a pure decision, and no by default."""

from __future__ import annotations

from tinker_ext.auth import is_hosted
from tinker_ext.config import Config


def is_wanted(argument: bool | None, config: Config, base_url: str) -> bool:
    """Decide whether telemetry is on.

    Args:
        argument: What the user passed to the client, if anything.
        config: Holds TINKER_TELEMETRY and the consent for the hosted service.
        base_url: The server.

    Returns:
        The argument, else TINKER_TELEMETRY, else True only for the hosted service and a user
        who has consented (TINKER_EXT_TELEMETRY_CONSENT).
    """
    if argument is not None:
        return argument
    if config.telemetry is not None:
        return config.telemetry
    return config.telemetry_consent and is_hosted(base_url)
