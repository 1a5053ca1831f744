"""What a user does on a server, step by step, each step proven by a number or a refusal."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import tarfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx
import numpy as np
from engines import KEY, Traits

from tinker_ext import (
    AdamParams,
    Datum,
    ModelInput,
    SamplingParams,
    ServiceClient,
    TensorData,
    TrainingClient,
)
from tinker_ext.config import Config
from tinker_ext.errors import (
    APIStatusError,
    FeatureMissingError,
    RequestFailedError,
    TinkerError,
)

LENGTH = 12
RATE = AdamParams(learning_rate=5e-3)
STILL = AdamParams(learning_rate=0.0)
DEADLINE = 90.0
WAIT = 10.0
"""Seconds within which a call ends after its answer was lost, or after a refusal."""

COUNTED_BY = {
    "seed": "the model's numbers, from its seed",
    "state": "the model's numbers, from a saved state",
    "metric": "the server's own step:max",
}
"""How the optimizer steps a model has really taken are known; never by what was sent."""


@attrs.define
class Step:
    """Outcome of one step."""

    name: str
    what: str
    ok: bool
    note: str
    seconds: float


class Scenario:
    """The steps, in order; a failed step is noted and the next one runs.

    The steps are the same on every server. Where servers differ, a step says which way it went; it
    fails when a number is wrong, an error has no type, or a call waits.

    Args:
        url: The server.
        folder: Working directory of the server, for its tokenizer file.
        model: Base model to train.
        traits: What is known about the server.
        say: Called with every finished step.
    """

    def __init__(
        self, url: str, folder: Path, model: str, traits: Traits, say: Callable[[Step], object]
    ) -> None:
        self.url = url
        self.folder = folder
        self.model = model
        self.traits = traits
        self.say = say
        self.steps: list[Step] = []
        self.service = self._service()
        self.client: Any = None
        self.state = ""
        self.sampler_path = ""
        self.trajectory: list[Any] = []
        self.start = ""
        self.taken = 0

    def _service(self, **options: Any) -> ServiceClient:
        """A client that gives up a call after a while, so that one that hangs ends nothing else."""
        config = Config.from_env(base_url=self.url, wait_deadline=DEADLINE)
        return ServiceClient(
            base_url=self.url,
            api_key=KEY,
            config=config,
            default_headers_overrides=dict(self.traits.headers),
            **options,
        )

    def run(self) -> bool:
        """Do all steps; returns whether all went well."""
        for step in (
            self.dialect,
            self.doctor,
            self.create,
            self.train,
            self.policy_losses,
            self.custom_loss,
            self.save_and_load,
            self.restore_with_optimizer,
            self.samplers,
            self.scores,
            self.views,
            self.missing_features,
            self.refusals,
            self.lost_forward_backward,
            self.lost_optim_step,
            self.lost_save,
            self.lost_sample,
            self.close,
        ):
            started = time.monotonic()
            try:
                note, ok = step() or "", True
            except Exception as error:
                note, ok = f"{type(error).__name__}: {error}", False
                traceback.print_exc()
            what = (step.__doc__ or "").partition(": ")[2].rstrip(".")
            took = round(time.monotonic() - started, 2)
            self.steps.append(Step(step.__name__, what, ok, note, took))
            self.say(self.steps[-1])
        return all(step.ok for step in self.steps)

    # -- steps -----------------------------------------------------------------------------

    def dialect(self) -> str:
        """M28: what the server speaks is found out, and an unknown one never trains twice."""
        names = [m.model_name for m in self.service.get_server_capabilities().supported_models]
        assert self.model in names, names
        dialect = self.service.dialect
        return f"wire {dialect.wire}, era {dialect.era} by {dialect.chosen_by}"

    def doctor(self) -> str:
        """M36, M47: `tinker-ext doctor` finds nothing to fix, and says what it found."""
        from tinker_ext.cli.examination import examine

        findings = list(examine(self.url, timeout=DEADLINE, env={"TINKER_API_KEY": KEY}))
        assert [finding for finding in findings if finding.status == "fail"] == [], findings
        told = {finding.name: finding.detail for finding in findings}
        return f"{told['access']}; session {told['session']}; {told['bodies']}"

    def create(self) -> str:
        """M31: a model, its description, its tokenizer."""
        from tinker_ext import tokenizers

        self.client = self.service.create_lora_training_client(self.model, rank=8, seed=7)
        info = self.client.get_info()
        assert info.model_data.model_name == self.model, info
        tokenizer = tokenizers.load(str(self.folder / self.model))
        text = "hello world"
        assert tokenizer.decode(tokenizer.encode(text)) == text
        return str(self.client.model_id)

    def train(self) -> str:
        """M31: eight steps of cross_entropy, queued at once; the loss falls."""
        futures = []
        for _ in range(8):
            futures.append(self.client.forward_backward([datum(1), datum(2)], "cross_entropy"))
            self.client.optim_step(RATE)
        losses = [nll(future.result()) for future in futures]
        assert losses[-1] < losses[0] - self.traits.falls, losses
        if self.traits.model:
            assert all(b < a for a, b in itertools.pairwise(losses)), losses
        wire = str(self.service.dialect.wire)
        assert wire == self.traits.wire, f"{wire} bodies where {self.traits.wire} was expected"
        return f"{wire} bodies; nll " + " ".join(f"{loss:.3f}" for loss in losses)

    def policy_losses(self) -> str:
        """M31: importance_sampling and ppo; positive advantages make the tokens likelier."""
        notes = []
        for name, config in (
            ("importance_sampling", None),
            ("ppo", None),
            ("ppo", {"clip_low_threshold": 0.5, "clip_high_threshold": 1.5}),
        ):
            before = logprobs(self.client, 3)
            example = datum(3, weights=None, logprobs=before, advantages=np.ones(LENGTH))
            try:
                self.client.forward_backward([example, example], name, config).result()
            except (RequestFailedError, APIStatusError) as error:
                notes.append(f"{name} refused ({type(error).__name__})")
                continue
            self.client.optim_step(RATE).result()
            after = logprobs(self.client, 3)
            if self.traits.model:
                assert after.mean() > before.mean(), (name, before, after)
            notes.append(f"{name} {before.mean():.3f} → {after.mean():.3f}")
        assert any("→" in note for note in notes), notes
        return "; ".join(notes)

    def custom_loss(self) -> str:
        """M15: a loss of the user's; its value is `loss:sum`, whatever the server sends."""
        import importlib.util

        if importlib.util.find_spec("torch") is not None:

            def chosen(data: list[Datum], values: list[Any]) -> tuple[Any, ...]:
                total = -sum(v.sum() for v in values)
                return total, {"mine": float(total)}

        else:

            def chosen(data: list[Datum], values: list[Any]) -> tuple[Any, ...]:
                arrays = [np.asarray(v, np.float32) for v in values]
                total = float(sum(-(v.sum()) for v in arrays))
                return total, {"mine": total}, [-np.ones_like(v) for v in arrays]

        losses = []
        for _ in range(2):
            result = self.client.forward_backward_custom([datum(4), datum(5)], chosen).result()
            self.client.optim_step(RATE).result()
            assert math.isfinite(result.loss)
            assert result.metrics["mine"] == result.loss, result.metrics
            losses.append(result.loss)
        if self.traits.model:
            assert losses[1] < losses[0], losses
        return f"{losses[0]:.3f} → {losses[1]:.3f}"

    def save_and_load(self) -> str:
        """M31: what was saved comes back exactly."""
        self.state = self.client.save_state("step-1").result().path
        saved = logprobs(self.client, 1)
        self.client.forward_backward([datum(2), datum(3)], "cross_entropy")
        self.client.optim_step(RATE).result()
        moved = logprobs(self.client, 1)
        self.client.load_state(self.state).result()
        again = logprobs(self.client, 1)
        if self.traits.model:
            assert abs(moved - saved).max() > 1e-3
            assert abs(again - saved).max() < 1e-6, abs(again - saved).max()
        return self.state

    def restore_with_optimizer(self) -> str:
        """M31: a new client of the saved state goes on with the saved momentum."""
        self.client.load_state_with_optimizer(self.state).result()
        saved = logprobs(self.client, 1)
        wanted = self._one_more(self.client)
        other = self.service.create_training_client_from_state_with_optimizer(self.state)
        restored = logprobs(other, 1)
        # Without the saved moments the step would be learning rate × sign, and end elsewhere.
        apart = float(abs(self._one_more(other) - wanted).max())
        plain = self.service.create_training_client_from_state(self.state)
        plainly = logprobs(plain, 1)
        if self.traits.model:
            assert abs(wanted - saved).max() > 1e-3
            assert abs(restored - saved).max() < 1e-5
            assert apart < 1e-4, apart
            assert abs(plainly - saved).max() < 1e-5
        return f"restored run {other.model_id} agrees within {apart:.1g}"

    def _one_more(self, client: TrainingClient) -> Any:
        client.forward_backward([datum(6), datum(7)], "cross_entropy")
        client.optim_step(RATE)
        return logprobs(client, 1)

    def samplers(self) -> str:
        """M23, M31: ephemeral, named and base-model sampling, repeatable by seed."""
        prompt = ModelInput.from_ints(tokens(1)[:6])
        params = SamplingParams(max_tokens=8, temperature=0.7, seed=3)
        # Before the next save: one server keeps the newest sampler weights of a model only.
        ephemeral = self.client.save_weights_and_get_sampling_client()
        first = ephemeral.sample(prompt, 2, params).result()
        again = ephemeral.sample(prompt, 2, params).result()
        path = self.client.save_weights_for_sampler("for-sampling").result().path
        self.sampler_path = path
        # One server cannot tell the base model from a path, another refuses to be told both.
        both = {"base_model": self.model} if self.traits.names_both else {}
        named = self.service.create_sampling_client(model_path=path, **both)
        base = self.service.create_sampling_client(base_model=self.model)
        same = named.sample(prompt, 2, params).result()
        if self.traits.sampler:
            assert [s.tokens for s in first.sequences] == [s.tokens for s in again.sequences]
            assert [s.tokens for s in first.sequences] == [s.tokens for s in same.sequences]
        other = base.sample(prompt, 2, params).result()
        assert len(other.sequences) == 2
        for sequence in (*first.sequences, *other.sequences):
            assert len(sequence.tokens) <= 8
            assert sequence.logprobs is not None
            assert len(sequence.logprobs) == len(sequence.tokens)
        many = [named.sample(prompt, 1, params) for _ in range(12)]
        assert all(len(f.result().sequences) == 1 for f in many)
        return f"{path}; {first.sequences[0].tokens}"

    def scores(self) -> str:
        """M23: prompt log-probabilities line up with tokens and agree with the trainer."""
        sampler = self.client.save_weights_and_get_sampling_client()
        ids = tokens(1)
        try:
            values = sampler.compute_logprobs(ModelInput.from_ints(ids)).result()
        except FeatureMissingError as error:
            if self.traits.sampler:
                raise
            return str(error)
        assert len(values) == len(ids), f"{len(values)} values for {len(ids)} tokens"
        reply = sampler.sample(
            ModelInput.from_ints(ids), 1, SamplingParams(max_tokens=1), topk_prompt_logprobs=2
        ).result()
        topk = "without" if reply.topk_prompt_logprobs is None else "with"
        if not self.traits.sampler:
            return f"{len(values)} values of a stand-in, {topk} top-k"
        assert values[0] is None
        apart = float(abs(np.asarray(values[1:], float) - logprobs(self.client, 1)).max())
        assert apart < 1e-3, apart
        return f"{apart:.1g} apart from the trainer, {topk} top-k"

    def views(self) -> str:
        """M35: runs, checkpoints, weights, archives; what is there works, what is not is named."""
        rest = self.service.create_rest_client()
        run_id = self.client.model_id
        runs = rest.list_training_runs(limit=100).result().training_runs
        assert run_id in [run.training_run_id for run in runs]
        assert rest.get_training_run(run_id).result().base_model == self.model
        found = [c.tinker_path for c in rest.list_checkpoints(run_id).result().checkpoints]
        assert self.state in found, found
        assert len(list(rest.training_runs(page_size=2))) == len(runs)
        info = outcome(lambda: rest.get_weights_info_by_tinker_path(self.state).result())
        archive = outcome(self._archive)
        return f"{len(runs)} runs, {len(found)} checkpoints, info {info}, archive {archive}"

    def _archive(self) -> None:
        rest = self.service.create_rest_client()
        link = rest.get_checkpoint_archive_url_from_tinker_path(self.sampler_path).result().url
        if not link.startswith("http"):
            raise FeatureMissingError(f"the archive is at {link}, which is not a URL")
        content = httpx.get(link, timeout=60).content
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            files = sorted(Path(name).name for name in tar.getnames())
        assert "adapter_model.safetensors" in files, files

    def missing_features(self) -> str:
        """M28: what the server lacks is called that, at once, and the client goes on."""
        rest = self.service.create_rest_client()
        extra = self.client.save_state("for-rest").result().path
        asked = {
            "sessions": lambda: rest.list_sessions().result(),
            "lifetimes": lambda: rest.set_checkpoint_ttl_from_tinker_path(extra, 7200).result(),
            "account-wide list": lambda: rest.list_user_checkpoints().result(),
            "export": lambda: self.client.save_weights_external("x").result(),
            "deletion": lambda: rest.delete_checkpoint_from_tinker_path(extra).result(),
        }
        found = {name: outcome(act) for name, act in asked.items()}
        after = self.client.forward([datum(1), datum(2)], "cross_entropy").result()
        assert after.loss_fn_outputs
        return ", ".join(f"{name}: {what}" for name, what in found.items())

    def refusals(self) -> str:
        """M22, M24: refusals come as typed errors, at once, and the client goes on."""
        dro = [datum(1, weights=None, logprobs=np.zeros(12), advantages=np.ones(12))] * 2
        wide = self.service.create_lora_training_client(self.model, rank=4)
        asked = {
            "a taken name": lambda: self.client.save_state("step-1").result(),
            "a missing checkpoint": lambda: self.client.load_state(
                self.state.replace("step-1", "never")
            ).result(),
            "dro": lambda: self.client.forward_backward(dro, "dro").result(),
            "another rank": lambda: wide.load_state(self.state).result(),
        }
        found = {name: outcome(act) for name, act in asked.items()}
        assert found["a missing checkpoint"] != "works", found
        logprobs(self.client, 1)
        return ", ".join(f"{name}: {what}" for name, what in found.items())

    # -- lost answers ----------------------------------------------------------------------

    def lost_forward_backward(self) -> str:
        """M20, M46: the answer to a forward_backward is lost; it counts once or is known not to."""
        with self._losing("forward_backward") as (transport, _, client):
            first = self._ends(
                transport,
                lambda: client.forward_backward([datum(1), datum(2)], "cross_entropy").result(),
            )
            step = self._ends(transport, lambda: client.optim_step(RATE).result())
            later = self._ends(
                transport,
                lambda: client.forward([datum(1), datum(1)], "cross_entropy").result(),
            )
            assert later == "works", later
            steps = self._steps(client)
            assert steps == (1 if step == "works" else 0) or step != "works", (steps, step)
            assert steps <= 1, steps
        return (
            f"forward_backward {first}, optim_step {step}; {self._told(steps)}; {transport.told()}"
        )

    def lost_optim_step(self) -> str:
        """M20, M46: the answer to an optim_step is lost; one step is taken, never two."""
        with self._losing("optim_step") as (transport, _, client):
            client.forward_backward([datum(1), datum(2)], "cross_entropy").result()
            step = self._ends(transport, lambda: client.optim_step(RATE).result())
            steps = self._steps(client)
            assert steps == 1, f"{steps} steps where one was asked for"
        return f"optim_step {step}; {self._told(steps)}; {transport.told()}"

    def lost_save(self) -> str:
        """M20, M46: the answer to a save is lost; the client goes on."""
        with self._losing("save_weights") as (transport, _, client):
            saved = self._ends(transport, lambda: client.save_state("lost").result())
            client.forward_backward([datum(1), datum(2)], "cross_entropy").result()
            client.optim_step(RATE).result()
            steps = self._steps(client)
            assert steps == 1, f"{steps} steps where one was asked for"
        return f"save {saved}; {self._told(steps)}; {transport.told()}"

    def lost_sample(self) -> str:
        """M22, M46: the answer to a sample is lost; it is drawn again."""
        prompt = ModelInput.from_ints(tokens(1)[:6])
        params = SamplingParams(max_tokens=8, temperature=0.7, seed=3)
        # Engines compile each shape of a sample once, which takes longer than we wait here.
        self.service.create_sampling_client(base_model=self.model).sample(
            prompt, 2, params
        ).result()
        with self._losing("asample") as (transport, service, _):
            sampler = service.create_sampling_client(base_model=self.model)
            drawn = self._ends(transport, lambda: sampler.sample(prompt, 2, params).result())
            assert drawn == "works", drawn
        return f"sample {drawn}; {transport.told()}"

    @contextlib.contextmanager
    def _losing(self, path: str) -> Iterator[tuple[LosesOneAnswer, ServiceClient, TrainingClient]]:
        """A new client of a new model whose first answer for one path is lost."""
        if self.traits.counted_by != "metric" and not self.trajectory:
            self.trajectory = self._reference()
        transport = LosesOneAnswer(path)
        with self._service(transport=transport) as service:
            client = self._fresh(service)
            if self.traits.counted_by == "metric":
                self.taken = self._steps_of_server()
            yield transport, service, client
            assert transport.lost_at is not None, f"no answer for {path} was lost"

    def _fresh(self, service: ServiceClient) -> TrainingClient:
        """A model that stands where the reference began."""
        if self.traits.counted_by == "state":
            return service.create_training_client_from_state_with_optimizer(self.start)
        return service.create_lora_training_client(self.model, rank=8, seed=7)

    def _reference(self) -> list[Any]:
        """Where the same model stands after no, one and two steps that nobody disturbed."""
        if self.traits.counted_by == "state":
            first = self.service.create_lora_training_client(self.model, rank=8, seed=7)
            self.start = first.save_state("start").result().path
        client = self._fresh(self.service)
        found = [logprobs(client, 1)]
        for _ in range(2):
            client.forward_backward([datum(1), datum(2)], "cross_entropy").result()
            client.optim_step(RATE).result()
            found.append(logprobs(client, 1))
        return found

    def _steps_of_server(self) -> int:
        """The server's own count of optimizer steps, of all its models."""
        output = self.client.forward([datum(1), datum(1)], "cross_entropy").result()
        return int(output.metrics["step:max"])

    def _ends(self, transport: LosesOneAnswer, act: Callable[[], object]) -> str:
        """Whether a call works or which error it ends with; no longer than 10 s after the loss."""
        started = time.monotonic()
        found = outcome(act)
        since = time.monotonic() - max(started, transport.lost_at or started)
        assert since < WAIT, f"{found} only {since:.1f} s after the answer was lost"
        transport.longest = max(transport.longest, since)
        return found

    def _steps(self, client: TrainingClient) -> int:
        """How many optimizer steps the model has taken, by `COUNTED_BY`."""
        if self.traits.counted_by == "metric":
            return self._steps_of_server() - self.taken
        here = logprobs(client, 1)
        apart = [float(abs(here - there).max()) for there in self.trajectory]
        assert min(apart) < 1e-3, f"the model is nowhere on its trajectory: {apart}"
        return apart.index(min(apart))

    def _told(self, steps: int) -> str:
        return f"{steps} step by {COUNTED_BY[self.traits.counted_by]}"

    def close(self) -> str:
        """M21: the session ends, also where the server has no endpoint for it."""
        self.client.optim_step(STILL)
        self.service.close("success").result(timeout=30)
        return "closed"


class LosesOneAnswer(httpx.AsyncHTTPTransport):
    """Sends everything, counts what arrives, and loses the answer to one request for one path."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.lost_at: float | None = None
        self.longest = 0.0
        self.delivered: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._late: dict[str, str] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        name = request.url.path.rpartition("/")[2]
        content = await response.aread()
        self._count(name, request, response, content)
        if self.lost_at is None and name == self.path:
            self.lost_at = time.monotonic()
            await response.aclose()
            raise httpx.ReadError("the connection broke", request=request)
        return httpx.Response(response.status_code, headers=response.headers, content=content)

    def _count(
        self, name: str, request: httpx.Request, response: httpx.Response, content: bytes
    ) -> None:
        self.delivered[name] += 1
        if response.is_error:
            self.refused[name] += 1
        with contextlib.suppress(ValueError):
            value = json.loads(content)
            if isinstance(value, dict) and "request_id" in value and response.is_success:
                self._late[value["request_id"]] = name
        if name == "retrieve_future" and response.status_code == 409:
            # Accepted under a used number, and refused when it was asked for.
            asked = json.loads(request.content)["request_id"]
            self.refused[self._late.pop(asked, "")] += 1

    def told(self) -> str:
        """What came of the lost answer, in numbers."""
        sent, refused = self.delivered[self.path], self.refused[self.path]
        return f"{self.path} sent {sent}×, refused {refused}×, longest wait {self.longest:.1f} s"


def outcome(act: Callable[[], object]) -> str:
    """`works`, or the class of the error of ours that it ends with, within `WAIT` seconds."""
    started = time.monotonic()
    try:
        act()
        found = "works"
    except TinkerError as error:
        found = "missing" if isinstance(error, FeatureMissingError) else type(error).__name__
    took = time.monotonic() - started
    assert took < WAIT, f"{found} only after {took:.1f} s"
    return found


def tokens(number: int) -> list[int]:
    """A fixed sequence of token ids below 256, so that no vocabulary is left."""
    return [20 + (37 * number + 53 * i + 11 * i * i) % 200 for i in range(LENGTH + 1)]


def datum(number: int, weights: Any = 1.0, **inputs: Any) -> Datum:
    """Next-token data of one sequence."""
    ids = tokens(number)
    fields: dict[str, Any] = {"target_tokens": TensorData.from_numpy(np.asarray(ids[1:], np.int64))}
    if weights is not None:
        fields["weights"] = TensorData.from_numpy(np.full(LENGTH, weights, np.float32))
    for name, values in inputs.items():
        fields[name] = TensorData.from_numpy(np.asarray(values, np.float32))
    return Datum(ModelInput.from_ints(ids[:-1]), fields)


def logprobs(client: TrainingClient, number: int) -> Any:
    """Log-probabilities of one sequence; always two datums, since engines compile each shape."""
    output = client.forward([datum(number), datum(number)], "cross_entropy").result()
    return np.asarray(output.loss_fn_outputs[0]["logprobs"].to_numpy(), float)


def nll(output: Any) -> float:
    """Mean negative log-likelihood of a result."""
    values = [row["logprobs"].to_numpy() for row in output.loss_fn_outputs]
    return -float(np.concatenate(values).mean())
