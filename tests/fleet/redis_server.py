"""A real Redis for tests: its own port on 127.0.0.1, its own folder, stopped at the end."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path


class RedisServer:
    """A `redis-server` process that can be stopped and started again at the same address.

    Args:
        folder: Where it lives; nothing is kept on disk.
        password: What it asks for, if anything.
    """

    def __init__(self, folder: Path, password: str | None = None) -> None:
        self._folder, self._password = folder, password
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def installed() -> bool:
        return shutil.which("redis-server") is not None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> RedisServer:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(self._folder), "--appendonly", "no"]
        if self._password:
            command += ["--requirepass", self._password]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(200):
            if self._process.poll() is not None:  # else another program's server could answer
                raise RuntimeError(f"redis-server ended; is port {self.port} taken?")
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("redis-server did not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
