"""`tinker-ext checkpoint download`: the files of a checkpoint in a directory, all or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import click

from tinker_ext.cli.checkpoints import path_argument
from tinker_ext.cli.connect import downloads, rest, service
from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Command, screen_of
from tinker_ext.cli.screen import Screen, size
from tinker_ext.errors import APIStatusError, DownloadError, FeatureMissingError
from tinker_ext.paths import parse_checkpoint

T = TypeVar("T")
EXPORT_SECONDS = 3600
SHA256_LETTERS = 64
SIZE_DIGITS = 18
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")

EXAMPLES = """
tinker-ext checkpoint download tinker://RUN/weights/final             # ./RUN_weights_final/
tinker-ext checkpoint download tinker://RUN/weights/final -o models   # models/RUN_weights_final/
tinker-ext checkpoint download tinker://RUN/external_weights/v1 --force
tinker-ext checkpoint download tinker://RUN/weights/final --sha256 adapter_model.safetensors=9f86d0…
"""


def _digest(text: str) -> tuple[str, str]:
    """Read `NAME=HEX` or `HEX`."""
    name, _, digest = text.rpartition("=")
    if len(digest) != SHA256_LETTERS or set(digest.lower()) - set("0123456789abcdef"):
        raise click.BadParameter(
            f"{text!r:.200} is not [NAME=]HEX; a SHA-256 digest has 64 hexadecimal digits"
        )
    return name, digest


def _bytes(text: str) -> tuple[str, int]:
    """Read `NAME=BYTES` or `BYTES`."""
    name, _, number = text.rpartition("=")
    if not (number.isascii() and number.isdigit() and len(number) <= SIZE_DIGITS):
        raise click.BadParameter(
            f"{text!r:.200} is not [NAME=]BYTES; a size is a whole number of bytes"
        )
    return name, int(number)


@click.command(cls=Command, name="download", examples=EXAMPLES)
@path_argument
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path),
              help="Directory to put the new one in; by default the current one.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace the directory if it exists.")
@click.option("--sha256", "digests", type=_digest, multiple=True, metavar="[NAME=]HEX",
              help="Digest that a file must have; NAME may be left out when there is only one. "
              "Digests sent by the server are always checked.")  # fmt: skip
@click.option("--size", "sizes", type=_bytes, multiple=True, metavar="[NAME=]BYTES",
              help="Size that a file must have, as for --sha256.")  # fmt: skip
@click.pass_context
def command(
    context: click.Context,
    path: str,
    output: Path | None,
    force: bool,
    digests: tuple[tuple[str, str], ...],
    sizes: tuple[tuple[str, int], ...],
) -> None:
    """Download the weights of a checkpoint into a new directory.

    A training checkpoint is exported first, for which the server opens a session on its base
    model; the export is deleted afterwards. A download that was cut off continues where it
    stopped when the command is run again. Encrypted files keep their .age ending.
    """
    screen = screen_of(context)
    target = (output or Path.cwd()) / directory_name(path)
    if target.exists() and not force:
        raise CommandError(
            f"{target} exists already", "Use --force to replace it, or -o for another place."
        )
    download(screen, path, target, digests, sizes)
    count = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    result: dict[str, Any] = {"checkpoint_path": path, "destination": str(target)}
    if screen.is_json:
        screen.json(result | ({"file_size_bytes": count} if count else {}))
    else:
        screen.properties(f"Checkpoint {path}", [("Saved to", str(target)), ("Size", size(count))])


def directory_name(path: str) -> str:
    """Return the directory of a checkpoint.

    Example:
        >>> directory_name("tinker://run-1:train:0/weights/final")
        'run-1_train_0_weights_final'
    """
    # A colon means something else in Windows, in scp and in PATH.
    return path.partition("://")[2].replace("/", "_").replace(":", "_")


def download(
    screen: Screen,
    path: str,
    target: Path,
    digests: Iterable[tuple[str, str]] = (),
    sizes: Iterable[tuple[str, int]] = (),
) -> None:
    """Fetch every file of a checkpoint; `target` appears when all of them are there.

    Args:
        screen: Where progress is shown.
        path: The checkpoint.
        target: The directory to make.
        digests: Names of files, or "" for the only one, and the SHA-256 that they must have.
        sizes: The same with the bytes that they must have.
    """
    from tinker_ext.downloads import alone

    partial = target.with_name(f".{target.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    with alone(partial):
        with _urls(screen, path) as urls:
            wanted = _by_name("--sha256", digests, list(urls))
            lengths = _by_name("--size", sizes, list(urls))
            for number, (name, url) in enumerate(urls.items(), 1):
                label = f"{name} ({number} of {len(urls)})"
                place = partial / safe_name(name)
                _fetch_one(screen, place, url, label, wanted.get(name), lengths.get(name))
            ready = _arrange(partial, target, list(urls))
        if target.exists():
            shutil.rmtree(target)
        os.replace(ready, target)
        shutil.rmtree(partial)


def _by_name(option: str, given: Iterable[tuple[str, T]], names: list[str]) -> dict[str, T]:
    wanted = {}
    for name, value in given:
        if not name and len(names) == 1:
            name = names[0]
        if name not in names:
            raise CommandError(
                f"{option} is for a file {name or 'without a name'!r} that there is not",
                f"The files are: {', '.join(sorted(names))}.",
            )
        wanted[name] = value
    return wanted


def _fetch_one(
    screen: Screen, place: Path, url: str, label: str, sha256: str | None, length: int | None
) -> None:
    from tinker_ext.downloads import fetch

    with screen.progress(label, bytes_=True) as advance:
        client = downloads(screen)
        fetch(url, place, size=length, sha256=sha256, progress=advance, keep=True, client=client)


def _arrange(partial: Path, target: Path, names: list[str]) -> Path:
    """Put the files of this download alone into a new directory, archives unpacked."""
    from tinker_ext.downloads import unpack

    ready, unpacking = (target.with_name(f".{target.name}.{end}") for end in ("ready", "unpacked"))
    for leftover in (ready, unpacking):
        shutil.rmtree(leftover, ignore_errors=True)
    ready.mkdir()
    for name in names:
        place, inside = partial / safe_name(name), ready / safe_name(name)
        inside.parent.mkdir(parents=True, exist_ok=True)
        if not name.endswith(ARCHIVES):
            os.replace(place, inside)
            continue
        for item in unpack(place, unpacking).iterdir():
            os.replace(item, inside.parent / item.name)
        unpacking.rmdir()
    return ready


def safe_name(name: str) -> PurePosixPath:
    """Return a file name of the server as a relative path that stays where it is put.

    Raises:
        DownloadError: The name leads elsewhere.
    """
    path = PurePosixPath(name)
    bad = not name or path.is_absolute() or ".." in path.parts or not path.name
    if bad or any(ord(letter) < 32 or letter in '\\:*?"<>|' for letter in name):
        raise DownloadError(f"the server names a file {name[:80]!a}, which is refused")
    return path


@contextmanager
def _urls(screen: Screen, path: str) -> Iterator[dict[str, str]]:
    """Yield where the files are; an export made for this is gone after the block."""
    kind = parse_checkpoint(path).checkpoint_type
    if kind == "external":
        with rest(screen) as client:
            yield dict(client.get_external_weights_urls(path).result().urls)
        return
    export = _exported(screen, path) if kind == "training" else None
    if export is None:
        yield _archive(screen, path)
        return
    with rest(screen) as client:
        try:
            yield dict(client.get_external_weights_urls(export).result().urls)
        finally:
            # It expires by itself; what matters to the user is the download.
            with suppress(APIStatusError):
                client.delete_checkpoint_from_tinker_path(export).result()


def _exported(screen: Screen, path: str) -> str | None:
    """Return the path of a new export of a training checkpoint; None where there is no such."""
    with service(screen) as client:
        screen.note("The server exports the weights …")
        trainer = client.create_training_client_from_state(path)
        try:
            return trainer.save_weights_external("download", EXPORT_SECONDS).result().path
        except FeatureMissingError:
            return None


def _archive(screen: Screen, path: str) -> dict[str, str]:
    """Return the archive that servers of the first era make of any checkpoint."""
    with rest(screen) as client:
        try:
            url = client.get_checkpoint_archive_url_from_tinker_path(path).result().url
        except FeatureMissingError:
            raise CommandError(
                f"this server offers no files of {path}",
                "Download a training checkpoint (tinker://RUN/weights/…, made by save_state) or an "
                "export\n(tinker://RUN/external_weights/…, made by save_weights_external).",
            ) from None
    return {"archive.tar.gz": url}
