"""Training clients against the server: order, numbers, both wires, faults, cancellation."""

from __future__ import annotations

import asyncio
import warnings

import numpy as np
import pytest
from in_process import MODEL, WIRES, SteppingLoop, adam, client, datum, run, seqs, server
from scripted import Scripted

from tinker_ext import AdamParams, Datum, ModelInput, ServiceClient, TensorData, TrainingClient
from tinker_ext.config import Config
from tinker_ext.core.workspace import deadline
from tinker_ext.errors import (
    DeadlineExceededError,
    InvalidInputError,
    RequestFailedError,
    TinkerError,
    UnsafeToRetryError,
)


@pytest.mark.parametrize("wire", WIRES)
def test_a_run_on_either_wire(wire):
    """M16 M27: the same calls train, save, load and sample over JSON and over protobuf."""

    async def scenario():
        app = server(era="both")
        async with client(app, wire=wire) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            losses = []
            for _ in range(3):
                step = await training.forward_backward_async([datum()], "cross_entropy")
                await training.optim_step_async(adam())
                losses.append((await step).loss)
            saved = await (await training.save_state_async("s"))
            again = await service.create_training_client_from_state_async(saved.path)
            forward = await (await again.forward_async([datum()], "cross_entropy"))
            last = await (await training.forward_async([datum()], "cross_entropy"))
            assert app.log.violations == []
            assert service.dialect.wire == wire
            return losses, forward.loss, last.loss

    losses, restored, last = run(scenario)
    assert losses == sorted(losses, reverse=True)
    assert restored == pytest.approx(last, rel=1e-6)


@pytest.mark.parametrize("wire", WIRES)
def test_a_batch_that_leaves_in_blocks(wire):
    """M48 M20 M27: a large body arrives whole, also over a transport that wants it in one piece."""

    async def scenario():
        app = server(era="both")
        async with client(app, wire=wire) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            batch = [datum(200, first=n % 7) for n in range(100)]
            one = await (await training.forward_async(batch[:7], "cross_entropy"))
            out = await (await training.forward_async(batch, "cross_entropy"))
            assert app.log.violations == []
            return one, out

    one, out = run(scenario)
    assert len(out.loss_fn_outputs) == 100
    for index, output in enumerate(out.loss_fn_outputs):
        expected = one.loss_fn_outputs[index % 7]["logprobs"]
        np.testing.assert_allclose(output["logprobs"].array, expected.array, rtol=1e-5)


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_sends_what_arrays_held_when_it_was_made(wire):
    """F56: filling a buffer anew changes no request under way, whether it is encoded yet or not."""

    async def scenario():
        targets, weights = np.arange(1, 7), np.ones(6, np.float32)
        app = server(era="both")
        async with client(app, wire=wire, config=Config(chunk_datums=1)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            tokens = ModelInput.from_ints(list(range(6)))
            batch = [
                Datum(tokens, {"target_tokens": targets, "weights": weights}) for _ in range(3)
            ]
            targets[:] = 3
            weights[0] = 0.5
            call = await training.forward_async(batch, "cross_entropy")
            targets[:] = 5
            weights[:] = 0
            sent = await call
            plain = {"target_tokens": [3] * 6, "weights": [0.5] + [1.0] * 5}
            expected = await (
                await training.forward_async([Datum(tokens, plain)] * 3, "cross_entropy")
            )
            return sent, expected

    sent, expected = run(scenario)
    assert sent.loss == pytest.approx(expected.loss)
    for output, other in zip(sent.loss_fn_outputs, expected.loss_fn_outputs, strict=True):
        np.testing.assert_allclose(output["logprobs"].array, other["logprobs"].array)


def test_every_client_of_a_model_has_its_tokenizer():
    """M34: without a name: what the server says about the model is enough."""
    with ServiceClient(base_url="embedded") as service:
        training = service.create_lora_training_client(MODEL, rank=4)
        for each in (training, training.save_weights_and_get_sampling_client()):
            tokenizer = each.get_tokenizer()
            assert tokenizer.decode(tokenizer.encode("hi")) == "hi"


@pytest.mark.filterwarnings("ignore:load_state and load_state_with:FutureWarning")
def test_a_load_says_whether_the_optimizer_is_restored():
    """M16: in either style of the call."""

    async def scenario():
        network = Scripted(server())
        async with client(network) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            saved = (await (await training.save_state_async("s"))).path
            fresh = [await service.create_lora_training_client_async(MODEL, rank=4) for _ in "1234"]
            await fresh[0].load_state(saved)
            await (await fresh[1].load_state_async(saved))
            await fresh[2].load_state_with_optimizer(saved)
            await (await fresh[3].load_state_with_optimizer_async(saved))
            return [sent.body["optimizer"] for sent in network.of("load_weights")]

    assert run(scenario) == [False, False, True, True]


def test_both_wires_give_equal_numbers():
    """M27: outputs over JSON and protobuf are equal to float32."""

    async def scenario(wire):
        app = server(era="both")
        async with client(app, wire=wire) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            batch = [datum(5), datum(3, first=9)]
            out = await (await training.forward_backward_async(batch, "cross_entropy"))
            return out

    json_out, proto_out = (run(lambda w=w: scenario(w)) for w in WIRES)
    assert json_out.metrics == pytest.approx(proto_out.metrics)
    for left, right in zip(json_out.loss_fn_outputs, proto_out.loss_fn_outputs, strict=True):
        assert left.keys() == right.keys()
        for name in left:
            np.testing.assert_array_equal(left[name].to_numpy(), right[name].to_numpy())


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("seq", ["dedupe", "gap", "strict", "ignore"])
def test_numbers_start_at_1_and_count_every_chunk(wire, seq):
    """M17: one counter per client, one number per chunk, chunks of a call contiguous."""

    async def scenario():
        app = server(seq=seq, declared=True, era="both")
        config = Config(chunk_datums=2)
        async with client(app, wire=wire, config=config) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            futures = [
                await training.forward_backward_async(
                    [datum(i + 2) for i in range(5)], "cross_entropy"
                ),
                await training.optim_step_async(adam()),
                await training.save_state_async("a"),
                await training.forward_async([datum()], "cross_entropy"),
                await training.save_weights_for_sampler_async("b"),
            ]
            results = [await future for future in futures]
            assert len(results[0].loss_fn_outputs) == 5
            return seqs(app, training.model_id), [e.op for e in app.log.training()]

    numbers, operations = run(scenario)
    assert numbers == [1, 2, 3, 4, 5, 6, 7]
    assert operations[3:5] == ["optim_step", "save_weights"]


def test_a_split_batch_gives_what_a_whole_one_gives():
    """M11 M12: chunks merge to the result of one request."""

    async def scenario(chunk_datums):
        app = server()
        async with client(app, config=Config(chunk_datums=chunk_datums)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            batch = [datum(i + 2) for i in range(5)]
            out = await (await training.forward_backward_async(batch, "cross_entropy"))
            return out.loss, [o["logprobs"].tolist() for o in out.loss_fn_outputs]

    whole, split = run(lambda: scenario(100)), run(lambda: scenario(2))
    assert whole[0] == pytest.approx(split[0])
    assert whole[1] == split[1]


@pytest.mark.parametrize("seq", ["dedupe", "gap", "strict"])
@pytest.mark.parametrize("kind", ["drop_request", "drop_response", "reset", "status"])
def test_a_lost_answer_trains_once(seq, kind):
    """M20: the same number and body go out again, and the server trains once."""

    async def scenario():
        app = server(seq=seq, declared=True)
        options = {"status": 503} if kind == "status" else {}
        app.faults.add(kind, path="forward_backward", nth=2, **options)
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            outcomes = []
            for _ in range(3):
                step = await training.forward_backward_async([datum()], "cross_entropy")
                update = await training.optim_step_async(adam())
                outcomes += await asyncio.gather(step, update, return_exceptions=True)
            final = await (await training.forward_async([datum()], "cross_entropy"))
            return seqs(app, training.model_id), outcomes, final.loss

    numbers, outcomes, loss = run(scenario)
    assert numbers == [1, 2, 3, 4, 5, 6, 7]
    errors = [each for each in outcomes if isinstance(each, Exception)]
    if seq == "strict" and kind == "drop_response":
        # The server has it, and will not repeat the answer.
        assert [type(e) for e in errors] == [UnsafeToRetryError]
    else:
        assert errors == []
    assert loss == pytest.approx(_fault_free_loss(), rel=1e-6)


def _fault_free_loss():
    async def scenario():
        app = server()
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            for _ in range(3):
                await (await training.forward_backward_async([datum()], "cross_entropy"))
                await (await training.optim_step_async(adam()))
            return (await (await training.forward_async([datum()], "cross_entropy"))).loss

    return run(scenario)


@pytest.mark.parametrize(("kind", "effects"), [("drop_response", 1), ("drop_request", 0)])
def test_a_server_that_ignores_numbers_is_never_asked_twice(kind, effects):
    """M20: on such a server a lost answer is an error that says what may have happened."""

    async def scenario():
        app = server(seq="ignore", declared=True)
        app.faults.add(kind, path="forward_backward", nth=1)
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            future = await training.forward_backward_async([datum()], "cross_entropy")
            with pytest.raises(UnsafeToRetryError) as caught:
                await future
            done = len(app.log.training(training.model_id))
            await (await training.optim_step_async(adam()))  # the client goes on
            return done, str(caught.value), app.log.counts["forward_backward"]

    done, text, requests = run(scenario)
    assert done == effects
    assert requests == 1
    assert "may or may not" in text
    assert "checkpoint" in text


def test_every_await_point_may_be_cancelled():
    """M19: cancel at each loop step; the next call completes, no gap and no duplicate."""

    def attempt(step):
        loop = SteppingLoop()
        app = server(seq="gap", request_latency=0.03, latency=0.05)

        async def main():
            config = Config(chunk_datums=1)
            async with client(app, config=config) as service:
                training = await service.create_lora_training_client_async(MODEL, rank=4)

                async def call():
                    batch = [datum(2), datum(3)]
                    step = await training.forward_backward_async(batch, "cross_entropy")
                    update = await training.optim_step_async(adam())
                    await step
                    await update
                    await training.save_weights_and_get_sampling_client_async()

                loop.cancel_at = step
                loop.victim = asyncio.ensure_future(call())
                (end,) = await asyncio.gather(loop.victim, return_exceptions=True)
                loop.victim = None
                out = await (await training.optim_step_async(adam()))
                assert out.metrics
                return isinstance(end, asyncio.CancelledError), seqs(app, training.model_id)

        try:
            asyncio.set_event_loop(loop)
            return loop.run_until_complete(main())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    cancelled = 0
    step = 1
    while True:
        was_cancelled, numbers = attempt(step)
        assert numbers == list(range(1, len(numbers) + 1)), (step, numbers)
        if not was_cancelled:
            break
        cancelled += 1
        step += 1
    assert cancelled > 20


def test_a_timeout_ends_the_waiting_and_not_the_operation():
    """M19 M22: result_async(timeout) may be repeated; nothing is lost."""

    async def scenario():
        app = server(latency=5.0)
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            future = await training.forward_backward_async([datum()], "cross_entropy")
            with pytest.raises(TimeoutError):
                await future.result_async(timeout=1.0)
            assert (await future.result_async()).loss > 0
            return seqs(app, training.model_id)

    assert run(scenario) == [1]


def test_a_deadline_says_what_was_waited_for():
    """M22 M38: the error names operation, ids, time and queue state."""

    async def scenario():
        from tinker_ext.mock import Pause

        pause = Pause("paused_capacity", seconds=1000.0, reason="no GPU", operations={"optim_step"})
        app = server(pause=pause, long_poll=10.0)
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            seen = []
            service.on_queue_state(lambda op, state, reason: seen.append((op, str(state), reason)))
            with deadline(60.0):
                future = await training.optim_step_async(adam())
            await asyncio.sleep(30.0)
            (pending,) = training.pending()
            with pytest.raises(DeadlineExceededError) as caught:
                await future
            assert service.pending() == []
            return pending, caught.value, seen, asyncio.get_running_loop().time()

    pending, error, seen, now = run(scenario)
    assert pending.operation == "optim_step"
    assert pending.stage == "waiting"
    assert pending.queue_state == "paused_capacity"
    assert pending.reason == "no GPU"
    assert 25 < pending.seconds <= 31
    assert pending.attempt > 1
    assert "no GPU" in str(error)
    assert error.request_id == pending.request_id
    assert ("optim_step", "paused_capacity", "no GPU") in seen
    assert now < 70


def test_arguments_are_checked_at_the_call():
    """M38: mistakes raise before anything is sent, and take no number."""

    async def scenario():
        app = server()
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            short = Datum(ModelInput.from_ints([1, 2, 3]), {"target_tokens": [1, 2]})
            nan = Datum(
                ModelInput.from_ints([1]),
                {"target_tokens": [1], "weights": np.array([np.nan], np.float32)},
            )
            negative = Datum(ModelInput.from_ints([-1]), {"target_tokens": [1]})
            for data, loss in (
                ([], "cross_entropy"),
                ([short], "cross_entropy"),
                ([datum()], "crossentropy"),
                ([datum()], "ppo"),
                ([nan], "cross_entropy"),
                ([negative], "cross_entropy"),
            ):
                with pytest.raises(InvalidInputError):
                    await training.forward_backward_async(data, loss)
            with pytest.raises(InvalidInputError):
                training.optim_step()
            for path in ("weights", "tinker://r/sampler_weights/x"):
                with pytest.raises(InvalidInputError), pytest.warns(FutureWarning):
                    training.load_state(path)
            with pytest.raises(InvalidInputError):
                service.create_sampling_client(model_path="no path")
            await (await training.optim_step_async(adam()))
            return seqs(app, training.model_id)

    assert run(scenario) == [1]


def test_a_failed_request_keeps_message_and_category():
    """M22: a failure on the server arrives as RequestFailedError with its id."""

    async def scenario():
        app = server()
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            with pytest.warns(FutureWarning):
                future = await training.load_state_async("tinker://nobody/weights/none")
            error = (await asyncio.gather(future, return_exceptions=True))[0]
            await (await training.optim_step_async(adam()))
            return error

    error = run(scenario)
    assert isinstance(error, RequestFailedError) or getattr(error, "status_code", 0) in (400, 404)


def test_custom_loss_without_torch_gradients_from_the_function():
    """M15: forward, the user's function, linear backward; the server's loss is kept aside."""

    async def scenario():
        app = server()
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)

            def loss(data, logprobs):
                total = -float(sum(np.asarray(values).sum() for values in logprobs))
                return total, {"mine:sum": 2.0}, [-np.ones_like(np.asarray(v)) for v in logprobs]

            custom = await training.forward_backward_custom_async([datum()], loss)
            update = await training.optim_step_async(adam())
            out = await custom
            await update
            return out, [e.op for e in app.log.training(training.model_id)]

    out, operations = run(scenario)
    assert operations == ["forward", "forward_backward", "optim_step"]
    assert out.metrics["mine:sum"] == 2.0
    assert out.metrics["loss:sum"] == pytest.approx(out.metrics["surrogate_loss:sum"])


def test_sparse_and_shaped_inputs_travel():
    """M8: two-dimensional targets reach the server on both wires."""

    async def scenario(wire):
        app = server(era="both")
        async with client(app, wire=wire) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            targets = np.zeros((4, 6), np.int64)
            targets[:, 0] = [2, 3, 4, 5]
            weights = np.zeros((4, 6), np.float32)
            weights[:, 0] = 1.0
            wide = Datum(
                ModelInput.from_ints([1, 2, 3, 4]),
                {
                    "target_tokens": TensorData.compressed(targets),
                    "weights": TensorData.compressed(weights),
                },
            )
            future = await training.forward_backward_async([wide], "cross_entropy")
            (end,) = await asyncio.gather(future, return_exceptions=True)
            return end if isinstance(end, Exception) else end.loss

    first, second = (run(lambda w=w: scenario(w)) for w in WIRES)
    assert isinstance(first, float), first
    assert first == pytest.approx(second)


def test_compressed_bodies_where_the_server_asks_for_them():
    """M27: proto_compress_fwdbwd makes training bodies zstd, and the numbers stay the same."""

    async def scenario(compress):
        app = server(client_config={"proto_compress_fwdbwd": compress})
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            long = datum(60)
            out = await (await training.forward_backward_async([long] * 4, "cross_entropy"))
            (sent,) = app.log.requests("forward_backward")
            return out.loss, sent.headers.get("content-encoding")

    plain, packed = run(lambda: scenario(False)), run(lambda: scenario(True))
    assert plain[0] == packed[0]
    assert (plain[1], packed[1]) == (None, "zstd")


def test_a_stalled_wait_is_logged_once_a_minute(caplog):
    """M22 M26: the watchdog says what is waited for, at most one line a minute."""

    async def scenario():
        app = server(latency=250.0, long_poll=30.0)
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            caplog.clear()
            await (await training.optim_step_async(adam()))

    with caplog.at_level("WARNING", "tinker_ext"):
        run(scenario)
    lines = [r.getMessage() for r in caplog.records if "not moved" in r.getMessage()]
    assert 2 <= len(lines) <= 5
    assert "optim_step" in lines[0]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("weight", "rate", "failing"),
    [(1e38, 1e-2, "forward_backward"), (1e25, 1e-2, "optim_step"), (1.0, 1e39, "optim_step")],
)
@pytest.mark.filterwarnings("error::RuntimeWarning:tinker_ext.batch")
def test_what_is_not_finite_is_refused_before_it_takes_effect(wire, weight, rate, failing):
    """M40: an error of the user that leaves the model as it was, and no reply with null in it."""

    async def scenario():
        app = server(era="both")
        async with client(app, wire=wire) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            good = datum()
            before = (await (await training.forward_async([good], "cross_entropy"))).loss
            bad = Datum(
                good.model_input,
                {**good.loss_fn_inputs, "weights": np.full(4, weight, np.float32)},
            )

            async def step_on_it():
                await (await training.forward_backward_async([bad], "cross_entropy"))
                await (await training.optim_step_async(adam(rate)))

            with pytest.raises(RequestFailedError, match=r"not finite|was not taken") as caught:
                await step_on_it()
            assert caught.value.category == "user"
            assert caught.value.operation == failing
            after = await (await training.forward_backward_async([good], "cross_entropy"))
            assert after.loss == before
            step = await (await training.optim_step_async(adam()))
            assert all(np.isfinite(list(step.metrics.values())))
            assert app.log.violations == []

    run(scenario)


@pytest.mark.parametrize("name", ["load_state", "load_state_with_optimizer"])
def test_a_load_into_a_client_in_use_warns(name):
    """F34: the hosted service refuses it and SDK 0.36.0 warns; a new client of a state is fine."""

    async def scenario():
        async with client(server(load_first=False)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            path = (await (await training.save_state_async("a"))).path
            with pytest.warns(FutureWarning, match="create_training_client_from_state"):
                await (await getattr(training, f"{name}_async")(path))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                await getattr(
                    service,
                    f"create_training_client_from_state{name.removeprefix('load_state')}_async",
                )(path)

    run(scenario)


@pytest.mark.parametrize("wire", WIRES)
def test_a_loss_that_only_the_server_may_know_is_its_matter(wire):
    """M3: another name than the document's is sent, and the server's refusal says what it has."""

    async def scenario():
        app = server(era="both")
        async with client(app, wire=wire) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            future = await training.forward_backward_async([datum()], "kto")
            with pytest.raises(TinkerError, match="kto") as refused:
                await future
            out = await (await training.forward_backward_async([datum()], "cross_entropy"))
            return refused.value, out.loss

    error, loss = run(scenario)
    assert not isinstance(error, InvalidInputError)
    assert "cross_entropy" in str(error)
    assert loss > 0


def test_a_client_made_by_hand_may_begin_with_any_call(tmp_path):
    """M16: whoever has the id of a model trains it on, whatever the first call is."""
    where = f"embedded:{tmp_path}"
    with ServiceClient(base_url=where) as first, ServiceClient(base_url=where) as second:
        model_id = first.create_lora_training_client("tinker-ext/tiny", rank=4).model_id
        training = TrainingClient(second.holder, model_seq_id=0, model_id=model_id)
        assert training.optim_step(AdamParams()).result(300).metrics
