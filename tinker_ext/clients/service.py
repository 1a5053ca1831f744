"""`ServiceClient`: the door to one server; makes training and sampling clients."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Union

import attrs
from tinker_api import operations as api
from tinker_api.operations import Operation

from tinker_ext import forks, paths, types
from tinker_ext._later import Later
from tinker_ext._wire.dialect import Ability, Dialect
from tinker_ext._wire.json_codec import check_json
from tinker_ext.auth import is_hosted
from tinker_ext.clients import endings, models
from tinker_ext.clients.arguments import (
    async_form,
    awaited,
    blocking,
    check_access_token,
    check_base_model,
    check_metadata,
    check_optimizer,
    check_state_path,
    warn,
)
from tinker_ext.clients.handles import trust
from tinker_ext.clients.losses import LossHandle, LossRegistry, PerDatumLossFn
from tinker_ext.clients.models import Resumption, SavedState
from tinker_ext.clients.opening import concealed, older_arguments, open_workspace, stands_in
from tinker_ext.clients.rest import RestClient
from tinker_ext.clients.sampling import SamplingClient
from tinker_ext.clients.training import TrainingClient
from tinker_ext.config import Config
from tinker_ext.core.future import APIFuture, AwaitableConcurrentFuture
from tinker_ext.core.in_flight import PendingOperation, QueueObserver
from tinker_ext.core.retry_config import RetryConfig
from tinker_ext.core.server import SDK_VERSION, prepare
from tinker_ext.core.session import FINISH_REASONS, SessionOptions
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import ConfigurationError, InvalidInputError
from tinker_ext.journal import Journal
from tinker_ext.ledger import Budget, Ledger, Prices
from tinker_ext.telemetry import Callback, EventCallback, LoggingObserver
from tinker_ext.types.optimizer import OptimizerConfig
from tinker_ext.types.records import check_type

if TYPE_CHECKING:
    from tinker_ext import runlog
else:
    runlog = Later("tinker_ext.runlog")


BudgetLike: TypeAlias = Budget | Mapping[str, float] | int
PricesLike: TypeAlias = Prices | str | os.PathLike[str]
RunLogLike: TypeAlias = Union["runlog.RunLog", str, os.PathLike[str]]


def _put_watchers(
    workspace: Workspace,
    on_event: EventCallback | None,
    run_log: RunLogLike | None,
    budget: BudgetLike | None,
    prices: PricesLike | None,
    telemetry: bool | None,
) -> None:
    """Add the observers that the user asked for; nothing is loaded for what was not asked for."""
    server, watchers = workspace.server, workspace.watchers
    _show_log(server.config.log_level)
    if logging.getLogger("tinker_ext").isEnabledFor(logging.DEBUG):
        server.observers.add(LoggingObserver())
    if on_event is not None:
        if not callable(on_event):
            raise ConfigurationError(f"on_event must be a function, not {on_event!r}.")
        server.observers.add(Callback(on_event))
    if budget is not None or prices is not None or run_log is not None:
        watchers.ledger = _ledger(budget, prices)
        if workspace.member is not None:
            watchers.ledger = workspace.member.share(watchers.ledger)
        if run_log is not None:
            _write_run_log(workspace, run_log, watchers.ledger)
    if is_wanted(telemetry, server.config, server.base_url):
        _send_telemetry(workspace)


def is_wanted(argument: bool | None, config: Config, base_url: str) -> bool:
    """Whether telemetry is on: the argument, else TINKER_TELEMETRY, else consent for the hosted."""
    if argument is None:
        argument = config.telemetry
    if argument is None:
        return config.telemetry_consent and is_hosted(base_url)
    if not isinstance(argument, bool):
        raise ConfigurationError(f"telemetry must be True, False or None, not {argument!r}.")
    return argument


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
    tokens = "a number of tokens or a Budget"
    check_type("budget", budget, Budget | None, tokens, ConfigurationError)
    check_type("prices", prices, Prices | None, "a file or Prices", ConfigurationError)
    return Ledger(budget, prices)


def _write_run_log(workspace: Workspace, run_log: RunLogLike, ledger: Ledger) -> None:
    from tinker_ext.observe.run_log import RunLogObserver

    kinds, wanted = runlog.RunLog | str | os.PathLike, "a file, a directory or a RunLog"
    check_type("run_log", run_log, kinds, wanted, ConfigurationError)
    log = run_log if isinstance(run_log, runlog.RunLog) else runlog.RunLog(run_log)
    writer = RunLogObserver(log, ledger, workspace.runtime, workspace.watchers.live)
    workspace.server.observers.add(writer)
    workspace.closers.append(writer.aclose)


def _send_telemetry(workspace: Workspace) -> None:
    from tinker_ext.observe.reporter import Reporter

    server = workspace.server

    async def send(body: Mapping[str, Any]) -> object:
        fields = dict(body)
        dialect = server.dialect
        if dialect is not None and Ability.PROCESS_IDS not in dialect.abilities:
            fields.pop("process_uuid")  # servers of the first era refuse what they do not know
        return await server.send(api.SEND_TELEMETRY, prepare(api.SEND_TELEMETRY, fields))

    reporter = Reporter(send, workspace.runtime, sdk_version=SDK_VERSION)
    server.observers.add(reporter)
    workspace.closers.append(reporter.aclose)


class ServiceClient(forks.OfThisProcess):
    """Talks to one server with one credential; nothing is sent before the first call needs it.

    Use it as a context manager, or call `close`, to end the session on the server. A wrong argument
    of a method raises `InvalidInputError` at the call, before anything is sent.

    Args:
        user_metadata: Kept with the session.
        project_id: Project of the session; TINKER_PROJECT_ID by default.
        display_name: Name of the session in the console.
        base_url: The server, `embedded` for the one in this process, or `embedded:FOLDER` for one
            that keeps its state in a folder, so that a `Run` survives its process. By default
            TINKER_BASE_URL, then the hosted service when there is a key, else `embedded`, with a
            warning.
        api_key: Credential; TINKER_API_KEY by default.
        default_headers_overrides: Extra headers of every request.
        config: Every other setting; from the environment by default.
        wire: `json` or `proto`; chosen by asking the server by default.
        fleet: Folder, or `redis://` URL, over which processes share the sampling limit, back-off,
            budget and a view of themselves; TINKER_EXT_FLEET by default.
        on_event: Called with every event (`tinker_ext.telemetry`), usually on the core's thread.
        run_log: File or directory of the run log, `metrics.jsonl` (`tinker_ext.runlog`).
        budget: Most tokens this client may use, or a `tinker_ext.runlog.Budget`; a call that
            could exceed it raises `BudgetExceededError` before anything is sent.
        prices: Price table (a JSON or TOML file), for a budget of money and costs in the log.
        telemetry: Whether the server is told about errors of this client; TINKER_TELEMETRY by
            default, and off without either.
        journal: File that records the training of one model, before and after each
            effect, so that `resume` can go on after a crash. `tinker_ext.Run` does both.
        **kwargs: `transport` (an httpx transport that replaces ours), `observer` (told about
            every attempt), `rng`; and the arguments of older clients, which are deprecated.

    Raises:
        ConfigurationError: An argument is wrong: a base URL that is not one or holds a password, an
            unknown wire, a header or key with a line break, a budget that is not one.
        TinkerError: The hosted service is meant and no usable credential was found.

    Example:
        >>> from tinker_ext import ServiceClient
        >>> with ServiceClient(base_url="embedded") as service:
        ...     names = [m.model_name for m in service.get_server_capabilities().supported_models]
        >>> "tinker-ext/tiny" in names
        True
    """

    def __init__(
        self,
        user_metadata: dict[str, str] | None = None,
        project_id: str | None = None,
        *,
        display_name: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        default_headers_overrides: Mapping[str, str] | None = None,
        config: Config | None = None,
        wire: str | None = None,
        fleet: str | os.PathLike[str] | None = None,
        on_event: EventCallback | None = None,
        run_log: RunLogLike | None = None,
        budget: BudgetLike | None = None,
        prices: PricesLike | None = None,
        telemetry: bool | None = None,
        journal: str | os.PathLike[str] | Journal | None = None,
        **kwargs: Any,
    ) -> None:
        api_key = concealed(api_key)
        headers, config = older_arguments(kwargs, default_headers_overrides, config)
        self._workspace = open_workspace(
            base_url=base_url,
            api_key=api_key,
            headers=headers,
            options=SessionOptions(user_metadata, project_id, display_name),
            config=config,
            wire=wire,
            fleet=fleet,
            http_client=kwargs.get("http_client"),
            transport=kwargs.get("transport"),
            observer=kwargs.get("observer"),
            runtime=kwargs.get("_runtime"),
            rng=kwargs.get("rng"),
        )
        try:
            _put_watchers(self._workspace, on_event, run_log, budget, prices, telemetry)
            if journal is not None:
                opened = journal if isinstance(journal, Journal) else Journal(journal)
                self._workspace.follow(opened)
        except BaseException:
            self._workspace.retire_unused()  # else it stays a member of its fleet
            raise
        self._losses = LossRegistry(self._workspace)
        endings.watch(self._workspace)
        self._abandoned = endings.end_with(self, self._workspace)
        trust(self._workspace.server.base_url)

    def __repr__(self) -> str:
        return f"ServiceClient(base_url={self._workspace.server.base_url!r})"

    def _repr_html_(self) -> str:
        from tinker_ext import displays

        workspace, ledger = self._workspace, self._workspace.watchers.ledger
        facts = [
            ("server", workspace.server.base_url),
            ("session", workspace.session.session_id),
            ("tokens used", None if ledger is None else f"{ledger.used.total:,}"),
            ("spent", None if ledger is None else ledger.cost),
        ]
        return displays.card("ServiceClient", facts, displays.pending(self.pending()))

    def get_telemetry(self) -> None:
        """Nothing: telemetry is an observer of the connection here."""

    # -- the server ------------------------------------------------------------------------

    @property
    def dialect(self) -> Dialect:
        """What the server speaks and lacks; asks it when nothing was sent yet."""
        return self._workspace.dialect()

    @property
    def holder(self) -> Workspace:
        """What this client shares with the clients it makes."""
        return self._workspace

    @property
    def session_id(self) -> str | None:
        """Id of the session; None before the first call that needs one."""
        return self._workspace.session.session_id

    @blocking
    def get_server_capabilities(self) -> Future[types.GetServerCapabilitiesResponse]:
        """The models the server offers."""
        return self._workspace.submit(self._workspace.call(api.GET_SERVER_CAPABILITIES, {}))

    get_server_capabilities_async = async_form(get_server_capabilities)

    def call(
        self, operation: str | Operation[Any, Any], /, **arguments: Any
    ) -> AwaitableConcurrentFuture[Any]:
        """Call any operation of the API, with this client's credential, lanes and retries.

        Args:
            operation: An operationId of the document, such as `list_training_runs`, or a row of
                `tinker_api.operations`.
            **arguments: Path, query and body of the operation by name.

        Returns:
            Future of the reply, a record of `tinker_api.models`; for an operation that answers
            with a future, of its result.

        Raises:
            InvalidInputError: There is no such operation, or an argument does not fit the
                document: an unknown name, a wrong type, a value that is not in a closed list.
                Nothing was sent.

        Example:
            >>> from tinker_ext import ServiceClient
            >>> with ServiceClient(base_url="embedded") as service:
            ...     print(service.call("health_check").result().status)
            ok
        """
        op = _row(operation)
        prepare(op, arguments)
        work = self._workspace.call(op, arguments, self._workspace.seconds())
        return AwaitableConcurrentFuture(self._workspace.submit(work))

    call_async = awaited(call)

    def get_console_url(self) -> str:
        """Page of the session in the web console, or of all sessions before there is one."""
        session_id = self.session_id
        return paths.sessions_url() if session_id is None else paths.session_url(session_id)

    @property
    def ledger(self) -> Ledger | None:
        """Tokens and money used; None unless a run log, a budget or prices were given."""
        return self._workspace.watchers.ledger

    def pending(self) -> list[PendingOperation]:
        """Everything in flight or queued: what, since when, which attempt, and why it waits."""
        return self._workspace.pending()

    def on_queue_state(self, observer: QueueObserver) -> Callable[[], None]:
        """Call `observer(operation, state, reason)` whenever the server reports a queue state.

        Returns:
            A function that stops it.
        """
        observers = self._workspace.server.in_flight.observers
        observers.append(observer)
        return lambda: observers.remove(observer)

    # -- training clients ------------------------------------------------------------------

    @blocking
    def create_lora_training_client(
        self,
        base_model: str,
        rank: int = 32,
        seed: int | None = None,
        train_mlp: bool = True,
        train_attn: bool = True,
        train_unembed: bool = True,
        user_metadata: dict[str, str] | None = None,
        optimizer: OptimizerConfig | None = None,
    ) -> Future[TrainingClient]:
        """Make a new LoRA adapter of a base model and a client that trains it.

        Args:
            base_model: Name of the model; `get_server_capabilities` lists them.
            rank: Rank of the adapter.
            seed: Seed of its initial weights; None lets the server choose.
            train_mlp: Whether the MLP layers get an adapter.
            train_attn: Whether the attention layers do.
            train_unembed: Whether the output layer does.
            user_metadata: Kept with the run.
            optimizer: Optimizer family; AdamW by default.
        """
        where = train_mlp, train_attn, train_unembed
        model = models.new_model(base_model, rank, seed, *where, user_metadata, optimizer)
        return self._workspace.submit(models.create(self._workspace, model))

    create_lora_training_client_async = async_form(create_lora_training_client)

    @blocking
    def create_training_client_from_state(
        self,
        path: str,
        base_model: str | None = None,
        user_metadata: dict[str, str] | None = None,
        weights_access_token: str | None = None,
        optimizer: OptimizerConfig | None = None,
    ) -> Future[TrainingClient]:
        """Continue from a saved state with a new optimizer.

        Args:
            path: What `save_state` returned.
            base_model: Name of the base model; by default the server is asked.
            user_metadata: Kept with the new run.
            weights_access_token: Token for weights of somebody else.
            optimizer: Optimizer family; that of the saved run by default.
        """
        token = weights_access_token
        state = SavedState(path, base_model, user_metadata, token, optimizer, with_optimizer=False)
        return self._from_state(state)

    create_training_client_from_state_async = async_form(create_training_client_from_state)

    @blocking
    def create_training_client_from_state_with_optimizer(
        self,
        path: str,
        base_model: str | None = None,
        user_metadata: dict[str, str] | None = None,
        weights_access_token: str | None = None,
    ) -> Future[TrainingClient]:
        """Continue from a saved state, its optimizer included."""
        return self._from_state(SavedState(path, base_model, user_metadata, weights_access_token))

    create_training_client_from_state_with_optimizer_async = async_form(
        create_training_client_from_state_with_optimizer
    )

    def _from_state(self, state: SavedState) -> Future[TrainingClient]:
        check_state_path(state.path)
        second: object = state.base_model
        if isinstance(second, dict):
            # The second argument was the metadata in the first era.
            metadata = state.user_metadata or second
            state = attrs.evolve(state, base_model=None, user_metadata=metadata)
        if state.base_model is not None:
            check_base_model(state.base_model)
        check_metadata(state.user_metadata)
        check_optimizer(state.optimizer)
        check_access_token(state.weights_access_token)
        return self._workspace.submit(models.load(self._workspace, state))

    @blocking
    def resume(
        self, *, reattach: bool = True, user_metadata: dict[str, str] | None = None
    ) -> Future[Resumption | None]:
        """Go on with the run that the journal tells about.

        The model on the server is used again where the server still has it; requests that were
        accepted are not sent again, and the one in doubt is sent with its old number. Otherwise
        the last checkpoint is loaded, with its optimizer, into a new model.

        Args:
            reattach: False goes back to the last checkpoint in any case.
            user_metadata: Kept with the new model, if one is made.

        Returns:
            The training client and the step to go on with; None when there is no run yet.
        """
        check_metadata(user_metadata)
        work = models.resume(self._workspace, reattach, user_metadata)
        return self._workspace.submit(work)

    resume_async = async_form(resume)

    def complete_step(self, step: int, notes: Mapping[str, Any] | None = None) -> None:
        """Wait for the training calls of a step and record in the journal that it is complete.

        Args:
            step: Its number, counted from 0.
            notes: JSON values to get back from `resume`.

        Raises:
            InvalidInputError: A note has no JSON form; or no run is recorded.
        """
        if notes is not None:
            check_json("notes", dict(notes))
        self._workspace.submit(models.complete_step(self._workspace, step, notes)).result()

    # -- sampling clients ------------------------------------------------------------------

    @blocking
    def create_sampling_client(
        self,
        model_path: str | None = None,
        base_model: str | None = None,
        retry_config: RetryConfig | None = None,
        record_stability_info: bool = False,
    ) -> APIFuture[SamplingClient]:
        """Make a client that samples from saved weights or a base model.

        Args:
            model_path: What `save_weights_for_sampler` returned.
            base_model: Name of a base model; one of the two is needed.
            retry_config: How the client retries.
            record_stability_info: Ask the server to record stability information.
        """
        return SamplingClient.create(
            self._workspace,
            model_path=model_path,
            base_model=base_model,
            retry_config=retry_config,
            record_stability_info=record_stability_info,
        )

    create_sampling_client_async = async_form(create_sampling_client)

    # -- other -----------------------------------------------------------------------------

    def create_rest_client(self) -> RestClient:
        """A client for runs, checkpoints and sessions on the same server.

        Under compat it warns as the official SDK does, which wants `RestClient()` instead.
        """
        if stands_in():
            warn(
                "create_rest_client() is deprecated in the official SDK; make a RestClient() with "
                "the same base_url and api_key instead.",
                FutureWarning,
            )
        return RestClient(self._workspace)

    def create_custom_loss(
        self, fn: PerDatumLossFn, input_ranks: Mapping[str, int]
    ) -> APIFuture[LossHandle]:
        """Trace a per-datum loss and make a handle for `forward_backward_custom`.

        The traced loss goes to servers that run custom losses; elsewhere it runs on this side.

        Args:
            fn: (logprobs, *loss inputs) → (scalar, metrics), for one datum, in torch. Its
                parameters are named like the loss inputs; metrics like `custom/<name>:mean`.
            input_ranks: Rank (0, 1 or 2) of every parameter.

        Raises:
            InvalidInputError: The function breaks a rule, or this session has the same loss.
            ImportError: torch is not installed.
        """
        handle = self._losses.reserve(fn, input_ranks)
        return AwaitableConcurrentFuture(self._workspace.submit(self._losses.finish(handle)))

    def copy_weights(
        self,
        path: str,
        *,
        project_id: str | None = None,
        ttl_seconds: int | None = None,
        weights_access_token: str | None = None,
    ) -> AwaitableConcurrentFuture[str]:
        """Copy weights into a project; the future gives the new path.

        Args:
            path: What `save_state` or `save_weights_for_sampler` returned.
            project_id: Where to; the project of this client, or TINKER_PROJECT_ID, by default.
            ttl_seconds: Lifetime of the copy; None keeps it.
            weights_access_token: Token for weights of somebody else.

        Raises:
            InvalidInputError: An argument is wrong, or no project is given; nothing was sent.
        """
        project = project_id or self._workspace.session.project_id
        return RestClient(self._workspace).copy_weights(
            path, project, ttl_seconds=ttl_seconds, weights_access_token=weights_access_token
        )

    # -- end -------------------------------------------------------------------------------

    def close(
        self, status: endings.Status = "success", detail: str | None = None
    ) -> AwaitableConcurrentFuture[None]:
        """End the session and everything under way; the client cannot be used afterwards.

        Args:
            status: Why: `success`, `errored` or `interrupted`.
            detail: More about it, for the console.

        Returns:
            Future that is done when nothing is left running.
        """
        if status not in FINISH_REASONS:
            raise InvalidInputError(f"status must be one of {FINISH_REASONS}, not {status!r}.")
        self._abandoned.detach()
        return endings.Closing(self._workspace, status, detail)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: object, exc_value: BaseException | None, traceback: object
    ) -> None:
        self.close(endings.status_of(exc_value), endings.detail_of(exc_value)).result()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: object, exc_value: BaseException | None, traceback: object
    ) -> None:
        await self.close(endings.status_of(exc_value), endings.detail_of(exc_value))


def _row(operation: str | Operation[Any, Any]) -> Operation[Any, Any]:
    """The row of an operationId."""
    if isinstance(operation, Operation):
        return operation
    found = api.OPERATIONS.get(operation) if isinstance(operation, str) else None
    if found is None:
        close = get_close_matches(str(operation), api.OPERATIONS, 3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise InvalidInputError(
            f"There is no operation {operation!r}{hint} (all: {', '.join(sorted(api.OPERATIONS))})"
        )
    return found
