"""Who looks on at a client: its user's callback, run log, budget and telemetry, put in place."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tinker_api import operations as api

from tinker_ext._transport import LoggingObserver
from tinker_ext._transport.events import Callback, EventCallback
from tinker_ext._wire.dialect import Ability
from tinker_ext.auth import is_hosted
from tinker_ext.config import Config
from tinker_ext.core.server import SDK_VERSION, prepare
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import ConfigurationError

if TYPE_CHECKING:
    from tinker_ext.runlog import Budget, Ledger, Prices, RunLog


def is_wanted(argument: bool | None, config: Config, base_url: str) -> bool:
    """Decide whether telemetry is on.

    Args:
        argument: What the user passed to the client, if anything.
        config: Holds TINKER_TELEMETRY and the consent for the hosted service.
        base_url: The server.

    Returns:
        The argument, else TINKER_TELEMETRY, else True only for the hosted service and a user
        who has consented (TINKER_EXT_TELEMETRY_CONSENT).
    """
    if argument is not None:
        return argument
    if config.telemetry is not None:
        return config.telemetry
    return config.telemetry_consent and is_hosted(base_url)


BudgetLike: TypeAlias = "Budget | Mapping[str, float] | int"
PricesLike: TypeAlias = "Prices | str | os.PathLike[str]"
RunLogLike: TypeAlias = "RunLog | str | os.PathLike[str]"


def put_watchers(
    workspace: Workspace,
    *,
    on_event: EventCallback | None = None,
    run_log: RunLogLike | None = None,
    budget: BudgetLike | None = None,
    prices: PricesLike | None = None,
    telemetry: bool | None = None,
) -> None:
    """Let everybody the user asked for look on; nothing is loaded for what was not asked for.

    Args:
        workspace: What to look at.
        on_event: Called with every event.
        run_log: File or directory of the run log.
        budget: Tokens in all, or a `Budget`, or its fields.
        prices: Price table, or its file.
        telemetry: On or off; None leaves it to the configuration.

    Raises:
        ConfigurationError: The budget, the price table or the run log cannot be used.
    """
    observers, watchers = workspace.server.observers, workspace.watchers
    _show_log(workspace.server.config.log_level)
    if logging.getLogger("tinker_ext").isEnabledFor(logging.DEBUG):
        observers.add(LoggingObserver())
    if on_event is not None:
        if not callable(on_event):
            raise ConfigurationError(f"on_event must be a function, not {on_event!r}.")
        observers.add(Callback(on_event))
    if budget is not None or prices is not None or run_log is not None:
        watchers.ledger = _ledger(budget, prices)
        if workspace.member is not None:
            from tinker_ext.fleet import share_ledger

            watchers.ledger = share_ledger(workspace.member, watchers.ledger)
        if run_log is not None:
            _record(workspace, run_log, watchers.ledger)
    if is_wanted(telemetry, workspace.server.config, workspace.server.base_url):
        _report(workspace)


_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO}


def _show_log(level: str | None) -> None:
    """Do what TINKER_LOG asks for: show the log of this package from a level on."""
    number = _LEVELS.get(level or "")
    if number is None:
        return
    log = logging.getLogger("tinker_ext")
    log.setLevel(number)
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
        log.addHandler(handler)


def _ledger(budget: BudgetLike | None, prices: PricesLike | None) -> Ledger:
    from tinker_ext.runlog import Budget, Ledger, Prices

    if isinstance(prices, str | os.PathLike):
        prices = Prices.load(Path(prices))
    if isinstance(budget, int):
        budget = Budget(tokens=budget)
    elif isinstance(budget, Mapping):
        limits: dict[str, Any] = dict(budget)
        try:
            budget = Budget(**limits)
        except TypeError:
            raise ConfigurationError(
                f"A budget has tokens, train, prefill, sample and cost, not {list(limits)}."
            ) from None
    if not isinstance(budget, Budget | None):
        raise ConfigurationError(
            f"budget must be a number of tokens or a Budget, not {type(budget).__name__}."
        )
    if not isinstance(prices, Prices | None):
        raise ConfigurationError(f"prices must be a file or Prices, not {type(prices).__name__}.")
    return Ledger(budget, prices)


def _record(workspace: Workspace, run_log: RunLogLike, ledger: Ledger) -> None:
    from tinker_ext.observe.recording import Recorder
    from tinker_ext.observe.waits import Waits
    from tinker_ext.runlog import RunLog

    if not isinstance(run_log, RunLog | str | os.PathLike):
        raise ConfigurationError(
            f"run_log must be a file, a directory or a RunLog, not {type(run_log).__name__}."
        )
    log = run_log if isinstance(run_log, RunLog) else RunLog(run_log)
    waits = Waits(log, workspace.runtime, workspace.watchers.live, ledger.totals)
    recorder = Recorder(log, ledger, waits)
    workspace.server.observers.add(recorder)
    workspace.closers.append(recorder.aclose)


def _report(workspace: Workspace) -> None:
    from tinker_ext.observe.reporter import Reporter

    server = workspace.server

    async def send(body: Mapping[str, Any]) -> object:
        fields = dict(body)
        dialect = server.dialect
        if dialect is not None and not dialect.can(Ability.PROCESS_IDS):
            fields.pop("process_uuid")  # servers of the first era refuse what they do not know
        return await server.send(api.SEND_TELEMETRY, prepare(api.SEND_TELEMETRY, fields))

    reporter = Reporter(send, workspace.runtime, sdk_version=SDK_VERSION)
    server.observers.add(reporter)

    async def close() -> None:
        with contextlib.suppress(Exception):
            await reporter.aclose()

    workspace.closers.append(close)
