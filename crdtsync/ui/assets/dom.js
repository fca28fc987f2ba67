// Builds elements. All that agents wrote goes through `safe`: as text, and with what would hide or reorder it made visible.

const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\udb40][\udc00-\udc7f]/g;

const SHORT = 300; // characters that fit without scrolling, also in a narrow window

/** An element: `h("button", {class: "main", onclick}, "Save")`. Children are nodes, or words, or lists of both. */
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  set(element, properties);
  fill(element, ...children);
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
  if (element.localName === "pre" && element.textContent.length > SHORT) element.tabIndex = 0; // it may scroll: also by keys
}

const POINTS = matchMedia("(hover: hover)"); // a finger's last place is no pointer

/** Parts that hold still although there is something new to show in them. */
export const held = new Set();

/**
 * Draw a part anew if what it shows has changed, but never under the pointer, an open field or the keyboard's focus.
 * What was folded out or scrolled stays so. Forget what was drawn (`part.drawn = null`) to have it drawn all the same.
 * A part with nothing to click (`isStill` is false) is drawn at once.
 */
export function redraw(part, content, draw, isStill = true) {
  const now = JSON.stringify(content);
  if (part.drawn === now) return;
  part.free = () => !(POINTS.matches && part.matches(":hover")) && !part.querySelector(":focus-visible");
  if (isStill && part.drawn && !part.free()) { held.add(part); return; }
  held.delete(part);
  const open = new Set([...part.querySelectorAll("details[open][data-name]")].map((one) => one.dataset.name));
  const scrolled = part.querySelector(".tall")?.scrollTop ?? 0;
  part.drawn = now;
  fill(part, draw());
  for (const one of part.querySelectorAll("details[data-name]")) if (open.has(one.dataset.name)) one.open = true;
  if (scrolled) part.querySelector(".tall")?.scrollTo(0, scrolled);
}

/**
 * Answers may come in another order than they were asked for. Each question begins a turn, `const isLast = begin();`, and
 * its answer is shown only if `isLast()` still holds.
 */
export function latest() {
  let last = 0;
  return () => {
    last += 1;
    const mine = last;
    return () => mine === last;
  };
}

function flat(children) {
  return children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false);
}

function code(one) { return `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`; }

/** Words that somebody wrote: isolated, and with control characters shown as what they are. */
export function safe(text) {
  const words = String(text ?? "");
  const parts = [];
  let at = 0;
  for (const found of words.matchAll(ODD)) {
    parts.push(words.slice(at, found.index), h("span", { class: "odd" }, code(found[0])));
    at = found.index + found[0].length;
  }
  return h("bdi", {}, parts, words.slice(at));
}

/** The same where only a string can stand: in labels and pictures. */
export function plain(text) { return String(text ?? "").replace(ODD, code); }

/** A time: how long ago, with the time of the reader's own zone to point at. */
export function ago(time) {
  if (!time) return h("span", { class: "quiet" }, "–");
  const moment = new Date(time);
  return h("time", { datetime: moment.toISOString(), title: moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" }) }, since(moment));
}

function since(moment) {
  const seconds = Math.max(0, (Date.now() - moment) / 1000);
  if (seconds < 5) return "just now";
  const [count, unit] = seconds < 60 ? [seconds, "s"] : seconds < 3600 ? [seconds / 60, "min"]
    : seconds < 86400 ? [seconds / 3600, "h"] : [seconds / 86400, "d"];
  return `${Math.floor(count)} ${unit} ago`;
}

/** Let times go on that are shown. */
export function tick() {
  for (const one of document.querySelectorAll("time")) {
    const now = since(new Date(one.dateTime));
    if (one.textContent !== now) one.textContent = now;
  }
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

/** Text as it is, all else as JSON; numbers that JavaScript would round, and names such as these have, come as the server's words for them. */
export function words(value) {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2).replace(/\{\s*"\$(?:int|float)": "([^"]*)"\s*\}/g, "$1").replace(/^( *"\$)\$(\$*(?:int|float|bytes|cut)": )/gm, "$1$2");
}

const DIFFERENT_MAX = 1500; // words or lines on a side; longer ones are compared line by line, whatever their order

/** `text` with what `other` lacks marked as `mark` (ins or del): by words, of long ones by lines. */
export function marked(text, other, mark) {
  let [mine, theirs] = [text, other].map((one) => one.split(/(\s+)/));
  if (Math.max(mine.length, theirs.length) > DIFFERENT_MAX) [mine, theirs] = [text, other].map((one) => one.split(/(\n)/));
  const kept = Math.max(mine.length, theirs.length) > DIFFERENT_MAX ? among(mine, theirs) : common(mine, theirs);
  const parts = [];
  mine.forEach((word, number) => {
    const same = word.trim() ? Boolean(kept[number]) : word.includes("\n") || (parts.at(-1)?.same ?? true);
    if (parts.at(-1)?.same === same) parts.at(-1).words += word; else parts.push({ same, words: word });
  });
  return h("pre", {}, parts.map((one) => (one.same ? safe(one.words) : h(mark, {}, safe(one.words)))));
}

function among(mine, theirs) {
  const there = new Map();
  for (const one of theirs) there.set(one, (there.get(one) ?? 0) + 1);
  return mine.map((one) => { const left = there.get(one) ?? 0; there.set(one, left - 1); return left > 0; });
}

// The longest common subsequence, by dynamic programming.
function common(mine, theirs) {
  const width = theirs.length + 1;
  const lengths = new Uint16Array((mine.length + 1) * width);
  for (let i = mine.length - 1; i >= 0; i -= 1) {
    for (let j = theirs.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = mine[i] === theirs[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const kept = [];
  for (let i = 0, j = 0; i < mine.length && j < theirs.length;) {
    if (mine[i] === theirs[j]) { kept[i] = true; i += 1; j += 1; } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i += 1; else j += 1;
  }
  return kept;
}

export function tag(text, kind = "") {
  return h("span", { class: `tag ${kind}` }, text);
}

export function author(one) {
  return h("span", { class: "small quiet" }, safe(one.agent ?? "?"), " on ", safe(one.node ?? "?"), " · ", ago(one.time));
}

export function table(heads, rows) {
  return h("div", { class: "table", tabindex: 0, role: "region", "aria-label": heads.filter(Boolean).join(", ") },
    h("table", {}, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, at) => h("td", { "data-head": heads[at] || null }, cell)))))));
}

/** A notice of what went wrong. */
export function wrong(error) { return h("p", { class: "notice bad", role: "alert" }, safe(error.message)); }

export function empty(...children) {
  return h("p", { class: "empty" }, children);
}
