"""Every command of the project: `nox` for each change, `nox -s everything` before a release."""

import atexit
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from concurrent.futures import Future, as_completed
from pathlib import Path

import nox

SHORT = [
    "ahead",
    "drift",
    "lint",
    "types",
    "tests",
    "simulate",
    "fuzz",
    "examples",
    "docs",
    "wheel",
]
"""What plain `nox` runs: minutes, no torch, and nothing that is judged by time."""

LONG = ["tests_torch", "parity", "cookbook", "fleet", "browser", "loggers", "bench", "soak"]
"""What `nox -s everything` adds, each in its short form."""

PROGRAMS = {
    "fleet": ("redis-server",),
    "browser": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
}
"""What a machine may lack; a session that needs it is left out of everything with a warning."""

OTHER_PYTHONS = ["3.12", "3.13", "3.14"]

# Sessions share environments, see `environment`; each makes the one it needs.
nox.options.default_venv_backend = "none"
nox.options.stop_on_first_error = True
nox.options.sessions = SHORT

# Tests start hundreds of processes; without this each would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Programs that run side by side share the processors, and threads of BLAS that wait for each other
# spin: small products take a hundred times as long. tests/conftest.py does the same for tests.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
ENVIRONMENTS = {
    "docs": {"NO_MKDOCS_2_WARNING": "1"},
    # As strict as production: what passes here is not refused there.
    "examples": {"TINKER_EXT_PROFILE": "hosted"},
}
"""What the commands of a session find in their environment beside that."""

HERE = Path(__file__).parent
PIP = ["--quiet", "--disable-pip-version-check"]
# Two more than there are processors: tests also wait, for programs to start and for silent servers.
WORKERS = min((os.cpu_count() or 1) + 2, 10)
PARALLEL = ["-n", str(WORKERS), "--dist", "worksteal"]
GENERATOR = ["openapi-python-client==0.29.1", "ruff==0.17.4", "grpcio-tools==1.85.1", "pyyaml"]
TYPES = ["mypy==2.4.1", "types-PyYAML", "types-protobuf"]
TOOLS = [*GENERATOR, *TYPES, "openapi-spec-validator==0.9.0", "mkdocs-material==9.*", "build"]
TOOLS += ["mkdocstrings[python]>=1,<2"]
REDOCLY = "@redocly/cli@2.73.0"
REDOCLY_ARGS = ["--config", "openapi/redocly.yaml", "openapi/tinker.yaml"]

# A range would let pip choose a build with several gigabytes of CUDA.
TORCH = "torch==2.13.0"
OFFICIAL = ["0.36.0", "0.4.1"]
SHORT_OFFICIAL = ["0.4.1", "0.18.2", "0.24.1", "0.36.0"]
EVERY_OFFICIAL = [
    *("0.4.1", "0.6.3", "0.8.1", "0.10.0", "0.12.0", "0.14.0", "0.16.1", "0.18.2", "0.20.0"),
    *("0.22.7", "0.23.4", "0.24.1", "0.25.0", "0.26.2", "0.28.1", "0.30.4", "0.33.1", "0.36.0"),
]
_SKYRL = [[TORCH, "numpy"], ["-r", "tests/interop/requirements.txt"], ["--no-deps", "skyrl==0.3.0"]]
SERVERS = {
    "skyrl": _SKYRL,
    "skyrl-tx": _SKYRL,
    # Their own pins name CUDA builds that a CPU never uses.
    "tuft": [
        [TORCH, "numpy"],
        ["-r", "tests/interop/requirements-tuft.txt"],
        ["--no-deps", "tuft==0.2.2"],
    ],
    "twinkle": [
        [TORCH, "numpy<2.3"],
        ["-r", "tests/interop/requirements-twinkle.txt"],
        ["--no-deps", "twinkle-kit==0.5.1"],
    ],
}
OLDER_SKYRL = ["--no-deps", "skyrl-tx==0.3.0", "transformers==4.57.6", "huggingface-hub==0.36.0"]
COOKBOOK = "tinker-cookbook[math-rl]==0.5.8"


def fast_installer() -> str | None:
    """Return the path of uv, which `pip install nox[uv]` brings; without it pip does the work."""
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        return shutil.which("uv")


def environment(
    session: nox.Session,
    name: str,
    *steps: list[str],
    base: str = sys.executable,
    fast: bool = False,
) -> str:
    """Make an environment that several sessions share, once; return its interpreter.

    Args:
        name: folder under ``.nox``.
        steps: what to install, one call of the installer each, in this order.
        base: the interpreter to make it from.
        fast: let uv install where it is there. Not for torch, whose CPU build only pip finds.
    """
    place = HERE / ".nox" / name
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    ours = (HERE / "pyproject.toml").read_text() if any("-e" in step for step in steps) else None
    made_from = json.dumps([base, steps, ours])
    note = place / "made-from.json"
    if note.exists() and note.read_text() == made_from:
        return str(python)
    shutil.rmtree(place, ignore_errors=True)
    uv = fast_installer() if fast else None
    if uv:
        session.run_install(uv, "venv", "--quiet", "--python", base, str(place), external=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
    else:
        session.run_install(base, "-m", "venv", str(place), external=True)
        install = [str(python), "-m", "pip", "install", *PIP]
    for step in steps:
        session.run_install(*install, *step, external=True)
    note.write_text(made_from)
    return str(python)


PATIENCE = 10.0
"""Seconds that interrupted commands have to tidy up."""


class Background:
    """Runs commands in the order they are given, as many at a time as there are workers."""

    def __init__(self) -> None:
        self._given: queue.SimpleQueue = queue.SimpleQueue()
        self._running: set[subprocess.Popen[str]] = set()
        self._threads = 0
        self._lock = threading.Lock()
        self._stopped = False

    def begin(self, command: list[str], env: dict[str, str]) -> Future:
        """Give it a command; the future has how it ended, and what it printed."""
        if not self._threads:
            atexit.register(self.stop)
            for name in ("SIGTERM", "SIGHUP"):  # a terminal that is closed; `nohup` ignores it
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                    signal.signal(number, lambda number, _: sys.exit(128 + number))
        end: Future = Future()
        self._given.put((end, command, env))
        if self._threads < WORKERS:
            self._threads += 1
            threading.Thread(target=self._work, daemon=True).start()
        return end

    def _work(self) -> None:
        while True:
            end, command, env = self._given.get()
            try:
                end.set_result(self._run(command, env))
            except OSError as error:  # there is no such program
                end.set_exception(error)

    def _run(self, command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        with self._lock:
            if self._stopped:
                raise InterruptedError
            # In a session of its own: Ctrl-C reaches it by `stop` only, which ends what it started.
            process = subprocess.Popen(
                command, cwd=HERE, env={**os.environ, **env}, text=True, errors="replace",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
            self._running.add(process)
        with process:
            printed, _ = process.communicate()
        self._running.discard(process)
        return subprocess.CompletedProcess(command, process.returncode, printed)

    def stop(self) -> None:
        """Begin nothing more and interrupt what runs: after a failure nobody waits for it."""
        with self._lock:
            self._stopped = True
        running = [*self._running]
        for process in running:  # pytest tidies up when it is interrupted
            process.terminate() if os.name == "nt" else process.send_signal(signal.SIGINT)
        until = time.monotonic() + PATIENCE
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0, until - time.monotonic()))
            if os.name == "nt":
                process.kill()
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


BACKGROUND = Background()
BEGUN: dict[str, list[Future]] = {}
"""What `ahead` has begun of later sessions."""


def begun(name: str, commands: list[list[str]]) -> list[Future]:
    """Begin the commands of a session."""
    env = ONE_THREAD | ENVIRONMENTS.get(name, {})
    return [BACKGROUND.begin(command, env) for command in commands]


def together(session: nox.Session, name: str, python: str | None = None) -> None:
    """Run the commands of a session side by side, or wait for them where `ahead` has begun them.

    The last line of each is shown, and all that it printed when it failed; the session fails after
    all of them have ended.
    """
    failed = False
    ends = None if python else BEGUN.pop(name, None)
    ends = ends or begun(name, side_by_side(python or workshop(session))[name])
    for future in as_completed(ends):
        end = future.result()
        failed |= bool(end.returncode)
        last = end.stdout.strip().rpartition("\n")[2]
        session.log(f"{'failed: ' if end.returncode else ''}{shown(end.args)}  {last}".rstrip())
        if end.returncode:
            print(end.stdout)
    if failed:
        session.error("see above")


def shown(command: list[str]) -> str:
    """Return a command without its interpreter, and of many files the first ones."""
    words = command[1:] if Path(command[0]).stem == "python" else command
    return " ".join(words[:5]) + (" …" if len(words) > 5 else "")


PARTS = {"contract": 2, "faults": 3, "others": 4, "unit": 1}
"""Folder of tests → how many processes share its files: each takes about a minute.

First what waits most, for programs and sockets.
"""


def test_parts() -> list[list[str]]:
    """Return the files of tests that each process runs.

    Workers of pytest-xdist would collect every test each, set up several times what the tests of a
    file share, and send three reports for each test.
    """
    options = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    apart = {*options["norecursedirs"], "typing"}  # the session `types` runs that folder
    files: dict[str, list[str]] = {folder: [] for folder in PARTS}
    for path in sorted((HERE / "tests").rglob("test_*.py")):
        place = path.relative_to(HERE)
        if apart.isdisjoint(place.parts):
            files[place.parts[1] if place.parts[1] in PARTS else "others"].append(str(place))
    parts = [files[name][first::count] for name, count in PARTS.items() for first in range(count)]
    return [part for part in parts if part]  # without a file pytest would run all tests


def workshop(session: nox.Session) -> str:
    """Return the interpreter with the package, its light extras and every tool but torch."""
    return environment(session, "workshop", ["-e", ".[all,test]", *TOOLS], fast=True)


def torch_workshop(session: nox.Session) -> str:
    """Return the interpreter with the package, torch and the cookbook."""
    # torch first: the cookbook accepts any version and would fetch the largest.
    steps = [TORCH, "numpy"], [COOKBOOK, "pytest-asyncio"], ["-e", ".[all,test]"]
    return environment(session, "torch", *steps)


def official(session: nox.Session, version: str) -> str:
    """Return the interpreter of an official SDK, in an environment of its own."""
    steps = [TORCH, "numpy"], [f"tinker=={version}", "transformers", "psutil"]
    return environment(session, f"official-{version}", *steps)


def side_by_side(python: str) -> dict[str, list[list[str]]]:
    """Return what sessions of plain `nox` run, in the order it is begun.

    First what waits most; last what has a process for each processor, so that none is idle.
    """
    pytest = [python, "-m", "pytest", "--quiet"]
    fuzz = [python, "tests/faults/fuzz.py", "--cases", "1000", "--first"]
    check = [[python, f"codegen/{name}.py"] for name in ("check_doc", "spec_diff")]
    redocly = [["npx", "--yes", REDOCLY, "lint", *REDOCLY_ARGS]] if shutil.which("npx") else []
    uv = fast_installer()
    return {
        "types": [[python, "-m", "mypy"]],
        "drift": [
            [python, "codegen/regenerate.py", "--check"],
            [python, "-m", "openapi_spec_validator", "openapi/tinker.yaml"],
            *check,
            *redocly,
        ],
        "tests": [[*pytest, *part] for part in test_parts()],
        "docs": [
            [python, "-m", "mkdocs", "build", "--strict", "--quiet"],
            [*pytest, "tests/docs"],
        ],
        "simulate": [[python, "tests/simulation/run.py", "--seeds", "300"]],
        "fuzz": [[*fuzz, first] for first in ("0", "1000")],
        "examples": [
            [python, "examples/notebooks.py", "check"],
            *(
                [python, f"examples/{name}.py"]
                for name in ("quickstart", "async_pipeline", "see_it")
            ),
        ],
        "wheel": [[python, "tests/wheel.py", *(["--uv", uv] if uv else [])]],
    }


@nox.session
def ahead(session: nox.Session) -> None:
    """Begin what plain `nox` runs, side by side; each session waits for its part and shows it."""
    for name, commands in side_by_side(workshop(session)).items():
        BEGUN[name] = begun(name, commands)


@nox.session
def regenerate(session: nox.Session) -> None:
    """Rebuild generated/ and the server's contract from openapi/, byte for byte."""
    python = workshop(session)
    session.run(python, "codegen/regenerate.py", *session.posargs)


@nox.session
def drift(session: nox.Session) -> None:
    """Fail on stale generated code, a faulty document or an unannounced breaking change."""
    if not shutil.which("npx"):
        session.warn("redocly not run: npx is not installed")
    together(session, "drift")


@nox.session
def lint(session: nox.Session) -> None:
    """Check the form of the hand-written code; `-- --fix` mends it."""
    python = workshop(session)
    fix = "--fix" in session.posargs
    session.run(python, "-m", "ruff", "check", *(["--fix"] if fix else []), ".")
    session.run(python, "-m", "ruff", "format", *([] if fix else ["--check"]), ".")


@nox.session
def types(session: nox.Session) -> None:
    """Type-check hand-written and generated code with mypy --strict."""
    # One process: mypy gives its workers three seconds to start, which a busy machine does not.
    together(session, "types")
    # What users write, on the cache of the first: at the same time both would read everything.
    session.run(workshop(session), "-m", "pytest", "--quiet", "tests/typing", silent=True)


@nox.session
def everything(session: nox.Session) -> None:
    """All of plain `nox`, the other Pythons, the long sessions.

    `-- --rest` leaves out what plain `nox` has just run; `-- NAME …` runs some of the long ones.
    """
    others = [f"tests-{version}" for version in OTHER_PYTHONS]
    if not session.posargs:
        chosen = [*SHORT, *others, *LONG]
    elif session.posargs == ["--rest"]:
        chosen = [*others, *LONG]
    else:
        chosen = session.posargs
    for name in chosen:
        programs = PROGRAMS.get(name, ())
        if programs and not any(map(shutil.which, programs)):
            session.warn(f"{name} is left out: this machine has no {' or '.join(programs)}")
        else:
            session.notify(name, posargs=[])


@nox.session
def tests(session: nox.Session) -> None:
    """Unit, contract, fault and generator tests on the embedded server; `-- PATH` for a part."""
    if session.posargs:
        session.run(workshop(session), "-m", "pytest", *session.posargs)
    else:
        together(session, "tests")


def interpreter(version: str) -> str | None:
    """Return the path of another Python of this machine, or None."""
    places = [shutil.which(f"python{version}")]
    places += sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    question = [f"import sys; sys.exit(sys.version_info[:2] != ({version.replace('.', ', ')}))"]
    for place in places:
        # A shim of pyenv is there for every Python it knows, and fails for those not chosen.
        if place and not subprocess.run([place, "-c", *question], capture_output=True).returncode:
            return place
    return None


def tests_of(version: str) -> None:
    """Add the session that runs the tests on another Python, where the machine has it."""

    @nox.session(name=f"tests-{version}")
    def on_another_python(session: nox.Session) -> None:
        base = interpreter(version)
        if base is None:
            session.skip(f"no Python {version} on this machine")
        steps = ["-e", ".[all,test]", *TOOLS]
        python = environment(session, f"python-{version}", steps, base=base, fast=True)
        if session.posargs:
            session.run(python, "-m", "pytest", *session.posargs)
            return
        together(session, "tests", python)
        session.run(python, "-m", "pytest", "--quiet", "tests/typing", silent=True)

    on_another_python.__doc__ = f"The tests on Python {version}; skipped where it is not installed."


for another in OTHER_PYTHONS:
    tests_of(another)


@nox.session
def tests_torch(session: nox.Session) -> None:
    """What needs PyTorch: tensors, custom losses, the engine's gradients."""
    session.run(torch_workshop(session), "-m", "pytest", "tests/torch", *session.posargs)


@nox.session
def simulate(session: nox.Session) -> None:
    """Exactly-once on a virtual clock: 300 seeds; `-- --seeds 10000` for the long form."""
    if session.posargs:
        session.run(workshop(session), "tests/simulation/run.py", *session.posargs, env=ONE_THREAD)
    else:
        together(session, "simulate")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Mutated replies of a hostile server; `-- --cases 50000` for the long form."""
    if session.posargs:
        session.run(workshop(session), "tests/faults/fuzz.py", *session.posargs, env=ONE_THREAD)
    else:
        together(session, "fuzz")


@nox.session
def mutation(session: nox.Session) -> None:
    """Plant 30 bugs in the core and see which the tests catch.

    `-- --bugs 300` for the long form, `-- --since REV` for the lines of a change.
    """
    python = environment(
        session,
        "mutation",
        ["-e", ".[all,test]", *TOOLS, "coverage>=7.6", "pytest-cov>=6"],
        fast=True,
    )
    session.run(python, "tests/mutation/run.py", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """100,000 queued samples for a while; `-- --minutes 30` for the long form."""
    options = session.posargs or ["--minutes", "3"]
    session.run(workshop(session), "tests/load/soak.py", *options)


@nox.session
def fleet(session: nox.Session) -> None:
    """A fleet of 9 processes on SQLite and on a real Redis (Debian: redis-server), in 3 minutes.

    `-- --long` takes 16 processes on SQLite and 50 on Redis, and needs a quiet machine; see
    tests/fleet/prove.py.
    """
    python = workshop(session)
    if shutil.which("redis-server") is None:
        session.error("redis-server is not installed: apt-get install redis-server")
    env = {"TINKER_FLEET_REDIS": "1"}
    session.run(python, "-m", "pytest", *PARALLEL, "tests/fleet", env=env)
    session.run(python, "tests/bench/bench_fleet.py")
    session.run(python, "tests/fleet/prove.py", *session.posargs)


@nox.session
def examples(session: nox.Session) -> None:
    """Run the examples that nothing else runs as they are shipped.

    Tests run rl_toy, custom_loss and the notebooks, the build of the docs the tutorial.
    """
    together(session, "examples")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site, which runs every snippet of it; `-- --serve` shows it while you write.

    While you write, snippets are shown without being run; `-- -k NAME` runs some of its tests only.
    """
    if "--serve" in session.posargs:
        env = ENVIRONMENTS["docs"] | {"TINKER_EXT_DOCS_FAST": "1"}
        session.run(workshop(session), "-m", "mkdocs", "serve", env=env)
    elif session.posargs:
        session.run(workshop(session), "-m", "pytest", "tests/docs", *session.posargs)
    else:
        together(session, "docs")


@nox.session
def browser(session: nox.Session) -> None:
    """The page of `tinker-ext ui` in Chromium; screenshots go to .nox/screenshots.

    Debian: `apt-get install chromium`. Elsewhere `python -m playwright install chromium`, or name
    any Chromium in TINKER_EXT_CHROMIUM.
    """
    python = environment(session, "browser", ["-e", ".[all,test]", "playwright>=1.45"], fast=True)
    session.run(python, "-m", "pytest", "tests/browser", *session.posargs)


@nox.session
def loggers(session: nox.Session) -> None:
    """trackio, wandb (offline), TensorBoard and MLflow, the real packages, read back."""
    extras = "server,trackio,wandb,tensorboard,mlflow,test"
    python = environment(session, "loggers", ["-e", f".[{extras}]"], fast=True)
    session.run(python, "-m", "pytest", "tests/loggers", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Install the wheel in a clean environment: what it pulls, how large, that it works."""
    together(session, "wheel")


@nox.session
def parity(session: nox.Session) -> None:
    """The official SDKs, unmodified, on the embedded server; our client gives the same numbers.

    `-- --versions all` runs every era and writes docs/conformance/official-sdks.json,
    `-- --downstream` packages that import `tinker`, under compat.
    """
    options = list(session.posargs)
    if options == ["--downstream"]:
        packages = ["openpipe-art==0.5.18", COOKBOOK, "inspect-ai", "fastapi", "uvicorn", TORCH]
        trinity = (
            ["-r", "tests/parity/requirements-trinity.txt"],
            ["--no-deps", "trinity-rft==0.6.0"],
        )
        steps = [TORCH, "numpy"], packages, ["-e", ".[all]"], *trinity
        python = environment(session, "downstream", *steps)
        session.run(workshop(session), "tests/parity/downstream.py", python)
        session.run(workshop(session), "tests/interop/publish.py")
        return
    every = options[:2] == ["--versions", "all"]
    versions = EVERY_OFFICIAL if every else SHORT_OFFICIAL
    # One environment has what all of them need; each version is a folder, as it was published.
    python = official(session, OFFICIAL[0])
    sdks = HERE / ".nox" / "official-sdks"
    for version in versions:
        if not (sdks / version).exists():
            place = ["--no-deps", "--target", str(sdks / version)]
            session.run_install(python, "-m", "pip", "install", *PIP, *place, f"tinker=={version}")
    env = {
        "TINKER_PARITY_PYTHON": python,
        "TINKER_PARITY_SDKS": str(sdks),
        "TINKER_PARITY_VERSIONS": ",".join(versions),
    }
    ours = torch_workshop(session)
    if every:
        session.run(ours, "tests/parity/versions.py", env=env)
        session.run(ours, "tests/interop/publish.py")
    else:
        session.run(ours, "-m", "pytest", "tests/parity", *options, env=env)


@nox.session
def bench(session: nox.Session) -> None:
    """Side by side with the official SDKs, as ratios; `-- --full` for the long form."""
    # The short form measures neither the oldest nor torch.
    full = "--full" in session.posargs
    versions = OFFICIAL if full else OFFICIAL[:1]
    env = {f"TINKER_BENCH_{v.replace('.', '_')}": official(session, v) for v in versions}
    ours = torch_workshop(session) if full else workshop(session)
    session.run(ours, "tests/bench/run.py", *session.posargs, env=env)


@nox.session
def cookbook(session: nox.Session) -> None:
    """tinker-cookbook, unmodified, on us: its unit tests and recipes; `-- --long` for all."""
    session.run(torch_workshop(session), "tests/cookbook/run.py", *session.posargs)


@nox.session
def interop(session: nox.Session) -> None:
    """Train and sample on real servers from PyPI, on CPU; installs about 2.5 GB for each.

    `-- tuft` takes one of skyrl, skyrl-tx, tuft and twinkle instead of all; `-- --docs` also
    examines each and writes docs/servers.md.
    """
    options = list(session.posargs)
    chosen = [name for name in SERVERS if name in options] or list(SERVERS)
    options = [option for option in options if option not in SERVERS]
    ours = workshop(session)
    for name in chosen:
        python = environment(session, f"server-{name}", *SERVERS[name])
        site = []
        if name == "skyrl-tx":
            older = HERE / ".nox" / "skyrl-tx"
            session.run_install(
                python, "-m", "pip", "install", *PIP, "--target", older, *OLDER_SKYRL
            )
            site = ["--site", str(older)]
        run = ["tests/interop/run.py", name, "--python", python, *site]
        session.run(ours, *run, *options)
    if "--docs" in options:
        session.run(ours, "tests/interop/publish.py", "--embedded")
