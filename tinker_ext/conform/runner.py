"""Runs the checks against one server and gathers what they found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import attrs

from tinker_ext._version import __version__
from tinker_ext.clients.service import ServiceClient
from tinker_ext.config import Config
from tinker_ext.conform.consequences import consequence
from tinker_ext.conform.preflight import CannotJudge, look
from tinker_ext.conform.registry import CHECKS, Absent, Check, Failed, Unjudged
from tinker_ext.conform.report import ABSENT, FAIL, PASS, UNJUDGED, Report, Result
from tinker_ext.conform.subject import Subject
from tinker_ext.errors import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    FeatureMissingError,
    TinkerError,
    UnknownKeyError,
    is_page,
)

# Groups that train, and what in them compares numbers of the model.
_TRAINING = frozenset(
    {"loss", "gradient", "adam", "seq", "future", "score", "checkpoint", "body", "hosted"}
)
_TRAINER_NUMBERS = frozenset(
    {"loss", "gradient", "adam", "score", "checkpoint", "seq.repeat", "seq.reorder"}
    | {"body.first_era", "body.second_era"}
)
_SAMPLER_NUMBERS = frozenset({"sample", "score"})
_NO_NUMBERS = frozenset({"sample.sequence_ids", "sample.max_tokens", "score.prompt_shape"})

EVIDENCE = 1200
"""Characters of evidence that are kept."""

FIRST_SECONDS = 5.0
"""Time to open a session, which needs no model; whoever takes longer has fallen silent. The real
servers of `nox -s interop` take less than 0.1 s."""

PATIENCE = 120.0
"""Seconds any single wait may take; engines that compile need most of it the first time."""


def names() -> list[str]:
    """Names of all checks, in the order they run."""
    return [check.name for check in _chosen(None)]


def run(
    url: str,
    only: Iterable[str] | None = None,
    *,
    api_key: str | None = None,
    base_model: str | None = None,
    patience: float = PATIENCE,
    wire: str | None = None,
    on_result: Callable[[Result], object] | None = None,
    **client: Any,
) -> Report:
    """Examine a server.

    The checks train small models there and save a few checkpoints; models are unloaded again.
    Token ids stay below 256, no batch is empty, and gradients are cleared before a model goes, so
    that a fragile server survives its examination.

    Args:
        url: The server, or `embedded` for the one in this process.
        only: Groups or names of checks, for example `["seq", "loss.sum"]`; all by default.
        api_key: Credential; as `ServiceClient` finds it by default.
        base_model: Model to train; the first the server lists by default.
        patience: Seconds any single wait may take.
        wire: `json` or `proto`; chosen by asking the server by default.
        on_result: Called after each check.
        **client: More arguments of `ServiceClient`.

    Returns:
        The report: every check passed, failed with evidence, or absent on this server.

    Raises:
        UnknownKeyError: `only` names no check.
        ConfigurationError: `url` is not one, or a setting is wrong.
        CannotJudge: The server is down, too slow, not a Tinker server, or takes training bodies
            in neither wire; found out within ten seconds.

    Example:
        >>> from tinker_ext.conform import run
        >>> run("embedded", only=["adam.trajectory"]).summary()
        '1 checks: 1 pass, 0 fail, 0 absent.'
    """
    chosen = _chosen(only)
    config: Config = client.pop("config", None) or Config.from_env(base_url=url)
    config = attrs.evolve(
        config,
        wait_deadline=patience,
        retry_window=min(patience, 30.0),
        dialect_file=None,  # what a server is, is found out here
    )

    def connect() -> ServiceClient:
        return ServiceClient(base_url=url, api_key=api_key, config=config, wire=wire, **client)

    subject = Subject(connect, base_model, patience)
    try:
        if urlsplit(url).scheme in ("http", "https") and "transport" not in client:
            headers = {"X-API-Key": api_key or os.environ.get("TINKER_API_KEY") or "tml-conform"}
            look(url, {**config.extra_headers(), **headers})
        try:
            facts = _facts(subject.service)
        except APIConnectionError as error:
            raise CannotJudge(str(error)) from None
        if any(check.name.partition(".")[0] in _TRAINING for check in chosen):
            _check_wires(subject)
        results = []
        for check in chosen:
            result = _examine(check, subject)
            subject.make_room()
            results.append(result)
            if on_result is not None:
                on_result(result)
        facts |= _later_facts(subject)
    finally:
        subject.close()
    today = datetime.now(UTC).date().isoformat()
    return Report(url, facts, today, __version__, tuple(results))


def _chosen(only: Iterable[str] | None) -> list[Check]:
    from tinker_ext.conform import checks  # noqa: F401 - fills the list

    if only is None:
        return list(CHECKS.values())
    wanted = list(only)
    groups = {check.name.partition(".")[0] for check in CHECKS.values()}
    unknown = [name for name in wanted if name not in groups and name not in CHECKS]
    if unknown:
        known = ", ".join(sorted(groups))
        raise UnknownKeyError(f"No check or group is called {unknown[0]}; groups: {known}.")
    return [
        check
        for check in CHECKS.values()
        if check.name in wanted or check.name.partition(".")[0] in wanted
    ]


def _check_wires(subject: Subject) -> None:
    """Make sure that the server opens a session and takes training bodies in some form.

    Raises:
        CannotJudge: No session is opened in time, or bodies of both wires are refused, with the
            words of each.
    """
    try:
        subject.session_id(FIRST_SECONDS)
        with subject.raw_model() as model:
            refused = model.refusals()
    except APIConnectionError as error:
        # Else every check would wait as long as this one did.
        raise CannotJudge(str(error)) from None
    except TimeoutError:
        raise CannotJudge(
            f"{subject.workspace.server.base_url} answered at first, and then did not answer "
            f"POST api/v1/create_session within {FIRST_SECONDS:g} s."
        ) from None
    except APIStatusError as error:
        if is_page(error.body):
            raise CannotJudge(
                f"A gateway in front of {subject.workspace.server.base_url} refuses what the "
                f"checks need: {error}"
            ) from None
        return
    except (Absent, TinkerError):
        return  # each check will say what is wrong
    except (Failed, Unjudged) as failure:
        raise CannotJudge(
            f"{subject.workspace.server.base_url} makes no model to try things on: {failure}"
        ) from None
    if refused is not None and not all(a.status in (404, 405) for a in refused.values()):
        raise CannotJudge(
            f"{subject.workspace.server.base_url} takes training bodies in neither wire: "
            + "; ".join(f"{name}: {answer}" for name, answer in refused.items())
        )


def _examine(check: Check, subject: Subject) -> Result:
    result = _outcome(check, subject)
    if result.outcome != FAIL:
        return result
    reason = _excuse(check, subject)
    if reason is not None:
        return attrs.evolve(
            result, outcome=UNJUDGED, evidence=f"not judged: {reason}; seen: {result.evidence}"
        )
    return attrs.evolve(result, consequence=consequence(check.name))


def _excuse(check: Check, subject: Subject) -> str | None:
    """Why a failure says nothing about the server: its model is a stand-in for a real one."""
    group = check.name.partition(".")[0]
    if check.name in _NO_NUMBERS:
        return None
    trainer = group in _TRAINER_NUMBERS or check.name in _TRAINER_NUMBERS
    sampler = group in _SAMPLER_NUMBERS
    try:
        reason = subject.stand_in() if trainer else None
        if reason is None and sampler:
            reason = subject.stand_in_sampler()
    except Exception:  # what keeps us from looking is what failed the check
        return None
    return None if reason is None else f"the model here is a stand-in ({reason})"


def _outcome(check: Check, subject: Subject) -> Result:
    started = perf_counter()
    try:
        outcome, evidence = PASS, check.run(subject) or ""
    except Absent as missing:
        outcome, evidence = ABSENT, str(missing)
    except FeatureMissingError as missing:
        outcome, evidence = ABSENT, str(missing)
    except Unjudged as reason:
        outcome, evidence = UNJUDGED, str(reason)
    except Failed as failure:
        outcome, evidence = FAIL, str(failure)
    except APIConnectionError as error:
        # A timeout is an answer that did not come; without a connection there is no evidence.
        slow = isinstance(error, APITimeoutError)
        outcome = FAIL if slow else UNJUDGED
        evidence = f"{type(error).__name__}: {error}"
    except Exception as error:  # whatever a server provokes is evidence, not a crash
        outcome, evidence = FAIL, f"{type(error).__name__}: {error}"
    if len(evidence) > EVIDENCE:  # a traceback, most likely, whose end says most
        evidence = f"{evidence[:200]} … {evidence[200 - EVIDENCE :]}"
    return Result(check.name, check.title, outcome, evidence, perf_counter() - started)


def _facts(service: ServiceClient) -> dict[str, str]:
    dialect = service.dialect
    return {"wire": str(dialect.wire), "era": dialect.era}


def _later_facts(subject: Subject) -> dict[str, str]:
    facts = {"wire": str(subject.dialect.wire)}
    if subject.known_seq_rule is not None:
        facts["seq_ids"] = subject.known_seq_rule
    if subject.known_base_model is not None:
        facts["base_model"] = subject.known_base_model
    return facts
