"""What of a sampling client travels, by pickle, handle and copy: settings yes, credentials no."""

from __future__ import annotations

import copy
import pickle

import pytest
from in_process import MODEL

from tinker_ext import ModelInput, SamplingClient, SamplingParams, ServiceClient
from tinker_ext.clients.handles import decode_handle
from tinker_ext.config import Config
from tinker_ext.errors import ConfigurationError
from tinker_ext.mock import Server, Settings, embedded

PROMPT = ModelInput.from_ints([1, 2, 3])
PARAMS = SamplingParams(max_tokens=2, seed=1)
SECRETS = {"CF-Access-Client-Secret": "cf-hidden", "X-Gateway": "gw-hidden"}


class Keys(dict):
    """Requests of a server by the credential they carried, which its log does not show."""

    def watch(self, server: Server) -> None:
        respond = server.app.respond

        async def noted(request):
            key = request.headers.get("x-api-key")
            self.setdefault(key, []).append(request)
            return await respond(request)

        server.app.respond = noted

    def samples(self, key: str | None) -> int:
        return sum(request.path.endswith("/asample") for request in self.get(key, ()))


@pytest.fixture(autouse=True)
def _own_credential(monkeypatch):
    monkeypatch.setenv("TINKER_API_KEY", "tml-environment")
    embedded.reset()  # ids are compared, and tests before these may have used some
    yield
    embedded.reset()


@pytest.fixture
def keys():
    return Keys()


@pytest.fixture
def server(keys):
    with Server(Settings()) as running:
        keys.watch(running)
        yield running


def end(*clients):
    for holder in {each._workspace for each in clients}:
        if not holder.closed:
            holder.close("success").result(300)


def sampled(sampler):
    return sampler.sample(PROMPT, 1, PARAMS).result(300).sequences[0].tokens


def test_settings_travel_and_secrets_stay(server, keys):
    """M33: pickle and handle keep what the client was set to; key and headers are not in them."""
    config = Config(wait_deadline=77.0, tags=("t",), retry_attempts=3, api_key="tml-hidden")
    with ServiceClient(
        base_url=server.url, config=config, default_headers_overrides=SECRETS
    ) as service:
        original = service.create_sampling_client(base_model=MODEL)
        data, handle = pickle.dumps(original), original.get_sampler_handle()
        for text in (data, str(decode_handle(handle)).encode()):
            assert b"hidden" not in text
        copies = [pickle.loads(data), SamplingClient.from_sampler_handle(handle)]
        try:
            for each in copies:
                theirs = each._workspace.server.config
                assert (theirs.wait_deadline, theirs.retry_attempts) == (77.0, 3)
                assert theirs.tags == ("t",)
                assert sampled(each) == sampled(original)
            assert copies[0]._workspace is copies[1]._workspace
            assert keys.samples("tml-hidden") == 2
            assert keys.samples("tml-environment") == 2
            for request in keys["tml-environment"]:
                assert "x-gateway" not in request.headers
        finally:
            end(*copies)


def test_other_settings_are_another_connection(server):
    """M25: two services with different settings share nothing through their pickles."""
    with (
        ServiceClient(base_url=server.url, config=Config(wait_deadline=5.0)) as one,
        ServiceClient(base_url=server.url, config=Config(wait_deadline=6.0)) as two,
    ):
        samplers = [each.create_sampling_client(base_model=MODEL) for each in (one, two)]
        copies = [pickle.loads(pickle.dumps(each)) for each in samplers]
        try:
            assert [each._workspace.server.config.wait_deadline for each in copies] == [5.0, 6.0]
        finally:
            end(*copies)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copies_inside_a_process_keep_the_credential(server, keys, duplicate):
    """M16 M33: copy and deepcopy stay on the same connection, each with its own key."""
    with (
        ServiceClient(base_url=server.url, api_key="tml-one") as one,
        ServiceClient(base_url=server.url, api_key="tml-two") as two,
    ):
        for service, key in ((one, "tml-one"), (two, "tml-two")):
            sampler = service.create_sampling_client(base_model=MODEL)
            again = duplicate({"sampler": [sampler]})["sampler"][0]
            assert again._workspace is sampler._workspace
            assert sampled(again) == sampled(sampler)
            assert keys.samples(key) == 2
        assert keys.samples("tml-environment") == 0


def test_handles_with_keys_of_their_own_share_nothing(server, keys):
    """M25 M33: a revived client uses the key it was given, beside another of the same handle."""
    with ServiceClient(base_url=server.url, api_key="tml-original") as service:
        handle = service.create_sampling_client(base_model=MODEL).get_sampler_handle()
        one, two, twin = (
            SamplingClient.from_sampler_handle(handle, api_key=key)
            for key in ("tml-one", "tml-two", "tml-one")
        )
        try:
            links = [each._workspace.server for each in (one, two)]
            assert one._workspace is twin._workspace
            assert one._workspace is not two._workspace
            assert links[0].fingerprint != links[1].fingerprint
            for each in (one, two, two, twin, twin):
                sampled(each)
            assert links[0].connection is not links[1].connection
            assert (keys.samples("tml-one"), keys.samples("tml-two")) == (3, 2)
            assert keys.samples("tml-environment") == keys.samples("tml-original") == 0
        finally:
            end(one, two)


def test_a_changed_environment_is_another_key(server, keys, monkeypatch):
    """M33: without an argument the key is the one the process has when the client is made."""
    with ServiceClient(base_url=server.url, api_key="tml-original") as service:
        handle = service.create_sampling_client(base_model=MODEL).get_sampler_handle()
        copies = []
        for key in ("tml-first", "tml-second"):
            monkeypatch.setenv("TINKER_API_KEY", key)
            copies.append(SamplingClient.from_sampler_handle(handle))
        try:
            for each in copies:
                sampled(each)
            assert keys.samples("tml-first") == keys.samples("tml-second") == 1
        finally:
            end(*copies)


def test_an_embedded_server_is_known_by_more_than_its_ids():
    """M23 M40: ids repeat in every process; a sampler of another one is never taken for ours."""
    with ServiceClient(base_url="embedded") as service:
        base = service.create_sampling_client(base_model=MODEL)
        training = service.create_lora_training_client(MODEL, rank=4)
        trained = training.save_weights_and_get_sampling_client()
        expected = sampled(base)
        handles = [each.get_sampler_handle() for each in (base, trained)]
        here = [SamplingClient.from_sampler_handle(handle) for handle in handles]
        assert [each._sampling_session_id for each in here] == [
            base._sampling_session_id,
            trained._sampling_session_id,
        ]
        end(*here)
    embedded.reset()  # as in a process of its own
    with ServiceClient(base_url="embedded") as service:
        namesake = service.create_sampling_client(base_model=MODEL)
        assert namesake._sampling_session_id == base._sampling_session_id
        again, lost = (SamplingClient.from_sampler_handle(handle) for handle in handles)
        try:
            assert again._sampling_session_id is None
            assert sampled(again) == expected
            with pytest.raises(ConfigurationError, match="one process only") as caught:
                sampled(lost)
            assert "tinker-ext serve" in caught.value.hint
        finally:
            end(again, lost)
