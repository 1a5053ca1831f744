"""Checks of the door: health, models, sessions, configuration."""

from __future__ import annotations

from tinker_ext.conform.registry import absent, check, expect, fail
from tinker_ext.conform.subject import Subject


@check("service.healthz", "answers healthz with a status")
def healthz(subject: Subject) -> None:
    """A probe of a load balancer works."""
    answer = subject.call("GET", "healthz")
    expect(answer.ok, f"GET healthz: {answer}")
    expect("status" in answer.object(), f"GET healthz has no status: {answer}")


@check("service.capabilities", "lists the models it serves")
def capabilities(subject: Subject) -> str:
    """Clients choose a model from this list."""
    answer = subject.call("GET", "get_server_capabilities")
    expect(answer.ok, f"GET get_server_capabilities: {answer}")
    models = answer.object().get("supported_models")
    if not isinstance(models, list) or not models:
        fail(f"supported_models is {models!r} instead of a list of models")
    names = [model.get("model_name") for model in models]
    expect(all(isinstance(name, str) and name for name in names), f"model names are {names}")
    expect(subject.base_model in names, f"{subject.base_model} trains but is not among {names}")
    return f"{len(names)} models"


@check("service.client_config", "tells clients its limits and flags in client/config")
def client_config(subject: Subject) -> str:
    """The second era chooses wire and chunk sizes by it."""
    answer = subject.call("POST", "client/config", {"sdk_version": "0.36.0"})
    if answer.status in (404, 405):
        absent(f"POST client/config: {answer}")
    expect(answer.ok, f"POST client/config: {answer}")
    flags = answer.object()
    if set(flags) <= {"pjwt_auth_enabled"}:
        absent(f"client/config carries no flags of the second era: {answer}")
    return f"{len(flags)} flags"


@check("service.dynamic_config", "answers client/dynamic_config")
def dynamic_config(subject: Subject) -> None:
    """Clients learn there whether cancelled samples are of interest."""
    answer = subject.call("POST", "client/dynamic_config", {"sdk_version": "0.36.0"})
    if answer.status in (404, 405):
        absent(f"POST client/dynamic_config: {answer}")
    expect(answer.ok, f"POST client/dynamic_config: {answer}")
    answer.object()


@check("service.heartbeat", "accepts heartbeats of a living session")
def heartbeat(subject: Subject) -> None:
    """A session lives as long as its client says so."""
    answer = subject.call("POST", "session_heartbeat", {"session_id": subject.session_id()})
    if answer.status in (404, 405):
        absent(f"POST session_heartbeat: {answer}")
    expect(answer.ok, f"heartbeat of a living session: {answer}")


@check("service.get_info", "describes a model: its base model and tokenizer")
def get_info(subject: Subject) -> str:
    """Clients find the tokenizer this way."""
    with subject.trial() as trial:
        answer = subject.call("POST", "get_info", {"model_id": trial.model_id})
    expect(answer.ok, f"POST get_info: {answer}")
    data = answer.object().get("model_data")
    expect(isinstance(data, dict), f"get_info has no model_data: {answer}")
    assert isinstance(data, dict)
    expect(bool(data.get("model_name")), f"model_data names no model: {answer}")
    return "with tokenizer_id" if data.get("tokenizer_id") else "without tokenizer_id"


@check("service.finish_session", "lets a client end a session")
def finish_session(subject: Subject) -> None:
    """The console shows why a run ended."""
    made = subject.call(
        "POST", "create_session", {"tags": [], "user_metadata": {}, "sdk_version": "0.36.0"}
    )
    expect(made.ok, f"POST create_session: {made}")
    session = made.object().get("session_id")
    body = {"reason": {"type": "success"}, "detail": None}
    answer = subject.call("POST", f"sessions/{session}/finish", body)
    if answer.status in (404, 405):
        absent(f"POST sessions/…/finish: {answer}")
    expect(answer.status < 300, f"POST sessions/…/finish: {answer}")
