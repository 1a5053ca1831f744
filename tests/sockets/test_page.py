"""The page of a run that a client wrote, and the command where it cannot serve."""

import socket

import pytest
from unit.ui.test_app import ask

from tinker_ext import AdamParams, ServiceClient
from tinker_ext.cli import main
from tinker_ext.errors import TinkerError
from tinker_ext.mock import Server, Settings


def test_no_key_reaches_the_log_or_the_page(tmp_path):
    """Safe: a run that failed, retried and sampled leaves no trace of its key."""
    key = "tml-canary-4711"
    with (
        Server(Settings(api_keys=(key,))) as port,
        ServiceClient(base_url=port.url, api_key=key, run_log=tmp_path / "run") as service,
    ):
        training = service.create_lora_training_client("tinker-ext/tiny", rank=4)
        training.optim_step(AdamParams()).result()
        with pytest.raises(TinkerError), pytest.warns(FutureWarning):
            training.load_state("tinker://nobody/weights/x").result()
    replies = ask(tmp_path, ("GET", "/api/runs"), ("GET", "/api/run?id=run"))
    assert replies[1].json()["step"] == 1
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").iterdir())
    assert key.encode() not in written + replies[0].content + replies[1].content


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--port", "PORT", "FOLDER"], "--port 0"),
        (["--host", "no-such-name.invalid", "FOLDER"], "--host must be"),
        (["FOLDER/nothing"], "Name the folder"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path, capsys, words, hint):
    """Bad input: a port in use, a name of nobody, no such folder: one line, and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = [w.replace("PORT", port).replace("FOLDER", str(tmp_path)) for w in words]
        with pytest.raises(SystemExit) as ended:
            main(["ui", *arguments])
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("Error: ")
    assert hint in said
