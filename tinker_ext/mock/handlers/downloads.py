"""Signed URLs and the archives behind them: real tar.gz files with safetensors inside."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import io
import tarfile
from typing import Any
from urllib.parse import parse_qs, quote

import orjson

from tinker_ext.mock.messages import HttpError, Request, Response
from tinker_ext.mock.routing import endpoint
from tinker_ext.mock.state.records import Checkpoint
from tinker_ext.mock.state.world import World


def signed_url(
    world: World, request: Request, path: str, expires: float, kind: str = "archives"
) -> str:
    """Return a URL of this server that needs no key and works until `expires`."""
    until = str(int(expires))
    signature = _signature(world, f"{kind}/{path}", until)
    return f"{request.origin}/_mock/{kind}/{quote(path)}?expires={until}&signature={signature}"


def check_signature(world: World, request: Request, path: str) -> None:
    """Let in who has a signed URL.

    Raises:
        HttpError: 403.
    """
    query = parse_qs(request.query_string)
    until = query.get("expires", ["0"])[0]
    signature = query.get("signature", [""])[0]
    if not hmac.compare_digest(signature.encode(), _signature(world, path, until).encode()):
        raise HttpError(403, "the signature of this URL is wrong")
    if world.clock.unix() > float(until):
        raise HttpError(403, "this URL has expired; ask for a new one")


def _signature(world: World, path: str, until: str) -> str:
    return hmac.digest(world.secret, f"url/{path}?{until}".encode(), "sha256").hex()


@endpoint("GET", "/_mock/archives/{run}/{kind}/{name}", documented=False)
def download(world: World, request: Request) -> Any:
    """Serve an archive; byte ranges are honoured, so a download can be resumed."""
    path = "{run}/{kind}/{name}".format(**request.params)
    check_signature(world, request, f"archives/{path}")
    saved = world.checkpoints.find(f"tinker://{path}")
    if saved is None:
        raise HttpError(404, "the checkpoint is gone")
    return ranged(archive_bytes(saved), request)


def archive_bytes(saved: Checkpoint) -> bytes:
    """Return the checkpoint as tar.gz: adapter_config.json and adapter_model.safetensors."""
    from tinker_ext.mock.engine import to_safetensors

    lora = saved.lora_config or {"rank": 32}
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": saved.base_model,
        "r": lora["rank"],
        "lora_alpha": 32,
        "task_type": "CAUSAL_LM",
        "target_modules": sorted(_modules(saved)),
    }
    content = io.BytesIO()
    # Fixed times make one checkpoint one sequence of bytes, so that a resumed download fits.
    with (
        gzip.GzipFile(fileobj=content, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        _add(tar, "adapter_config.json", orjson.dumps(config, option=orjson.OPT_INDENT_2))
        _add(tar, "adapter_model.safetensors", to_safetensors(saved.blob))
    return content.getvalue()


def _modules(saved: Checkpoint) -> set[str]:
    names = (name.split(".lora_")[0] for name in saved.blob if ".lora_" in name)
    return {name.rsplit(".", 1)[-1] for name in names if not name.startswith("optimizer.")}


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def ranged(data: bytes, request: Request) -> Response:
    """Answer a whole body or the range a client asks for."""
    etag = f'"{hashlib.blake2b(data, digest_size=16).hexdigest()}"'
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    headers = {"etag": etag, "accept-ranges": "bytes", "repr-digest": f"sha-256=:{digest}:"}
    if request.headers.get("if-none-match") == etag:
        return Response(304, b"", "application/gzip", headers)
    wanted = request.headers.get("range", "")
    fresh = request.headers.get("if-range", etag) == etag
    if not wanted.startswith("bytes=") or "," in wanted or not fresh:
        return Response(200, data, "application/gzip", headers)
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    try:
        start = int(first) if first else max(0, len(data) - int(last))
        end = min(int(last), len(data) - 1) if first and last else len(data) - 1
    except ValueError:
        return Response(200, data, "application/gzip", headers)
    if start > end or start >= len(data):
        headers["content-range"] = f"bytes */{len(data)}"
        return Response(416, b"", "application/gzip", headers)
    headers["content-range"] = f"bytes {start}-{end}/{len(data)}"
    return Response(206, data[start : end + 1], "application/gzip", headers)
