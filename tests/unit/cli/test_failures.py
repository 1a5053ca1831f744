"""Errors of commands: one line that says what, one that says what to do, an exit code."""

import pytest

from tinker_ext import errors
from tinker_ext.cli import run as running
from tinker_ext.cli.failures import TITLES, CommandError, lines_for, report
from tinker_ext.cli.run import run


@pytest.mark.parametrize(
    ("status", "title"),
    [
        (400, "Invalid request"),
        (401, "Authentication failed"),
        (402, "Billing issue"),
        (403, "Permission denied"),
        (404, "Resource not found"),
        (409, "API error"),
        (422, "Invalid data provided"),
        (429, "Rate limit exceeded"),
        (500, "Internal server error"),
    ],
)
def test_titles_of_statuses(status, title):
    """M36: the short titles of the official command, and always something to do."""
    first, *rest = lines_for(errors.error_for_status(status, {"detail": "because"}))
    assert first.startswith(f"Error: {title}: ")
    assert "because" in first
    assert rest


def test_titles_of_silence():
    """M36: no answer and no answer in time have titles of their own."""
    assert lines_for(errors.APIConnectionError(message="x"))[0].startswith(
        "Error: Connection failed"
    )
    assert lines_for(errors.APITimeoutError())[0].startswith("Error: Request timeout")


def test_every_title_belongs_to_an_error():
    """M36: the table names classes that exist."""
    assert all(issubclass(getattr(errors, name), errors.TinkerError) for name, _ in TITLES)


def test_a_missing_package_is_named_with_what_installs_it():
    """M36: a core install has click through tokenizers, so rich is what commands miss."""
    assert lines_for(ModuleNotFoundError("No module named 'rich'", name="rich.console")) == [
        "Error: this command needs rich, which is not installed",
        "Install it with: pip install click rich",
    ]


def test_a_package_that_is_installed_and_lacks_a_name_is_not_called_missing():
    """M36: it is too old or broken, and only its own message tells how."""
    error = ImportError("cannot import name 'HfApi' from 'huggingface_hub'", name="huggingface_hub")
    assert lines_for(error)[0] == f"Error: {error}"


def test_a_hint_is_printed_once():
    """M36: the hint has a line of its own and is not repeated in the first."""
    error = errors.TinkerError("it broke").with_context(hint="mend it")
    assert lines_for(error) == ["Error: it broke", "mend it"]
    assert error.hint == "mend it"


def test_no_traceback_without_debug(capsys):
    """M36: a traceback is for those who ask for one."""
    with pytest.raises(KeyError) as caught:
        raise KeyError("gone")
    assert report(caught.value) == 1
    quiet = capsys.readouterr().err
    assert report(caught.value, debug=True) == 1
    loud = capsys.readouterr().err
    assert "Traceback" not in quiet
    assert "--debug" in quiet
    assert "Traceback" in loud


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (CommandError("no", "do this"), 1, ["Error: no", "do this"]),
        (KeyboardInterrupt(), 130, ["Interrupted"]),
        (FileNotFoundError(2, "No such file", "x.json"), 1, ["Error: No such file: x.json"]),
        (ImportError("No module named 'uvicorn'"), 1, ["uvicorn", "pip install"]),
    ],
)
def test_exit_codes(raised, code, words, monkeypatch, capsys):
    """M36: 0 done, 1 failed, 130 interrupted; errors go to stderr alone."""

    def broken(**_):
        raise raised

    monkeypatch.setattr(running.root, "main", broken)
    assert run(["anything"]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert all(word in shown.err for word in words)


def test_wrong_usage_is_2(capsys):
    """M36: an unknown option is wrong usage."""
    assert run(["run", "list", "--nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err
