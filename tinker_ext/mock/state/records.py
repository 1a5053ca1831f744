"""The records of the server's memory, one class per thing a client can name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from tinker_ext.mock.seq import Seen, Sequencer

if TYPE_CHECKING:
    from tinker_ext.mock.compute import Trainable, Weights
    from tinker_ext.mock.futures import Promise, Waiter
    from tinker_ext.mock.results import Failure, Result


MEMORY = 50_000


def text_metadata(metadata: dict[str, Any] | None) -> dict[str, str] | None:
    """Labels as they are shown: texts; a label that was set to null is cleared."""
    if metadata is None:
        return None
    return {key: str(value) for key, value in metadata.items() if value is not None}


@attrs.define(eq=False)
class Operation:
    """One accepted training operation, waiting for its turn.

    Attributes:
        run: Does the work; the return value settles the promise.
    """

    op: str
    seq: int | None
    digest: str
    promise: Promise
    run: Callable[[], Result | Failure]


@attrs.define(eq=False)
class Session:
    """A client's session.

    Attributes:
        last_seen: Monotonic time of the last sign of life.
        status: The SessionStatus of the REST surface.
        models: model_seq_id → model id.
        samplers: sampling_session_seq_id → sampler id.
    """

    session_id: str
    created: float
    last_seen: float
    tags: list[str]
    user_metadata: dict[str, Any] | None
    sdk_version: str
    project_id: str
    display_name: str | None = None
    status: dict[str, Any] = attrs.field(factory=lambda: {"type": "active"})
    lost: bool = False
    models: dict[int, str] = attrs.field(factory=dict)
    samplers: dict[int, str] = attrs.field(factory=dict)
    losses: dict[int, str] = attrs.field(factory=dict)

    @property
    def active(self) -> bool:
        """Tell whether the client has not finished it."""
        return bool(self.status["type"] == "active")


@attrs.define(eq=False)
class Model:
    """A model under training, which is also a training run of the REST surface."""

    model_id: str
    session_id: str
    base_model: str
    lora_config: dict[str, Any] | None
    optimizer_config: dict[str, Any]
    user_metadata: dict[str, Any] | None
    created: float
    last_request: float
    create_request: str
    trainable: Trainable | None = None
    sequencer: Sequencer[Operation] = attrs.field(factory=lambda: Sequencer("dedupe"))
    corrupted: bool = False
    unloaded: bool = False
    steps: int = 0
    saves: int = 0

    @property
    def lora_rank(self) -> int | None:
        """Return the rank of the adapter, None for full training."""
        return self.lora_config["rank"] if self.lora_config else None


class Completions:
    """Finished samples per clone in order; a cursor counts from the first, forgotten or not."""

    def __init__(self) -> None:
        self._entries: dict[int, list[tuple[str, str]]] = {}
        self._forgotten: dict[int, int] = {}

    def add(self, clone: int, request_id: str, state: str) -> None:
        """Note that a sample `finished` or `failed`."""
        entries = self._entries.setdefault(clone, [])
        entries.append((request_id, state))
        if len(entries) > MEMORY:
            half = len(entries) // 2
            del entries[:half]
            self._forgotten[clone] = self._forgotten.get(clone, 0) + half

    def since(self, clone: int, cursor: int) -> tuple[list[tuple[str, str]], int]:
        """Return the entries after a cursor and the cursor after them."""
        entries, start = self._entries.get(clone, []), self._forgotten.get(clone, 0)
        return entries[max(0, cursor - start) :], start + len(entries)


@attrs.define(eq=False)
class Sampler:
    """A sampling session: frozen weights under a name."""

    sampler_id: str
    session_id: str | None
    base_model: str
    model_path: str | None
    weights: Weights
    clones: int = 0
    seen: dict[int, Seen] = attrs.field(factory=dict)
    completions: Completions = attrs.field(factory=lambda: Completions())
    waiters: list[Waiter] = attrs.field(factory=list, repr=False)

    def remember(self, seq: int, seen: Seen) -> None:
        """Note who used a number; the oldest of very many are forgotten."""
        self.seen[seq] = seen
        if len(self.seen) > MEMORY:
            del self.seen[next(iter(self.seen))]


@attrs.define(eq=False)
class Checkpoint:
    """Saved weights.

    Attributes:
        kind: `weights`, `sampler_weights` or `external_weights`.
        blob: Named arrays.
        expires: Unix time, None for never.
    """

    kind: str
    name: str
    run_id: str
    base_model: str
    created: float
    blob: dict[str, Any]
    lora_config: dict[str, Any] | None
    optimizer_config: dict[str, Any]
    project_id: str
    public: bool = False
    user_metadata: dict[str, str] | None = None
    expires: float | None = None
    encrypted_for: list[str] | None = None

    @property
    def path(self) -> str:
        """Return the `tinker://` path."""
        return f"tinker://{self.run_id}/{self.kind}/{self.name}"

    @property
    def checkpoint_id(self) -> str:
        """Return `kind/name`."""
        return f"{self.kind}/{self.name}"

    @property
    def size(self) -> int:
        """Return the bytes of all arrays."""
        return sum(int(array.nbytes) for array in self.blob.values())

    @property
    def type(self) -> str:
        """Return the word the REST surface uses for the kind."""
        return {"weights": "training", "sampler_weights": "sampler"}.get(self.kind, "external")
