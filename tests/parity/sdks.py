"""Official SDKs side by side: one interpreter with what they need, one folder for each version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs

from tinker_ext.mock import Server, Settings

DRIVER = Path(__file__).with_name("sdk_driver.py")

# SDKs of this time send protobuf bodies when client/config says so, JSON otherwise.
WRITES_PROTO_WHEN_TOLD = ("0.20.", "0.21.", "0.22.", "0.23.", "0.24.")


@attrs.frozen
class Sdk:
    """A client to drive.

    Attributes:
        version: Its version.
        python: Interpreter that has what it needs.
        site: Folder with the package, unmodified; None when the interpreter has it.
        proto: Whether the server's client/config asks for protobuf bodies.
        package: Name to import.
    """

    version: str
    python: str
    site: Path | None = None
    proto: bool = False
    package: str = "tinker"

    def __str__(self) -> str:
        return f"{self.version}{' with proto_write_fwdbwd' if self.proto else ''}"

    def drive(self, era: str = "both") -> dict[str, Any]:
        """Run the driver against a fresh server; returns what it printed and what was sent."""
        flags = {"proto_write_fwdbwd": True} if self.proto else {}
        with Server(Settings(era=era, client_config=flags)) as server:
            environment = {
                **os.environ,
                "TINKER_BASE_URL": server.url,
                "TINKER_API_KEY": "tml-parity",
                "TINKER_TELEMETRY": "1",
                "HF_HUB_OFFLINE": "1",
                "PYTHONFAULTHANDLER": "1",  # libraries in C die without a word
            }
            if self.site is not None:
                environment["PYTHONPATH"] = str(self.site)
            done = subprocess.run(
                [self.python, str(DRIVER), self.package],
                env=environment,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
            if done.returncode != 0:
                raise RuntimeError(
                    f"{self}: exit code {done.returncode}, {len(done.stdout)} bytes printed: "
                    f"{done.stderr[-4000:]}"
                )
            report = json.loads(done.stdout.splitlines()[-1])
            report["violations"] = list(server.log.violations)
            report["bodies"] = sorted(
                {
                    entry.headers.get("content-type", "").rpartition("-")[2].rpartition("/")[2]
                    for entry in server.log.requests("forward_backward")
                }
            )
            return report


def ours() -> Sdk:
    """Return our own client, in this interpreter."""
    return Sdk("ours", sys.executable, package="tinker_ext")


def installed() -> list[Sdk]:
    """Return the official SDKs that `nox -s parity` installed, oldest first."""
    python, folder = os.environ.get("TINKER_PARITY_PYTHON"), os.environ.get("TINKER_PARITY_SDKS")
    if not python or not folder:
        return []
    places = sorted(Path(folder).iterdir(), key=lambda p: [int(n) for n in p.name.split(".")])
    wanted = os.environ.get("TINKER_PARITY_VERSIONS")
    names = wanted.split(",") if wanted else [place.name for place in places]
    found = []
    for place in places:
        if place.name in names:
            found.append(Sdk(place.name, python, place))
            if place.name.startswith(WRITES_PROTO_WHEN_TOLD):
                found.append(Sdk(place.name, python, place, proto=True))
    return found
