"""Checks of the views: runs, checkpoints, pages, publishing, lifetimes, deletion."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from tinker_ext.conform.raw_model import Answer
from tinker_ext.conform.registry import absent, check, expect, fail
from tinker_ext.conform.subject import Subject
from tinker_ext.conform.trial import Trial

_HOUR = 3600
_PATIENCE = 4.0


@contextlib.contextmanager
def _checkpoint(subject: Subject, name: str, **options: Any) -> Iterator[tuple[Trial, str, str]]:
    """A model with one saved state: the trial, its path, and its place among the endpoints."""
    with subject.trial() as trial:
        path = trial.client.save_state(name, **options).result().path
        yield trial, path, f"training_runs/{trial.model_id}/checkpoints/weights/{name}"


def _listed(subject: Subject, run_id: str) -> list[dict[str, Any]]:
    answer = subject.call("GET", f"training_runs/{run_id}/checkpoints")
    _there(answer, "GET training_runs/…/checkpoints")
    found = answer.object().get("checkpoints")
    if not isinstance(found, list):
        fail(f"checkpoints is no list: {answer}")
    return found


def _there(answer: Answer, what: str) -> Answer:
    """End the check as absent when the endpoint does not exist, as failed on another error."""
    body = answer.json()
    bare = not isinstance(body, dict) or body.get("detail") in ("Not Found", None)
    if answer.status in (405, 501) or (answer.status == 404 and bare):
        absent(f"{what}: {answer}")
    expect(answer.status < 400, f"{what}: {answer}")
    return answer


@check("rest.training_run", "describes a training run")
def training_run(subject: Subject) -> None:
    """By id and in the list."""
    with subject.trial() as trial:
        run_id = trial.model_id
        answer = _there(subject.call("GET", f"training_runs/{run_id}"), "GET training_runs/…")
        body = answer.object()
        expect(body.get("training_run_id") == run_id, f"run {run_id} is described as {answer}")
        page = _there(subject.call("GET", "training_runs?limit=100"), "GET training_runs")
        runs = [run.get("training_run_id") for run in page.object().get("training_runs", [])]
        expect(run_id in runs, f"run {run_id} is not among the {len(runs)} newest")


@check("rest.pages", "pages through training runs by limit and offset")
def pages(subject: Subject) -> None:
    """One run a page is one run a page."""
    with subject.trial(), subject.trial():
        found = []
        for offset in (0, 1):
            answer = subject.call("GET", f"training_runs?limit=1&offset={offset}")
            runs = _there(answer, "GET training_runs").object().get("training_runs", [])
            expect(len(runs) == 1, f"limit 1 at offset {offset} gave {len(runs)} runs")
            found.append(runs[0].get("training_run_id"))
    expect(found[0] != found[1], f"offsets 0 and 1 both gave {found[0]}")


@check("rest.checkpoints", "lists the checkpoints of a run with their paths")
def checkpoints(subject: Subject) -> None:
    """What was saved is there."""
    with _checkpoint(subject, "conform-listed") as (trial, path, _):
        listed = [item.get("tinker_path") for item in _listed(subject, trial.model_id)]
    expect(path in listed, f"{path} was saved, and the list has {listed}")


@check("rest.delete", "deletes a checkpoint")
def delete(subject: Subject) -> None:
    """What was deleted is not listed any more."""
    with _checkpoint(subject, "conform-deleted") as (trial, path, place):
        _there(subject.call("DELETE", place), "DELETE …/checkpoints/…")
        listed = [item.get("tinker_path") for item in _listed(subject, trial.model_id)]
    expect(path not in listed, f"{path} was deleted and is still listed")


@check("rest.publish", "publishes a checkpoint once, and refuses it the second time with 409")
def publish(subject: Subject) -> None:
    """A conflict is an answer, not an accident."""
    with _checkpoint(subject, "conform-published") as (_, _, place):
        _there(subject.call("POST", f"{place}/publish"), "POST …/publish")
        again = subject.call("POST", f"{place}/publish")
        expect(again.status == 409, f"publishing a public checkpoint got {again}")
        _there(subject.call("DELETE", f"{place}/publish"), "DELETE …/publish")


@check("rest.ttl", "lets a checkpoint expire after the time it was given")
def ttl(subject: Subject) -> str:
    """The list says when, and then it is gone."""
    with _checkpoint(subject, "conform-ttl") as (trial, path, place):
        _there(subject.call("PUT", f"{place}/ttl", {"ttl_seconds": 2 * _HOUR}), "PUT …/ttl")
        items = {item.get("tinker_path"): item for item in _listed(subject, trial.model_id)}
        expires = items.get(path, {}).get("expires_at")
        short = subject.call("PUT", f"{place}/ttl", {"ttl_seconds": 1})
        left_over = short.status < 400 and _stays(subject, trial.model_id, path)
    expect(not left_over, f"{path} is still listed {_PATIENCE:g} s after a lifetime of 1 s")
    if not isinstance(expires, str):
        fail(f"expires_at is {expires!r} after ttl_seconds {2 * _HOUR}")
    moment = datetime.fromisoformat(expires)
    left = (moment - datetime.now(UTC)).total_seconds() if moment.tzinfo else 0.0
    expect(_HOUR < left < 3 * _HOUR, f"expires_at {expires} is {left:.0f} s away, not {2 * _HOUR}")
    return "short lifetimes refused" if short.status >= 400 else "gone after its lifetime"


def _stays(subject: Subject, run_id: str, path: str) -> bool:
    """Whether a checkpoint with a lifetime of one second outlives it."""
    clock = subject.workspace.runtime.time
    end = clock() + _PATIENCE
    while clock() < end:
        subject.workspace.submit(asyncio.sleep(0.5)).result()
        if path not in [item.get("tinker_path") for item in _listed(subject, run_id)]:
            return False
    return True


@check("rest.weights_info", "describes a checkpoint by its path")
def weights_info(subject: Subject) -> None:
    """Clients restore a run by it."""
    with _checkpoint(subject, "conform-info") as (_, path, _):
        answer = subject.call("POST", "weights_info", {"tinker_path": path})
        body = _there(answer, "POST weights_info").object()
    expect(body.get("base_model") == subject.base_model, f"{path} is described as {answer}")


@check("rest.archive", "redirects to an archive of sampler weights")
def archive(subject: Subject) -> None:
    """Weights belong to their owner."""
    with subject.trial() as trial:
        path = trial.client.save_weights_for_sampler("conform-archive").result().path
        name = path.rsplit("/", 1)[-1]
        place = f"training_runs/{trial.model_id}/checkpoints/sampler_weights/{name}/archive"
        answer = subject.call("GET", place)
        if answer.status == 404:
            # The first servers had the kind in front of the name only in the id.
            place = f"training_runs/{trial.model_id}/checkpoints/{name}/archive"
            answer = subject.call("GET", place)
        _there(answer, "GET …/archive")
    expect(answer.status in (200, 302), f"GET …/archive: {answer}")


@check("rest.sessions", "lists sessions")
def sessions(subject: Subject) -> None:
    """The current one is there."""
    answer = _there(subject.call("GET", "sessions?limit=20"), "GET sessions")
    listed = answer.object().get("sessions")
    expect(isinstance(listed, list), f"sessions is no list: {answer}")
    expect(subject.session_id() in str(listed), f"the current session is not among {listed}")


@check("rest.user_checkpoints", "lists the checkpoints of all runs")
def user_checkpoints(subject: Subject) -> None:
    """One list for the whole account."""
    with _checkpoint(subject, "conform-account") as (_, path, _):
        answer = _there(subject.call("GET", "checkpoints?limit=50"), "GET checkpoints")
        listed = [item.get("tinker_path") for item in answer.object().get("checkpoints", [])]
    expect(path in listed, f"{path} was saved, and the list has {listed}")
