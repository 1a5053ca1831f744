"""Real Tinker servers from PyPI as child processes, and what is known about each beforehand."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs
import httpx
import yaml
from skyrl_server import MODEL, SkyRL, free_port

KEY = "tml-any-shape-will-do"
ACCESS = re.compile(r'"(GET|POST|DELETE|PUT) (\S+) HTTP/1\.\d" (\d{3})')


@attrs.frozen
class Traits:
    """What a server is known to be; the client is told none of it.

    Attributes:
        name: Package and version, also the name of its reports.
        wire: Bodies it takes.
        model: Whether its trainer computes a language model.
        sampler: Whether its sampler does.
        falls: By how much the loss falls in eight steps, at least.
        counted_by: How its optimizer steps are counted, one of `scenario.COUNTED_BY`.
        older: Whether this is the older SkyRL package, which lacks more.
        engine: Packages whose versions are written down.
        headers: What its users send beside the key.
        names_both: Whether a sampler of a path needs the base model named too.
    """

    name: str
    wire: str = "json"
    model: bool = True
    sampler: bool = True
    falls: float = 0.05
    counted_by: str = "seed"
    older: bool = False
    engine: tuple[str, ...] = ("torch", "transformers")
    headers: Mapping[str, str] = attrs.field(factory=dict)
    names_both: bool = False


TRAITS = {
    "skyrl": Traits("skyrl-0.3.0", falls=0.5, engine=("jax", "flax", "transformers")),
    "skyrl-tx": Traits(
        "skyrl-tx-0.3.0", falls=0.5, older=True, engine=("jax", "flax", "transformers")
    ),
    "tuft": Traits(
        "tuft-0.2.2", wire="proto", model=False, sampler=False, falls=0.0, counted_by="metric"
    ),
    "twinkle": Traits(
        "twinkle-kit-0.5.1",
        sampler=False,
        counted_by="state",
        headers={"Authorization": f"Bearer {KEY}"},
        names_both=True,
    ),
}


class Process:
    """A server on a free loopback port, in a folder of its own, started by a script.

    Args:
        folder: Working directory: model, configuration, checkpoints, log.
        python: Python of the environment that has the server.
        start_seconds: How long it may take to answer.
    """

    name = ""

    def __init__(self, folder: Path, python: Path, start_seconds: float = 300.0) -> None:
        self.folder = folder.resolve()
        self.python = python
        self.start_seconds = start_seconds
        self.log_path = self.folder / "server.log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        """Write the configuration and return what to run."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Return more variables of its environment."""
        return {}

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_model()
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                env=self._variables(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: os.nice(10),
            )
        try:
            self._await_ready()
        except BaseException:
            self.stop()
            raise
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
        names = TRAITS[self.name].engine
        program = (
            "import platform; from importlib.metadata import version as v; "
            f"print('Python', platform.python_version(), *(f'{{n}} {{v(n)}}' for n in {names!r}))"
        )
        done = subprocess.run(
            [self.python, "-c", program],
            env=self._variables(),
            capture_output=True,
            text=True,
            check=True,
        )
        words = done.stdout.split()
        return dict(zip(words[::2], words[1::2], strict=True))

    def stop(self) -> None:
        """End the server and the processes it started."""
        process = self._process
        if process is None:
            return
        for kind, seconds in ((signal.SIGTERM, 20), (signal.SIGKILL, 20)):
            try:
                os.killpg(process.pid, kind)
                process.wait(seconds)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue

    def _make_model(self) -> None:
        target = self.folder / MODEL
        if not (target / "tokenizer.json").exists():
            script = Path(__file__).with_name("tiny_model.py")
            subprocess.run([self.python, script, target], check=True, env=self._variables())

    def _await_ready(self) -> None:
        assert self._process is not None
        end = time.monotonic() + self.start_seconds
        while not self._ready():
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended at once:\n{self.log()[-3000:]}")
            if time.monotonic() > end:
                raise RuntimeError(f"the server did not start:\n{self.log()[-3000:]}")
            time.sleep(0.5)

    def _ready(self) -> bool:
        try:
            place = f"{self.url}/api/v1/get_server_capabilities"
            return httpx.get(place, headers={"X-API-Key": KEY}, timeout=5).is_success
        except httpx.HTTPError:
            return False

    def _variables(self) -> dict[str, str]:
        keep = {name: value for name, value in os.environ.items() if not name.startswith("TINKER_")}
        keep.pop("PYTHONPATH", None)
        return keep | {
            "PATH": f"{self.python.parent}{os.pathsep}{keep.get('PATH', '')}",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            **self.environment(),
        }


class Tuft(Process):
    """TuFT on its dummy model: the server is real, its numbers are not a language model's."""

    name = "tuft"

    def environment(self) -> dict[str, str]:
        """Take the dummy backends, which need neither vLLM nor a GPU."""
        return {"TUFT_CPU_TEST": "1"}

    def command(self) -> list[str]:
        """One model, one key."""
        model = {
            "model_name": MODEL,
            "model_path": str(self.folder / MODEL),
            "max_model_len": 256,
            "max_loras": 32,
        }
        config = {
            "supported_models": [model],
            "authorized_users": {KEY: "tester"},
            "telemetry": {"enabled": False},
        }
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config))
        checkpoints = str(self.folder / "checkpoints")
        place = ["--host", "127.0.0.1", "--port", str(self.port)]
        tuft = str(self.python.parent / "tuft")
        return [tuft, "launch", *place, "--config", "config.yaml", "--checkpoint-dir", checkpoints]


# Twinkle 0.5.1 knows GPU, NPU and MPS; where there is none of them it takes a GPU for granted.
ON_CPU = """\
import importlib.abc
import importlib.util
import sys

NAME = "twinkle.utils.platforms.gpu"


class OnCpu(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            import torch

            torch.cpu.get_rng_state = lambda *_: torch.get_rng_state()
            torch.cpu.set_rng_state = lambda state, *_: torch.set_rng_state(state)
            module.GPU.device_prefix = staticmethod(lambda: "cpu")
            module.GPU.get_local_device = staticmethod(lambda idx, **_: "cpu")
            module.GPU.device_backend = staticmethod(lambda *_: "gloo")

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, OnCpu())
"""


class Twinkle(Process):
    """Twinkle with its transformers backend, which trains the tiny model on CPU for real.

    That takes a `sitecustomize` beside it, since it knows no CPU (see `ON_CPU`); the package itself
    is as it was published. Its sampler is the mock one: `torch` names a class that 0.5.1 does not
    have (`ImportError: cannot import name 'TorchSampler'`), and vLLM needs a GPU. It wants a Ray
    cluster to be there, with 32 CPUs for each process of a group; Ray takes our word for them.
    """

    name = "twinkle"

    def environment(self) -> dict[str, str]:
        """Tell accelerate where the process group of one meets; nobody else does on CPU."""
        return {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "RANK": "0",
            "WORLD_SIZE": "1",
            "LOCAL_RANK": "0",
            "PYTHONPATH": str(self.folder / "site"),
            # Else the cluster may ask for a token that its own clients do not send.
            "RAY_AUTH_MODE": "disabled",
        }

    def command(self) -> list[str]:
        """A Ray cluster in the folder, then the server on it, in one process group."""
        shutil.rmtree(self.folder / "ray", ignore_errors=True)
        site = self.folder / "site"
        site.mkdir(exist_ok=True)
        (site / "sitecustomize.py").write_text(ON_CPU)
        self.ray_port = free_port() % 9000 + 1024
        options = {"name": "", "ray_actor_options": {"num_cpus": 0.1}}

        def part(kind: str, prefix: str, deployment: str, **args: object) -> dict[str, object]:
            return {
                "name": kind,
                "route_prefix": prefix,
                "import_path": kind,
                "args": args,
                "deployments": [{**options, "name": deployment}],
            }

        def on_cpu(name: str) -> dict[str, object]:
            return {
                "model_id": MODEL,
                "nproc_per_node": 1,
                "device_group": {"name": name, "ranks": 1, "device_type": "CPU"},
                "device_mesh": {"device_type": "CPU", "dp_size": 1},
            }

        config = {
            "proxy_location": "HeadOnly",
            "http_options": {"host": "127.0.0.1", "port": self.port},
            "persistence": {"mode": "memory"},
            "applications": [
                part(
                    "server",
                    "/api/v1",
                    "GatewayServer",
                    supported_models=[MODEL],
                    server_config={"per_token_model_limit": 200},
                ),
                part(
                    "model",
                    f"/api/v1/model/{MODEL}",
                    "ModelManagement",
                    backend="transformers",
                    # Unloading gives no place back, and the suite makes some ninety models.
                    max_loras=120,
                    **on_cpu("model"),
                ),
                part(
                    "sampler",
                    f"/api/v1/sampler/{MODEL}",
                    "SamplerManagement",
                    sampler_type="mock",
                    **on_cpu("sampler"),
                ),
            ],
        }
        (self.folder / "server.yaml").write_text(yaml.safe_dump(config))
        script = f"""
        ray start --head --block --port={self.ray_port} --num-cpus=128 --include-dashboard=false \
            --disable-usage-stats --temp-dir={self.folder}/ray \
            --min-worker-port=21000 --max-worker-port=21500 &
        for _ in $(seq 300); do grep -q "Ray runtime started" server.log && break; sleep 1; done
        RAY_ADDRESS=$(cat {self.folder}/ray/ray_current_cluster) \\
            twinkle-server launch -c server.yaml
        """
        return ["bash", "-c", script]

    def _ready(self) -> bool:
        # The gateway answers long before the model behind it is deployed.
        return "Deployed sampler" in self.log() and super()._ready()

    def stop(self) -> None:
        """Ray detaches its processes from the group; each is told by its session's folder."""
        super().stop()
        mark = str(self.folder / "ray")
        for _ in range(3):
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit() and _belongs(entry, mark):
                    _kill(int(entry.name))
            time.sleep(1)


def _belongs(entry: Path, mark: str) -> bool:
    """Whether a process is one of a Ray session in our folder."""
    try:
        command = (entry / "cmdline").read_bytes().decode(errors="replace")
        variables = (entry / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return False
    return mark in command or (command.startswith("ray::") and mark in variables)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def start(name: str, folder: Path, python: Path | None, site: Path | None) -> Process | SkyRL:
    """Return the named server, not yet started."""
    interpreter = python or Path(sys.executable)
    makers: dict[str, Callable[[], Process | SkyRL]] = {
        "skyrl": lambda: SkyRL(folder, interpreter),
        "skyrl-tx": lambda: SkyRL(folder, interpreter, module="tx.tinker.api", site=site),
        "tuft": lambda: Tuft(folder, interpreter),
        "twinkle": lambda: Twinkle(folder, interpreter, start_seconds=420.0),
    }
    return makers[name]()
