"""`log_to`: a run log whose steps also go to trackio, Weights & Biases, TensorBoard or MLflow.

The log is written first, as always. A thread passes the steps on, at least once a second, and notes
in ``loggers.json`` how far it came and which run it is over there. So a crash loses nothing that is
in the log: the next start passes on what is missing, into the same run.
"""

from __future__ import annotations

import atexit
import importlib
import json
import logging
import os
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from tinker_ext import forks
from tinker_ext._extras import how_to_install
from tinker_ext.errors import ConfigurationError
from tinker_ext.runlog import RunLog, encode, read

log = logging.getLogger("tinker_ext")

NOTES = "loggers.json"
EVERY_SECONDS = 0.5
"""A step is passed on within this time, so that a crash finds at most the last second missing."""

SAFE_SECONDS = 3.0
"""After a crash the steps of this long are passed on again: some packages write with a delay."""

LAST_SECONDS = 10.0
"""A logger that takes longer for its last steps is left behind: the program is to end."""


_Step = tuple[int, dict[str, float], float]  # its number, what it says, when it was written


class Logger(Protocol):
    """Where steps go; any object with these methods may be given to `log_to`."""

    def log(self, step: int, values: Mapping[str, float], time: float) -> None:
        """Take the numbers of one step; `time` is in seconds since 1970."""

    def flush(self) -> None:
        """Write what was taken."""

    def close(self) -> None:
        """End; the same run may be continued later."""


class _TensorBoard:
    """Event files in ``tensorboard/`` of the run's folder; needs the package only, no torch."""

    def __init__(self, folder: Path, notes: dict[str, Any], project: str, name: str) -> None:
        writers = _package("tensorboard.summary.writer.event_file_writer", "tensorboard")
        self._events = importlib.import_module("tensorboard.compat.proto.event_pb2")
        self._summaries = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        self._writer = writers.EventFileWriter(str(folder / "tensorboard"))

    def log(self, step: int, values: Mapping[str, float], time: float) -> None:
        made = [self._summaries.Summary.Value(tag=k, simple_value=v) for k, v in values.items()]
        summary = self._summaries.Summary(value=made)
        self._writer.add_event(self._events.Event(wall_time=time, step=step, summary=summary))

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _Run:
    """A run of a package that takes each step at once and writes it soon by itself."""

    _run: Any

    def log(self, step: int, values: Mapping[str, float], time: float) -> None:
        self._run.log(dict(values), step=step)

    def flush(self) -> None:
        """Nothing."""

    def close(self) -> None:
        self._run.finish()


class _Wandb(_Run):
    """A run of Weights & Biases; offline unless WANDB_MODE says otherwise."""

    def __init__(self, folder: Path, notes: dict[str, Any], project: str, name: str) -> None:
        wandb = _package("wandb", "wandb")
        notes.setdefault("wandb", secrets.token_hex(4))
        self._run = wandb.init(
            project=project,
            name=name,
            id=notes["wandb"],
            resume="allow",
            dir=str(folder),
            mode=os.environ.get("WANDB_MODE", "offline"),
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off", **_flushing(wandb)),
        )

    def log(self, step: int, values: Mapping[str, float], time: float) -> None:
        self._run.log({**values, "_timestamp": time}, step=step, commit=True)


class _Mlflow:
    """A run of MLflow, in MLFLOW_TRACKING_URI or in ``mlflow.db`` of the run's folder."""

    def __init__(self, folder: Path, notes: dict[str, Any], project: str, name: str) -> None:
        tracking = _package("mlflow.tracking", "mlflow")
        self._metric = importlib.import_module("mlflow.entities").Metric
        place = os.environ.get("MLFLOW_TRACKING_URI")
        place = place or f"sqlite:///{(folder / 'mlflow.db').resolve()}"
        self._client = tracking.MlflowClient(tracking_uri=place)
        if "mlflow" not in notes:
            known = self._client.get_experiment_by_name(project)
            number = known.experiment_id if known else self._client.create_experiment(project)
            notes["mlflow"] = self._client.create_run(number, run_name=name).info.run_id
        self._id = notes["mlflow"]
        self._client.update_run(self._id, status="RUNNING")
        self._taken: list[Any] = []

    def log(self, step: int, values: Mapping[str, float], time: float) -> None:
        for key, value in values.items():
            plain = re.sub(r"[^\w\-./ ]", "_", key)
            self._taken.append(self._metric(plain, value, int(time * 1000), step))

    def flush(self) -> None:
        while self._taken:
            self._client.log_batch(self._id, metrics=self._taken[:900])
            del self._taken[:900]

    def close(self) -> None:
        self._client.set_terminated(self._id)


class _Trackio(_Run):
    """A run of trackio, in its own folder (TRACKIO_DIR)."""

    def __init__(self, folder: Path, notes: dict[str, Any], project: str, name: str) -> None:
        trackio = _package("trackio", "trackio")
        notes.setdefault("trackio", f"{name}-{secrets.token_hex(2)}")
        self._run = trackio.init(
            project=project, name=notes["trackio"], resume="allow", embed=False,
            auto_log_gpu=False, auto_log_cpu=False,
        )  # fmt: skip


def _flushing(wandb: Any) -> dict[str, float]:
    """The setting that writes steps to disk soon, where this wandb has it; its default is 15 s."""
    name = "x_transaction_log_flush_interval"
    return {name: EVERY_SECONDS} if name in getattr(wandb.Settings, "model_fields", {}) else {}


KNOWN: dict[str, Any] = {
    "mlflow": _Mlflow,
    "tensorboard": _TensorBoard,
    "trackio": _Trackio,
    "wandb": _Wandb,
}


def log_to(
    folder: str | os.PathLike[str],
    *loggers: str | Logger,
    project: str = "tinker-ext",
    name: str | None = None,
) -> RunLog:
    """Make a run log whose steps also go to the loggers that are named.

    Args:
        folder: Folder (or file) of the run log.
        *loggers: `trackio`, `wandb`, `tensorboard`, `mlflow`, or a `Logger` of your own. Each is
            an extra of the same name.
        project: Name of the project or experiment over there.
        name: Name of the run over there; that of the folder by default.

    Returns:
        What `ServiceClient(run_log=…)` takes.

    Raises:
        ConfigurationError: A logger is not known, or its package is not installed.

    Example:
        >>> import tempfile
        >>> from tinker_ext import ServiceClient, log_to
        >>> class Printer:
        ...     def log(self, step, values, time):
        ...         print(step, values["loss"])
        ...     def flush(self): ...
        ...     def close(self): ...
        >>> log = log_to(tempfile.mkdtemp(), Printer())
        >>> log.write("step", step=1, loss=2.5)
        >>> log.close()
        1 2.5
    """
    for each in loggers:
        if isinstance(each, str) and each not in KNOWN:
            raise ConfigurationError(f"There is no logger {each!r}; known are {', '.join(KNOWN)}.")
        if not isinstance(each, str) and not all(
            callable(getattr(each, method, None)) for method in ("log", "flush", "close")
        ):
            raise ConfigurationError(f"A logger needs log, flush and close; {each!r} has not.")
    return _Forwarding(folder, loggers, project, name)


class _Forwarding(RunLog):
    """The run log whose steps a thread of its own passes on."""

    closes_slowly = True

    def __init__(
        self,
        folder: str | os.PathLike[str],
        loggers: tuple[str | Logger, ...],
        project: str,
        name: str | None,
    ) -> None:
        super().__init__(folder)
        place = self.path.parent
        place.mkdir(parents=True, exist_ok=True)
        self._notes_path = place / NOTES
        self._notes = _read_notes(self._notes_path)
        name = name or place.resolve().name
        self._loggers: dict[str, Any] = {}
        for each in loggers:
            label = each if isinstance(each, str) else type(each).__name__
            made = KNOWN[each](place, self._notes, project, name) if isinstance(each, str) else each
            self._loggers[label] = made
        passed_on = self._notes["time" if self._notes.get("clean") else "safe"]
        self._trail: list[tuple[float, float]] = [(0.0, passed_on)]
        self._waiting = deque(self._missing())
        self._save()
        self._stop = threading.Event()
        self._passing = forks.lock()
        self._thread: threading.Thread | None = None
        forks.register(self)

    def after_fork(self) -> None:
        """Leave the loggers to the parent: a child that ends would end their runs."""
        atexit.unregister(self.close)
        self._loggers, self._waiting, self._thread = {}, deque(maxlen=0), None
        self._stop = threading.Event()  # the lock of the other may be taken
        self._stop.set()

    def append(self, *records: dict[str, Any]) -> None:
        """Append lines, and have the steps among them passed on."""
        super().append(*records)
        for record in records:
            if record["type"] == "step":
                with suppress(*_ODD):  # as a reader of the log would find it
                    self._waiting.append(_values(json.loads(encode(record))))
        if self._thread is None and self._loggers:
            self._thread = threading.Thread(
                target=self._pass_on, name="tinker-ext-loggers", daemon=True
            )
            self._thread.start()
            atexit.register(self.close)

    def close(self) -> None:
        """Pass the rest on, end the loggers' runs for now, and close the file."""
        super().close()
        atexit.unregister(self.close)
        if self._stop.is_set():
            return
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(LAST_SECONDS)
            if self._thread.is_alive():
                told = "A logger of %s has not taken its last steps within %g s; it is left behind."
                log.warning(told, self.path, LAST_SECONDS)
                return
            self._thread = None
        self.forward()
        for label, each in list(self._loggers.items()):
            self._guard(label, each.close)
        self._loggers.clear()
        self._notes["clean"] = True
        self._save()

    def _pass_on(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            self.forward()

    def forward(self) -> None:
        """Pass on what the log has and the loggers have not; `close` and the thread do this."""
        with self._passing:
            steps = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if not steps:
                return
            for label, each in list(self._loggers.items()):
                for step in steps:
                    if not self._guard(label, each.log, *step):
                        break
                else:
                    self._guard(label, each.flush)
            now, last = time.monotonic(), steps[-1][2]
            self._trail.append((now, last))
            while len(self._trail) > 1 and self._trail[1][0] <= now - SAFE_SECONDS:
                del self._trail[0]
            self._notes |= {"time": last, "safe": self._trail[0][1], "clean": False}
            self._save()

    def _missing(self) -> Iterator[_Step]:
        """The steps of the log that the loggers do not have; after a crash, the last ones again."""
        with suppress(OSError):
            for line in read(self.path):
                with suppress(*_ODD):
                    if line["type"] == "step" and line["time"] > self._trail[0][1]:
                        yield _values(line)

    def _guard(self, label: str, call: Any, *arguments: Any) -> bool:
        try:
            call(*arguments)
        except Exception as error:
            self._loggers.pop(label, None)
            log.warning("%s takes no more steps: %s. The run goes on without it.", label, error)
            return False
        return True

    def _save(self) -> None:
        new = self._notes_path.with_name(f".{NOTES}.{os.getpid()}")
        try:
            new.write_text(json.dumps(self._notes))
            new.replace(self._notes_path)
        except OSError as error:
            log.warning("%s cannot be written: %s.", self._notes_path, error.strerror)


def _read_notes(path: Path) -> dict[str, Any]:
    try:
        notes = json.loads(path.read_text())
    except (OSError, ValueError):
        notes = None
    moments = ("time", "safe")
    if not isinstance(notes, dict) or not all(isinstance(notes.get(m), float) for m in moments):
        return {"time": 0.0, "safe": 0.0, "clean": True}
    return notes


_ODD = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What a line raises that is not as it should be; it costs itself only."""


def _values(record: Mapping[str, Any]) -> _Step:
    tokens, totals = record.get("tokens") or {}, record.get("totals") or {}
    loss, seconds, trained = record.get("loss"), record.get("seconds"), tokens.get("train") or 0
    metrics = record.get("metrics") or {}
    values = {
        **metrics,
        "loss": loss,
        "loss_per_token": record.get("loss_per_token"),
        "seconds": seconds,
        "tokens_per_second": trained / seconds if seconds else None,
        "cost": totals.get("cost"),
        **{f"tokens/{kind}": totals.get(kind) for kind in ("train", "prefill", "sample")},
    }
    numbers = {k: float(v) for k, v in values.items() if isinstance(v, int | float)}
    return int(record["step"]), numbers, float(record["time"])


def _package(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"The logger {extra} needs a package that is not installed ({error.name}). Install it "
            f"with: {how_to_install(extra)}"
        ) from None
