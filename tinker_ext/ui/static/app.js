// The page: all runs, and one run with its curves, waits, retries, cost and samples.
// Everything from a log is put into the page as text, never as HTML.

import { bars, lines, number, spark } from "/chart.js";

const main = document.getElementById("main");
const state = { runs: [], now: 0, at: 0, filter: "", sort: "updated", up: false, chosen: new Set(), view: {}, drawn: "" };
const TABS = ["curves", "waits", "retries", "cost", "samples"];
const PARTS = ["server", "queue", "network", "us"];
const MEANING = {
  server: "the server works on the oldest call",
  queue: "it is held back: by the server's queue, a limit, or earlier calls",
  network: "it is being sent, or sent again",
  us: "no call is pending: your program is at work",
};

// --- building blocks -------------------------------------------------------------------------

function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const tile = (value, label) => h("div", { className: "tile" }, h("b", {}, value), h("span", {}, label));
const table = (heads, rows) => h("div", { className: "scroll" }, h("table", {},
  h("thead", {}, h("tr", {}, heads.map((head) => h("th", { className: head.startsWith("#") ? "n" : "" }, head.replace("#", ""))))),
  h("tbody", {}, rows)));
const cell = (value, right) => h("td", { className: right ? "n" : "" }, value ?? "–");
const card = (title, ...children) => h("section", { className: "card" }, title ? h("h2", {}, title) : null, children);
const empty = (title, text, code) => h("div", { className: "card empty" }, h("h2", {}, title), h("p", { className: "muted" }, text), code ? h("pre", {}, code) : null);
const money = (value, currency) => (value === null || value === undefined ? "–" : `${value < 0.01 && value > 0 ? value.toPrecision(2) : value.toFixed(value < 10 ? 3 : 2)} ${currency || ""}`.trim());
const moment = (seconds) => (seconds ? new Date(seconds * 1000).toLocaleTimeString() : "–");

function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 1) return `${Math.round(Math.max(0, seconds) * 1000)} ms`;
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86400)} days`;
}

function badge(name) {
  const tone = { running: "good", done: "good", yes: "good", "held back": "warn", quiet: "warn", reading: "", unknown: "warn", no: "bad" }[name];
  return h("span", { className: `badge ${tone ?? "bad"}` }, name);
}

// Control and direction characters are made visible: a sample must not rearrange the page.
function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (c) => (c === "\u007f" ? "␡" : String.fromCharCode(0x2400 + c.charCodeAt(0))))
    .replace(/[\u0080-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

async function ask(path, values = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values))
    for (const each of Array.isArray(value) ? value : [value]) if (each !== null && each !== undefined) query.append(name, each);
  const reply = await fetch(`/api/${path}?${query}`);
  const body = reply.headers.get("content-type").includes("json") ? await reply.json() : { error: await reply.text() };
  if (!reply.ok) throw new Error(body.error);
  return body;
}

// --- all runs --------------------------------------------------------------------------------

function shown() {
  const words = state.filter.toLowerCase().split(/\s+/);
  const found = state.runs.filter((run) => words.every((word) => `${run.id} ${run.model || ""} ${run.state}`.toLowerCase().includes(word)));
  const key = (run) => run[state.sort] ?? (state.up ? Infinity : -Infinity);
  return found.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (state.up ? 1 : -1));
}

function renderRuns() {
  document.title = "Runs · tinker-ext";
  if (!state.runs.length) {
    main.replaceChildren(empty("No runs here yet", "A run appears as soon as it writes its log in or below this folder.",
      'service = tinker_ext.ServiceClient(run_log="runs/first")'));
    return;
  }
  const rows = shown();
  state.at = Math.min(state.at, Math.max(0, rows.length - 1));
  const head = (key, label, right) => h("th", { className: right ? "n" : "" },
    h("button", { onclick: () => { state.up = state.sort === key && !state.up; state.sort = key; renderRuns(); } },
      label + (state.sort === key ? (state.up ? " ↑" : " ↓") : "")));
  const body = rows.map((run, at) => {
    const box = h("input", { type: "checkbox", checked: state.chosen.has(run.id), ariaLabel: `compare ${run.id}`, onclick: (event) => { event.stopPropagation(); choose(run.id); } });
    return h("tr", { className: at === state.at ? "at" : "", onclick: () => open(run.id) },
      h("td", {}, box),
      h("td", {}, h("a", { className: "name", href: address(run.id) }, run.id), h("div", { className: "muted small" }, run.model || "")),
      h("td", {}, badge(run.state === "reading" ? `reading ${Math.floor(run.read * 100)} %` : run.state)),
      h("td", { className: "span" }, run.reason ? h("span", { className: "small" }, visible(run.reason)) : h("span", { className: "muted small" }, run.notes[0] || (run.pending ? `${run.pending} pending` : ""))),
      h("td", { className: "n", "data-unit": "steps" }, number(run.step)),
      h("td", { className: "n", "data-unit": "loss" }, number(run.loss)),
      h("td", { className: "wide" }, spark(run.spark)),
      h("td", { className: "n", "data-unit": "tokens/s" }, number(run.pace)),
      h("td", { className: "n", "data-unit": "spent" }, money(run.cost, run.currency)),
      h("td", { className: "n muted wide" }, run.updated ? `${span(Math.max(0, state.now - run.updated))} ago` : "–"));
  });
  const filter = h("input", { id: "filter", type: "search", placeholder: "Filter by name, model or state  (/)", value: state.filter, size: 34,
    oninput: (event) => { state.filter = event.target.value; state.at = 0; renderRuns(); } });
  const kept = document.activeElement?.id === "filter";
  const total = {};
  for (const run of state.runs) if (run.cost) total[run.currency || ""] = (total[run.currency || ""] || 0) + run.cost;
  const costs = Object.entries(total).map(([currency, cost]) => money(cost, currency)).join(" + ");
  main.replaceChildren(h("div", { className: "stack" },
    h("div", { className: "row" }, h("h1", {}, `${state.runs.length} run${state.runs.length === 1 ? "" : "s"}`), filter, h("span", { className: "grow" }),
      costs ? h("span", { className: "muted" }, `spent ${costs}`) : null,
      state.chosen.size > 1 ? h("button", { onclick: () => open([...state.chosen][0], "curves") }, `Compare ${state.chosen.size}`) : null),
    rows.length ? h("div", { className: "card scroll runs" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th"), head("id", "Run"), head("state", "State"), h("th"), head("step", "Step", true), head("loss", "Loss / token", true), h("th"), head("pace", "Tokens/s", true), head("cost", "Spent", true), head("updated", "Last line", true))),
      h("tbody", {}, body))) : empty("No run fits the filter", "Clear it to see all runs.")));
  if (kept) { const again = document.getElementById("filter"); again.focus(); again.setSelectionRange(state.filter.length, state.filter.length); }
}

const address = (id, tab = "curves") => `#/run/${encodeURIComponent(id)}/${tab}`;
const open = (id, tab) => { location.hash = address(id, tab); };
const choose = (id) => { state.chosen.has(id) ? state.chosen.delete(id) : state.chosen.add(id); renderRuns(); };

// --- one run ---------------------------------------------------------------------------------

function frame(run, tab) {
  document.title = `${run.id} · tinker-ext`;
  const body = h("div", { id: "tab", className: "stack" });
  const tabs = h("nav", { className: "tabs" }, TABS.map((name) => h("a", { href: address(run.id, name), "aria-current": name === tab ? "page" : null },
    name[0].toUpperCase() + name.slice(1), name === "waits" && run.calls.length ? ` (${run.calls.length})` : name === "samples" && run.samples ? ` (${run.samples})` : "")));
  main.replaceChildren(h("div", { className: "stack" },
    h("div", { className: "row" }, h("a", { href: "#/" }, "← All runs"), h("h1", { id: "title" }, run.id), h("span", { id: "badge" }), h("span", { className: "muted" }, run.model || "")),
    h("div", { id: "notes", className: "stack" }), h("div", { id: "tiles", className: "tiles" }), tabs, body));
  return body;
}

function summary(run) {
  document.getElementById("badge").replaceChildren(badge(run.state));
  document.getElementById("notes").replaceChildren(...run.notes.map((text) => h("div", { className: "note" }, visible(text))));
  document.getElementById("tiles").replaceChildren(
    tile(number(run.step), "steps"), tile(number(run.loss), "loss per token"), tile(number(run.pace), "tokens/s"),
    tile(span(run.seconds), "per step"), tile(money(run.cost, run.currency), "spent"), tile(String(run.pending), "calls pending"));
}

async function renderRun(id, tab, fresh) {
  const run = await ask("run", { id });
  const key = `${id} ${tab}`;
  if (location.hash !== address(id, tab) && location.hash !== `#/run/${encodeURIComponent(id)}`) return;
  if (fresh || state.drawn !== key || !document.getElementById("tab")) {
    frame(run, tab);
    state.drawn = key;
    state.view = tab === "curves" ? { ...state.view, low: null, high: null, built: false } : {};
  }
  summary(run);
  await { curves: renderCurves, waits: renderWaits, retries: renderRetries, cost: renderCost, samples: renderSamples }[tab](run, document.getElementById("tab"));
}

const stored = (name, otherwise) => localStorage.getItem(`tinker-ext ${name}`) ?? otherwise;
const store = (name, value) => localStorage.setItem(`tinker-ext ${name}`, value);

async function renderCurves(run, body) {
  const view = state.view;
  view.metric = run.metrics.includes(view.metric ?? stored("metric")) ? view.metric ?? stored("metric") : "loss/token";
  view.x ??= "step";
  view.weight ??= Number(stored("weight", 0));
  if (!run.targets.length) { body.replaceChildren(empty("No step yet", "A curve begins with the first optim_step that succeeds.")); return; }
  if (!view.built) buildCurves(run, body, view);
  const ids = [run.id, ...[...state.chosen].filter((other) => other !== run.id)].slice(0, 8);
  const reply = await ask("curves", { id: ids, metric: view.metric, x: view.x, low: view.low, high: view.high, points: Math.max(200, Math.round(main.clientWidth / 1.6)) });
  const place = document.getElementById("chart");
  if (!place) return;
  const many = new Set(reply.lines.map((line) => line.id)).size < reply.lines.length;
  const series = reply.lines.map((line, at) => ({ name: many ? `${line.id} ${line.target.slice(-12)}` : line.id, tone: `c${at % 8}`, rows: line.rows }));
  view.redraw = () => lines(place, series, { time: view.x === "time", log: view.log, weight: view.weight, label: view.metric,
    zoom: (low, high) => { view.low = low; view.high = high; update(); } });
  view.redraw();
  document.getElementById("legend").replaceChildren(...series.map((s) => h("span", { className: "key" }, h("i", { className: s.tone }), s.name)));
  document.getElementById("whole").hidden = view.low === null;
  for (const button of document.querySelectorAll("[data-metric]")) {
    button.setAttribute("aria-pressed", "false");
    const small = await ask("curves", { id: run.id, metric: button.dataset.metric, points: 100 });
    lines(button.querySelector(".chart"), small.lines.map((line, at) => ({ name: "", tone: `c${at % 8}`, rows: line.rows })), { small: true, height: 110 });
  }
}

function buildCurves(run, body, view) {
  view.built = true;
  const pick = (metric) => { view.metric = metric; store("metric", metric); select.value = metric; update(); };
  const select = h("select", { ariaLabel: "metric", onchange: (event) => pick(event.target.value) }, run.metrics.map((name) => h("option", { value: name, selected: name === view.metric }, name)));
  const axis = h("select", { ariaLabel: "horizontal axis", onchange: (event) => { view.x = event.target.value; view.low = view.high = null; update(); } },
    ["step", "time"].map((name) => h("option", { value: name, selected: name === view.x }, `by ${name}`)));
  const slider = h("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: view.weight, ariaLabel: "smoothing", oninput: (event) => { view.weight = Number(event.target.value); store("weight", view.weight); view.redraw?.(); } });
  const log = h("button", { "aria-pressed": String(!!view.log), onclick: (event) => { view.log = !view.log; event.target.setAttribute("aria-pressed", view.log); view.redraw?.(); } }, "log");
  const others = state.runs.filter((other) => other.id !== run.id && !state.chosen.has(other.id));
  const compare = h("select", { ariaLabel: "compare with", onchange: (event) => { state.chosen.add(event.target.value); view.built = false; update(); } },
    h("option", { value: "" }, "Compare with …"), others.slice(0, 500).map((other) => h("option", { value: other.id }, other.id)));
  const alone = state.chosen.size ? h("button", { onclick: () => { state.chosen.clear(); view.built = false; update(); } }, "Only this run") : null;
  const rest = run.metrics.filter((name) => name !== view.metric && name !== "cost").slice(0, 9);
  body.replaceChildren(
    h("section", { className: "card" },
      h("div", { className: "row" }, select, axis, h("span", { className: "grow" }), h("label", { className: "small muted" }, "smooth ", slider), log, others.length ? compare : null, alone,
        h("button", { id: "whole", hidden: true, onclick: () => { view.low = view.high = null; update(); } }, "Whole curve (0)")),
      h("div", { id: "chart", className: "chart" }),
      h("div", { id: "legend", className: "row" })),
    h("div", { className: "multiples" }, rest.map((name) => h("button", { "data-metric": name, onclick: () => pick(name) }, h("b", { className: "small" }, name), h("div", { className: "chart" })))));
}

function renderWaits(run, body) {
  const calls = run.calls.map((call) => {
    const held = call.state && call.state !== "active";
    return h("tr", {}, cell(h("b", {}, call.operation)), cell(call.lane), cell(held ? badge("held back") : call.stage || "queued"),
      cell(held ? h("span", {}, h("b", {}, call.state), call.reason ? `: ${visible(call.reason)}` : "") : call.cause ? `sent again after ${call.cause}` : "–"),
      cell(`${span(run.now - call.since)} (since ${moment(call.since)})`, true), cell(`${call.attempts ?? "–"}${call.retries ? `, ${call.retries} again` : ""}`, true),
      cell(call.deadline ? `in ${span(call.deadline - run.now)}` : "–", true));
  });
  const worst = run.calls.find((call) => call.state && call.state !== "active");
  const first = run.calls[0];
  const ended = ["done", "errored", "interrupted"].includes(run.state);
  const word = ended ? `The run is over: ${run.state}.`
    : worst ? `The server holds ${worst.operation} back, for ${span(run.now - worst.since)}: ${worst.state}${worst.reason ? `, “${visible(worst.reason)}”` : ""}.`
    : first ? `Waiting for ${first.operation}, for ${span(run.now - first.since)}${first.stage ? ` (${first.stage})` : ""}.` : "Nothing is pending: your program is at work.";
  const spent = PARTS.map((_, at) => run.minutes.reduce((sum, row) => sum + row[2 + at], 0));
  const total = spent.reduce((a, b) => a + b, 0);
  const chart = h("div", { className: "chart" });
  body.replaceChildren(
    h("section", { className: "card" }, h("h2", {}, "Now"), h("p", { id: "why" }, word),
      calls.length ? table(["Call", "Lane", "Stage", "Reason", "#Waits", "#Attempts", "#Deadline"], calls) : null,
      run.pending > calls.length ? h("p", { className: "muted" }, `… and ${run.pending - calls.length} more`) : null),
    card("Where the time went, by minute", total ? chart : h("p", { className: "muted" }, "Known after the first ten seconds of a run."),
      total ? h("div", { className: "row" }, PARTS.map((part, at) => h("span", { className: "key", title: MEANING[part] }, h("i", { className: `c-${part}` }), `${part} ${Math.round((spent[at] / total) * 100)} %: ${MEANING[part]}`))) : null));
  if (total) bars(chart, run.minutes, PARTS);
}

function renderRetries(run, body) {
  const count = run.reasons.reduce((sum, [, times]) => sum + times, 0);
  if (!count && !run.outcomes.length) { body.replaceChildren(empty("Nothing was sent twice", "Every call succeeded at its first attempt.")); return; }
  const why = {};
  for (const each of run.retries) if (each.number) (why[each.number] ??= new Set()).add(each.reason);
  const result = (call) => (call.error || "succeeded") + (why[call.number] ? ` after ${[...why[call.number]].join(", ")}` : "");
  const outcome = (call) => h("tr", {}, cell(moment(call.time)), cell(h("b", {}, call.operation)), cell(call.seq_id, true), cell(call.retries, true), cell(result(call)), cell(badge(call.effect)), cell(span(call.seconds), true));
  const retry = (each) => h("tr", {}, cell(moment(each.time)), cell(h("b", {}, each.operation)), cell(each.lane), cell(each.attempt, true), cell(each.reason), cell(`${span(each.delay)} (${each.source})`, true));
  body.replaceChildren(
    h("div", { className: "tiles" }, tile(number(count), "requests sent again"), tile(number(run.effects.yes || 0), "calls that took effect once, in the end"),
      tile(number(run.effects.no || 0), "calls without effect"), tile(number(run.effects.unknown || 0), "calls whose effect is unknown")),
    card("What became of the calls", run.outcomes.length ? table(["Ended", "Call", "#seq_id", "#Sent again", "Result", "Took effect", "#Took"], run.outcomes.slice(0, 100).map(outcome)) : h("p", { className: "muted" }, "They are still under way.")),
    card("Why requests were sent again", table(["Call and reason", "#Times"], run.reasons.map(([name, times]) => h("tr", {}, cell(name), cell(times, true)))), h("details", {}, h("summary", {}, "One by one"),
      table(["Time", "Request", "Lane", "#Attempt", "Reason", "#Next after"], run.retries.slice(0, 100).map(retry)))));
}

async function renderCost(run, body) {
  const reply = await ask("curves", { id: run.id, metric: "cost", x: "time", points: 400 });
  const rows = reply.lines.flatMap((line) => line.rows.map(([x, , , high]) => [x, high, high, high])).sort((a, b) => a[0] - b[0]);
  const limit = run.budget.cost, plan = Number(stored(`plan ${run.id}`, 0));
  const hours = run.began && run.updated > run.began ? (run.updated - run.began) / 3600 : null;
  const rate = run.cost && hours ? run.cost / hours : null, each = run.cost && run.step ? run.cost / run.step : null;
  const left = limit !== undefined && run.cost !== null ? limit - run.cost : null;
  const tiles = [tile(money(run.cost, run.currency), "spent so far"), tile(rate ? `${money(rate, run.currency)}` : "–", "per hour"), tile(each ? money(each, run.currency) : "–", "per step"),
    limit !== undefined ? tile(money(left, run.currency), `left of ${money(limit, run.currency)}`) : null,
    left !== null && rate ? tile(left > 0 ? span((left / rate) * 3600) : "now", "until the budget is used up") : null,
    plan && each ? tile(money(each * plan, run.currency), `forecast for ${number(plan)} steps`) : null].filter(Boolean);
  const input = h("input", { type: "number", min: 1, value: plan || "", placeholder: "1000", size: 8, onchange: (event) => { store(`plan ${run.id}`, event.target.value); update(); } });
  const chart = h("div", { className: "chart" });
  const tokens = ["train", "prefill", "sample"].filter((kind) => run.totals[kind] !== undefined);
  const limits = Object.entries(run.budget).filter(([name]) => name !== "cost");
  const used = (name) => (name === "tokens" ? run.tokens : run.totals[name]);
  body.replaceChildren(h("div", { className: "tiles" }, tiles),
    card("Spend over time", rows.length ? chart : h("p", { className: "muted" }, "No prices are known: pass ServiceClient(prices=\"prices.toml\") with the prices of your server, and the log has costs."),
      h("label", { className: "small muted" }, "Planned steps, for a forecast: ", input)),
    card("Tokens", table(["Kind", "#Used"], tokens.map((kind) => h("tr", {}, cell({ train: "trained", prefill: "read as prompts", sample: "sampled" }[kind]), cell(number(run.totals[kind]), true))))),
    limits.length ? card("Budget of tokens", table(["Kind", "#Used", "#Budget"], limits.map(([name, most]) => h("tr", {}, cell(name), cell(number(used(name)), true), cell(number(most), true))))) : null);
  if (rows.length) lines(chart, [{ name: "spent", tone: "c0", rows }], { time: true, height: 260, limit, label: "spend over time" });
}

// --- samples ---------------------------------------------------------------------------------

async function renderSamples(run, body) {
  const view = state.view;
  const { prompts } = await ask("prompts", { id: run.id, text: view.text || "" });
  if (!prompts.length && !view.text) {
    body.replaceChildren(empty("No samples recorded", "Recording is off unless you ask for it; it stays on this disk, within a bound.",
      'samples = tinker_ext.SampleLog("runs/first", tokenizer=tokenizer)\nsamples.record(prompt, reply, rewards=rewards, step=step, checkpoint=path)'));
    return;
  }
  if (!document.getElementById("prompts")) {
    body.replaceChildren(h("div", { className: "samples" },
      h("div", { className: "card" }, h("input", { id: "filter", type: "search", placeholder: "Filter prompts  (/)", oninput: (event) => { view.text = event.target.value; update(); } }), h("div", { id: "prompts", className: "prompts" })),
      h("div", { id: "sample", className: "stack" })));
  }
  view.prompt ??= prompts[0]?.prompt_id;
  document.getElementById("prompts").replaceChildren(...prompts.map((each) => h("button", { className: each.prompt_id === view.prompt ? "at" : "", onclick: () => { view.prompt = each.prompt_id; update(); } },
    h("span", { className: "clamp" }, visible(each.prompt) || "(empty)"),
    h("span", { className: "muted small" }, `${each.count} samples, ${each.looks} looks` + (each.reward === null ? "" : `, reward ${number(each.first)} → ${number(each.reward)}`)))));
  if (view.prompt) await renderSample(run, view);
}

async function renderSample(run, view) {
  const { records } = await ask("samples", { id: run.id, prompt: view.prompt });
  const print = JSON.stringify([view.prompt, view.shade, records.length, records.at(-1)?.time]);
  const place = document.getElementById("sample");
  if (!place || place.dataset.print === print || !records.length) return;
  place.dataset.print = print;
  const last = records[records.length - 1];
  const apart = records.some((record) => record.sequences.some((s) => s.trainer_logprobs.length));
  view.shade ??= "sure";
  const shades = [["", "plain"], ["sure", "unlikely tokens"], ...(apart ? [["apart", "trainer against sampler"]] : [])];
  const buttons = shades.map(([name, label]) => h("button", { "aria-pressed": String(view.shade === name), onclick: () => { view.shade = name; update(); } }, label));
  place.replaceChildren(
    card("Prompt", h("div", { className: "text" }, visible(last.prompt)), last.prompt_cut ? h("p", { className: "muted small" }, `… ${number(last.prompt_cut)} more characters in the file`) : null),
    h("div", { className: "row" }, h("span", { className: "muted small" }, "Shade"), buttons),
    h("div", { className: "columns" }, records.map((record) => h("section", { className: "card" },
      h("h2", {}, record.checkpoint ? String(record.checkpoint).split("/").slice(-1)[0] : record.step !== null ? `step ${record.step}` : moment(record.time)),
      h("div", { className: "muted small" }, `${record.step !== null ? `step ${record.step}, ` : ""}${moment(record.time)}`),
      record.sequences.slice(0, 16).map((each) => sequence(each, view.shade))))));
}

function sequence(each, shade) {
  const gap = each.trainer_logprobs.length ? each.pieces.reduce((sum, _, at) => sum + Math.abs((each.trainer_logprobs[at] ?? NaN) - (each.logprobs[at] ?? NaN)), 0) / each.pieces.length : null;
  const text = h("div", { className: `text ${shade}` });
  if (shade && each.pieces.length) {
    text.append(...each.pieces.map((piece, at) => {
      const token = h("span", {}, visible(piece)), sure = each.logprobs[at], trained = each.trainer_logprobs[at];
      if (sure !== undefined && sure !== null) {
        token.style.setProperty("--p", Math.min(1, -sure / 6).toFixed(3));
        token.title = `logprob ${sure.toFixed(3)}, probability ${(Math.exp(sure) * 100).toFixed(1)} %`;
      }
      if (trained !== undefined && trained !== null) {
        token.style.setProperty("--d", Math.min(1, Math.abs(trained - sure)).toFixed(3));
        token.title += `\ntrainer ${trained.toFixed(3)}, apart ${(trained - sure).toFixed(3)}`;
      }
      return token;
    }));
  } else text.textContent = visible(each.text);
  return h("div", { className: "sequence" },
    h("div", { className: "row small" }, each.reward !== null ? h("span", { className: `badge ${each.reward > 0 ? "good" : each.reward < 0 ? "bad" : ""}` }, `reward ${number(each.reward)}`) : null,
      h("span", { className: "muted" }, `${each.pieces.length || "?"} tokens, ${each.stop_reason || "–"}${gap === null ? "" : `, trainer apart ${gap.toFixed(3)} a token`}`)),
    text, each.cut ? h("p", { className: "muted small" }, `… ${number(each.cut)} more characters in the file`) : null);
}

// --- following the runs ----------------------------------------------------------------------

function where() {
  const [, kind, id, tab] = location.hash.split("/");
  return kind === "run" ? { id: decodeURIComponent(id), tab: TABS.includes(tab) ? tab : "curves" } : {};
}

let busy = false, again = false;
async function update(changed) {
  if (busy) { again = true; return; }
  busy = true;
  try {
    const { id, tab } = where();
    if (id === undefined || !state.runs.length) {
      const reply = await ask("runs");
      state.runs = reply.runs;
      state.now = reply.now;
      document.getElementById("folder").textContent = reply.folder;
    }
    if (id === undefined) { state.drawn = ""; renderRuns(); }
    else if (!changed || id in changed || tab === "waits" || [...state.chosen].some((other) => other in changed)) await renderRun(id, tab);
  } catch (error) {
    state.drawn = "";
    main.replaceChildren(empty("This cannot be shown", error.message), h("p", {}, h("a", { href: "#/" }, "← All runs")));
  } finally {
    busy = false;
    if (again) { again = false; update(); }
  }
}

function follow() {
  const live = document.getElementById("live");
  const events = new EventSource("/api/events");
  events.addEventListener("hello", () => { live.className = "live on"; live.textContent = "live"; update(); });
  events.onmessage = (event) => update(JSON.parse(event.data));
  events.onerror = () => { live.className = "live off"; live.textContent = "not connected"; };
}

function paint(theme) {
  const dark = theme === "dark" || (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.getElementById("theme").textContent = { system: "Theme: system", dark: "Theme: dark", light: "Theme: light" }[theme];
  store("theme", theme);
}

function turn() { const all = ["system", "dark", "light"]; paint(all[(all.indexOf(stored("theme", "system")) + 1) % 3]); }

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input[type=search], input[type=number], select");
  if (typing) { if (event.key === "Escape" || event.key === "Enter") event.target.blur(); return; }
  const { id, tab } = where(), rows = id === undefined ? shown() : [];
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  if (event.key === "?") document.getElementById("keys").showModal();
  else if (event.key === "t") turn();
  else if (event.key === "/") { document.getElementById("filter")?.focus(); event.preventDefault(); }
  else if (step && id === undefined && rows.length) {
    state.at = Math.max(0, Math.min(rows.length - 1, state.at + step));
    renderRuns();
    document.querySelector("tr.at")?.scrollIntoView({ block: "nearest" });
    event.preventDefault();
  } else if (step && tab === "samples") { const button = document.querySelector(".prompts .at"); (step > 0 ? button?.nextElementSibling : button?.previousElementSibling)?.click(); }
  else if (event.key === "Enter" && rows[state.at]) open(rows[state.at].id);
  else if (event.key === "x" && rows[state.at]) choose(rows[state.at].id);
  else if (event.key === "Escape" && id !== undefined) location.hash = "#/";
  else if (event.key === "0" && id !== undefined) { state.view.low = state.view.high = null; update(); }
  else if (TABS[event.key - 1] && id !== undefined) open(id, TABS[event.key - 1]);
});
window.addEventListener("hashchange", () => update());
window.addEventListener("resize", () => { if (where().id !== undefined) update(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint(stored("theme", "system")));
document.getElementById("theme").addEventListener("click", turn);
document.getElementById("help").addEventListener("click", () => document.getElementById("keys").showModal());
// A call that waits gets older although its log stays as it is.
setInterval(() => { const { id, tab } = where(); if (id === undefined || tab === "waits") update(); }, 2000);
paint(stored("theme", "system"));
follow();
