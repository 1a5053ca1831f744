"""A real browser and the real command, for tests of the page; `nox -s browser` runs them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 120_000
"""Milliseconds after which something is not coming; a busy machine is slow."""
HOW = (
    "No Chromium was found. Install one: `apt-get install chromium`, or "
    "`python -m playwright install --with-deps chromium` where that host is reachable; or name it "
    "in TINKER_EXT_CHROMIUM."
)


def chromium() -> str | None:
    given = os.environ.get("TINKER_EXT_CHROMIUM")
    return given or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        place = chromium() or playwright.chromium.executable_path
        if not Path(place).exists():
            pytest.fail(HOW)
        # Chromium refuses its sandbox to root; the pages are our own.
        rights = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=place, args=rights, timeout=PATIENCE)
        expect.set_options(timeout=PATIENCE)
        yield started
        started.close()


@pytest.fixture
def ui(tmp_path):
    """The printed address of `tinker-ext ui` on an empty folder, and the folder."""
    folder = tmp_path / "runs"
    folder.mkdir()
    command = [sys.executable, "-m", "tinker_ext", "--format", "json", "ui", str(folder)]
    process = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, "the command ended"
            text += line
        yield json.loads(text)["url"], folder
    finally:
        process.terminate()
        process.wait(300)
        process.stdout.close()


@pytest.fixture
def page(browser, ui, request, shots):
    """A page that must not complain, open windows or ask any other host."""
    options = getattr(request, "param", {"viewport": {"width": 1280, "height": 860}})
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    opened = context.new_page()
    complaints, hosts = [], set()

    def heard(message):
        # A 404 of our own is shown on the page, and told to the console by the browser itself.
        if message.type != "log" and "status of 404" not in message.text:
            complaints.append(message.text)

    opened.on("console", heard)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    opened.on("request", lambda r: hosts.add(r.url.split("/")[2]))
    opened.goto(ui[0])
    yield opened
    opened.screenshot(path=shots / f"{request.node.name}.png")
    context.close()
    assert complaints == []
    assert hosts == {ui[0].split("/")[2]}


@pytest.fixture(scope="session")
def shots():
    """Where screenshots are kept to be looked at."""
    place = Path(os.environ.get("TINKER_EXT_SHOTS", ".nox/screenshots"))
    place.mkdir(parents=True, exist_ok=True)
    return place
