"""The commands of the known tools against a server: options, JSON shapes, files, exit codes."""

import csv
import io
import json
import re
import socket
import sys
import types

import httpx
import pytest
from click.testing import CliRunner

from tinker_ext import AdamParams, Datum, ModelInput, ServiceClient
from tinker_ext.cli.run import root, run
from tinker_ext.cli.screen import Screen, size
from tinker_ext.mock import Server, Settings, embedded

MODEL = "tinker-ext/tiny"
KEY = "tml-cli-canary"


@pytest.fixture(scope="module")
def server():
    with Server(Settings(epoch=1767322800.0)) as running:
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path, server):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TINKER_BASE_URL", server.url)
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def trained(server):
    """A run with two training checkpoints, a sampler and an export; its ids and paths."""
    with ServiceClient(base_url=server.url, api_key=KEY, user_metadata={"a": "b"}) as service:
        trainer = service.create_lora_training_client(MODEL, rank=4)
        trainer.forward_backward([Datum(ModelInput.from_ints([1, 2]), {"target_tokens": [2, 3]})],
                                 "cross_entropy")  # fmt: skip
        trainer.optim_step(AdamParams(learning_rate=1e-3))
        paths = [trainer.save_state(name).result().path for name in ("first", "second")]
        paths.append(trainer.save_weights_for_sampler("sampler").result().path)
        paths.append(trainer.save_weights_external("export").result().path)
        found = types.SimpleNamespace(
            run=trainer.model_id,
            session=service.session_id,
            first=paths[0],
            second=paths[1],
            sampler=paths[2],
            export=paths[3],
        )
    return found


@pytest.fixture
def tell(capsys):
    """Run a command that must work; return its JSON."""

    def call(*words):
        capsys.readouterr()
        assert run(["--format", "json", *words]) == 0, capsys.readouterr().err
        shown = capsys.readouterr()
        assert shown.err == ""
        return json.loads(shown.out)

    return call


@pytest.fixture
def show(capsys):
    """Run a command; return exit code, stdout and stderr."""

    def call(*words):
        capsys.readouterr()
        code = run(list(words))
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


TRAINING_RUN = ["training_run_id", "base_model", "model_owner", "is_lora", "corrupted", "lora_rank",
                "last_request_time", "last_checkpoint", "last_sampler_checkpoint",
                "user_metadata"]  # fmt: skip
CHECKPOINT = ["checkpoint_id", "checkpoint_type", "time", "tinker_path", "size_bytes", "public",
              "user_metadata", "expires_at"]  # fmt: skip


def test_run_list_and_info(trained, tell, show):
    """M36: runs as JSON with every field in order, as a table with the columns asked for."""
    runs = tell("run", "list")["runs"]
    assert list(runs[0]) == TRAINING_RUN
    assert trained.run in [item["training_run_id"] for item in runs]
    one = tell("run", "info", trained.run)
    assert list(one) == TRAINING_RUN
    assert list(one["last_checkpoint"]) == CHECKPOINT
    assert one["last_request_time"].endswith("+00:00")
    code, out, _ = show("run", "list", "-c", "owner,checkpoint,id")
    assert code == 0
    assert trained.run in out
    assert out.index("Owner") < out.index("Last checkpoint") < out.index("Run ")
    code, out, _ = show("run", "info", trained.run)
    assert "rank 4" in out


def test_run_list_pages(server, trained, tell, show):
    """M36: --limit cuts the list and says so; 0 shows all, page after page."""
    with ServiceClient(base_url=server.url, api_key=KEY) as service:
        service.create_lora_training_client(MODEL, rank=1)
    assert len(tell("run", "list", "--limit", "1")["runs"]) == 1
    everything = tell("run", "list", "--limit", "0")["runs"]
    assert len(everything) >= 2
    _, out, err = show("run", "list", "--limit", "1")
    assert f"1 of {len(everything)} runs" in out
    assert "--limit 0" in err


def test_pages_are_joined(capsys):
    """M36: a list longer than a page is fetched to the end, and a short last page ends it."""
    from tinker_ext.cli.paging import collect

    asked = []

    def fetch(count, offset):
        asked.append((count, offset))
        items = list(range(offset, min(offset + count, 250)))
        return types.SimpleNamespace(items=items, cursor=types.SimpleNamespace(total_count=250))

    found, total = collect(Screen(), "things", 0, 100, fetch, lambda page: page.items)
    assert found == list(range(250))
    assert total == 250
    assert asked == [(100, 0), (100, 100), (100, 200)]
    found, _ = collect(Screen(), "things", 120, 100, fetch, lambda page: page.items)
    assert len(found) == 120


def test_checkpoint_list_and_info(trained, tell, show):
    """M36: checkpoints of a run and of all runs; info adds what the run knows."""
    listed = tell("checkpoint", "list", "--run-id", trained.run)
    assert list(listed) == ["run_id", "checkpoints"]
    assert {item["checkpoint_type"] for item in listed["checkpoints"]} == {
        "training", "sampler", "external",
    }  # fmt: skip
    assert list(tell("checkpoint", "list")) == ["checkpoints"]
    one = tell("checkpoint", "info", trained.first)
    assert list(one) == [*CHECKPOINT, "is_lora", "lora_rank"]
    assert (one["tinker_path"], one["lora_rank"]) == (trained.first, 4)
    code, out, _ = show("checkpoint", "list", "--run-id", trained.run)
    assert code == 0
    assert trained.export in out
    assert "never" in show("checkpoint", "info", trained.first)[1]


def test_publish_and_ttl_are_silent(trained, tell, show):
    """M36: publish, unpublish and set-ttl print nothing; a state that is there already is fine."""
    for words in (
        ("publish", trained.first),
        ("publish", trained.first),
    ):
        assert show("checkpoint", *words) == (0, "", "")
    assert tell("checkpoint", "info", trained.first)["public"] is True
    assert show("checkpoint", "unpublish", trained.first) == (0, "", "")
    assert show("checkpoint", "set-ttl", trained.first, "--ttl", "7200") == (0, "", "")
    assert tell("checkpoint", "info", trained.first)["expires_at"] is not None
    assert show("checkpoint", "set-ttl", trained.first, "--remove") == (0, "", "")
    assert tell("checkpoint", "info", trained.first)["expires_at"] is None
    for wrong in ([], ["--ttl", "7200", "--remove"]):
        assert show("checkpoint", "set-ttl", trained.first, *wrong)[0] == 1


@pytest.mark.parametrize("word", ["foo", "tinker://a", "tinker://a/b/c", "http://x/weights/y"])
def test_a_path_that_is_none_never_reaches_the_server(word, server, show):
    """M36: bad input fails at the call, with an example of a good one."""
    before = len(server.log.requests())
    for words in (("info",), ("publish",), ("download",), ("delete", "-y")):
        code, out, err = show("checkpoint", *words, word)
        assert (code, out) == (1, "")
        assert "tinker://RUN_ID/weights/0001" in err
    assert len(server.log.requests()) == before


def test_delete(server, tell, show, monkeypatch):
    """M36: named ones, and those of a run by type and time; failures are listed, exit code 0."""
    with ServiceClient(base_url=server.url, api_key=KEY) as service:
        trainer = service.create_lora_training_client(MODEL, rank=1)
        paths = [trainer.save_state(f"c{number}").result().path for number in range(3)]
        trainer.save_weights_for_sampler("s").result()
    run_id = trainer.model_id
    gone = tell("checkpoint", "delete", "-y", paths[0], "tinker://nobody/weights/none")
    assert gone["deleted_count"] == 1
    assert [item["tinker_path"] for item in gone["failed"]] == ["tinker://nobody/weights/none"]
    narrow = ("--run-id", run_id, "--type", "weights")
    assert tell("checkpoint", "delete", *narrow, "--before", "2020-01-01", "-y") == {
        "deleted_count": 0, "failed": [],
    }  # fmt: skip
    answered = CliRunner().invoke(root, ["checkpoint", "delete", *narrow], input="n\n")
    assert "Nothing was deleted" in answered.output
    nobody = CliRunner().invoke(root, ["checkpoint", "delete", *narrow]).exception
    assert "nothing was deleted" in nobody.message
    assert "--yes" in nobody.advice
    with monkeypatch.context() as closed:
        closed.setattr("sys.stdin", None)  # as with `<&-`
        code, _, err = show("checkpoint", "delete", *narrow)
    assert (code, "nobody is there" in err) == (1, True)
    answered = CliRunner().invoke(root, ["checkpoint", "delete", *narrow], input="y\n")
    assert "Deleted 2 of 2 checkpoints." in answered.output
    left = tell("checkpoint", "list", "--run-id", run_id)["checkpoints"]
    assert [item["checkpoint_type"] for item in left] == ["sampler"]
    for wrong in ([], [paths[0], "--run-id", run_id], [paths[0], "--type", "weights"],
                  ["--run-id", run_id, "--before", "soon"]):  # fmt: skip
        assert show("checkpoint", "delete", "-y", *wrong)[0] == 1


@pytest.mark.parametrize("which", ["first", "export", "sampler"])
def test_download(which, trained, tell, show, tmp_path):
    """M37 F29: its files and their size, in a directory named after it; --force replaces it."""
    path = getattr(trained, which)
    done = tell("checkpoint", "download", path, "-o", "models")
    name = path.removeprefix("tinker://").replace("/", "_").replace(":", "_")
    folder = tmp_path / "models" / name
    assert done == {
        "checkpoint_path": path,
        "destination": f"models/{name}",
        "file_size_bytes": sum(file.stat().st_size for file in folder.iterdir()),
    }
    files = {file.name for file in folder.iterdir()}
    assert files == {"adapter_config.json", "adapter_model.safetensors"}
    assert [item.name for item in (tmp_path / "models").iterdir()] == [name]
    code, _, err = show("checkpoint", "download", path, "-o", "models")
    assert code == 1
    assert "--force" in err
    (folder / "stale").write_text("x")
    code, out, _ = show("checkpoint", "download", path, "-o", "models", "--force")
    assert code == 0
    assert not (folder / "stale").exists()
    assert f"models/{name}" in out
    assert size(done["file_size_bytes"]) in out


def test_download_checks_the_digest_it_is_given(trained, show, tmp_path):
    """F29: --sha256 refuses another file, a name that there is not, and what is no digest."""
    words = ("checkpoint", "download", trained.second, "-o", "digests", "--sha256")
    code, _, err = show(*words, "0" * 64)
    assert code == 1
    assert "SHA-256" in err
    code, _, err = show(*words, f"nobody={'0' * 64}")
    assert code == 1
    assert "archive.tar.gz" in err
    code, _, err = show(*words, "123")
    assert code == 2
    assert "64 hexadecimal" in err
    folders = [path.name for path in (tmp_path / "digests").iterdir()]
    assert all(name.startswith(".") for name in folders), folders


def test_download_checks_the_size_it_is_given(trained, show, tmp_path):
    """F29: --size refuses another file, a name that there is not, and what is no number."""
    words = ("checkpoint", "download", trained.second, "-o", "sizes", "--size")
    code, _, err = show(*words, "12")
    assert code == 1
    told = re.search(r"has (\d+) bytes where 12 were expected", err)
    assert told, err
    code, _, err = show(*words, f"nobody={told[1]}")
    assert code == 1
    assert "--size is for a file 'nobody'" in err
    assert "archive.tar.gz" in err
    for wrong in ("2 GB", "archive.tar.gz=", "-1", "9" * 5000):
        code, _, err = show(*words, wrong)
        assert code == 2
        assert "whole number" in err
    assert all(path.name.startswith(".") for path in (tmp_path / "sizes").iterdir())
    assert show(*words, f"archive.tar.gz={told[1]}")[0] == 0


def test_download_uses_nothing_of_another_version(trained, tell, tmp_path):
    """F29: files that an earlier download left are not taken for those of this one."""
    name = trained.second.removeprefix("tinker://").replace("/", "_").replace(":", "_")
    left = tmp_path / "versions" / f".{name}.partial"
    left.mkdir(parents=True)
    (left / "archive.tar.gz").write_bytes(b"of another version")
    (left / "adapter_config.json").write_text("{}")
    (left / "only_there.bin").write_text("x")
    tell("checkpoint", "download", trained.second, "-o", "versions")
    folder = tmp_path / "versions" / name
    assert {file.name for file in folder.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    assert (folder / "adapter_config.json").read_text() != "{}"
    assert [path.name for path in (tmp_path / "versions").iterdir()] == [name]


def test_one_download_of_a_checkpoint_at_a_time(trained, show, tmp_path):
    """F29: a second one into the same directory is refused in words."""
    from tinker_ext.downloads import alone

    name = trained.second.removeprefix("tinker://").replace("/", "_").replace(":", "_")
    (tmp_path / "twice").mkdir()
    with alone(tmp_path / "twice" / f".{name}.partial"):
        code, _, err = show("checkpoint", "download", trained.second, "-o", "twice")
    assert code == 1
    assert "by somebody else" in err
    assert show("checkpoint", "download", trained.second, "-o", "twice")[0] == 0


def test_the_export_of_a_download_does_not_stay(server, trained, tell):
    """M37: the temporary export is deleted, and its session ends."""
    before = {item["tinker_path"] for item in tell("checkpoint", "list")["checkpoints"]}
    tell("checkpoint", "download", trained.second, "-o", "again")
    after = {item["tinker_path"] for item in tell("checkpoint", "list")["checkpoints"]}
    assert after == before


@pytest.mark.parametrize("name", ["../evil", "/etc/x", "a\\b", "", "c:evil", "a/../../b", "x\n"])
def test_file_names_of_a_hostile_server(name):
    """M37: a name that would land elsewhere is refused before anything is fetched."""
    from tinker_ext.cli.weights_files import safe_name
    from tinker_ext.errors import DownloadError

    with pytest.raises(DownloadError):
        safe_name(name)


def test_push_hf(trained, tell, monkeypatch):
    """M36: a PEFT adapter with a model card goes to the hub, with the options given."""
    calls = []

    class HfApi:
        def whoami(self):
            return {"name": "me", "orgs": []}

        def create_repo(self, repo_id, **options):
            calls.append(("create", repo_id, options))
            return types.SimpleNamespace(repo_id=f"me/{repo_id}")

        def upload_folder(self, folder_path, **options):
            from pathlib import Path

            calls.append(("upload", {f.name for f in Path(folder_path).iterdir()}, options))
            self.card = (Path(folder_path) / "README.md").read_text()
            assert f"base_model: {MODEL}" in self.card

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(HfApi=HfApi))
    done = tell("checkpoint", "push-hf", trained.first, "--revision", "v1", "--create-pr",
                "--ignore-pattern", "*.bin")  # fmt: skip
    (_, name, created), (_, files, uploaded) = calls
    assert created == {"private": True, "exist_ok": True}
    assert files == {"README.md", "adapter_config.json", "adapter_model.safetensors"}
    assert done == {
        "checkpoint_path": trained.first,
        "repo_id": f"me/{name}",
        "revision": "v1",
        "public": False,
    }
    assert (uploaded["revision"], uploaded["create_pr"]) == ("v1", True)
    assert uploaded["ignore_patterns"] == ["*.bin"]


def test_push_hf_without_the_library(trained, show, monkeypatch):
    """M36: what is missing is named with the command that installs it."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, _, err = show("checkpoint", "push-hf", trained.first)
    assert code == 1
    assert "pip install huggingface-hub" in err


@pytest.mark.parametrize(
    ("who", "repo", "said"),
    [
        (PermissionError("401: no token"), "me/x", "Log in with `hf auth login`"),
        (httpx.ConnectError("no such host"), "me/x", "cannot be reached: no such host"),
        (ConnectionError("offline mode. See …"), "me/x", "cannot be reached: offline mode\n"),
        ({"name": "me", "orgs": [{"name": "lab"}]}, "you/x", "You can write to: me/x, lab/x."),
    ],
)
def test_push_hf_checks_before_it_exports(trained, show, server, monkeypatch, who, repo, said):
    """M36: a missing login or right is told at once, and nothing was exported for it."""

    class HfApi:
        def whoami(self):
            if isinstance(who, Exception):
                raise who
            return who

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(HfApi=HfApi))
    before = len(server.log.requests("save_weights*"))
    code, _, err = show("checkpoint", "push-hf", trained.first, "-r", repo)
    assert code == 1
    assert said in err
    assert len(server.log.requests("save_weights*")) == before


def test_model_list(tell, show):
    """M36: models, all or those whose name contains a text in any case."""
    models = tell("model", "list")["models"]
    assert list(models[0]) == ["model_name", "max_context_length", "trainable", "sampleable"]
    assert [m["model_name"] for m in tell("model", "list", "TINY-b")["models"]] == [f"{MODEL}-base"]
    assert "No model" in show("model", "list", "zzz")[1]


def test_session_export_trace(trained, tell, show, tmp_path):
    """M36: the trace as a file, or only where it is."""
    done = tell("session", "export-trace", trained.session)
    file = tmp_path / f"{trained.session}.pftrace"
    assert done == {
        "session_id": trained.session,
        "destination": str(file),
        "file_size_bytes": file.stat().st_size,
    }
    _, out, _ = show("session", "export-trace", trained.session, "--url-only")
    told = tell("session", "export-trace", trained.session, "--url-only")
    assert told["session_id"] == trained.session
    # The signature holds for an hour from the second it was made in.
    assert told["url"].partition("?")[0] == out.partition("?")[0]
    assert out.startswith("http")


def test_billing(trained, tell, show, tmp_path):
    """M36: usage with RFC 3339 times, flattened in tables and CSV; storage with its rate."""
    span = ("2026-01-02T03:00:00Z", "2026-01-02T04:00:00Z")
    usage = tell("billing", "usage", *span)
    assert list(usage) == ["data", "sessions", "cost_data_through"]
    assert usage["data"][0]["bucket_start"] == "2026-01-02T03:00:00Z"
    assert "type" in usage["data"][0]["event_info"]
    _, out, _ = show("billing", "usage", *span, "--csv", "-")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == len(usage["data"])
    assert {"event_type", "bucket_start"} <= set(rows[0])
    assert show("billing", "usage", *span, "--sessions-csv", "s.csv") == (0, "", "")
    assert (tmp_path / "s.csv").read_text().startswith("session_id")
    assert "event_type" in show("billing", "usage", *span)[1]
    storage = tell("billing", "checkpoint-storage")
    assert list(storage) == ["effective_rate_usd_per_gigabyte_month", "data"]
    assert show("billing", "usage", "yesterday", "today")[0] == 2
    assert show("billing", "usage", "2026-01-02T03:30", "2026-01-02T04:00")[0] == 2


def test_auth(show, tell, tmp_path, monkeypatch):
    """M33: login checks and stores a key that nobody else can read; logout forgets it."""
    assert show("auth", "status") == (0, "Credentials: yes\nAccessible: yes\n", "")
    assert tell("auth", "status") == {"credentials": True, "accessible": True}
    monkeypatch.delenv("TINKER_API_KEY")
    monkeypatch.setattr("sys.stdin", io.StringIO("tml-pasted-canary\n"))
    code, out, err = show("auth", "login")
    assert code == 0
    assert "canary" not in out + err
    assert "and nowhere else" in out
    (file,) = (tmp_path / "home/.tinker/servers").iterdir()
    assert not (tmp_path / "home/.tinker/credentials.json").exists()
    assert file.stat().st_mode & 0o777 == 0o600
    assert "tml-pasted-canary" in file.read_text()
    assert show("auth", "login")[0] == 1
    code, out, err = show("auth", "logout")
    assert code == 0
    assert "canary" not in out + err + file.read_text()
    assert show("auth", "logout")[0] == 1


def test_login_refuses_what_the_server_refuses(show, tmp_path, monkeypatch):
    """M33: a key the server does not know is not stored, and not shown."""
    with Server(Settings(api_keys={"tml-right"})) as strict:
        monkeypatch.setenv("TINKER_BASE_URL", strict.url)
        monkeypatch.delenv("TINKER_API_KEY")
        monkeypatch.setattr("sys.stdin", io.StringIO("tml-wrong-canary\n"))
        code, out, err = show("auth", "login")
        assert code == 1
        assert err.startswith("Error: Authentication failed")
        assert "canary" not in out + err
        assert not (tmp_path / "home/.tinker").exists()
        code, out, _ = show("auth", "status")
        assert code == 1
        assert "Accessible: no" in out


def test_whoami(show, tell, monkeypatch):
    """M33: user and organization come from the token, where the server gives one."""
    config = {"pjwt_auth_enabled": True}
    with Server(Settings(client_config=config)) as server:
        monkeypatch.setenv("TINKER_BASE_URL", server.url)
        assert list(tell("auth", "whoami")) == ["user_urn", "org_urn", "email"]
        assert "Organization" in show("auth", "whoami")[1]


def test_what_is_not_there(show):
    """M36: an unknown id is `Resource not found` on stderr, exit code 1, no traceback."""
    for words in (("run", "info", "nope"), ("checkpoint", "info", "tinker://nope/weights/a")):
        code, out, err = show(*words)
        assert (code, out) == (1, "")
        assert err.startswith("Error: Resource not found")
        assert "Traceback" not in err
    _, _, err = show("--debug", "run", "info", "nope")
    assert "Traceback" in err
    assert KEY not in err


def test_no_server_is_configured(show, monkeypatch):
    """M36, M40: without key and URL it is the embedded server, and stderr says so once."""
    monkeypatch.delenv("TINKER_BASE_URL")
    monkeypatch.delenv("TINKER_API_KEY")
    for form in ([], ["--format", "json"]):
        code, out, err = show(*form, "model", "list")
        assert code == 0
        assert "tinker-ext/tiny" in out
        assert err.count("embedded server") == 1
        for way in ("TINKER_API_KEY", "TINKER_BASE_URL", "base_url='embedded'"):
            assert way in err


@pytest.mark.parametrize("kind", ["sampler_weights", "weights"])
def test_download_from_a_folder(show, tmp_path, kind):
    """M37, F40: what `embedded:FOLDER` has saved comes out of it, without any port."""
    url = f"embedded:{tmp_path / 'state'}"
    with ServiceClient(base_url=url) as service:
        training = service.create_lora_training_client("tinker-ext/tiny", rank=4)
        save = {"weights": "save_state", "sampler_weights": "save_weights_for_sampler"}[kind]
        path = getattr(training, save)("one").result().path
    target = tmp_path / "files"
    words = ["checkpoint", "download", path, "--output", str(target)]
    assert show("--base-url", url, *words)[0] == 0
    assert any(file.suffix == ".safetensors" for file in target.rglob("*"))
    embedded.reset()


def test_doctor(show, tell, server, monkeypatch):
    """M36: everything checked on a good server; a refused key is found and named."""
    report = tell("doctor")
    assert report["ok"] is True
    names = {check["name"] for check in report["checks"]}
    assert {"versions", "key", "server", "proxy", "connection", "clock", "access", "wire"} <= names
    assert KEY not in json.dumps(report)
    with Server(Settings(api_keys={"tml-right"})) as strict:
        code, out, _ = show("--base-url", strict.url, "doctor")
    assert code == 1
    assert "✗ access" in out
    assert "→" in out


def test_conform(tell, show, server):
    """M36: the suite runs on one group, and a planted mistake is exit code 1."""
    report = tell("conform", server.url, "--only", "service")
    assert report["counts"]["fail"] == 0
    with Server(Settings(bugs={"capability_missing"})) as wrong:
        code, out, _ = show("conform", wrong.url, "--only", "service.capabilities")
    assert code == 1
    assert "FAIL" in out
    code, _, said = show("conform", server.url, "--only", "nonsense")
    assert code == 2  # 1 says that the server is wrong
    assert "groups: adam" in said


def test_conform_of_a_server_that_is_down(show, tmp_path):
    """M47: exit code 3, one sentence, and reports that say so; no dialect is remembered."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    junit, dialect = tmp_path / "report.xml", tmp_path / "dialect.json"
    files = ("--junit", str(junit), "--remember", str(dialect))
    code, out, said = show("conform", url, "--json", *files)
    assert code == 3
    assert said.strip() == f"Cannot judge: {url} cannot be reached: All connection attempts failed."
    assert json.loads(out)["counts"] == {"pass": 0, "fail": 0, "absent": 0, "unjudged": 1}
    assert "cannot be reached" in junit.read_text()
    assert not dialect.exists()
    assert show("conform", url)[:2] == (3, "")


def test_watch_a_run_id(trained, tell, show):
    """M36: `watch RUN_ID --once` asks the server."""
    seen = tell("watch", trained.run)
    assert seen["run"]["training_run_id"] == trained.run
    assert "weights/first" in show("watch", trained.run, "--once")[1]


@pytest.mark.parametrize("source", ["first", "sampler", None])
def test_sample(tell, trained, source):
    """M36: from a checkpoint of either kind or a base model; the same seed says the same."""
    model = MODEL if source is None else getattr(trained, source)
    words = ("sample", model, "The cow says", "-n", "2", "--max-tokens", "5", "--seed", "3")
    said = tell(*words)
    assert said["model"] == model
    assert said["prompt_tokens"] == len("The cow says")
    assert [sample["stop_reason"] for sample in said["samples"]] == ["length"] * 2
    assert tell(*words) == said


def test_sample_of_a_message_uses_the_chat_template(tell):
    """M32 M36: `--chat` puts the message into the model's own form."""
    said = tell("sample", MODEL, "--chat", "Hi", "--max-tokens", "1", "--temperature", "0")
    form = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    plain = form.replace("<|im_start|>", "§").replace("<|im_end|>", "§")
    assert said["prompt_tokens"] == len(plain)


def test_sample_of_what_is_not_a_checkpoint(capsys):
    """M36: the error says what a path looks like, before anything is sent."""
    assert run(["sample", "tinker://nonsense", "text"]) == 1
    assert "is not the path of a checkpoint" in capsys.readouterr().err
