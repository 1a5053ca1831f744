// Elements of the page, and numbers, times and text as it shows them.

const DRAWN = ["svg", "g", "path", "line", "rect", "text", "title"];

// h("td.n", {title: "…"}, child, …): an element with classes, properties and children.
export function h(tag, ...children) {
  const [name, ...classes] = tag.split("."), drawn = DRAWN.includes(name);
  const element = document.createElementNS(`http://www.w3.org/${drawn ? "2000/svg" : "1999/xhtml"}`, name);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  const properties = children[0]?.constructor === Object ? children.shift() : {};
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && !drawn) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...solid(children));
  return element;
}

export const solid = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
export const key = (tone, text) => h("span.key", h(`i.${tone}`), text);
export const sum = (values) => values.reduce((a, b) => a + b, 0);
export const moment = (seconds, parts) => (seconds ? new Date(seconds * 1000).toLocaleTimeString([], parts) : "–");

export function number(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e15 || (size < 0.001 && size > 0)) return value.toExponential(2);
  for (const [unit, name] of [[1e12, " T"], [1e9, " G"], [1e6, " M"]]) if (size >= unit) return Number((value / unit).toPrecision(4)) + name;
  return (size >= 100 ? Math.round(value * 10) / 10 : Number(value.toPrecision(4))).toLocaleString("en", { maximumFractionDigits: 6 });
}

export function money(value, currency) {
  if (!Number.isFinite(value)) return "–";
  const text = value < 0.01 && value > 0 ? value.toPrecision(2) : value.toFixed(value < 1 ? 3 : 2);
  return `${text} ${currency || ""}`.trim();
}

export function span(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 1) return `${Math.round(Math.max(0, seconds) * 1000)} ms`;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86400)} days`;
}

// Control and direction characters are made visible: a sample must not rearrange the page.
export function visible(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (character) => {
    const code = character.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}
