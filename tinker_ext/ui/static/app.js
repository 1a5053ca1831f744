// The page: all runs, and one run with its curves, waits, retries, cost and samples.
// Everything from a log is put into the page as text, never as HTML.

import { bars, lines, spark } from "/chart.js";
import { h, key, moment, money, number, solid, span, sum, visible } from "/elements.js";

const $ = (id) => document.getElementById(id);
const main = $("main");
const state = { runs: [], now: 0, filter: "", sort: "updated", up: false, chosen: new Set(), view: {}, drawn: "" };
const TABS = { curves: renderCurves, waits: renderWaits, retries: renderRetries, cost: renderCost, samples: renderSamples };
const OVER = ["done", "errored", "interrupted"];
const PARTS = {
  server: "the server works on the oldest call",
  queue: "it is held back: by the server's queue, a limit, or earlier calls",
  network: "it is being sent, or sent again",
  us: "no call is pending: your program is at work",
};
const STAGES = { queued: "waits its turn: earlier calls go first", sending: "being sent", waiting: "the server works on it" };

// --- building blocks -------------------------------------------------------------------------

// Replaces what a place shows; what had the keyboard's focus gets it back.
function show(place, ...children) {
  const { id, dataset } = document.activeElement, focus = id || dataset.focus;
  place.replaceChildren(...solid(children));
  if (focus && !document.activeElement?.matches("[id], [data-focus]")) (document.querySelector(`[data-focus="${CSS.escape(focus)}"]`) || $(focus))?.focus();
}

// Heads that begin with # are for numbers; on a phone each cell carries its head.
function table(heads, rows) {
  const names = heads.map((head) => head.replace("#", "")), right = (at) => (heads[at].startsWith("#") ? "n" : "");
  return h("div.scroll", h("table", h("thead", h("tr", names.map((name, at) => h("th", { className: right(at) }, name)))),
    h("tbody", rows.map((row) => h("tr", row.map((value, at) => h("td", { className: right(at), "data-head": names[at] }, value ?? "–")))))));
}

const tile = (value, label) => h("div.tile", h("b", value), h("span", label));
const card = (title, ...children) => h("section.card", h("h2", title), children);
const muted = (text) => h("p.muted", text);
const empty = (title, text, code) => h("div.card.empty", h("h2", title), muted(text), code && h("pre", code));
const stored = (name, otherwise) => localStorage.getItem(`tinker-ext ${name}`) ?? otherwise;
const store = (name, value) => localStorage.setItem(`tinker-ext ${name}`, value);

function badge(name) {
  const tone = { running: "good", done: "good", yes: "good", "held back": "warn", retrying: "warn", quiet: "warn", unknown: "warn" }[name];
  return h(`span.badge.${tone ?? (name.startsWith("reading") ? "plain" : "bad")}`, name);
}

const named = (run) => (run.state === "reading" ? `reading ${Math.floor(run.read * 100)} %` : run.state);

async function ask(path, values = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) for (const each of [value].flat()) if (each !== null && each !== undefined) query.append(name, each);
  const reply = await fetch(`/api/${path}?${query}`);
  if (!reply.ok) throw new Error(await reply.text());
  return reply.json();
}

// --- all runs --------------------------------------------------------------------------------

const address = (id, tab = "curves") => `#/run/${encodeURIComponent(id)}/${tab}`;
const open = (id, tab) => { location.hash = address(id, tab); };

function shown() {
  const words = state.filter.toLowerCase().split(/\s+/);
  const found = state.runs.filter((run) => words.every((word) => `${run.id} ${run.model || ""} ${run.state}`.toLowerCase().includes(word)));
  const by = (run) => run[state.sort] ?? (state.up ? Infinity : -Infinity);
  return found.sort((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0) * (state.up ? 1 : -1));
}

function renderRuns() {
  document.title = "Runs · tinker-ext";
  if (!state.runs.length) {
    state.drawn = "";
    return show(main, empty("No runs here yet", "A run appears as soon as it writes its log in or below this folder.", 'service = tinker_ext.ServiceClient(run_log="runs/first")'));
  }
  if (state.drawn !== "runs") {
    state.drawn = "runs";
    const filter = h("input", { id: "filter", type: "search", placeholder: "Filter by name, model or state  (/)", value: state.filter, size: 34,
      oninput: (event) => { state.filter = event.target.value; renderRuns(); } });
    show(main, h("div.stack", h("div.row", h("h1", { id: "count" }), filter, h("span.grow"), h("span", { id: "total", className: "row muted" })), h("div", { id: "list" })));
  }
  const rows = shown(), total = {};
  for (const run of state.runs) if (run.cost) total[run.currency || ""] = (total[run.currency || ""] || 0) + run.cost;
  const costs = Object.entries(total).map(([currency, cost]) => money(cost, currency)).join(" + ");
  show($("count"), `${state.runs.length} run${state.runs.length === 1 ? "" : "s"}`);
  show($("total"), costs && `spent ${costs}`, state.chosen.size > 1 && h("button", { onclick: () => open([...state.chosen][0]) }, `Compare ${state.chosen.size}`));
  const head = (name, label, right) => h("th", { className: right ? "n" : "" }, h("button", { "data-focus": `by ${name}`,
    onclick: () => { state.up = state.sort === name && !state.up; state.sort = name; renderRuns(); } }, label + (state.sort === name ? (state.up ? " ↑" : " ↓") : "")));
  const heads = h("tr", h("th"), head("id", "Run"), head("state", "State"), h("th", "Reason"), head("step", "Step", true), head("loss", "Loss / token", true), h("th"),
    head("pace", "Tokens/s", true), head("cost", "Spent", true), head("updated", "Last line", true));
  show($("list"), rows.length ? h("div.card.scroll.runs", h("table", h("thead", heads), h("tbody", rows.map(row)))) : empty("No run fits the filter", "Clear it to see all runs."));
}

function row(run) {
  const choose = () => { if (!state.chosen.delete(run.id)) state.chosen.add(run.id); renderRuns(); };
  const box = h("input", { type: "checkbox", checked: state.chosen.has(run.id), ariaLabel: `compare ${run.id}`, "data-focus": `x ${run.id}`, onchange: choose });
  const figure = (head, text) => h("td.n", { "data-head": head }, text);
  return h("tr", { onclick: (event) => { if (!event.target.matches("a, input")) open(run.id, run.reason ? "waits" : "curves"); } }, h("td", box),
    h("td", h("a.name", { href: address(run.id), "data-focus": run.id }, run.id), h("div.muted.small", run.model || "")),
    h("td", badge(named(run))),
    h("td.span.small", run.reason ? visible(run.reason) : h("span.muted", run.notes[0] || (run.pending ? `${run.pending} pending` : ""))),
    figure("steps", number(run.step)), figure("loss", number(run.loss)), h("td.wide", spark(run.spark)), figure("tokens/s", number(run.pace)),
    figure("spent", money(run.cost, run.currency)), h("td.n.muted.wide", run.updated ? (state.now - run.updated < 2 ? "now" : `${span(state.now - run.updated)} ago`) : "–"));
}

// --- one run ---------------------------------------------------------------------------------

async function renderRun(id, tab) {
  const run = await ask("run", { id });
  if (where().id !== id || where().tab !== tab) return;
  if (state.drawn !== `${id} ${tab}`) {
    state.drawn = `${id} ${tab}`;
    state.view = tab === "curves" ? { ...state.view, low: null, high: null } : {};
    document.title = `${id} · tinker-ext`;
    show(main, h("div.stack", h("div.row", h("a", { href: "#/" }, "← All runs"), h("h1", id), h("span", { id: "badge" }), h("span.muted", run.model || "")),
      h("div.stack", { id: "notes" }), h("div.tiles", { id: "tiles" }), h("nav.tabs", { id: "tabs" }), h("div.stack", { id: "tab" })));
  }
  const count = { waits: run.calls.length, samples: run.samples };
  show($("badge"), badge(named(run)));
  show($("notes"), run.notes.map((text) => h("div.note", visible(text))));
  show($("tiles"), tile(number(run.step), "steps"), tile(number(run.loss), "loss per token"), tile(number(run.pace), "tokens/s"),
    tile(span(run.seconds), "per step"), tile(money(run.cost, run.currency), "spent"), tile(String(run.pending), run.pending === 1 ? "call pending" : "calls pending"));
  show($("tabs"), Object.keys(TABS).map((name) => h("a", { href: address(id, name), "data-focus": name, "aria-current": name === tab ? "page" : null },
    name[0].toUpperCase() + name.slice(1) + (count[name] ? ` (${count[name]})` : ""))));
  await TABS[tab](run, $("tab"));
}

async function renderCurves(run, body) {
  const view = state.view, wanted = view.metric ?? stored("metric");
  view.metric = run.metrics.includes(wanted) ? wanted : "loss/token";
  view.x ??= "step";
  view.weight ??= Number(stored("weight", 0));
  if (!run.metrics.length) return show(body, empty("No step yet", "A curve begins with the first optim_step that succeeds."));
  if (!$("chart") || view.runs !== state.runs.length) buildCurves(run, body, view);
  const ids = [run.id, ...[...state.chosen].filter((other) => other !== run.id)].slice(0, 8);
  const points = Math.max(200, Math.round(main.clientWidth / 1.6)), others = [...body.querySelectorAll("[data-metric]")];
  const [{ lines: curves }, { lines: rest }] = await Promise.all([ask("curves", { id: ids, metric: view.metric, x: view.x, low: view.low, high: view.high, points }),
    ask("curves", { id: run.id, metric: others.map((other) => other.dataset.metric), points: 100 })]);
  if (!$("chart")) return;
  const many = new Set(curves.map((line) => line.id)).size < curves.length;
  const series = curves.map((line, at) => ({ name: many ? `${line.id} ${line.target.slice(-12)}` : line.id, tone: `c${at % 8}`, rows: line.rows }));
  view.redraw = () => lines($("chart"), series, { time: view.x === "time", weight: view.weight, label: view.metric,
    zoom: (low, high) => { view.low = low; view.high = high; update(); } });
  view.redraw();
  show($("legend"), series.map((each) => key(each.tone, each.name)));
  $("whole").hidden = view.low === null;
  for (const other of others)
    lines(other.querySelector(".chart"), rest.filter((line) => line.metric === other.dataset.metric).map((line, at) => ({ ...line, tone: `c${at % 8}` })), { small: true, height: 110 });
}

function buildCurves(run, body, view) {
  const rebuild = () => { buildCurves(run, body, view); update(); };
  const pick = (metric) => { view.metric = metric; store("metric", metric); rebuild(); };
  const choice = (label, names, chosen, onchange) => h("select", { ariaLabel: label, "data-focus": label, onchange: (event) => onchange(event.target.value) },
    names.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  const slider = h("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: view.weight, ariaLabel: "smoothing",
    oninput: (event) => { view.weight = Number(event.target.value); store("weight", view.weight); view.redraw?.(); } });
  view.runs = state.runs.length;
  const others = state.runs.filter((other) => other.id !== run.id && !state.chosen.has(other.id)).slice(0, 500).map((other) => [other.id, other.id]);
  show(body, h("section.card",
    h("div.row", choice("metric", run.metrics.map((name) => [name, name]), view.metric, pick),
      choice("horizontal axis", [["step", "by step"], ["time", "by time"]], view.x, (x) => { Object.assign(view, { x, low: null, high: null }); update(); }),
      others.length > 0 && choice("compare with", [["", "Compare with …"], ...others], "", (id) => { state.chosen.add(id); rebuild(); }),
      state.chosen.size > 0 && h("button", { onclick: () => { state.chosen.clear(); rebuild(); } }, "Only this run"),
      h("span.grow"), h("label.small.muted", "smooth ", slider),
      h("button", { id: "whole", hidden: true, onclick: () => { view.low = view.high = null; update(); } }, "Whole curve (0)")),
    h("div.chart", { id: "chart" }), h("div.row", { id: "legend" })),
  h("div.multiples", run.metrics.filter((name) => name !== view.metric && name !== "cost").slice(0, 11).map((name) =>
    h("button", { "data-metric": name, "data-focus": name, onclick: () => pick(name) }, h("b.small", name), h("div.chart")))));
}

function renderWaits(run, body) {
  const first = run.calls.find((call) => call.held) || run.calls[0];
  const word = OVER.includes(run.state) ? `The run is over: ${run.state}.`
    : run.state === "quiet" ? `Quiet for ${span(run.now - run.updated)}: ${run.reason}.`
    : first ? `${first.operation} has waited ${span(run.now - first.since)}: ${visible(run.reason || STAGES[first.stage] || "just begun")}.`
    : "Nothing is pending: your program is at work.";
  const reason = (call) => (call.held === call.state && call.reason ? `${call.state}: ${visible(call.reason)}` : call.held ? `sent again after ${call.held}` : STAGES[call.stage]);
  const calls = run.calls.map((call) => [h("b", call.operation), call.lane, call.held ? badge([call.state, "402", "429"].includes(call.held) ? "held back" : "retrying") : call.stage, reason(call),
    `${span(run.now - call.since)} (since ${moment(call.since)})`, call.attempts && `${call.attempts}${call.retries ? ` (sent again: ${call.retries})` : ""}`,
    call.deadline && (call.deadline > run.now ? `in ${span(call.deadline - run.now)}` : "passed")]);
  const spent = Object.keys(PARTS).map((_, at) => sum(run.minutes.map((each) => each[2 + at])));
  const total = sum(spent), chart = h("div.chart");
  const legend = h("div.row", Object.entries(PARTS).map(([part, text], at) => key(`c-${part}`, `${part} ${Math.round((spent[at] / total) * 100)} %: ${text}`)));
  show(body, card("Now", h("p", { id: "why" }, word), run.advice && h("p.advice", h("b", "What to do: "), run.advice),
    calls.length > 0 && table(["Call", "Lane", "Stage", "Reason", "#Waited", "#Attempts", "#Deadline"], calls), run.pending > calls.length && muted(`… and ${run.pending - calls.length} more`)),
  card(`Where the time went, ${run.minutes[0]?.[1] > 60 ? `every ${span(run.minutes[0][1])}` : "by minute"}`, total ? [chart, legend] : muted("Known after the first ten seconds of a run.")));
  if (total) bars(chart, run.minutes, Object.keys(PARTS));
}

function renderRetries(run, body) {
  const count = sum(run.reasons.map(([, times]) => times)), effects = { yes: 0, no: 0, unknown: 0, ...run.effects };
  if (!count && !run.outcomes.length) return show(body, empty("Nothing was sent twice", "Every call succeeded at its first attempt."));
  const causes = {};
  for (const each of run.retries) if (each.number) (causes[each.number] ??= new Set()).add(each.reason);
  const result = (call) => (call.error || "succeeded") + (causes[call.number] ? ` (sent again after ${[...causes[call.number]].join(", ")})` : "");
  show(body, h("div.tiles", tile(number(count), count === 1 ? "retry" : "retries"), tile(number(effects.yes), "took effect, once"),
    tile(number(effects.no), "had no effect"), tile(number(effects.unknown), "effect unknown")),
  effects.unknown > 0 && h("div.note", "Unknown: the server may have done the work although no answer came. Look at the step it is at, or resume from a checkpoint, before you repeat such a call."),
  card("What became of the calls", run.outcomes.length ? table(["Ended", "Call", "#seq_id", "#Sent again", "Result", "Took effect", "#Took"], run.outcomes.reverse().map((call) =>
    [moment(call.time), h("b", call.operation), call.seq_id, call.retries, visible(result(call)), badge(call.effect), span(call.seconds)])) : muted("They are still under way.")),
  card("Why requests were retried", table(["Call and reason", "#Times"], run.reasons)),
  card("The last retries", table(["Time", "Request", "Lane", "#Attempt", "Reason", "#Next after"], run.retries.slice(-20).reverse().map((each) =>
    [moment(each.time), h("b", each.operation), each.lane, each.attempt, each.reason, `${span(each.delay)} (${each.source})`]))));
}

async function renderCost(run, body) {
  if (document.activeElement?.id === "plan") return; // somebody is typing
  const { lines: curves } = await ask("curves", { id: run.id, metric: "cost", x: "time", points: 400 });
  const rows = curves.flatMap((line) => line.rows.map(([x, , , high]) => [x, high, high, high])).sort((a, b) => a[0] - b[0]);
  const limit = run.budget.cost, plan = Number(stored(`plan ${run.id}`, 0)), price = (value) => money(value, run.currency);
  const rate = run.cost / (run.updated - run.began), each = run.cost / run.step, left = limit - run.cost;
  const input = h("input", { id: "plan", type: "number", min: 1, value: plan || "", placeholder: "1000", onchange: (event) => { store(`plan ${run.id}`, event.target.value); event.target.blur(); update(); } });
  const chart = h("div.chart"), names = { train: "trained", prefill: "read as prompts", sample: "sampled", tokens: "all together" };
  const used = { ...run.totals, tokens: sum(["train", "prefill", "sample"].map((kind) => run.totals[kind] || 0)) };
  const tokens = card("Tokens", table(["Kind", "#Used", "#Budget"], Object.entries(names).filter(([kind]) => used[kind] !== undefined).map(([kind, name]) =>
    [name, number(used[kind]), number(run.budget[kind])])));
  if (!rows.length) return show(body, card("Spend over time", muted('No prices are known: pass ServiceClient(prices="prices.toml") with the prices of your server, and the log has costs.')), tokens);
  show(body, h("div.tiles", tile(price(run.cost), "spent so far"), tile(price(rate * 3600), "per hour"), tile(price(each), "per step"),
    Number.isFinite(left) && (left < 0 ? tile(price(-left), `over the budget of ${price(limit)}`) : tile(price(left), `left of ${price(limit)}`)),
    left > 0 && rate > 0 && !OVER.includes(run.state) && tile(span(left / rate), "until the budget is used up"),
    plan > 0 && each > 0 && tile(price(each * plan), `forecast for ${number(plan)} steps`)),
  card(`Spend over time${run.currency ? `, ${run.currency}` : ""}`, chart, h("label.row.small.muted", "Planned steps, for a forecast:", input)), tokens);
  lines(chart, [{ name: "spent", tone: "c0", rows }], { time: true, height: 260, limit, unit: run.currency, label: "spend over time" });
}

// --- samples ---------------------------------------------------------------------------------

async function renderSamples(run, body) {
  const view = state.view, { prompts, prompt, records } = await ask("samples", { id: run.id, text: view.text, prompt: view.prompt });
  if (!prompts.length && !view.text) {
    return show(body, empty("No samples recorded", "Recording is off unless you ask for it; it stays on this disk, within a bound.",
      'samples = tinker_ext.SampleLog("runs/first", tokenizer=tokenizer)\nsamples.record(prompt, reply, rewards=rewards, step=step, checkpoint=path)'));
  }
  view.prompt ??= prompt;
  if (!$("prompts")) {
    const filter = h("input", { id: "filter", type: "search", placeholder: "Filter prompts  (/)", oninput: (event) => { view.text = event.target.value; update(); } });
    show(body, h("div.samples", h("div.card", filter, h("div.prompts", { id: "prompts" })), h("div.stack", { id: "sample" })));
  }
  show($("prompts"), prompts.map((each) => h("button", { className: each.prompt_id === prompt ? "at" : "", "data-focus": each.prompt_id, onclick: () => { view.prompt = each.prompt_id; update(); } },
    h("span.clamp", visible(each.prompt) || "(empty)"),
    h("span.muted.small", `${each.count} samples in ${each.records} records` + (each.reward === null ? "" : `, mean reward ${number(each.first)} → ${number(each.reward)}`)))));
  const print = JSON.stringify([prompt, records.length, records.at(-1)?.time]), place = $("sample");
  if (!records.length || place.dataset.print === print) return;
  place.dataset.print = print;
  view.shade ??= "sure";
  const last = records.at(-1), apart = records.some((record) => record.sequences.some((each) => each.trainer_logprobs.length));
  const shades = Object.entries({ plain: "plain", sure: "unlikely tokens", ...(apart && { apart: "trainer against sampler" }) });
  const title = (record) => (record.checkpoint ? String(record.checkpoint).split("/").at(-1) : record.step != null ? `step ${record.step}` : moment(record.time));
  const draw = () => show(place, card("Prompt", h("div.text", visible(last.prompt)), more(last.cut)),
    h("div.row", h("span.muted.small", "Shade"), shades.map(([name, label]) => h("button", { "aria-pressed": String(view.shade === name), "data-focus": label, onclick: () => { view.shade = name; draw(); } }, label))),
    h("div.columns", records.map((record) => card(title(record), h("div.muted.small", `${record.step != null ? `step ${record.step}, ` : ""}${moment(record.time)}`),
      record.sequences.map((each) => sequence(each, view.shade))))));
  draw();
}

const more = (cut) => cut > 0 && h("p.muted.small", `… ${number(cut)} more characters in the file`);

function sequence(each, shade) {
  const { pieces, logprobs, trainer_logprobs: trained } = each, known = Number.isFinite;
  const apart = (at) => (known(trained[at]) && known(logprobs[at]) ? trained[at] - logprobs[at] : NaN);
  const gaps = pieces.map((_, at) => apart(at)).filter(known);
  const gap = gaps.length ? `, trainer differs by ${(sum(gaps.map(Math.abs)) / gaps.length).toFixed(3)} a token` : "";
  const token = (piece, at) => {
    const element = h("span", visible(piece)), sure = logprobs[at];
    if (known(sure)) {
      element.style.setProperty("--p", Math.min(1, -sure / 6).toFixed(3));
      element.title = `logprob ${sure.toFixed(3)}, probability ${(Math.exp(sure) * 100).toFixed(1)} %`;
    }
    if (known(apart(at))) {
      element.style.setProperty("--d", Math.min(1, Math.abs(apart(at))).toFixed(3));
      element.title += `\ntrainer ${trained[at].toFixed(3)}, difference ${apart(at).toFixed(3)}`;
    }
    return element;
  };
  const reward = known(each.reward) && h(`span.badge.${each.reward > 0 ? "good" : each.reward < 0 ? "bad" : "plain"}`, `reward ${number(each.reward)}`);
  return h("div.sequence", h("div.row.small", reward, h("span.muted", `${pieces.length || "?"} tokens, ${each.stop_reason || "–"}${gap}`)),
    h(`div.text.${shade}`, shade === "plain" || !pieces.length ? visible(each.text) : pieces.map(token)), more(each.cut));
}

// --- following the runs ----------------------------------------------------------------------

function where() {
  const [, kind, id, tab] = location.hash.split("/");
  return kind === "run" ? { id: decodeURIComponent(id), tab: tab in TABS ? tab : "curves" } : {};
}

// Shows again what is on the screen, on a run only when it is one of those that changed.
let busy = false, again = false, stale = true;
async function update(changed) {
  stale ||= changed?.some((each) => !state.runs.some((run) => run.id === each));
  if (busy) { again = true; return; }
  busy = true;
  const { id, tab } = where(), asked = id === undefined || stale;
  try {
    if (asked) {
      stale = false;
      const reply = await ask("runs");
      state.runs = reply.runs;
      state.now = reply.now;
      $("folder").textContent = reply.folder;
    }
    if (id === undefined && where().id === undefined) renderRuns();
    else if (id !== undefined && (!changed || asked || tab === "waits" || [id, ...state.chosen].some((each) => changed.includes(each)))) await renderRun(id, tab);
  } catch (error) {
    state.drawn = "";
    show(main, empty("This cannot be shown", error.message), h("p", h("a", { href: "#/" }, "← All runs")));
  } finally {
    busy = false;
    if (again) { again = false; update(); }
  }
}

function paint(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").textContent = `Theme: ${theme}`;
  store("theme", theme);
}

const turn = () => paint({ system: "dark", dark: "light", light: "system" }[stored("theme", "system")]);

document.addEventListener("keydown", (event) => {
  const { key: pressed, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  const rows = [...document.querySelectorAll(".runs tbody tr, .prompts button")], at = rows.findIndex((each) => each.matches(":focus-within, .at"));
  if (target.matches("input:not([type=checkbox]), select")) {
    if (pressed === "Escape") target.blur();
    if (pressed === "Enter" && target.type === "search") { target.blur(); rows[0]?.querySelector("a")?.focus(); event.preventDefault(); }
    return;
  }
  const { id } = where(), step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[pressed];
  if (pressed === "?") $("keys").showModal();
  else if (pressed === "t") turn();
  else if (pressed === "/") { $("filter")?.focus(); event.preventDefault(); }
  else if (step && rows.length) {
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
    if (id === undefined) next.querySelector("a").focus();
    else next.click();
    event.preventDefault();
  } else if (pressed === "x") rows[at]?.querySelector("input")?.click();
  else if (pressed === "Escape" && id !== undefined) location.hash = "#/";
  else if (pressed === "0" && id !== undefined) { state.view.low = state.view.high = null; update(); }
  else if (Object.keys(TABS)[pressed - 1] && id !== undefined) open(id, Object.keys(TABS)[pressed - 1]);
});
for (const name of ["hashchange", "resize"]) window.addEventListener(name, () => update());
$("theme").addEventListener("click", turn);
$("help").addEventListener("click", () => $("keys").showModal());
// A call that waits gets older although its log stays as it is.
setInterval(() => update([]), 2000);
paint(stored("theme", "system"));

const live = $("live"), events = new EventSource("/api/events");
events.addEventListener("hello", () => { live.className = "live on"; live.textContent = "live"; update(); });
events.onmessage = (event) => update(JSON.parse(event.data));
events.onerror = () => { live.className = "live off"; live.textContent = "not connected"; };
