// Builds elements. All that agents wrote goes through `safe`: as text, and with what would hide or reorder it made visible.

const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\udb40][\udc00-\udc7f]/g;

/** An element: `h("button", {class: "main", onclick}, "Save")`. Children are nodes, or words, or lists of both. */
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  set(element, properties);
  element.append(...flat(children));
  return element;
}

/** The same for pictures. */
export function s(name, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  set(element, properties);
  element.append(...flat(children));
  return element;
}

function set(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/** Put these in the place of what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...flat(children));
}

function flat(children) {
  return children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false);
}

/** Words that somebody wrote: isolated, and with control characters shown as what they are. */
export function safe(text) {
  const words = String(text ?? "");
  const parts = [];
  let at = 0;
  for (const found of words.matchAll(ODD)) {
    parts.push(words.slice(at, found.index));
    parts.push(h("span", { class: "odd" }, `U+${found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`));
    at = found.index + found[0].length;
  }
  parts.push(words.slice(at));
  return h("bdi", {}, parts);
}

/** A time: how long ago, with the time of the reader's own zone to point at. */
export function ago(time) {
  if (!time) return h("span", { class: "quiet" }, "–");
  const moment = new Date(time);
  const seconds = Math.max(0, (Date.now() - moment) / 1000);
  const [count, unit] = seconds < 60 ? [seconds, "s"] : seconds < 3600 ? [seconds / 60, "min"]
    : seconds < 86400 ? [seconds / 3600, "h"] : [seconds / 86400, "d"];
  return h("time", { datetime: moment.toISOString(), title: moment.toLocaleString() }, `${Math.floor(count)} ${unit} ago`);
}

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  let left = bytes;
  while (left >= 1000 && at < units.length - 1) { left /= 1000; at += 1; }
  return `${at ? left.toFixed(left < 10 ? 1 : 0) : left} ${units[at]}`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString()} ${number === 1 ? one : many}`;
}

/** A value as people read it. */
export function shown(value) {
  if (value && typeof value === "object" && "$bytes" in value) return h("pre", {}, `${value.$bytes.toLocaleString()} bytes\n${value.hex.replace(/(..)/g, "$1 ")}`);
  if (value && typeof value === "object" && "$cut" in value) return [h("pre", {}, safe(value.text)), h("p", { class: "quiet small" }, `the first part of ${value.$cut.toLocaleString()} characters`)];
  return h("pre", {}, safe(words(value)));
}

export function words(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** Lines of `text`, with those that `other` lacks marked as `mark` (ins or del). */
export function marked(text, other, mark) {
  const there = new Map();
  for (const line of other.split("\n")) there.set(line, (there.get(line) ?? 0) + 1);
  return h("pre", {}, text.split("\n").map((line, number) => {
    const left = there.get(line) ?? 0;
    there.set(line, left - 1);
    return [number ? "\n" : null, left > 0 ? safe(line) : h(mark, {}, safe(line))];
  }));
}

export function tag(text, kind = "") {
  return h("span", { class: `tag ${kind}` }, text);
}

export function author(one) {
  return h("span", { class: "small quiet" }, safe(one.agent ?? "?"), " on ", safe(one.node ?? "?"), " · ", ago(one.time));
}

export function table(heads, rows) {
  return h("div", { class: "table", tabindex: 0, role: "region", "aria-label": heads.filter(Boolean).join(", ") },
    h("table", {}, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));
}

export function empty(...children) {
  return h("p", { class: "empty" }, children);
}
