"""What a user does on a server, step by step, each step proven by a number or a refusal."""

from __future__ import annotations

import io
import itertools
import math
import tarfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import httpx
import numpy as np

from tinker_ext import (
    AdamParams,
    Datum,
    ModelInput,
    SamplingParams,
    ServiceClient,
    TensorData,
    TrainingClient,
)
from tinker_ext.errors import (
    APIStatusError,
    ConflictError,
    FeatureMissingError,
    InvalidInputError,
    NotFoundError,
    RequestFailedError,
    TinkerError,
    UnsafeToRetryError,
)

LENGTH = 12
RATE = AdamParams(learning_rate=5e-3)
STILL = AdamParams(learning_rate=0.0)


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

    Args:
        url: The server.
        folder: Working directory of the server, for its tokenizer file.
        model: Base model to train.
        posts: Counts how often the server was asked for a path so far.
        say: Called with every finished step.
        older: Whether this is the older package, which lacks more.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        model: str,
        posts: Callable[[str], int],
        say: Callable[[Step], object],
        *,
        older: bool = False,
    ) -> None:
        self.url = url
        self.folder = folder
        self.model = model
        self.posts = posts
        self.say = say
        self.older = older
        self.steps: list[Step] = []
        self.service = ServiceClient(base_url=url, api_key="tml-any-shape-will-do")
        self.client: Any = None
        self.state = ""
        self.sampler_path = ""

    def run(self) -> bool:
        """Do all steps; returns whether all went well."""
        for step in (
            self.dialect,
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
            self.lost_answer,
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
        """M28: the probe finds JSON by itself, with one request."""
        names = [m.model_name for m in self.service.get_server_capabilities().supported_models]
        assert self.model in names, names
        dialect = self.service.dialect
        assert (str(dialect.wire), dialect.era) == ("json", "0.4.1"), dialect
        assert dialect.chosen_by == "probe"
        assert not dialect.resends, "an unknown server must be taken for one that ignores seq ids"
        return f"wire {dialect.wire} by {dialect.chosen_by}, seq ids {dialect.seq}"

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
        """M31: eight pipelined steps of cross_entropy; the loss falls."""
        futures = []
        for _ in range(8):
            futures.append(self.client.forward_backward([datum(1), datum(2)], "cross_entropy"))
            self.client.optim_step(RATE)
        outputs = [future.result() for future in futures]
        losses = [nll(output) for output in outputs]
        assert losses[-1] < losses[0] - 0.5, losses
        assert all(b < a for a, b in itertools.pairwise(losses)), losses
        if not outputs[0].metrics:
            with_reason(InvalidInputError, "reports no loss", lambda: outputs[0].loss)
        return "nll " + " ".join(f"{loss:.3f}" for loss in losses)

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
            self.client.forward_backward([example, example], name, config)
            self.client.optim_step(RATE).result()
            after = logprobs(self.client, 3)
            assert after.mean() > before.mean(), (name, before, after)
            notes.append(f"{name} {before.mean():.3f} → {after.mean():.3f}")
        return "; ".join(notes)

    def custom_loss(self) -> str:
        """M15: a loss in numpy; `loss:sum` is its value although the server sends no metrics."""

        def loss(data: list[Datum], logprobs: list[Any]) -> tuple[Any, ...]:
            arrays = [np.asarray(values, np.float32) for values in logprobs]
            total = float(sum(-(values.sum()) for values in arrays))
            return total, {"mine": total}, [-np.ones_like(values) for values in arrays]

        import importlib.util

        if importlib.util.find_spec("torch") is not None:

            def chosen(data: list[Datum], values: list[Any]) -> tuple[Any, ...]:
                total = -sum(v.sum() for v in values)
                return total, {"mine": float(total)}

        else:
            chosen = loss
        first = self.client.forward_backward_custom([datum(4), datum(5)], chosen).result()
        self.client.optim_step(RATE).result()
        second = self.client.forward_backward_custom([datum(4), datum(5)], chosen).result()
        self.client.optim_step(RATE).result()
        assert math.isfinite(first.loss)
        assert second.loss < first.loss, (first.loss, second.loss)
        assert second.metrics["mine"] == second.loss, second.metrics
        return f"{first.loss:.3f} → {second.loss:.3f}"

    def save_and_load(self) -> str:
        """M31: what was saved comes back exactly."""
        self.state = self.client.save_state("step-1").result().path
        saved = logprobs(self.client, 1)
        self.client.forward_backward([datum(2), datum(3)], "cross_entropy")
        self.client.optim_step(RATE).result()
        moved = logprobs(self.client, 1)
        assert abs(moved - saved).max() > 1e-3
        self.client.load_state(self.state).result()
        again = logprobs(self.client, 1)
        assert abs(again - saved).max() < 1e-6, abs(again - saved).max()
        return self.state

    def restore_with_optimizer(self) -> str:
        """M31: a new client of the saved state goes on with the saved momentum."""
        self.client.load_state_with_optimizer(self.state).result()
        saved = logprobs(self.client, 1)
        wanted = self._one_more(self.client)
        assert abs(wanted - saved).max() > 1e-3
        other = self.service.create_training_client_from_state_with_optimizer(self.state)
        assert abs(logprobs(other, 1) - saved).max() < 1e-5
        # Without the saved moments the step would be learning rate × sign, and end elsewhere.
        apart = float(abs(self._one_more(other) - wanted).max())
        assert apart < 1e-4, apart
        plain = self.service.create_training_client_from_state(self.state)
        assert abs(logprobs(plain, 1) - saved).max() < 1e-5
        return f"restored run {other.model_id} agrees within {apart:.1g}"

    def _one_more(self, client: TrainingClient) -> Any:
        client.forward_backward([datum(6), datum(7)], "cross_entropy")
        client.optim_step(RATE)
        return logprobs(client, 1)

    def samplers(self) -> str:
        """M23, M31: ephemeral, named and base-model sampling, repeatable by seed."""
        prompt = ModelInput.from_ints(tokens(1)[:6])
        params = SamplingParams(max_tokens=8, temperature=0.7, seed=3)
        ephemeral = self.client.save_weights_and_get_sampling_client()
        path = self.client.save_weights_for_sampler("for-sampling").result().path
        self.sampler_path = path
        named = self.service.create_sampling_client(model_path=path)
        base = self.service.create_sampling_client(base_model=self.model)
        first = ephemeral.sample(prompt, 2, params).result()
        again = ephemeral.sample(prompt, 2, params).result()
        same = named.sample(prompt, 2, params).result()
        assert [s.tokens for s in first.sequences] == [s.tokens for s in again.sequences]
        assert [s.tokens for s in first.sequences] == [s.tokens for s in same.sequences]
        other = base.sample(prompt, 2, params).result()
        assert len(other.sequences) == 2
        for sequence in (*first.sequences, *other.sequences):
            assert len(sequence.tokens) <= 8
            assert sequence.logprobs is not None
            assert len(sequence.logprobs) == len(sequence.tokens)
        many = [ephemeral.sample(prompt, 1, params) for _ in range(12)]
        assert all(len(f.result().sequences) == 1 for f in many)
        return f"{path}; {first.sequences[0].tokens}"

    def scores(self) -> str:
        """M23: prompt log-probabilities line up with tokens and agree with the trainer."""
        sampler = self.client.save_weights_and_get_sampling_client()
        ids = tokens(1)
        values = sampler.compute_logprobs(ModelInput.from_ints(ids)).result()
        assert len(values) == len(ids), f"{len(values)} values for {len(ids)} tokens"
        assert values[0] is None
        apart = float(abs(np.asarray(values[1:], float) - logprobs(self.client, 1)).max())
        assert apart < 1e-3, apart
        reply = sampler.sample(
            ModelInput.from_ints(ids), 1, SamplingParams(max_tokens=1), topk_prompt_logprobs=2
        ).result()
        assert reply.topk_prompt_logprobs is None, "this server is known to ignore it"
        return f"{apart:.1g} apart from the trainer"

    def views(self) -> str:
        """M35: runs, checkpoints, weights, samplers, archives."""
        rest = self.service.create_rest_client()
        run_id = self.client.model_id
        runs = rest.list_training_runs(limit=50).result().training_runs
        assert run_id in [run.training_run_id for run in runs]
        assert rest.get_training_run(run_id).result().base_model == self.model
        found = [c.tinker_path for c in rest.list_checkpoints(run_id).result().checkpoints]
        assert self.state in found, found
        info = rest.get_weights_info_by_tinker_path(self.state).result()
        assert info.base_model == self.model
        assert len(list(rest.training_runs(page_size=2))) == len(runs)
        link = rest.get_checkpoint_archive_url_from_tinker_path(self.sampler_path).result().url
        archive = httpx.get(link, timeout=60).content
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            files = sorted(Path(name).name for name in tar.getnames())
        assert "adapter_model.safetensors" in files, files
        return f"{len(runs)} runs, {len(found)} checkpoints, archive of {len(archive)} bytes"

    def missing_features(self) -> str:
        """M28: what the server lacks is called that, at once."""
        rest = self.service.create_rest_client()
        lacking = {
            "sessions": lambda: rest.list_sessions().result(),
            "publishing": lambda: rest.publish_checkpoint_from_tinker_path(self.state).result(),
            "lifetimes": lambda: rest.set_checkpoint_ttl_from_tinker_path(
                self.state, 7200
            ).result(),
            "deletion": lambda: rest.delete_checkpoint_from_tinker_path(self.state).result(),
            "account-wide list": lambda: rest.list_user_checkpoints().result(),
            "export": lambda: self.client.save_weights_external("x").result(),
        }
        for act in lacking.values():
            with_reason(FeatureMissingError, "has no", act)
        after = self.client.forward([datum(1), datum(2)], "cross_entropy").result()
        assert after.loss_fn_outputs
        return ", ".join(lacking)

    def refusals(self) -> str:
        """M22, M24: refusals come as typed errors, at once, and the client goes on."""
        started = time.monotonic()
        # The older package answers a taken name with 500, after which nobody knows.
        taken = UnsafeToRetryError if self.older else ConflictError
        with_reason(taken, "", lambda: self.client.save_state("step-1").result())
        with_reason(
            (NotFoundError, RequestFailedError),
            "",
            lambda: self.client.load_state(self.state.replace("step-1", "never")).result(),
        )
        refused = [datum(1, weights=None, logprobs=np.zeros(12), advantages=np.ones(12))] * 2
        with_reason(
            (APIStatusError, RequestFailedError),
            "dro",
            lambda: self.client.forward_backward(refused, "dro").result(),
        )
        wide = self.service.create_lora_training_client(self.model, rank=4)
        error = with_reason(TinkerError, "rank", lambda: wide.load_state(self.state).result())
        wide.optim_step(STILL).result()
        took = time.monotonic() - started
        assert took < 60, f"refusals took {took:.0f} s"
        logprobs(self.client, 1)
        return f"rank mismatch: {type(error).__name__}"

    def lost_answer(self) -> str:
        """M20: a training post whose answer was lost is never sent again, since it ran."""
        transport = LosesOneAnswer("forward_backward")
        with ServiceClient(base_url=self.url, api_key="tml-x", transport=transport) as service:
            client = service.create_lora_training_client(self.model, rank=8, seed=7)
            before = self.posts("forward_backward")
            error = with_reason(
                TinkerError,
                "",
                lambda: client.forward_backward([datum(1), datum(2)], "cross_entropy").result(),
            )
            client.optim_step(STILL).result()
            sent = self.posts("forward_backward") - before
            assert transport.lost == 1
            assert sent == 1, f"the server saw {sent} forward_backward"
            client.forward_backward([datum(1), datum(2)], "cross_entropy").result()
            client.optim_step(STILL).result()
        return f"{type(error).__name__}: {str(error)[:120]}"

    def close(self) -> str:
        """M21: the session ends, though this server has no endpoint for it."""
        self.client.optim_step(STILL).result()
        self.service.close("success").result(timeout=30)
        return "closed"


class LosesOneAnswer(httpx.AsyncHTTPTransport):
    """Sends everything, and loses the answer to the first request for one path."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.lost = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if not self.lost and request.url.path.endswith(self.path):
            self.lost += 1
            await response.aread()
            await response.aclose()
            raise httpx.ReadError("the connection broke", request=request)
        return response


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


def with_reason(kind: Any, reason: str, act: Callable[[], object]) -> BaseException:
    """Expect an error of a kind whose text holds a reason."""
    found: BaseException | None = None
    try:
        value = act()
    except kind as error:
        found = error
    assert found is not None, f"expected {kind}, got {value!r}"
    assert reason in str(found), found
    return found
