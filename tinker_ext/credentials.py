"""Stored keys: one file for each origin, read and changed as a whole, private to the user.

``~/.tinker/credentials.json`` holds the keys of the hosted service, in the layout other Tinker
tools use (version 1, a default key id, a map of keys), so that a key stored by one is found by the
other. Those tools send its default key to whatever server they are pointed at, and drop fields
they do not know. So the key of another server is not in that file but in one that is named by its
origin, below ``~/.tinker/servers``.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from tinker_ext.errors import TinkerError

FILE_VERSION = 1
KINDS = ("manual", "generated")
HOSTED_ORIGIN = "https://tinker.thinkingmachines.dev"
_PORTS = {"http": 80, "https": 443}


def origin_of(base_url: str) -> str:
    """Scheme, host and port of a URL, in one spelling; empty for what lacks them.

    Example:
        >>> origin_of("HTTPS://Example.org:443/services/prod")
        'https://example.org'
    """
    try:
        parts = urlsplit(base_url.strip())
        scheme, host, port = parts.scheme.lower(), (parts.hostname or "").lower(), parts.port
    except ValueError:
        return ""
    if not scheme or not host:
        return ""
    place = f"{scheme}://[{host}]" if ":" in host else f"{scheme}://{host}"
    return place if port in (None, _PORTS.get(scheme)) else f"{place}:{port}"


def default_path(origin: str = HOSTED_ORIGIN) -> Path:
    """Return where this user's keys of an origin are stored."""
    folder = Path.home() / ".tinker"
    if origin == HOSTED_ORIGIN:
        return folder / "credentials.json"
    return folder / "servers" / f"{quote(origin, safe='[]')}.json"


def stored_origins() -> list[str]:
    """Return the origins that this user has stored a key for, the hosted service first."""
    others = default_path("x").parent.glob("*.json")
    origins = [HOSTED_ORIGIN, *sorted(unquote(path.stem) for path in others)]
    return [each for each in origins if CredentialStore(origin=each).default_key() is not None]


class CredentialStore:
    """Keys of this user for one origin.

    Args:
        path: The file; by default the one of the origin.
        origin: Where the keys are sent, and nowhere else; by default the hosted service.

    Example:
        >>> import tempfile, pathlib
        >>> store = CredentialStore(pathlib.Path(tempfile.mkdtemp()) / "credentials.json")
        >>> store.add("tml-example", key_id="7", name="laptop")
        >>> store.default_key()
        'tml-example'
    """

    def __init__(self, path: Path | None = None, *, origin: str = HOSTED_ORIGIN) -> None:
        self.path = path or default_path(origin)

    def _read(self) -> dict[str, Any]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {"version": FILE_VERSION, "keys": {}}
        except OSError as error:
            raise TinkerError(f"cannot read {self.path}: {error.strerror}") from None
        try:
            data = json.loads(text)
        except ValueError:
            raise TinkerError(
                f"{self.path} is not valid JSON; move it away and run `tinker-ext auth login`"
            ) from None
        if not isinstance(data, dict) or data.get("version") != FILE_VERSION:
            raise TinkerError(
                f"{self.path} has a layout this version does not know; move it away and run "
                "`tinker-ext auth login`"
            )
        keys = data.setdefault("keys", {})
        records = keys.items() if isinstance(keys, dict) else [("keys", None)]
        for key_id, record in records:
            if not isinstance(record, dict) or record.get("type") not in KINDS:
                raise TinkerError(
                    f"{self.path} has a record this version does not know ({key_id!r}); remove it "
                    "with the program that wrote it, or move the file away and run `tinker-ext "
                    "auth login`"
                )
        return data

    def _write(self, data: dict[str, Any]) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp makes the file private from the start; replace makes the change all or nothing.
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".credentials-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(data, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o600)
            os.replace(temporary, self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def keys(self) -> dict[str, dict[str, Any]]:
        """Return the stored records by id, with the key text removed."""
        records = self._read()["keys"]
        return {
            key_id: {field: value for field, value in record.items() if field != "key"}
            for key_id, record in records.items()
        }

    def default_id(self) -> str | None:
        """Return the id of the default key."""
        default = self._read().get("default")
        return str(default) if default is not None else None

    def default_key(self) -> str | None:
        """Return the text of the default key, or None when nothing is stored."""
        data = self._read()
        record = data["keys"].get(str(data.get("default")))
        key = None if record is None else record.get("key")
        return key if isinstance(key, str) else None

    def add(
        self,
        key: str,
        *,
        key_id: str,
        name: str,
        note: str | None = None,
        details: dict[str, Any] | None = None,
        kind: str = "manual",
    ) -> None:
        """Store a key and make it the default one."""
        data = self._read()
        record = {"type": kind, "key": key, "name": name, "note": note, "details": details}
        data["keys"][key_id] = {
            field: value for field, value in record.items() if value is not None
        }
        data["default"] = key_id
        self._write(data)

    def remove(self, key_id: str) -> bool:
        """Forget a key; return whether it was stored."""
        data = self._read()
        if key_id not in data["keys"]:
            return False
        del data["keys"][key_id]
        if data.get("default") == key_id:
            data.pop("default")
            if data["keys"]:
                data["default"] = next(iter(data["keys"]))
        self._write(data)
        return True
