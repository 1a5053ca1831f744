"""Names the server hands out: seeded, ordered and the same in every replay."""

from __future__ import annotations

import hashlib
from collections import Counter


class IdMint:
    """Mint ids from a seed, what is mixed in, and one counter per kind."""

    def __init__(self, seed: int, mixed: str = "") -> None:
        self.seed = f"{seed}{mixed}"
        self.suffix = f"-{mixed}" if mixed else ""
        self.boot = 0
        self.counts: Counter[str] = Counter()

    def uuid(self, kind: str) -> str:
        """Return the next UUID-shaped id of a kind."""
        number = self._next(kind)
        text = hashlib.blake2b(f"{self.seed}/{kind}/{number}".encode(), digest_size=16).hexdigest()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    def request(self, *, durable: bool) -> str:
        """Return the next request id; those that do not survive a restart name their boot."""
        if durable:
            return f"req-{self._next('request'):08d}{self.suffix}"
        return f"tmp-{self.boot}-{self._next('sample'):08d}{self.suffix}"

    def _next(self, kind: str) -> int:
        self.counts[kind] += 1
        return self.counts[kind]
