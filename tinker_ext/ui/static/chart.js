// Charts drawn as SVG: lines with zoom and a pointer that reads values, stacked bars, sparklines.

import { h, key, moment, number, sum } from "/elements.js";

const TIMES = [1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400];
const clock = (seconds) => moment(seconds, { hour: "2-digit", minute: "2-digit" });
const path = (points) => points.map(([x, y], nth) => `${nth ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function ticks([low, high], count, time) {
  const rough = (high - low) / count;
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [...(time ? TIMES : []), power, 2 * power, 5 * power, 10 * power].find((s) => s >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(at);
  return found;
}

// Exponential mean with the bias of its start removed, so that the first points are not zero.
function smooth(rows, weight = 0) {
  let total = 0, share = 0;
  return rows.map(([x, mean, low, high]) => {
    total = total * weight + mean * (1 - weight);
    share = share * weight + (1 - weight);
    return [x, total / share, low, high];
  });
}

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  if (high > low) return [low, high];
  const pad = Math.abs(low) * 0.1 || 1;
  return [low - pad, high + pad];
}

// An empty chart in `place`, and where in it a value lies; x and y are [least, most].
function axes(place, x, y, { height = 300, label = "curve", time, small, rows = small ? 3 : 5, text = number }) {
  const width = Math.max(220, place.clientWidth || 600), left = 56, right = width - 16, top = 12, bottom = height - 26;
  const X = (value) => left + ((value - x[0]) / (x[1] - x[0])) * (right - left);
  const Y = (value) => bottom - ((value - y[0]) / (y[1] - y[0])) * (bottom - top);
  const across = (kind, value) => h(`line.${kind}`, { x1: left, x2: right, y1: Y(value), y2: Y(value) });
  const root = h("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  const word = (at, down, anchor, content) => root.append(h("text", { x: at, y: down, "text-anchor": anchor }, content));
  for (const value of ticks(y, rows)) {
    root.append(across("grid", value));
    word(left - 8, Y(value) + 4, "end", text(value));
  }
  let before = "";
  for (const value of ticks(x, Math.max(3, Math.floor(width / 130)), time)) {
    const name = time ? clock(value) : number(value), half = 3.5 * name.length;
    if (name !== before) word(Math.max(left + half, Math.min(X(value), width - half)), height - 4, "middle", name);
    before = name;
  }
  word(left - 8, height - 4, "end", time ? "time" : "step");
  place.replaceChildren(root);
  return { root, X, Y, across, word, left, right, top, bottom, width };
}

// series: [{name, tone, rows: [[x, mean, low, high]]}]; options: {height, small, time, weight, limit, unit, label, zoom}
export function lines(place, series, options) {
  const { limit, weight, unit = "" } = options;
  const drawn = series.filter((s) => s.rows.length).map((s) => ({ ...s, raw: s.rows, rows: smooth(s.rows, weight) }));
  if (!drawn.length) return place.replaceChildren("No numbers here.");
  const x = range(drawn.flatMap((s) => [s.rows[0][0], s.rows.at(-1)[0]]));
  const [low, high] = range(drawn.flatMap((s) => s.rows.flatMap(([, mean, least, most]) => (weight ? [mean] : [least, most]))));
  const margin = (high - low) * 0.05;
  const y = limit === undefined ? [low - margin, high + margin] : [Math.min(low, 0), Math.max(high, limit * 1.08)];
  const chart = axes(place, x, y, options), { root, X, Y } = chart;
  const points = (rows, at) => rows.map((row) => [X(row[0]), Y(row[at])]);
  for (const { tone, raw, rows } of drawn) {
    if (weight) root.append(h(`path.raw.${tone}`, { d: path(points(raw, 1)) }));
    else root.append(h(`path.band.${tone}`, { d: `${path([...points(rows, 3), ...points(rows, 2).reverse()])}Z` }));
    // A line needs two points; one alone is a dot.
    root.append(h(rows.length > 1 ? `path.line.${tone}` : `path.line.dot.${tone}`, { d: path(points(rows, 1)) + (rows.length > 1 ? "" : "h.1") }));
  }
  if (limit !== undefined) {
    root.append(chart.across("limit", limit));
    chart.word(chart.left + 6, Y(limit) + 14, "start", `budget ${number(limit)} ${unit}`);
  }
  if (!options.small) pointer(place, chart, drawn, x, options);
}

function pointer(place, { root, left, right, top, bottom, width }, series, [first, last], { time, unit = "", zoom }) {
  const tip = h("div.tip", { hidden: true });
  const cross = h("line.cross", { y1: top, y2: bottom, visibility: "hidden" });
  const brush = h("rect.brush", { y: top, height: bottom - top, width: 0 });
  const set = (element, values) => { for (const [name, value] of Object.entries(values)) element.setAttribute(name, value); };
  root.append(cross, brush);
  place.append(tip);
  const at = (event) => {
    const area = root.getBoundingClientRect();
    return Math.min(right, Math.max(left, ((event.clientX - area.left) / area.width) * width));
  };
  const value = (pixel) => first + ((pixel - left) / (right - left)) * (last - first);
  let from = null;
  root.addEventListener("pointermove", (event) => {
    const pixel = at(event), x = value(pixel);
    set(cross, { x1: pixel, x2: pixel, visibility: "visible" });
    if (from !== null) set(brush, { x: Math.min(from, pixel), width: Math.abs(pixel - from) });
    tip.replaceChildren(...series.map((s) => {
      const row = s.rows.reduce((best, each) => (Math.abs(each[0] - x) < Math.abs(best[0] - x) ? each : best));
      return key(s.tone, `${s.name}: ${number(row[1])} ${unit} at ${time ? clock(row[0]) : `step ${number(row[0])}`}`);
    }));
    tip.hidden = false;
    tip.style.left = `${Math.max(0, Math.min(pixel + 14, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${top + 4}px`;
  });
  root.addEventListener("pointerleave", () => { tip.hidden = true; set(cross, { visibility: "hidden" }); });
  root.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse") { from = at(event); root.setPointerCapture(event.pointerId); } });
  root.addEventListener("pointerup", (event) => {
    const to = at(event);
    if (from !== null && Math.abs(to - from) > 6) zoom?.(value(Math.min(from, to)), value(Math.max(from, to)));
    from = null;
    set(brush, { width: 0 });
  });
  root.addEventListener("dblclick", () => zoom?.(null, null));
}

// rows: [time, width, part, part, …]; parts name the classes of their colours.
export function bars(place, rows, parts) {
  const { root, X, Y } = axes(place, [rows[0][0], rows.at(-1)[0] + rows[0][1]], [0, 1],
    { height: 200, label: "where the time went", time: true, rows: 2, text: (share) => `${share * 100} %` });
  for (const [time, wide, ...spent] of rows) {
    const total = sum(spent) || 1, x = X(time), width = Math.max(1, X(time + wide) - x - 1);
    const tops = parts.map((_, at) => Y(sum(spent.slice(0, at + 1)) / total));
    root.append(h("g", h("title", `${clock(time)}  ` + parts.map((part, at) => `${part} ${spent[at].toFixed(1)} s`).join(", ")),
      parts.map((part, at) => h(`rect.part.c-${part}`, { x, width, y: tops[at], height: Math.max(0, (tops[at - 1] ?? Y(0)) - tops[at]) }))));
  }
}

export function spark(values) {
  const good = values.filter(Number.isFinite), [low, high] = range(good);
  const points = good.map((y, at) => [(at / (good.length - 1)) * 94 + 1, 24 - ((y - low) / (high - low)) * 22]);
  return h("svg.spark.c0", { viewBox: "0 0 96 26", "aria-hidden": "true" }, points.length > 1 && h("path.line", { d: path(points) }));
}
