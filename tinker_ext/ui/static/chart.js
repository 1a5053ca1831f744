// Charts drawn as SVG: lines with zoom and a pointer that reads values, stacked bars, sparklines.

const NS = "http://www.w3.org/2000/svg";

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e15 || (size < 0.001 && size > 0)) return value.toExponential(2);
  for (const [unit, name] of [[1e12, " T"], [1e9, " G"], [1e6, " M"]]) if (size >= unit) return Number((value / unit).toPrecision(4)) + name;
  return (size >= 100 ? Math.round(value * 10) / 10 : Number(value.toPrecision(4))).toLocaleString("en", { maximumFractionDigits: 6 });
}

const TIMES = [1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400];

function ticks(low, high, count, time) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const usual = [1, 2, 5, 10].map((m) => m * power);
  const step = (time ? TIMES : usual).find((s) => s >= rough) ?? usual.find((s) => s >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(at);
  return found;
}

// Exponential mean with the bias of its start removed, so that the first points are not zero.
function smooth(rows, weight) {
  if (!weight) return rows;
  let sum = 0, share = 0;
  return rows.map(([x, mean, low, high]) => {
    sum = sum * weight + mean * (1 - weight);
    share = share * weight + (1 - weight);
    return [x, sum / share, low, high];
  });
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  if (high > low) return [low, high];
  const pad = Math.abs(low) * 0.1 || 1;
  return [low - pad, high + pad];
}

// series: [{name, tone, rows: [[x, mean, low, high]]}]; options: {height, small, time, weight, limit, unit, label, zoom}
export function lines(place, series, options = {}) {
  const { height = 300, limit, time, weight, unit = "" } = options, width = Math.max(220, place.clientWidth || 600);
  const left = 56, right = 16, top = 12, bottom = 26;
  const drawn = series.filter((s) => s.rows.length).map((s) => ({ ...s, raw: s.rows, rows: smooth(s.rows, weight) }));
  if (!drawn.length) { place.replaceChildren("No numbers here."); return; }
  const [x0, x1] = range(drawn.flatMap((s) => [s.rows[0][0], s.rows.at(-1)[0]]));
  let [y0, y1] = range(drawn.flatMap((s) => s.rows.flatMap(([, mean, low, high]) => (weight ? [mean] : [low, high]))));
  const margin = (y1 - y0) * 0.05;
  [y0, y1] = limit === undefined ? [y0 - margin, y1 + margin] : [Math.min(y0, 0), Math.max(y1, limit * 1.08)];
  const X = (x) => left + ((x - x0) / (x1 - x0)) * (width - left - right);
  const Y = (y) => height - bottom - ((y - y0) / (y1 - y0)) * (height - top - bottom);
  const path = (rows, at) => rows.map((row, nth) => `${nth ? "L" : "M"}${X(row[0]).toFixed(1)} ${Y(row[at]).toFixed(1)}`).join("");
  const across = (kind, y) => svg("line", { class: kind, x1: left, x2: width - right, y1: Y(y), y2: Y(y) });
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": options.label || "curve" });
  for (const y of ticks(y0, y1, options.small ? 3 : 5)) root.append(across("grid", y), svg("text", { x: left - 8, y: Y(y) + 4, "text-anchor": "end" }, number(y)));
  for (const x of ticks(x0, x1, Math.max(3, Math.floor(width / 130)), time)) {
    const label = time ? clock(x) : number(x), half = 3.5 * label.length;
    root.append(svg("text", { x: Math.max(left + half, Math.min(X(x), width - half)), y: height - 4, "text-anchor": "middle" }, label));
  }
  root.append(svg("text", { x: left - 8, y: height - 4, "text-anchor": "end" }, time ? "time" : "step"));
  for (const { tone, raw, rows } of drawn) {
    if (weight) root.append(svg("path", { class: `raw ${tone}`, d: path(raw, 1) }));
    else root.append(svg("path", { class: `band ${tone}`, d: `${path(rows, 3)}${path([...rows].reverse(), 2).replace("M", "L")}Z` }));
    // A line needs two points; one alone is a dot.
    root.append(svg("path", { class: rows.length > 1 ? `line ${tone}` : `line dot ${tone}`, d: path(rows, 1) + (rows.length > 1 ? "" : "h.1") }));
  }
  if (limit !== undefined) root.append(across("limit", limit), svg("text", { x: left + 6, y: Y(limit) + 14 }, `budget ${number(limit)} ${unit}`));
  place.replaceChildren(root);
  if (!options.small) pointer(place, root, drawn, { left, right, top, bottom, width, height, x0, x1 }, options);
}

function pointer(place, root, series, box, options) {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  place.append(tip);
  const set = (element, values) => { for (const [name, value] of Object.entries(values)) element.setAttribute(name, value); };
  const cross = svg("line", { class: "cross", y1: box.top, y2: box.height - box.bottom, visibility: "hidden" });
  const brush = svg("rect", { class: "brush", y: box.top, height: box.height - box.top - box.bottom, width: 0 });
  root.append(cross, brush);
  const at = (event) => {
    const area = root.getBoundingClientRect();
    const inside = ((event.clientX - area.left) / area.width) * box.width;
    return Math.min(box.width - box.right, Math.max(box.left, inside));
  };
  const value = (pixel) => box.x0 + ((pixel - box.left) / (box.width - box.left - box.right)) * (box.x1 - box.x0);
  let from = null;
  root.addEventListener("pointermove", (event) => {
    const pixel = at(event), x = value(pixel);
    set(cross, { x1: pixel, x2: pixel, visibility: "visible" });
    if (from !== null) set(brush, { x: Math.min(from, pixel), width: Math.abs(pixel - from) });
    tip.replaceChildren(...series.map((s) => {
      const row = s.rows.reduce((best, each) => (Math.abs(each[0] - x) < Math.abs(best[0] - x) ? each : best));
      const line = document.createElement("div"), dot = document.createElement("i");
      line.className = "key";
      dot.className = s.tone;
      line.append(dot, `${s.name}: ${number(row[1])} ${options.unit || ""} at ${options.time ? clock(row[0]) : `step ${number(row[0])}`}`);
      return line;
    }));
    tip.hidden = false;
    tip.style.left = `${Math.max(0, Math.min(pixel + 14, box.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${box.top + 4}px`;
  });
  root.addEventListener("pointerleave", () => { tip.hidden = true; set(cross, { visibility: "hidden" }); });
  root.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse") { from = at(event); root.setPointerCapture(event.pointerId); } });
  root.addEventListener("pointerup", (event) => {
    const to = at(event);
    if (from !== null && Math.abs(to - from) > 6) options.zoom?.(value(Math.min(from, to)), value(Math.max(from, to)));
    from = null;
    set(brush, { width: 0 });
  });
  root.addEventListener("dblclick", () => options.zoom?.(null, null));
}

// rows: [time, width, part, part, …]; parts name the classes of their colours.
export function bars(place, rows, parts) {
  const width = Math.max(260, place.clientWidth || 600), height = 200, left = 44, bottom = 22;
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "where the time went" });
  for (const share of [0, 0.5, 1]) {
    const y = 8 + (1 - share) * (height - bottom - 8);
    root.append(svg("line", { class: "grid", x1: left, x2: width, y1: y, y2: y }));
    root.append(svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, `${share * 100} %`));
  }
  const first = rows[0][0], last = rows.at(-1)[0] + rows[0][1];
  const X = (time) => left + ((time - first) / Math.max(1, last - first)) * (width - left);
  let labelled = -100;
  for (const [time, wide, ...spent] of rows) {
    const x = X(time), total = spent.reduce((a, b) => a + b, 0) || 1;
    const size = Math.max(1, X(time + wide) - x - 1);
    let up = 0;
    const group = svg("g");
    parts.forEach((part, at) => {
      const tall = (spent[at] / total) * (height - bottom - 8);
      group.append(svg("rect", { class: `part c-${part}`, x, width: size, y: height - bottom - up - tall, height: Math.max(0, tall) }));
      up += tall;
    });
    group.append(svg("title", {}, `${clock(time)}  ` + parts.map((p, at) => `${p} ${spent[at].toFixed(1)} s`).join(", ")));
    root.append(group);
    if (x - labelled > 70 && x < width - 56) { root.append(svg("text", { x, y: height - 4 }, clock(time))); labelled = x; }
  }
  place.replaceChildren(root);
}

export function spark(values) {
  const root = svg("svg", { class: "spark c0", viewBox: "0 0 96 26", "aria-hidden": "true" });
  const good = values.filter(Number.isFinite), [low, high] = range(good);
  if (good.length < 2) return root;
  const d = good.map((y, at) => `${at ? "L" : "M"}${((at / (good.length - 1)) * 94 + 1).toFixed(1)} ${(24 - ((y - low) / (high - low)) * 22).toFixed(1)}`).join("");
  root.append(svg("path", { class: "line", d }));
  return root;
}
