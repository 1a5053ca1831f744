"""The server's memory as files: JSON for records, safetensors for arrays."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from tinker_ext.mock.futures import Promise
from tinker_ext.mock.results import from_record
from tinker_ext.mock.seq import Sequencer
from tinker_ext.mock.state.records import Checkpoint, Model, Sampler, Session

if TYPE_CHECKING:
    from tinker_ext.mock.state.world import World

VERSION = 1


def newest(folder: Path) -> int:
    """Return the number of the newest complete snapshot, 0 without one."""
    found = [int(p.name.partition("-")[2]) for p in folder.glob("snapshot-*") if _complete(p)]
    return max(found, default=0)


def _complete(path: Path) -> bool:
    return path.name.partition("-")[2].isdigit() and (path / "world.json").exists()


def remove(folder: Path, generation: int) -> None:
    """Delete an old snapshot."""
    shutil.rmtree(folder / f"snapshot-{generation}", ignore_errors=True)


def quiet(world: World) -> bool:
    """Tell whether no accepted training operation waits for its turn or its result."""
    if any(model.sequencer.missing() is not None for model in world.models.values()):
        return False
    return world.promises.pending() == world.promises.pending("sample")


def save(folder: Path, generation: int, world: World) -> None:
    """Write a snapshot; it counts once its directory has its final name."""
    from tinker_ext.mock.engine import to_safetensors

    place = folder / f"snapshot-{generation}.tmp"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    blobs: list[dict[str, Any]] = []

    def keep(blob: dict[str, Any]) -> int:
        blobs.append(blob)
        return len(blobs) - 1

    record = {
        "version": VERSION,
        "counts": world.ids.counts,
        "sessions": [attrs.asdict(s) for s in world.sessions.values()],
        "models": [_model(m, keep) for m in world.models.values()],
        "samplers": [_sampler(s, keep) for s in world.samplers.values() if s.session_id],
        "checkpoints": [_checkpoint(c, keep) for c in world.checkpoints],
        "custom_losses": world.custom_losses,
        "copies": world.copies,
        "ledger": world.ledger.to_record(),
        "promises": world.promises.durable(),
        "effects": [attrs.asdict(effect) for effect in world.log.training()],
    }
    for number, blob in enumerate(blobs):
        _write(place / f"{number}.safetensors", to_safetensors(blob))
    text = orjson.dumps(record, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    _write(place / "world.json", text)
    os.replace(place, folder / f"snapshot-{generation}")
    sync_folder(folder)


def load(folder: Path, generation: int, world: World) -> None:
    """Read a snapshot into an empty world.

    Raises:
        ValueError: It was written by another version.
    """
    from tinker_ext.mock.engine import from_safetensors

    place = folder / f"snapshot-{generation}"
    record = orjson.loads((place / "world.json").read_bytes())
    if record["version"] != VERSION:
        raise ValueError(f"{place} has version {record['version']}, this server reads {VERSION}")

    def blob(number: int) -> dict[str, Any]:
        return from_safetensors((place / f"{number}.safetensors").read_bytes())

    world.ids.counts.update(record["counts"])
    for value in record["sessions"]:
        for name in ("models", "samplers", "losses"):
            value[name] = {int(k): v for k, v in value[name].items()}
        value["last_seen"] = world.clock.now()
        world.sessions[value["session_id"]] = Session(**value)
    for value in record["models"]:
        _load_model(world, value, blob)
    for value in record["checkpoints"]:
        value["blob"] = blob(value["blob"])
        world.checkpoints.put(Checkpoint(**value))
    for value in record["samplers"]:
        _load_sampler(world, value, blob)
    world.custom_losses = record["custom_losses"]
    world.copies = record["copies"]
    world.ledger.restore(record["ledger"])
    for value in record["promises"]:
        outcome = from_record(value.pop("outcome"))
        promise = world.promises.add(Promise(created=world.clock.now(), **value))
        world.promises.settle(promise, outcome)
    for value in record["effects"]:
        keep = ("model_id", "seq", "op", "request_id", "body_hash", "error")
        world.log.effect(*(value[name] for name in keep))


def _model(model: Model, keep: Any) -> dict[str, Any]:
    names = [f.name for f in attrs.fields(Model) if f.name not in ("trainable", "sequencer")]
    record = {name: getattr(model, name) for name in names}
    record["sequencer"] = model.sequencer.to_record()
    record["trainable"] = None if model.trainable is None else keep(model.trainable.dump())
    return record


def _load_model(world: World, value: dict[str, Any], blob: Any) -> None:
    sequencer: Sequencer[Any] = Sequencer(
        world.settings.seq, any_body="dedupe_any_body" in world.settings.bugs
    )
    sequencer.restore(value.pop("sequencer"))
    weights = value.pop("trainable")
    model = Model(**value, sequencer=sequencer)
    if weights is not None:
        base = world.base_model(model.base_model)
        model.trainable = world.compute.create(base, model.lora_config)
        model.trainable.restore(blob(weights))
    world.models[model.model_id] = model


def _sampler(sampler: Sampler, keep: Any) -> dict[str, Any]:
    return {
        "sampler_id": sampler.sampler_id,
        "session_id": sampler.session_id,
        "base_model": sampler.base_model,
        "model_path": sampler.model_path,
        "clones": sampler.clones,
        "weights": keep(dict(sampler.weights.weights)),
    }


def _load_sampler(world: World, value: dict[str, Any], blob: Any) -> None:
    from tinker_ext.mock.engine import Sampler as Weights

    base = world.compute.base(world.base_model(value["base_model"]))
    value["weights"] = Weights(base, blob(value["weights"]))
    world.samplers[value["sampler_id"]] = Sampler(**value)


def _checkpoint(checkpoint: Checkpoint, keep: Any) -> dict[str, Any]:
    record = {f.name: getattr(checkpoint, f.name) for f in attrs.fields(Checkpoint)}
    record["blob"] = keep(checkpoint.blob)
    return record


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make new names in a directory durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
