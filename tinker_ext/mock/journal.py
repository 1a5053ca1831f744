"""What survives a restart: a write-ahead log of accepted requests, with snapshots behind it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from tinker_ext import forks
from tinker_ext.mock import snapshot
from tinker_ext.mock.messages import HttpError, Request

if TYPE_CHECKING:
    from tinker_ext.mock.app import App
    from tinker_ext.mock.state.world import World

VERSION = 1
HEAD = struct.Struct("<II")


class Journal:
    """Write accepted requests down before they are acknowledged, and do them again after a crash.

    The engine is deterministic, so doing the same requests again in the same order gives the same
    weights bit for bit. A snapshot from time to time keeps the log short.

    Args:
        app: The application whose requests are logged.
        folder: Where to keep `journal-N.log` and `snapshot-N/`.
    """

    def __init__(self, app: App, folder: Path) -> None:
        self._app = app
        self._folder = folder
        self._file: BinaryIO | None = None
        self._guard = threading.Lock()
        self._syncing = threading.Lock()
        self._dirty = False
        self._generation = 0
        self._records = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(folder)

    def recover(self) -> None:
        """Load the newest snapshot, replay the log after it, and open it for more.

        Raises:
            ValueError: The directory belongs to a server with another seed or version, or needs a
                base model that is not served.
        """
        world = self._app.world
        try:
            self._recover(world)
        except BaseException:
            self._lock.close()
            raise

    def _recover(self, world: World) -> None:
        self._claim()
        if self._app.settings.api_keys is not None:
            world.secret = self._secret()
        self._generation = snapshot.newest(self._folder)
        if self._generation:
            snapshot.load(self._folder, self._generation, world)
        path = self._path(self._generation)
        world.worker.run_inline(True)
        end = 0
        try:
            for record, position in _read(path):
                self._replay(record)
                end = position
        finally:
            world.worker.run_inline(self._app.settings.inline_engine)
            world.clock.pin(None)
        world.ids.boot = self._boot()
        world.on_release = self._released
        self._file = path.open("ab")
        # A torn record at the end was never acknowledged.
        self._file.truncate(end)
        self._file.seek(end)
        snapshot.sync_folder(self._folder)

    def append(self, request: Request, counts: Mapping[str, int]) -> None:
        """Note an accepted request; it is safe once `commit` returned."""
        headers = {
            name: request.headers[name]
            for name in ("content-type", "x-idempotency-key")
            if name in request.headers
        }
        self._write(
            {
                "time": self._app.world.clock.unix(),
                "counts": counts,
                "method": request.method,
                "path": request.path,
                "headers": headers,
            },
            request.body,
        )

    async def commit(self) -> None:
        """Return when everything noted so far is on disk."""
        if self._app.settings.inline_engine:
            self._sync()
        else:
            await asyncio.to_thread(self._sync)
            self._maybe_snapshot()

    def close(self) -> None:
        """Finish writing."""
        self._sync()
        if self._file is not None:
            self._file.close()
            self._file = None
        # Closing the file gives the folder to the next server; so does the end of a process.
        self._lock.close()

    def _path(self, generation: int) -> Path:
        return self._folder / f"journal-{generation}.log"

    def _secret(self) -> bytes:
        """Return what signs tokens and URLs, so that those given out outlive a restart."""
        path = self._folder / "secret"
        with contextlib.suppress(FileNotFoundError):
            return path.read_bytes()
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file:
            file.write(self._app.world.secret)
        return self._app.world.secret

    def _boot(self) -> int:
        path = self._folder / "boots"
        boot = int(path.read_text()) + 1 if path.exists() else 1
        path.write_text(f"{boot}\n")
        return boot

    def _released(self, model_id: str) -> None:
        self._write({"release": model_id}, b"")
        self._sync()

    def _write(self, head: dict[str, Any], body: bytes) -> None:
        text = orjson.dumps(head)
        payload = struct.pack("<I", len(text)) + text + body
        with self._guard:
            if self._file is None:
                return
            self._file.write(HEAD.pack(len(payload), zlib.crc32(payload)) + payload)
            self._dirty = True
            self._records += 1

    def _sync(self) -> None:
        # Whoever waits here while another syncs finds its record on disk afterwards; `_guard` is
        # free meanwhile, so that the event loop never waits for a disk.
        with self._syncing:
            with self._guard:
                if not self._dirty or self._file is None:
                    return
                self._file.flush()
                self._dirty = False
                handle = os.dup(self._file.fileno())
            try:
                if self._app.settings.fsync:
                    os.fsync(handle)
            finally:
                os.close(handle)

    def _replay(self, record: tuple[dict[str, Any], bytes]) -> None:
        head, body = record
        world = self._app.world
        if "release" in head:
            model = world.models.get(head["release"])
            if model is not None:
                world.release(model)
            return
        world.clock.pin(head["time"])
        world.ids.counts.clear()
        world.ids.counts.update(head["counts"])
        path, _, query = head["path"].partition("?")
        request = Request(
            head["method"], path, head["headers"], body, query_string=query, replayed=True
        )
        try:
            self._app.replay(request)
        except HttpError as error:
            # A repeat that one seq profile took is a conflict under another; it has no effect.
            if error.status != 409:
                raise ValueError(
                    f"{self._folder}: {path} cannot be replayed: {error.detail}"
                ) from None

    def _claim(self) -> None:
        """Check that the directory was written with this seed, or mark it so."""
        path = self._folder / "server.json"
        mine = {"version": VERSION, "seed": self._app.settings.seed}
        if not path.exists():
            path.write_bytes(orjson.dumps(mine) + b"\n")
            return
        theirs = orjson.loads(path.read_bytes())
        if theirs != mine:
            raise ValueError(f"{self._folder} was written with {theirs}, this server has {mine}")

    def _maybe_snapshot(self) -> None:
        if self._records >= self._app.settings.snapshot_every:
            self._app.world.worker.submit("train", self._snapshot)

    def _snapshot(self) -> None:
        """Write a snapshot from the engine's thread, when nothing is pending."""
        world = self._app.world
        with world.lock:
            if self._records < self._app.settings.snapshot_every or not snapshot.quiet(world):
                return
            generation = self._generation + 1
            snapshot.save(self._folder, generation, world)
            with self._guard:
                if self._file is None:
                    return
                self._file.close()
                self._file = self._path(generation).open("ab")
                self._dirty = False
                self._records = 0
            old, self._generation = self._generation, generation
        self._path(old).unlink(missing_ok=True)
        snapshot.remove(self._folder, old)


def _locked(folder: Path) -> BinaryIO:
    """Take a folder for this server alone, until the returned file is closed.

    Raises:
        ValueError: Another server has it.
    """
    file = (folder / "lock").open("a+b")
    if not forks.own(file.fileno()):
        file.seek(0)
        owner = file.read(32).decode("ascii", "replace").strip()
        file.close()
        raise ValueError(
            f"{folder} is in use by another server (process {owner or 'unknown'}); stop that one "
            "or choose another folder"
        )
    file.truncate(0)
    file.write(f"{os.getpid()}\n".encode())
    file.flush()
    return file


def _read(path: Path) -> Iterator[tuple[tuple[dict[str, Any], bytes], int]]:
    """Yield whole records and the position after each; a torn tail ends the log."""
    if not path.exists():
        return
    data = path.read_bytes()
    at = 0
    while at + HEAD.size <= len(data):
        size, checksum = HEAD.unpack_from(data, at)
        payload = data[at + HEAD.size : at + HEAD.size + size]
        if len(payload) < size or zlib.crc32(payload) != checksum:
            return
        at += HEAD.size + size
        (length,) = struct.unpack_from("<I", payload)
        yield (orjson.loads(payload[4 : 4 + length]), payload[4 + length :]), at
