"""M40: faults on order, by rule, seed and API; in process they raise, on a port they cut."""

import asyncio
import re

import httpx
import numpy as np
import pytest
from raw_tinker import Raw

from tinker_ext.mock import Fault, FaultPlan, Server, Settings

CUTS = {
    "drop_request": 0,
    "reset": 0,
    "hang": 0,
    "drop_response": 1,
    "truncate": 1,
}


async def struck(raw, log, kind, **options):
    """Train once with a fault on the POST; returns the reply (or error) and the effects."""
    model = await raw.model()
    options.setdefault("delay", 0.01)
    raw_faults = (raw.app or raw.server.app).faults
    raw_faults.add(kind, path="forward_backward", nth=1, **options)
    try:
        answer = await raw.send("POST", "forward_backward", raw.training_body(model))
    except httpx.TransportError as error:
        answer = error
    return answer, log.training(model)


@pytest.fixture(params=["in process", "on a port"])
def caller(request):
    """Run a scenario against the app itself and against a socket."""

    def call(scenario):
        async def main(raw, log):
            async with raw:
                return await scenario(raw, log)

        if request.param == "in process":
            raw = Raw()
            return asyncio.run(main(raw, raw.app.log))
        with Server(Settings(inline_engine=True)) as server:
            raw = Raw(url=server.url)
            raw.server = server
            return asyncio.run(main(raw, server.log))

    return call


@pytest.mark.parametrize("kind", CUTS)
def test_a_cut_line_is_a_transport_error(caller, kind):
    """M40: dropped, reset and truncated; the effect is there exactly when it should be."""
    answer, effects = caller(lambda raw, log: struck(raw, log, kind))
    assert isinstance(answer, httpx.TransportError)
    assert len(effects) == CUTS[kind]


@pytest.mark.parametrize(
    ("kind", "options", "status", "content_type", "effects"),
    [
        ("status", {"status": 429, "retry_after": 2}, 429, "application/json", 0),
        ("status", {"status": 500, "after": True}, 500, "application/json", 1),
        ("status", {"status": 408}, 408, "application/json", 0),
        ("status", {"status": 409}, 409, "application/json", 0),
        ("html", {}, 502, "text/html", 0),
        ("html", {"status": 200, "after": True}, 200, "text/html", 1),
        ("wrong_content_type", {}, 200, "text/plain; charset=utf-8", 1),
        ("garbage", {}, 200, "application/json", 1),
        ("delay", {}, 200, "application/json", 1),
        ("slow_body", {}, 200, "application/json", 1),
        ("duplicate", {}, 200, "application/json", 1),
    ],
)
def test_an_odd_answer(caller, kind, options, status, content_type, effects):
    """M40: statuses, pages and bodies a proxy or an unhealthy server would give."""
    answer, done = caller(lambda raw, log: struck(raw, log, kind, **options))
    assert answer.status_code == status
    assert answer.headers["content-type"] == content_type
    assert len(done) == effects
    if "retry_after" in options:
        assert answer.headers["retry-after"] == "2"
    if kind in ("delay", "slow_body", "duplicate"):
        assert answer.json()["request_id"]
    if kind == "duplicate":
        assert done[0].attempts == 2


def test_whoever_sees_an_answer_begin_finds_its_request_in_the_log():
    """F36: also while the rest of the answer still trickles in, or never comes."""
    with Server() as server:
        server.faults.add("slow_body", path="healthz", nth=1, delay=1)
        with httpx.stream("GET", f"{server.url}/api/v1/healthz") as reply:
            assert reply.status_code == 200
            assert [entry.status for entry in server.log.requests("healthz")] == [200]


def test_a_duplicate_trains_twice_where_seq_ids_are_ignored():
    """M20: the network repeats a request and the `ignore` profile believes it."""

    async def scenario():
        async with Raw(settings=Settings(inline_engine=True, seq="ignore")) as raw:
            _, effects = await struck(raw, raw.app.log, "duplicate")
            assert [e.seq for e in effects] == [1, 1]

    asyncio.run(scenario())


def test_expired_future_and_lost_session():
    """M21, M22: 410 now and later."""

    async def scenario():
        async with Raw() as raw:
            session = await raw.session()
            model = await raw.model(session)
            ticket = await raw.post("forward_backward", **raw.training_body(model))
            raw.app.faults.add("expired_future", path="retrieve_future", nth=1)
            poll = {"request_id": ticket["request_id"]}
            for _ in range(2):
                assert (await raw.send("POST", "retrieve_future", poll)).status_code == 410
            raw.app.faults.add("session_loss", path="session_heartbeat", nth=2)
            beats = [
                (await raw.send("POST", "session_heartbeat", {"session_id": session})).status_code
                for _ in range(3)
            ]
            assert beats == [200, 410, 410]
            body = raw.training_body(model)
            assert (await raw.send("POST", "forward_backward", body)).status_code == 410

    asyncio.run(scenario())


def test_one_seed_one_misfortune():
    """M40: the same seed strikes the same requests; another seed strikes others."""

    def strikes(seed):
        plan = FaultPlan(seed, [Fault(kind="status", path="optim_step", probability=0.3)])
        return [bool(plan.choose("POST", "/api/v1/optim_step")) for _ in range(200)]

    assert strikes(1) == strikes(1)
    assert strikes(1) != strikes(2)
    assert 30 < sum(strikes(1)) < 90


def test_the_draw_of_a_rule_does_not_depend_on_other_requests():
    """M40: requests of other kinds in between leave the plan as it was."""
    rule = {"kind": "status", "path": "optim_step", "probability": 0.5}
    lone, busy = FaultPlan(3, [rule]), FaultPlan(3, [rule])
    first = [bool(lone.choose("POST", "/api/v1/optim_step")) for _ in range(50)]
    second = []
    for _ in range(50):
        busy.choose("POST", "/api/v1/asample")
        second.append(bool(busy.choose("POST", "/api/v1/optim_step")))
    assert first == second


def test_rules_by_api():
    """M40: another process orders faults over HTTP and reads the log."""

    async def scenario():
        async with Raw() as raw:
            rules = [{"kind": "status", "path": "healthz", "status": 503, "times": 2}]
            reply = await raw.http.post("/_mock/faults", json={"seed": 9, "rules": rules})
            assert reply.json()["seed"] == 9
            statuses = [(await raw.send("GET", "healthz")).status_code for _ in range(3)]
            assert statuses == [503, 503, 200]
            log = (await raw.http.get("/_mock/log", params={"path": "healthz"})).json()
            assert [r["faults"] for r in log["requests"]] == [["status"], ["status"], []]
            reply = await raw.http.post("/_mock/faults", json={"kind": "earthquake"})
            assert reply.status_code == 422
            await raw.http.delete("/_mock/faults")
            assert (await raw.http.get("/_mock/faults")).json()["rules"] == []

    asyncio.run(scenario())


def test_rules_by_text():
    """M40: the form a command line takes."""
    plan = FaultPlan(0, ["status:optim_step:nth=2,status=503"])
    rule = plan.rules[0]
    assert (rule.kind, rule.path, rule.nth, rule.status) == (
        "status",
        "optim_step",
        frozenset({2}),
        503,
    )
    with pytest.raises(ValueError, match="unknown fault option 'sttus'"):
        FaultPlan(0, ["status:*:sttus=1"])


@pytest.mark.tinker_server(seq="strict")
def test_the_fixtures(tinker_server, tinker_faults):
    """M40: a server, its log and its faults as fixtures, settings by marker."""
    tinker_faults.add("status", path="healthz", status=503, nth=1)
    with httpx.Client(base_url=tinker_server.url) as http:
        assert [http.get("/api/v1/healthz").status_code for _ in range(2)] == [503, 200]
    assert tinker_server.settings.seq == "strict"
    assert len(tinker_server.log.requests("healthz", fault="status")) == 1


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"kind": "status", "path": "optm_step"}, "did you mean optim_step?"),
        ({"kind": "drop_respnse"}, "did you mean 'drop_response'? Kinds: drop_request"),
        ({"kind": "no_completions", "path": "asample"}, "strikes retrieve_futures only"),
        ({"kind": "status", "path": "/_mock/log"}, "no request has the path"),
        ({"kind": "reset", "nth": 0}, "nth counts requests from 1, so 0 never strikes"),
        ({"kind": "reset", "nth": []}, "nth counts requests from 1, so empty never strikes"),
        ({"kind": "reset", "every": 0}, "every must be at least 1, not 0"),
        ({"kind": "reset", "times": 0}, "times must be at least 1, not 0"),
        ({"kind": "reset", "probability": -0.1}, "probability must be from 0 to 1, not -0.1"),
        ({"kind": "reset", "probability": 10}, "probability must be from 0 to 1, not 10"),
        ({"kind": "status", "status": 5030}, "status must be from 100 to 999, not 5030"),
        ({"kind": "delay", "delay": -1}, "delay must be at least 0, not -1"),
    ],
)
def test_a_rule_that_can_never_strike_is_refused(rule, text):
    """M40, F44: a typo in a fault would make a test prove nothing."""
    with pytest.raises(ValueError, match=re.escape(text)):
        FaultPlan().add(rule)
    with pytest.raises(ValueError, match=re.escape(text)):
        FaultPlan().add(rule["kind"], **{k: v for k, v in rule.items() if k != "kind"})


@pytest.mark.parametrize(
    "path",
    ["optim_step", "/api/v1/optim_step", "sessions/*", "sessions/abc/finish", "retrieve_*", "*",
     "sessions/{session_id}/finish"],
)  # fmt: skip
def test_every_way_to_name_a_path_is_taken(path):
    """F44: by name, in full, with a wildcard, with an id, by its template."""
    FaultPlan().add("status", path=path)


def batch(raw, model, text):
    return raw.training_body(model, text)


def test_one_batch_is_refused_on_either_wire():
    """F1: the server refuses one body for what is in it; the wire is fine, and others pass."""
    from tinker_proto import tinker_pb2 as pb

    async def scenario():
        async with Raw() as raw:
            model = await raw.model()
            raw.app.faults.add("refuse_body", path="forward_backward", nth=1, status=400)
            bad = batch(raw, model, "abc")
            for _ in range(2):
                reply = await raw.send("POST", "forward_backward", bad)
                assert reply.status_code == 400
            reply = await raw.send("POST", "forward_backward", batch(raw, model, "abd"))
            assert reply.status_code == 200
            message = pb.ForwardBackwardRequest(model_id=model, seq_id=9, loss_fn="cross_entropy")
            data = message.data.add()
            data.model_input.add().encoded_text.tokens = np.array([97, 98], "<i4").tobytes()
            for name, values, kind in (
                ("target_tokens", np.array([98, 99], "<i8"), pb.DTYPE_INT64),
                ("weights", np.ones(2, "<f4"), pb.DTYPE_FLOAT32),
            ):
                data.loss_fn_inputs[name].dense = values.tobytes()
                data.loss_fn_inputs[name].dtype = kind
            reply = await raw.send(
                "POST",
                "forward_backward",
                content=message.SerializeToString(),
                headers={"content-type": "application/x-protobuf"},
            )
            assert reply.status_code == 400

    asyncio.run(scenario())


def test_a_wire_is_refused_for_one_body_only():
    """F1: `wire` limits a rule to JSON or protobuf bodies."""

    async def scenario():
        async with Raw() as raw:
            model = await raw.model()
            raw.app.faults.add("status", path="forward_backward", wire="proto", status=501)
            reply = await raw.send("POST", "forward_backward", batch(raw, model, "abc"))
            assert reply.status_code == 200

    asyncio.run(scenario())


def test_fillers_are_refused_on_both_wires():
    """F6: a rule for `forward` also strikes protobuf bodies that ask for a forward pass only."""
    from tinker_proto import tinker_pb2 as pb

    async def scenario():
        async with Raw() as raw:
            model = await raw.model()
            raw.app.faults.add("status", path="forward", status=400)
            for only, status in ((True, 400), (False, 200)):
                message = pb.ForwardBackwardRequest(
                    model_id=model, seq_id=1, loss_fn="cross_entropy", forward_only=only
                )
                reply = await raw.send(
                    "POST",
                    "forward_backward",
                    content=message.SerializeToString(),
                    headers={"content-type": "application/x-protobuf"},
                )
                assert reply.status_code == status

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["stale_completions", "false_completions", "no_completions"])
def test_batched_completion_that_lies(kind):
    """F8: it answers at once, with what was told before, with foreign ids or with nothing."""

    async def scenario():
        async with Raw() as raw:
            session = await raw.session()
            sampler = await raw.post(
                "create_sampling_session",
                session_id=session,
                sampling_session_seq_id=0,
                base_model="tinker-ext/tiny",
            )
            target = {"sampling_session_id": sampler["sampling_session_id"]}
            sample = await raw.post(
                "asample",
                **target,
                seq_id=0,
                prompt={"chunks": [{"tokens": [104]}]},
                sampling_params={"max_tokens": 1},
            )
            await raw.result(sample)
            told = await raw.post("retrieve_futures", target=target, timeout=0)
            assert [c["request_id"] for c in told["completions"]] == [sample["request_id"]]
            raw.app.faults.add(kind, path="retrieve_futures")
            for _ in range(2):
                wrong = await raw.post(
                    "retrieve_futures", target=target, prev_cursor=told["cursor"]
                )
                ids = [c["request_id"] for c in wrong["completions"]]
                if kind == "stale_completions":
                    assert ids == [sample["request_id"]]
                    assert wrong["cursor"] == told["cursor"]
                elif kind == "false_completions":
                    assert len(ids) == 3
                    assert sample["request_id"] not in ids
                else:
                    assert ids == []

    asyncio.run(scenario())


def test_absurd_headers_and_pages(caller):
    """F7: any text as Retry-After, any Date, a gateway's page with a status of its own."""

    async def scenario(raw, log):
        model = await raw.model()
        plan = (raw.app or raw.server.app).faults
        path = "forward_backward"
        plan.add("status", path=path, nth=1, status=503, retry_after="Fri, 31 Dec 99999 0:0:0 GMT")
        plan.add("headers", path=path, nth=2, headers={"date": "Thu, 01 Jan 0001 00:00:00 GMT"})
        plan.add("html", path=path, nth=3, status=404)
        plan.add("html", path=path, nth=4, status=200)
        first = await raw.send("POST", path, raw.training_body(model))
        assert first.headers["retry-after"] == "Fri, 31 Dec 99999 0:0:0 GMT"
        second = await raw.send("POST", path, raw.training_body(model, seq=1))
        assert (second.status_code, second.headers["date"][:12]) == (200, "Thu, 01 Jan ")
        third = await raw.send("POST", path, raw.training_body(model))
        assert third.status_code == 404
        assert "404 Not Found" in third.text
        fourth = await raw.send("POST", path, raw.training_body(model))
        assert (fourth.status_code, fourth.headers["content-type"]) == (200, "text/html")

    caller(scenario)


def test_a_reset_after_the_effect(caller):
    """F7, M20: the whole request arrived and took effect, then the line is cut hard."""
    answer, effects = caller(lambda raw, log: struck(raw, log, "reset", after=True))
    assert isinstance(answer, httpx.TransportError)
    assert len(effects) == 1
