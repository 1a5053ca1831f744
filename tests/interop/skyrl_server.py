"""A SkyRL Tinker server as a child process: made ready, watched and stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

MODEL = "tiny-org/tiny-qwen3"
READY = "Starting background engine"
ENGINE = ("jax", "flax", "transformers")
BACKEND = {"max_lora_adapters": 32, "max_lora_rank": 32, "sample_max_num_sequences": 4}

# pydantic on Python 3.11 refuses typing.TypedDict, which the server's types module uses.
SITECUSTOMIZE = """\
import sys
import typing
if sys.version_info < (3, 12):
    import typing_extensions
    typing.TypedDict = typing_extensions.TypedDict
"""

# One line of the access log: `… "POST /api/v1/asample HTTP/1.1" 200 …`
ACCESS = re.compile(r'"(GET|POST|DELETE|PUT) (\S+) HTTP/1\.\d" (\d{3})')


def free_port() -> int:
    """A port of this machine nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class SkyRL:
    """The server on a free loopback port, in a directory of its own.

    Args:
        folder: Working directory: model, database, checkpoints, log, compilation cache.
        python: Python of the environment that has the server.
        module: Module to run: `skyrl.tinker.api`, or `tx.tinker.api` of the older package.
        arguments: More arguments of the server.
        site: Directory with packages that come before those of the environment.
        start_seconds: How long the engine may take to get ready.
    """

    def __init__(
        self,
        folder: Path,
        python: Path | None = None,
        *,
        module: str = "skyrl.tinker.api",
        arguments: tuple[str, ...] = (
            "--backend",
            "jax",
            "--backend-config",
            json.dumps(BACKEND),
        ),
        site: Path | None = None,
        start_seconds: float = 300.0,
    ) -> None:
        self.folder = folder.resolve()
        self.python = python or Path(sys.executable)
        self.module = module
        self.arguments = arguments
        self.site = site
        self.start_seconds = start_seconds
        self.log_path = self.folder / "server.log"
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._make_model()
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def log(self) -> str:
        """Everything the server printed so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def requests(self) -> Counter[tuple[str, int]]:
        """How often each (path, status) was answered, by the server's own access log."""
        found: Counter[tuple[str, int]] = Counter()
        for _, path, status in ACCESS.findall(self.log()):
            found[path.removeprefix("/api/v1/").partition("?")[0], int(status)] += 1
        return found

    def versions(self) -> dict[str, str]:
        """Versions of what the server runs on, as its own Python finds them."""
        program = (
            "import platform; from importlib.metadata import version as v; "
            f"print('Python', platform.python_version(), *(f'{{n}} {{v(n)}}' for n in {ENGINE!r}))"
        )
        environment = self._environment()
        if self.site is not None:
            environment["PYTHONPATH"] = str(self.site)
        done = subprocess.run(
            [self.python, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        words = done.stdout.split()
        return dict(zip(words[::2], words[1::2], strict=True))

    def stop(self) -> None:
        """End the server and the processes it started."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)

    def _make_model(self) -> None:
        target = self.folder / MODEL
        if (target / "tokenizer.json").exists():
            return
        script = Path(__file__).with_name("tiny_model.py")
        environment = self._environment()
        if self.site is not None:
            environment["PYTHONPATH"] = str(self.site)
        subprocess.run([self.python, script, target], check=True, env=environment)

    def _start(self) -> None:
        site = self.folder / "site"
        site.mkdir(parents=True, exist_ok=True)
        (site / "sitecustomize.py").write_text(SITECUSTOMIZE)
        (self.folder / "tinker.db").unlink(missing_ok=True)
        places = [str(site)] if self.site is None else [str(site), str(self.site)]
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        # The API process reads the command line of its parent, which must be `uv run`.
        command = [
            str(self.python.parent / "uv"),
            "run",
            "--no-project",
            "--active",
            "-m",
            self.module,
            "--base-model",
            MODEL,
            *self.arguments,
            "--database-url",
            f"sqlite:///{self.folder / 'tinker.db'}",
            "--checkpoints-base",
            str(self.folder / "checkpoints"),
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self._environment() | {"PYTHONPATH": os.pathsep.join(places)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_be_nice,
            )
        self._await_engine()

    def _await_engine(self) -> None:
        """Healthz is green long before the engine works, so its log line is what counts."""
        assert self._process is not None
        end = time.monotonic() + self.start_seconds
        while READY not in self.log():
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended at once:\n{self.log()[-3000:]}")
            if time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"the engine did not start:\n{self.log()[-3000:]}")
            time.sleep(0.5)

    def _environment(self) -> dict[str, str]:
        keep = {name: value for name, value in os.environ.items() if not name.startswith("TINKER_")}
        keep.pop("PYTHONPATH", None)
        return keep | {
            "VIRTUAL_ENV": str(self.python.parent.parent),
            "UV_OFFLINE": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(self.folder / "jax-cache"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "PYTHONUNBUFFERED": "1",
            # The log wraps at the width of the terminal, and its lines are counted here.
            "COLUMNS": "1000",
        }


def _be_nice() -> None:
    os.nice(10)
