"""`tinker-ext conform`: report, exit code, and reports side by side."""

import json

import pytest

from tinker_ext.cli.run import run


def test_a_report_for_people_and_one_for_programs(capsys):
    """M36: pass is exit code 0; `--json` prints everything as data."""
    assert run(["conform", "embedded", "--only", "service.healthz"]) == 0
    assert "pass    healthz" in capsys.readouterr().out
    assert run(["conform", "embedded", "--only", "service", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counts"]["fail"] == 0
    assert {result["name"].partition(".")[0] for result in report["results"]} == {"service"}


def test_a_typo_is_told(capsys):
    """M36: an unknown check ends with the groups there are."""
    assert run(["conform", "embedded", "--only", "servce"]) != 0
    error = capsys.readouterr().err
    assert "servce" in error
    assert "--list" in error


def test_reports_side_by_side(capsys, tmp_path):
    """M28: the table of docs/servers.md comes from a command."""
    run(["conform", "embedded", "--only", "service.healthz", "--json"])
    file = tmp_path / "report.json"
    file.write_text(capsys.readouterr().out)
    assert run(["conform", "--matrix", f"mine 1.0={file}", "--matrix", f"other={file}"]) == 0
    table = capsys.readouterr().out
    assert table.startswith("| check | what the server does | mine 1.0 | other |")
    assert "| service.healthz | answers healthz with a status | yes | yes |" in table


def test_a_file_that_is_no_report_is_told(capsys, tmp_path):
    """M36: the error names the file and the command that makes one."""
    file = tmp_path / "other.json"
    file.write_text("[]")
    assert run(["conform", "--matrix", f"x={file}"]) == 1
    error = capsys.readouterr().err
    assert "other.json" in error
    assert "--json" in error


@pytest.mark.parametrize("url", ["ftp://x", "file:///etc/passwd", "nonsense"])
def test_a_url_that_is_none_has_no_advice_about_checks(capsys, url):
    """M36: the list of checks is shown for a mistyped check, not for a mistyped URL."""
    assert run(["conform", url]) == 1
    error = capsys.readouterr().err
    assert "http://" in error
    assert "--list" not in error


@pytest.mark.parametrize(
    "words", [["--base-url", "embedded", "conform"], ["conform", "--base-url", "embedded"]]
)
def test_the_server_may_be_that_of_the_option(words, capsys):
    """M41: conform tests the server that the other commands use; without one it says so."""
    assert run([*words, "--only", "service.healthz"]) == 0
    assert run(["conform", "--only", "service.healthz"]) == 2
    assert "URL" in capsys.readouterr().err
