"""M19, M21, M22: work that is given up, cut off or outlived leaves nothing behind and says so."""

import gc
import os
import threading
import time

import numpy as np
import pytest

from tinker_ext import Datum, ModelInput, RetryConfig, SamplingParams, ServiceClient
from tinker_ext.core.workspace import deadline
from tinker_ext.errors import ClientClosedError, DeadlineExceededError, InvalidInputError
from tinker_ext.mock import Fault, Server, Settings

MODEL = "tinker-ext/tiny"
PROMPT = ModelInput.from_ints([1, 2, 3])
DATUM = Datum(PROMPT, {"target_tokens": [2, 3, 4]})
SHORT, LONG = SamplingParams(max_tokens=1), SamplingParams(max_tokens=400)


@pytest.fixture
def service():
    with ServiceClient(base_url="embedded") as made:
        yield made


def empties(client, but=0):
    """Wait until `pending()` has no more than so many; a client that never gets there hangs."""
    while len(client.pending()) > but:
        time.sleep(0.01)
    return True


def test_samples_that_expire_before_they_leave_give_their_places_back(service):
    """M22: a thousand samples out of time, and the next one is sent as if nothing had been."""
    sampler = service.create_sampling_client(base_model=MODEL)
    with deadline(0.001):
        late = [sampler.sample(PROMPT, 1, SHORT) for _ in range(1000)]
    ends = [future.exception(300) for future in late]
    assert any(isinstance(end, DeadlineExceededError) for end in ends)
    assert empties(sampler)
    assert len(sampler.sample(PROMPT, 1, SHORT).result(300).sequences) == 1


def test_samples_cancelled_at_any_moment_give_their_places_back(service):
    """M19: the places of cancelled samples are free again, whenever the cancel came."""
    sampler = service.create_sampling_client(base_model=MODEL)
    for turn in range(100):
        futures = [sampler.sample(PROMPT, 1, SHORT) for _ in range(3)]
        time.sleep(turn % 5 / 5000)
        for future in futures:
            future.cancel()
    assert empties(sampler)
    assert len(sampler.sample(PROMPT, 1, SHORT).result(300).sequences) == 1


def test_pending_forgets_queued_samples_that_were_cancelled(service):
    """M22: who was given up is not in the list, though nobody took it from the queue yet."""
    one = service.create_sampling_client(
        base_model=MODEL, retry_config=RetryConfig(max_connections=1)
    )
    first, *others = [one.sample(PROMPT, 1, LONG) for _ in range(300)]
    assert all(future.cancel() for future in others)
    assert empties(one, but=1)  # the first may be done by now
    first.cancel()
    assert empties(one)
    assert one.sample(PROMPT, 1, SHORT).result(300).sequences


def test_close_ends_every_sample_of_every_thread():
    """M21: a sample submitted while another thread closes is refused or ends, and never hangs."""
    for _ in range(3):
        service = ServiceClient(base_url="embedded")
        sampler = service.create_sampling_client(base_model=MODEL)
        futures = [[] for _ in range(4)]

        def work(mine, sampler=sampler):
            try:
                while True:
                    mine.append(sampler.sample(PROMPT, 1, SHORT))
                    time.sleep(0.001)
            except ClientClosedError:
                pass

        threads = [threading.Thread(target=work, args=(mine,)) for mine in futures]
        for thread in threads:
            thread.start()
        while not all(len(mine) > 5 for mine in futures):
            time.sleep(0.001)
        service.close("success").result(300)
        for thread in threads:
            thread.join()
        for mine in futures:
            for future in mine:
                future.exception(300)


def test_what_close_cuts_off_says_what_it_was(service):
    """M38: each error has its own operation, attempts and time."""
    sampler = service.create_sampling_client(base_model=MODEL)
    training = service.create_lora_training_client(MODEL, rank=2)
    futures = [sampler.sample(PROMPT, 1, LONG) for _ in range(3)]
    futures.append(training.forward_backward([DATUM] * 64, "cross_entropy"))
    service.close("success").result(300)
    errors = [error for future in futures if (error := future.exception()) is not None]
    assert errors
    assert all(isinstance(error, ClientClosedError) for error in errors)
    assert len({id(error) for error in errors}) == len(errors)
    for error in errors:
        assert error.operation in ("asample", "forward_backward")
        assert error.elapsed is not None
        assert error.operation in str(error)


def test_a_pending_future_keeps_its_client(service):
    """M21: a client that nobody holds ends when its work is done, not before."""
    text = ServiceClient(base_url="embedded").create_sampling_client(base_model=MODEL)
    future = text.sample(PROMPT, 1, SHORT)
    del text
    gc.collect()
    assert future.result(300).sequences

    def trained():
        client = ServiceClient(base_url="embedded").create_lora_training_client(MODEL, rank=2)
        return [client.forward_backward([DATUM], "cross_entropy"), client.save_state("x")]

    step, saved = trained()
    gc.collect()
    assert step.result(300).loss_fn_outputs
    assert saved.result(300).path.endswith("/weights/x")


def test_a_timeout_says_what_goes_on(service):
    """M38: the text of a timeout names the operation, and the operation goes on."""
    sampler = service.create_sampling_client(base_model=MODEL)
    future = sampler.sample(PROMPT, 1, LONG)
    with pytest.raises(TimeoutError, match=r"No result within 0\.001 s\. asample on .*goes on"):
        future.result(0.001)
    with pytest.raises(TimeoutError, match="asample on"):
        future.exception(0.001)
    training = service.create_lora_training_client(MODEL, rank=2)
    step = training.forward_backward([DATUM] * 200, "cross_entropy")
    with pytest.raises(TimeoutError, match="forward_backward on"):
        step.result(0.0001)
    assert len(step.result(300).loss_fn_outputs) == 200
    assert future.result(300).sequences


def test_a_custom_loss_may_not_wait_for_itself(service):
    """M15: a call of the same client inside the loss is refused, where it would never end."""
    training = service.create_lora_training_client(MODEL, rank=2)
    other = service.create_lora_training_client(MODEL, rank=2)

    def loss(data, logprobs):
        with pytest.raises(InvalidInputError, match="its own training client"):
            training.forward([DATUM], "cross_entropy")
        assert other.forward([DATUM], "cross_entropy").result(300)
        return 0.0, {}, [np.ones_like(values) for values in logprobs]

    assert training.forward_backward_custom([DATUM], loss).result(300)
    assert training.forward([DATUM], "cross_entropy").result(300)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_is_told_that_a_pending_future_is_its_parents():
    """M16, M22: no wait without end in a forked process."""
    never = Fault(kind="delay", path="asample", delay=600)
    with Server(Settings(faults=(never,))) as server, ServiceClient(base_url=server.url) as service:
        sampler = service.create_sampling_client(base_model=MODEL)
        _check_orphan(sampler.sample(PROMPT, 1, LONG))


def _check_orphan(future):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, repr(future.exception(300)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        told = lines.read()
    os.waitpid(child, 0)
    assert "ClientClosedError" in told
    assert "belongs to the process that forked this one" in told
    future.cancel()
