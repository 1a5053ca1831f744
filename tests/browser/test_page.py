"""The page in a real browser: runs appear and grow, stalls say why, hostile text does no harm."""

import json
import math
import threading
import time

import numpy as np
import pytest
from playwright.sync_api import expect

from tinker_ext import AdamParams, Datum, ModelInput, SampleLog, SampleResponse, ServiceClient
from tinker_ext.mock import Server, Settings
from tinker_ext.mock.settings import Pause
from tinker_ext.types import SampledSequence

MODEL = "tinker-ext/tiny"
AT_LEAST = (
    "n => document.querySelector('#chart path.line').getAttribute('d').split('L').length >= n"
)
REASON = "all machines of this model are busy"


def datum(length=8):
    tokens = list(range(1, length + 1))
    return Datum(
        model_input=ModelInput.from_ints(tokens),
        loss_fn_inputs={"target_tokens": tokens, "weights": [1.0] * length},
    )


def train(service, steps):
    training = service.create_lora_training_client(MODEL, rank=4)
    for _ in range(steps):
        step(training)
    return training


def step(training):
    training.forward_backward([datum()], "cross_entropy")
    training.optim_step(AdamParams(learning_rate=1e-3)).result()


def write_run(folder, steps=60, decay=0.05, ended="success", cost=True, until=None):
    """The log of a run that has been, in the format of the run log."""
    folder.mkdir(parents=True, exist_ok=True)
    now = (until or time.time()) - 5 * steps
    with (folder / "metrics.jsonl").open("w") as file:

        def write(kind, **fields):
            line = {"type": kind, "time": now, "session": "s", **fields}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")

        write("session_start", version=1, budget={"cost": 1.0}, currency="USD")
        for step in range(1, steps + 1):
            now += 5
            loss = 100 * math.exp(-decay * step) + 3 + (step * 7919 % 13) / 4
            write(
                "step",
                step=step,
                target="m",
                model="Qwen/Qwen3-8B",
                loss=loss,
                metrics={"loss:sum": loss, "reward": step / steps},
                tokens={"train": 50},
                seconds=5.0,
                totals={
                    "train": 50 * step,
                    "prefill": 0,
                    "sample": 0,
                    "cost": 0.004 * step if cost else None,
                },
            )
            write("time", seconds=5.0, server=3.0, queue=0.5, network=0.5, us=1.0)
        if ended:
            write("session_end", seconds=1, status=ended, totals={})


class Words:
    """Decodes every token to a word."""

    def decode(self, tokens):
        return " ".join(f"word{token}" for token in tokens) + " "


def write_trouble(folder):
    """A run with a call that waits, calls that were sent again, and samples of two checkpoints."""
    write_run(folder, steps=30, ended=None)
    now = time.time()
    call = {"number": 9, "operation": "forward_backward", "target": "m"}
    state = {"state": "paused_capacity", "reason": REASON}
    about = {"lane": "train", "stage": "waiting", "since": now - 70, "attempts": 3, "retries": 1}
    lines = [
        {"type": "start", **call},
        {"type": "retry", **call, "lane": "train", "attempt": 1, "reason": "503", "delay": 0.5,
         "source": "backoff"},
        *({"type": "operation", "number": n, "operation": "optim_step", "target": "m",
           "seconds": 2.0, "seq_id": n, "retries": 1, "effect": effect, "error": error}
          for n, effect, error in ((3, "yes", None), (4, "no", "BadRequestError"),
                                   (5, "unknown", "APIConnectionError"))),
        {"type": "queue", **call, **state},
        {"type": "waiting", "count": 1, "calls": [{**call, **about, **state,
                                                   "deadline": now + 3600}]},
    ]  # fmt: skip
    with (folder / "metrics.jsonl").open("a") as file:
        for line in lines:
            text = {"type": line["type"], "time": now, "session": "s", **line}
            file.write(json.dumps(text, separators=(",", ":")) + "\n")
    log = SampleLog(folder, tokenizer=Words())
    for step in (10, 20):
        for first in (1, 5):
            drawn = [
                SampledSequence(
                    "stop",
                    tokens_np=np.arange(first, first + 20),
                    logprobs_np=np.linspace(-0.05, -6 + step / 5, 20),
                )
                for _ in range(2)
            ]
            log.record(
                ModelInput.from_ints([first, first + 1]),
                SampleResponse(drawn),
                rewards=[1.0, -0.5 + step / 20],
                step=step,
                checkpoint=f"tinker://m/sampler_weights/step{step}",
                trainer_logprobs=[np.linspace(-0.1, -5, 20)] * 2,
            )


def points(page):
    """Points of the large curve."""
    return page.evaluate(
        "(document.querySelector('#chart path.line')?.getAttribute('d') || '')"
        ".split(/[ML]/).length - 1"
    )


def test_a_run_appears_and_its_curve_grows(page, ui):
    """M34: an empty folder says what to do; a run appears by itself and grows under one's eyes."""
    expect(page.get_by_text("No runs here yet")).to_be_visible()

    seen, steps = threading.Event(), 10

    def work():
        nonlocal steps
        with ServiceClient(base_url="embedded", run_log=ui[1] / "mine") as service:
            training = train(service, steps)
            # As long as a slow page needs to show it; of more than 200 steps it shows a part.
            while not seen.wait(1.0) and steps < 200:
                step(training)
                steps += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        page.get_by_role("link", name="mine").click()
        page.wait_for_selector("#chart path.line")
        first = points(page)
        page.wait_for_function(AT_LEAST, arg=first + 4)
        expect(page.locator("#badge")).to_have_text("running")
    finally:
        seen.set()
        thread.join(120)
    expect(page.locator("#badge")).to_have_text("done")
    page.wait_for_function(AT_LEAST, arg=steps)
    assert points(page) == steps


# Notes in the page itself when it first shows the words, however slowly a test gets to ask.
NOTE_WHEN = """words => new MutationObserver(() => {
    if (!window.shown && document.body.innerText.includes(words)) window.shown = Date.now() / 1000;
}).observe(document.body, {childList: true, subtree: true, characterData: true})"""

# What a busy machine takes from the page: asks for its text ten times a second, as the page asks
# for news, and notes when each round began and how much longer than that it took.
NOTE_LOST = """() => {
    window.lost = [];
    const ask = async began => {
        await fetch(location.href);
        await new Promise(done => setTimeout(done, 100));
        const now = Date.now() / 1000;
        window.lost.push([began, now - began - 0.1]);
        ask(now);
    };
    ask(Date.now() / 1000);
}"""


def test_a_stall_says_why_within_two_seconds(page, ui):
    """M26: from the time of the line in the log to the words on the screen, on both views."""
    other = page.context.new_page()
    other.goto(ui[0].split("?")[0] + "#/run/stalled/waits")
    for each in (page, other):
        each.evaluate(NOTE_WHEN, REASON)
        each.evaluate(NOTE_LOST)
    pause = Pause(state="paused_capacity", seconds=20.0, reason=REASON)
    with Server(Settings(pause=pause, long_poll=0.3)) as server:

        def work():
            key, log = "tml-x", ui[1] / "stalled"
            with ServiceClient(base_url=server.url, api_key=key, run_log=log) as service:
                train(service, 1)

        thread = threading.Thread(target=work)
        thread.start()
        expect(page.get_by_role("row", name="stalled").get_by_text(REASON)).to_be_visible()
        expect(other.locator("#why")).to_contain_text(REASON)
        expect(other.locator(".advice")).to_contain_text("goes on by itself")
        thread.join(120)
    log = map(json.loads, (ui[1] / "stalled" / "metrics.jsonl").read_text().splitlines())
    said = next(line["time"] for line in log if line["type"] == "queue")
    took = []
    for each in (page, other):
        shown, rounds = each.evaluate("[window.shown, window.lost]")
        took.append(shown - said - sum(lost for began, lost in rounds if said < began < shown))
    print("a stall is on the screen after", [f"{seconds:.2f} s" for seconds in took])
    assert max(took) < 2.0


def sequence(text, tokens):
    return SampledSequence("stop", tokens_np=np.arange(tokens), logprobs_np=np.full(tokens, -1.0))


class Hostile:
    """Decodes to whatever might hurt a page."""

    text = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>\x00\x1b[31m"
    text += "\u202edlrow"

    def decode(self, tokens):
        return self.text if len(tokens) < 3 else self.text + "A" * 1_000_000


def test_a_hostile_sample_does_no_harm(page, ui):
    """Safe: tags, control characters and a megabyte are text, cut, and do not slow the page."""
    write_run(ui[1] / "wild")
    log = SampleLog(ui[1] / "wild", tokenizer=Hostile())
    prompt = ModelInput.from_ints([1, 2])
    for step in (1, 2):
        reply = SampleResponse([sequence("", 2), sequence("", 5000)])
        log.record(
            prompt,
            reply,
            rewards=[1, -1],
            step=step,
            checkpoint=f"<b>step {step}</b>",
            trainer_logprobs=[[-1.1, -0.5], [-1.0] * 5000],
        )
    page.get_by_role("link", name="wild").click()
    page.get_by_role("link", name="Samples").click()
    page.locator(".columns section").nth(1).wait_for()
    shown = page.locator(".sequence .text").first
    expect(shown).to_contain_text("<script>window.pwned = 1</script>")
    expect(shown).to_contain_text("␀")
    expect(shown).to_contain_text("⟨U+202E⟩")
    page.get_by_role("button", name="plain").click()
    expect(page.get_by_text("more characters in the file").first).to_be_visible()
    page.get_by_role("button", name="trainer against sampler").click()
    expect(page.locator(".apart").first).to_be_visible()
    assert page.evaluate("window.pwned") is None
    assert (
        page.evaluate("document.querySelectorAll('#main script, #main img, #main b b').length") == 0
    )
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.get_by_role("link", name="All runs").click()
    expect(page.get_by_role("link", name="wild")).to_be_visible()


def test_values_of_the_wrong_type_leave_the_rest_in_sight(page, ui):
    """M50: a price that is text hides no run, a log-probability that is text no sample."""
    write_run(ui[1] / "good")
    write_run(ui[1] / "odd")
    with (ui[1] / "odd" / "metrics.jsonl").open("a") as file:
        file.write('{"type":"session_end","time":1.0,"session":"s","totals":{"cost":"cheap"}}\n')
    each = {"text": "t", "pieces": [7, None, "kept"], "logprobs": ["low", None, -1.0]}
    each["trainer_logprobs"] = ["low", None, -1.5]
    record = {"prompt_id": "p", "prompt": "q", "sequences": [each]}
    (ui[1] / "odd" / "samples.jsonl").write_text(json.dumps(record) + "\n")
    expect(page.get_by_role("link", name="good")).to_be_visible()
    page.get_by_role("link", name="odd").click()
    page.get_by_role("link", name="Samples").click()
    expect(page.locator(".sequence .text").first).to_contain_text("kept")
    expect(page.get_by_text("trainer differs by 0.500 a token")).to_be_visible()


def test_two_hundred_runs_stay_usable(page, ui):
    """M34: filter, sort, keyboard and opening work, each redraw in a fraction of a second."""
    for number in range(200):
        write_run(
            ui[1] / f"sweep/{number:03d}",
            steps=30,
            decay=0.01 + number / 2000,
            ended=None if number == 7 else "success",
        )
    expect(page.locator(".runs tbody tr")).to_have_count(200)
    page.keyboard.press("/")
    page.keyboard.type("sweep/04")
    expect(page.locator(".runs tbody tr")).to_have_count(10)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Loss / token").click()
    page.keyboard.press("j")
    page.keyboard.press("j")
    name = page.locator("tr:focus-within .name").inner_text()
    page.keyboard.press("x")
    page.keyboard.press("k")
    page.keyboard.press("x")
    page.keyboard.press("Enter")
    expect(page.locator("#legend .key")).to_have_count(2)
    expect(page.locator("#legend")).to_contain_text(name)
    for key, word in zip(
        "2345",
        ("Where the time went", "Nothing was sent twice", "Spend over time", "No samples recorded"),
        strict=True,
    ):
        page.keyboard.press(key)
        expect(page.get_by_text(word)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#filter")).to_be_visible()


def test_a_curve_is_zoomed_smoothed_and_compared(page, ui):
    """M34: drag to zoom, 0 to go back, the slider smooths, another run is laid over."""
    write_run(ui[1] / "a", steps=400)
    page.get_by_role("link", name="a", exact=True).click()
    page.wait_for_selector("#chart path.line")
    expect(page.get_by_label("compare with")).to_be_hidden()
    write_run(ui[1] / "b", steps=200, decay=0.02)  # one that begins later is offered too
    expect(page.get_by_label("compare with")).to_be_visible()
    box = None
    while box is None:  # as long as it is drawn anew
        box = page.locator("#chart svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 100)
    expect(page.locator("#chart .tip")).to_contain_text("at")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 100, steps=5)
    page.mouse.up()
    expect(page.locator("#whole")).to_be_visible()
    assert 50 < points(page) < 120
    page.keyboard.press("0")
    expect(page.locator("#whole")).to_be_hidden()
    page.get_by_label("smoothing").fill("0.9")
    expect(page.locator("#chart path.raw")).to_have_count(1)
    page.get_by_label("compare with").select_option("b")
    expect(page.locator("#chart path.line")).to_have_count(2)
    page.get_by_label("metric").select_option("reward")
    expect(page.locator("#chart svg")).to_have_attribute("aria-label", "reward")


def test_focus_and_typing_survive_a_refresh(page, ui):
    """M34: a run that writes all the time takes the keyboard from nobody."""
    write_run(ui[1] / "a", steps=20, ended=None)
    page.get_by_role("button", name="Spent").focus()
    page.wait_for_timeout(2500)
    expect(page.get_by_role("button", name="Spent")).to_be_focused()
    page.goto(ui[0].split("?")[0] + "#/run/a/cost")
    page.get_by_label("Planned steps").press_sequentially("50")
    write_run(ui[1] / "a", steps=30, ended=None)
    expect(page.locator(".tile").first).to_have_text("30steps")
    page.get_by_label("Planned steps").press_sequentially("0")
    page.keyboard.press("Tab")
    expect(page.get_by_text("forecast for 500 steps")).to_be_visible()


# Words of a chart that lie on each other, as pairs.
OVERLAPS = """() => [...document.querySelectorAll('.chart svg')].flatMap(chart => {
    const words = [...chart.querySelectorAll('text')];
    const places = words.map(word => word.getBoundingClientRect());
    const apart = (a, b) => a.right <= b.left || a.bottom <= b.top;
    return words.flatMap((one, i) => words.filter((two, j) =>
        i < j && !apart(places[i], places[j]) && !apart(places[j], places[i])
    ).map(two => [one.textContent, two.textContent]));
})"""

# Charts below which a time stands twice.
TWICE = """() => [...document.querySelectorAll('.chart svg')].filter(chart => {
    const words = [...chart.querySelectorAll('text')].map(word => word.textContent);
    const times = words.filter(word => word.includes(':'));
    return new Set(times).size < times.length;
}).length"""

LOOKS = {
    "light": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "has_touch": True,
    },
}


@pytest.mark.parametrize("page", LOOKS.values(), ids=LOOKS, indirect=True)
def test_every_view_fits_the_screen(page, ui, shots, request):
    """M34: dark, light and phone width: nothing too wide, no word on another; pictures of all."""
    # Its curve begins seconds before a full five minutes, so that the first label is at the edge.
    write_run(ui[1] / "a", steps=120, until=time.time() // 300 * 300 - 10)
    write_run(ui[1] / "b", steps=60, ended="errored")
    write_trouble(ui[1] / "c")
    expect(page.locator(".runs tbody tr")).to_have_count(3)
    for tab in (
        "",
        "#/run/a/curves",
        "#/run/c/waits",
        "#/run/c/retries",
        "#/run/a/cost",
        "#/run/c/samples",
    ):
        page.goto(ui[0].split("?")[0] + tab)
        page.wait_for_selector("#tab > *" if tab else ".runs tbody tr")
        page.wait_for_timeout(400)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), tab
        assert page.evaluate(OVERLAPS) == [], tab
        assert page.evaluate(TWICE) == 0, tab
        page.screenshot(
            path=shots / f"{request.node.callspec.id}-{tab.split('/')[-1] or 'runs'}.png"
        )
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(15, 18, 24)") == (request.node.callspec.id == "dark")


def test_a_server_that_is_gone_and_a_run_that_is_not_there_are_said(page, ui):
    """Bad input: an address of a run that no longer exists."""
    page.goto(ui[0].split("?")[0] + "#/run/nothing/curves")
    expect(page.get_by_text("There is no such run in this folder.")).to_be_visible()
    page.get_by_role("link", name="All runs").click()
    expect(page.get_by_text("No runs here yet")).to_be_visible()
