"""M35, M40: runs, checkpoints, archives, sessions, billing, credentials of the embedded server."""

import asyncio
import base64
import io
import json
import tarfile
from datetime import datetime

import pytest
from raw_tinker import Raw
from virtual_clock import run_virtual

from tinker_ext.mock import Settings
from tinker_ext.mock.engine import from_safetensors

EPOCH = 1_800_000_000.0


def inline(**options):
    return Settings(inline_engine=True, epoch=EPOCH, **options)


async def trained(raw, name="one"):
    """A model with a training and a sampler checkpoint; returns model id and both paths."""
    model = await raw.model()
    await raw.train(model)
    weights = await raw.save(model, path=name)
    sampler = await raw.save(model, "save_weights_for_sampler", path=name)
    return model, weights, sampler


def test_runs_and_checkpoints_are_listed():
    """M35: pages with a cursor; the run knows its last checkpoints."""

    async def scenario():
        async with Raw(settings=inline()) as raw:
            model, weights, sampler = await trained(raw)
            runs = (await raw.send("GET", "training_runs?limit=1&offset=0")).json()
            assert runs["cursor"] == {"offset": 0, "limit": 1, "total_count": 1}
            run = (await raw.send("GET", f"training_runs/{model}")).json()
            assert run == runs["training_runs"][0]
            assert run["corrupted"] is False
            assert run["last_checkpoint"]["tinker_path"] == weights
            assert run["last_sampler_checkpoint"]["tinker_path"] == sampler
            own = (await raw.send("GET", f"training_runs/{model}/checkpoints")).json()
            assert {c["checkpoint_type"] for c in own["checkpoints"]} == {"training", "sampler"}
            every = (await raw.send("GET", "checkpoints?limit=1&offset=1")).json()
            assert [c["checkpoint_id"] for c in every["checkpoints"]] == ["weights/one"]
            await raw.http.post(f"/_mock/training_runs/{model}/corrupt")
            assert (await raw.send("GET", f"training_runs/{model}")).json()["corrupted"] is True
            assert (await raw.send("GET", "training_runs/nobody")).status_code == 404
            assert raw.app.log.violations == []

    asyncio.run(scenario())


def test_publishing_twice_is_a_conflict():
    """M35: 409 in either direction when already in that state."""

    async def scenario():
        async with Raw(settings=inline()) as raw:
            model, _, _ = await trained(raw)
            place = f"training_runs/{model}/checkpoints/weights/one/publish"
            statuses = [
                (await raw.send(method, place)).status_code
                for method in ("DELETE", "POST", "POST", "DELETE", "DELETE")
            ]
            assert statuses == [409, 204, 409, 204, 409]

    asyncio.run(scenario())


def test_checkpoints_expire():
    """M35: ttl at saving, ttl later, ttl removed; out of range is refused."""

    async def scenario():
        async with Raw(settings=inline(session_ttl=1e9)) as raw:
            model = await raw.model()
            for name, ttl in (("short", 3600), ("long", 7200), ("kept", 3600)):
                await raw.save(model, path=name, ttl_seconds=ttl)
            place = f"training_runs/{model}/checkpoints/weights"
            reply = await raw.send("PUT", f"{place}/kept/ttl", {"ttl_seconds": None})
            assert reply.status_code == 204
            reply = await raw.send("PUT", f"{place}/kept/ttl", {"ttl_seconds": 60})
            assert reply.status_code == 422

            async def names():
                reply = await raw.send("GET", f"training_runs/{model}/checkpoints")
                return [c["checkpoint_id"] for c in reply.json()["checkpoints"]]

            assert len(await names()) == 3
            await asyncio.sleep(3601)
            assert await names() == ["weights/long", "weights/kept"]
            await asyncio.sleep(3600)
            assert await names() == ["weights/kept"]
            assert (await raw.send("DELETE", f"{place}/kept")).status_code == 204
            assert await names() == []

    run_virtual(scenario())


def test_a_name_is_not_overwritten_by_accident():
    """M35: the second save under one name fails unless overwrite is sent; slashes are refused."""

    async def scenario():
        async with Raw(settings=inline()) as raw:
            model, _, _ = await trained(raw)
            body = {"model_id": model, "path": "one"}
            failed = await raw.result(await raw.post("save_weights", seq_id=raw.next_seq(), **body))
            assert "overwrite" in failed["error"]
            body["overwrite"] = True
            done = await raw.result(await raw.post("save_weights", seq_id=raw.next_seq(), **body))
            assert done["path"].endswith("/weights/one")
            bad = {"model_id": model, "path": "a/b", "seq_id": raw.next_seq()}
            assert (await raw.send("POST", "save_weights", bad)).status_code == 400

    asyncio.run(scenario())


def test_the_archive_is_a_real_one():
    """M37, M40: 302 to a signed URL that serves adapter_config.json and safetensors."""

    async def scenario():
        async with Raw(settings=inline()) as raw:
            model, _, _ = await trained(raw)
            place = f"training_runs/{model}/checkpoints/sampler_weights/one/archive"
            reply = await raw.send("GET", place)
            assert reply.status_code == 302
            expires = datetime.strptime(reply.headers["expires"], "%a, %d %b %Y %H:%M:%S GMT")
            assert expires.year == 2027
            url = reply.headers["location"]
            packed = await raw.http.get(url)
            with tarfile.open(fileobj=io.BytesIO(packed.content), mode="r:gz") as tar:
                config = json.load(tar.extractfile("adapter_config.json"))
                tensors = from_safetensors(tar.extractfile("adapter_model.safetensors").read())
            assert config["r"] == 4
            saved = next(c for c in raw.app.world.checkpoints if c.kind == "sampler_weights")
            assert set(tensors) == set(saved.blob)
            assert all((tensors[name] == saved.blob[name]).all() for name in tensors)
            part = await raw.http.get(url, headers={"range": "bytes=10-"})
            assert part.status_code == 206
            assert part.content == packed.content[10:]
            assert (await raw.http.get(url[:-1] + "x")).status_code == 403
            await asyncio.sleep(901)
            assert (await raw.http.get(url)).status_code == 403

    run_virtual(scenario())


def test_exports_copies_and_descriptions():
    """M35: external weights have URLs, a copy has its own path, weights_info describes both."""

    async def scenario():
        async with Raw(settings=inline()) as raw:
            model, weights, _ = await trained(raw)
            export = await raw.save(model, "save_weights_external", path="out")
            assert "/external_weights/out" in export
            place = f"training_runs/{model}/checkpoints/external_weights/out/external_weights_urls"
            urls = (await raw.send("GET", place)).json()["urls"]
            assert (await raw.http.get(urls["archive.tar.gz"])).content[:2] == b"\x1f\x8b"
            wrong = place.replace("external_weights/out", "weights/one")
            assert (await raw.send("GET", wrong)).status_code == 400
            body = {"source_path": weights, "destination_project_id": "p2"}
            key = {"x-idempotency-key": "one-key"}
            first = await raw.send("POST", "copy_weights", body, headers=key)
            again = await raw.send("POST", "copy_weights", body, headers=key)
            assert first.json() == again.json() != {"tinker_path": weights}
            info = await raw.post("weights_info", tinker_path=first.json()["tinker_path"])
            assert (info["base_model"], info["lora_rank"]) == ("tinker-ext/tiny", 4)
            session = await raw.session()
            ticket = await raw.post(
                "load_weights", session_id=session, model_seq_id=0, path=weights, optimizer=True
            )
            loaded = (await raw.result(ticket))["model_id"]
            raw.seq = 0
            own = await raw.loss(loaded)
            raw.seq = 5
            assert own == await raw.loss(model)
            assert raw.app.log.violations == []

    asyncio.run(scenario())


def test_sessions_are_found_and_finished():
    """M21, M35: list, get, search, project, trace, finish."""

    async def scenario():
        async with Raw(settings=inline()) as raw:
            ids = []
            for number in range(3):
                body = {
                    "tags": ["t"],
                    "user_metadata": {"n": str(number)},
                    "sdk_version": "x",
                    "display_name": f"run {number}",
                }
                ids.append((await raw.post("create_session", **body))["session_id"])
            listed = (await raw.send("GET", "sessions?limit=2")).json()["sessions"]
            assert listed == ids[:0:-1]
            model = await raw.model(ids[0])
            one = (await raw.send("GET", f"sessions/{ids[0]}")).json()
            assert one["training_run_ids"] == [model]
            reply = await raw.send("PUT", f"sessions/{ids[0]}/project", {"project_id": "p1"})
            assert reply.status_code == 204
            found = await raw.post("sessions/search", project_ids=["p1"])
            assert [s["session_id"] for s in found["sessions"]] == [ids[0]]
            found = await raw.post("sessions/search", user_metadata={"n": "2"})
            assert [s["display_name"] for s in found["sessions"]] == ["run 2"]
            finish = {"reason": {"type": "interrupted"}, "detail": None}
            reply = await raw.send("POST", f"sessions/{ids[1]}/finish", finish)
            assert reply.status_code == 204
            status = [{"type": "client_finished", "reasons": ["interrupted"]}]
            found = await raw.post("sessions/search", statuses=status)
            assert [s["session_id"] for s in found["sessions"]] == [ids[1]]
            beat = await raw.send("POST", "session_heartbeat", {"session_id": ids[1]})
            assert beat.status_code == 410
            page = await raw.post("sessions/search", limit=2)
            rest = await raw.post("sessions/search", limit=2, cursor=page["next_cursor"])
            pages = [*page["sessions"], *rest["sessions"]]
            assert sorted(s["session_id"] for s in pages) == sorted(ids)
            trace = (await raw.send("GET", f"sessions/{ids[0]}/trace_export")).json()
            assert (await raw.http.get(trace["url"])).json()["session_id"] == ids[0]
            assert raw.app.log.violations == []

    asyncio.run(scenario())


def test_usage_is_counted():
    """M35: tokens per hour, checkpoints and bytes, and who did what."""

    async def scenario():
        async with Raw(settings=inline()) as raw:
            model, _, _ = await trained(raw)
            period = "starting_on=2027-01-15T00:00:00Z&ending_before=2027-01-16T00:00:00Z"
            bill = (await raw.send("GET", f"billing/usage/events?{period}")).json()
            counts = {e["event_info"]["type"]: e["event_info"] for e in bill["data"]}
            assert counts["training"]["token_count"] == 10
            assert counts["checkpoint"]["count"] == 2
            assert set(bill["sessions"]) == {model.split(":")[0]}
            storage = (await raw.send("GET", "billing/usage/checkpoints/current")).json()["data"]
            assert storage[0]["checkpoint_count"] == 2
            audit = (await raw.send("GET", "audit?event_type=checkpoints")).json()["entries"]
            assert [e["event"] for e in audit] == ["checkpoint_created"] * 2
            for bad in ("starting_on=x&ending_before=y", "starting_on=2027-01-15T00:00:00Z"):
                reply = await raw.send("GET", f"billing/usage/events?{bad}")
                assert reply.status_code == 422

    asyncio.run(scenario())


def test_keys_and_tokens():
    """M33: a foreign key is 401; a key becomes a JWT with claims, which is let in until it ends."""

    async def scenario():
        async with Raw(settings=inline(api_keys=["tml-test"], token_lifetime=600.0)) as raw:
            token = (await raw.post("auth/token"))["jwt"]
            claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
            assert claims["exp"] == int(EPOCH) + 600
            assert claims["iss"].startswith("passport-")

            async def status(key):
                reply = await raw.send("GET", "sessions", headers={"x-api-key": key})
                return reply.status_code

            assert await status("tml-other") == 401
            assert await status(token) == 200
            assert await status(token[:-2] + "xx") == 401
            await asyncio.sleep(601)
            assert await status(token) == 401
            mine = (await raw.send("GET", "auth/apikey/me")).json()
            assert mine["details"]["user_details"]["email"]

    run_virtual(scenario())


def test_config_and_telemetry():
    """M27, M34: flags can be set, telemetry is kept for inspection."""

    async def scenario():
        flags = {"proto_compress_fwdbwd": True}
        async with Raw(settings=inline(client_config=flags)) as raw:
            config = await raw.post("client/config", sdk_version="1")
            assert config["proto_compress_fwdbwd"] is True
            dynamic = await raw.post("client/dynamic_config", sdk_version="1")
            assert dynamic["refresh_interval_sec"] == 300
            batch = {
                "events": [],
                "platform": "Linux",
                "sdk_version": "1",
                "session_id": "s",
                "process_uuid": "p",
            }
            assert (await raw.post("telemetry", **batch)) == {"status": "accepted"}
            assert raw.app.world.telemetry == [batch]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("era", "missing", "there"),
    [
        ("0.4.1", "client/config", "unload_model"),
        ("0.36.0", "unload_model", "client/config"),
    ],
)
def test_eras_differ(era, missing, there):
    """M28, M40: each generation answers 404 for what it does not know."""

    async def scenario():
        async with Raw(settings=inline(era=era)) as raw:
            assert (await raw.send("POST", missing, {})).status_code == 404
            assert (await raw.send("POST", there, {})).status_code == 422

    asyncio.run(scenario())


def test_the_first_era_is_strict_about_new_keys():
    """M4: a server of the 0.4.1 era refuses keys it has never heard of."""

    async def scenario():
        async with Raw(settings=inline(era="0.4.1")) as raw:
            model = await raw.model()
            body = {
                "model_id": model,
                "seq_id": 1,
                "adam_params": {"learning_rate": 0.1, "weight_decay": 0.0},
            }
            reply = await raw.send("POST", "optim_step", body)
            assert reply.status_code == 422
            assert reply.json()["detail"][0]["loc"] == ["body", "adam_params", "weight_decay"]
            del body["adam_params"]["weight_decay"]
            assert (await raw.send("POST", "optim_step", body)).status_code == 200

    asyncio.run(scenario())


def test_missing_paths_and_wires():
    """M28, M40: `without` gives 404, `wire` refuses the other body form."""

    async def scenario():
        settings = inline(without=["client/config", "telemetry"], wire="proto")
        async with Raw(settings=settings) as raw:
            reply = await raw.send("POST", "client/config", {"sdk_version": "1"})
            assert reply.status_code == 404
            model = await raw.model()
            reply = await raw.send("POST", "forward_backward", raw.training_body(model))
            assert reply.status_code == 422
            assert "application/x-protobuf" in reply.json()["detail"][0]["msg"]

    asyncio.run(scenario())
