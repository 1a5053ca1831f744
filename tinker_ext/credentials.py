"""The credentials file ``~/.tinker/credentials.json``: read, add, remove, always private and whole.

The layout is the one other Tinker tools use (version 1, a default key id, a map of keys), so that a
key stored by one is found by the other.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tinker_ext.errors import TinkerError

FILE_VERSION = 1


def default_path() -> Path:
    """Return where credentials are stored for this user."""
    return Path.home() / ".tinker" / "credentials.json"


class CredentialStore:
    """Keys of this user on this machine.

    Example:
        >>> import tempfile, pathlib
        >>> store = CredentialStore(pathlib.Path(tempfile.mkdtemp()) / "credentials.json")
        >>> store.add("tml-example", key_id="7", name="laptop")
        >>> store.default_key()
        'tml-example'
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()

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
        data.setdefault("keys", {})
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
        return record.get("key") if isinstance(record, dict) else None

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
